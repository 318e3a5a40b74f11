//! What a race is told: the upstream's rules, and the facts of one call.

use super::start::HedgeCap;
use crate::budget::BudgetConfig;
use crate::endpoints::DemoteConfig;
use crate::moment::Moment;
use std::sync::Arc;
use std::time::Duration;

/// What wins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Answer {
    /// The complete response.
    #[default]
    Full,
    /// The first data of the body.
    FirstData,
    /// The response head.
    Headers,
}

/// What counts as a sign of progress for the idle clock of the hedge.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Progress {
    /// Data of the body; heads, comments and pings do not count.
    #[default]
    Data,
    /// Any byte of the response.
    Bytes,
}

/// Whether twins are started or only counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HedgeMode {
    /// They are started.
    #[default]
    On,
    /// They are counted, and no extra call is made.
    Observe,
}

/// When a twin is started, and what may win.
///
/// `idle` runs from the last sign of progress. Where there is no `after` clock, being sent is the
/// first sign; where there is one, silence before the first sign is that clock's matter.
#[derive(Clone, PartialEq, Debug)]
pub struct HedgeConfig {
    /// Silence since it was sent; with `after_quantile`, until there are enough samples.
    pub after: Option<Duration>,
    /// The quantile (0–1) of recent durations to take instead.
    pub after_quantile: Option<f64>,
    /// Silence since the last sign of progress.
    pub idle: Option<Duration>,
    /// Twins of one key.
    pub max: u32,
    /// What wins.
    pub answer: Answer,
    /// What counts as a sign of progress.
    pub progress: Progress,
    /// Whether requests that are not safe to repeat are hedged.
    pub non_idempotent: bool,
    /// Whether twins are started or only counted.
    pub mode: HedgeMode,
    /// Time that must be left before the deadline for a twin to be of use.
    pub min_useful: Duration,
    /// The least threshold that a quantile may give.
    pub floor: Duration,
    /// Durations known before the quantile is believed.
    pub min_samples: u32,
}

impl Default for HedgeConfig {
    /// The contract's defaults, with the quantile 0.95.
    fn default() -> HedgeConfig {
        HedgeConfig {
            after: None,
            after_quantile: Some(0.95),
            idle: None,
            max: 1,
            answer: Answer::Full,
            progress: Progress::Data,
            non_idempotent: false,
            mode: HedgeMode::On,
            min_useful: Duration::ZERO,
            floor: Duration::from_millis(10),
            min_samples: 20,
        }
    }
}

/// Retries, when everything has failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RetryConfig {
    /// Retries of one key.
    pub max: u32,
    /// The first pause; doubled each time, shortened by up to a quarter of jitter.
    pub backoff: Duration,
    /// The longest pause.
    pub backoff_max: Duration,
    /// Statuses worth another try.
    pub statuses: Vec<u16>,
}

impl Default for RetryConfig {
    /// The contract's defaults: none.
    fn default() -> RetryConfig {
        RetryConfig {
            max: 0,
            backoff: Duration::from_millis(100),
            backoff_max: Duration::from_secs(5),
            statuses: vec![429, 502, 503, 504],
        }
    }
}

/// The rules of a race.
#[derive(Clone, PartialEq, Debug)]
pub struct RaceConfig {
    /// Hedging; `None`: none, and the response head is the answer.
    pub hedge: Option<HedgeConfig>,
    /// Retries.
    pub retry: RetryConfig,
    /// Statuses that settle the key although they are no success.
    pub definitive: Vec<u16>,
    /// Limit for one attempt to connect; `None`: none.
    pub connect_timeout: Option<Duration>,
    /// Limit for the first data of one attempt's response, since it began, or since the last piece of a
    /// request body that was still arriving was sent; `None`: none.
    pub first_data_timeout: Option<Duration>,
    /// Longest silence after one attempt's response head; `None`: no limit.
    pub idle_timeout: Option<Duration>,
    /// Limit for all attempts together; `None`: none.
    pub total_timeout: Option<Duration>,
}

impl Default for RaceConfig {
    /// The contract's defaults.
    fn default() -> RaceConfig {
        RaceConfig {
            hedge: None,
            retry: RetryConfig::default(),
            definitive: Vec::new(),
            connect_timeout: Some(Duration::from_secs(1)),
            first_data_timeout: None,
            idle_timeout: Some(Duration::from_secs(60)),
            total_timeout: None,
        }
    }
}

impl RaceConfig {
    /// What wins.
    #[must_use]
    pub fn answer(&self) -> Answer {
        self.hedge.as_ref().map_or(Answer::Headers, |h| h.answer)
    }

    /// Whether a response with this status is an answer; any other waits for its twin.
    #[must_use]
    pub fn accepts(&self, status: u16) -> bool {
        (200..400).contains(&status) || self.definitive.contains(&status)
    }
}

/// What is shared by all races of one upstream.
#[derive(Clone, PartialEq, Debug)]
pub struct UpstreamConfig {
    /// The rules, where a call does not bring its own.
    pub race: Arc<RaceConfig>,
    /// What hedges and retries may spend.
    pub budget: BudgetConfig,
    /// When an endpoint is passed over.
    pub demote: DemoteConfig,
    /// How many endpoints there are.
    pub endpoints: usize,
}

/// How much of the request body a further attempt could be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Replay {
    /// All of it is at hand.
    #[default]
    Whole,
    /// It is still arriving: what came is kept. Enough for a retry, not for a twin.
    Arriving,
    /// It is over the limit and was not kept.
    Lost,
}

/// Whether running a request twice does the same as running it once: its method says so (RFC 9110,
/// 9.2.2), or it carries an `Idempotency-Key`.
#[must_use]
pub fn repeatable(method: &str, idempotency_key: bool) -> bool {
    let idempotent = ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"];
    idempotency_key || idempotent.contains(&method)
}

/// The facts of one call.
#[derive(Clone, Debug)]
pub struct Call {
    /// The rules of this call; `None`: the upstream's.
    pub config: Option<Arc<RaceConfig>>,
    /// When the caller stops waiting.
    pub deadline: Moment,
    /// Running it twice does the same as running it once; see [`repeatable`].
    pub repeatable: bool,
    /// How much of the body can be sent again.
    pub body: Replay,
    /// False: this call is not to be hedged, though its upstream would.
    pub hedging: bool,
    /// What the batch it belongs to has left for twins.
    pub cap: Option<Arc<HedgeCap>>,
    /// Decides jitter and nothing else.
    pub seed: u64,
}

impl Default for Call {
    /// A repeatable call without a body and without a deadline.
    fn default() -> Call {
        Call {
            config: None,
            deadline: Moment::NEVER,
            repeatable: true,
            body: Replay::Whole,
            hedging: true,
            cap: None,
            seed: 0,
        }
    }
}
