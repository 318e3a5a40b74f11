//! A brown-out: an upstream that copes, and stops coping when everybody asks twice.
//!
//! The world: an upstream with twenty places that takes 25 to 75 ms for a call, and `mu` calls a
//! second at most; a Poisson stream of half of that; for a while every call takes 1.8 times as long.
//! Even then there is room for all the calls, but not for all of them twice. A caller waits two
//! seconds. A call that nobody waits for any more leaves the line; one that is being served is
//! served to its end. The races and the budget are those of [`hedgerow_policy::hedge`].
//!
//! What it leaves out: callers who try again on their own, and breakers.

mod service;
#[cfg(test)]
mod tests;

use super::calls::{Done, play};
use super::report::{Cell, Report, Table};
use super::{Drill, DrillError, Progress, Request, your_upstream};
use crate::chart::{Chart, Curve};
use hedgerow_policy::Moment;
use hedgerow_policy::budget::BudgetConfig;
use hedgerow_policy::endpoints::DemoteConfig;
use hedgerow_policy::hedge::{HedgeConfig, RaceConfig, RetryConfig, UpstreamConfig};
use hedgerow_policy::jitter::Jitter;
use service::Places;
use std::sync::Arc;
use std::time::Duration;

pub(crate) static DRILL: Drill = Drill {
    name: "brown-out",
    about: "an upstream gets slower for a while; what hedges and retries add to that",
    policies: &[
        ("wait", "no twin, no other try"),
        ("hedge", "a twin after 100 ms, within the budget (10 % and 3 more in 10 s)"),
        ("hedge+unlimited", "the same without a budget"),
        ("retry", "150 ms without a sign, then another try, two at most; within the budget"),
        ("retry+unlimited", "the same without a budget"),
        ("quantile", "a twin after the 95th percentile of what was measured, within the budget"),
    ],
    shown: 6,
    flags: &["mu", "rate", "stall", "duration"],
    run,
};

const TROUBLE_AT: Duration = Duration::from_secs(20);
const PLACES: usize = 20;
const PATIENCE: Duration = Duration::from_secs(2);
const SLOWER: f64 = 1.8;
/// Calls a drill may have.
const MOST: f64 = 2e6;

struct Scene {
    rate: f64,
    mu: f64,
    duration: Duration,
    trouble: (Moment, Moment),
}

fn scene(request: &Request) -> Result<Scene, DrillError> {
    let changes = &request.changes;
    let stall = changes.stall.unwrap_or(Duration::from_secs(20));
    let mu = changes.mu.unwrap_or(400.0);
    let rate = changes.rate.unwrap_or(mu / 2.0);
    let duration = changes.duration.unwrap_or(Duration::from_secs(80));
    if duration < TROUBLE_AT + stall {
        return Err(DrillError::new(format!(
            "--duration has to be {} s at least: the brown-out begins after {} s",
            (TROUBLE_AT + stall).as_secs_f64().ceil(),
            TROUBLE_AT.as_secs()
        )));
    }
    if !(0.1..=1e6).contains(&mu) || rate * duration.as_secs_f64() > MOST {
        return Err(DrillError::new(format!(
            "--mu is 0.1 to 1000000, and --rate times --duration {MOST} calls at most"
        )));
    }
    let from = Moment::START + TROUBLE_AT;
    Ok(Scene { rate, mu, duration, trouble: (from, from + stall) })
}

fn upstream(policy: &str, yours: Option<&UpstreamConfig>) -> UpstreamConfig {
    if let Some(yours) = yours.filter(|_| policy == "yours") {
        return yours.clone();
    }
    let (name, limited) = match policy.strip_suffix("+unlimited") {
        Some(name) => (name, false),
        None => (policy, true),
    };
    let after = Some(Duration::from_millis(100));
    let hedge = |after_quantile| {
        Some(HedgeConfig { after, after_quantile, idle: None, ..HedgeConfig::default() })
    };
    let retries = name == "retry";
    let race = RaceConfig {
        hedge: match name {
            "hedge" => hedge(None),
            "quantile" => hedge(Some(0.95)),
            _ => None,
        },
        retry: RetryConfig {
            max: if retries { 2 } else { 0 },
            backoff: Duration::from_millis(50),
            ..RetryConfig::default()
        },
        first_data_timeout: retries.then_some(Duration::from_millis(150)),
        connect_timeout: None,
        idle_timeout: None,
        ..RaceConfig::default()
    };
    let budget = match limited {
        true => BudgetConfig { ratio: 0.1, burst: 3 },
        false => BudgetConfig { ratio: 1e6, burst: u32::MAX },
    };
    let demote = DemoteConfig { after: 0, cooldown: Duration::ZERO };
    UpstreamConfig { race: Arc::new(race), budget, demote, endpoints: 2 }
}

/// One second of one policy.
#[derive(Clone, Copy, Default)]
struct Second {
    calls: u64,
    answered: u64,
    failed: u64,
    attempts: u64,
    line: u64,
}

const COLUMNS: [&str; 7] =
    ["policy", "second", "calls", "answered", "failed", "attempts", "longest_line"];

struct Outcome {
    seconds: Vec<Second>,
    /// Times of calls that were answered and came in the brown-out.
    took: Vec<Duration>,
}

fn outcome(scene: &Scene, done: &[Done], places: &Places) -> Outcome {
    let whole = scene.duration.as_secs_f64().ceil() as usize;
    let mut seconds = vec![Second::default(); whole];
    let mut count = |at: Moment, what: &dyn Fn(&mut Second)| {
        if let Some(second) = seconds.get_mut((at.as_nanos() / 1_000_000_000) as usize) {
            what(second);
        }
    };
    let mut took = Vec::new();
    for call in done {
        count(call.started, &|second| second.calls += 1);
        count(call.ended, &|second| match call.answered {
            true => second.answered += 1,
            false => second.failed += 1,
        });
        if call.answered && (scene.trouble.0..scene.trouble.1).contains(&call.started) {
            took.push(call.ended.since(call.started));
        }
    }
    for (second, load) in seconds.iter_mut().zip(&places.loads) {
        (second.attempts, second.line) = (load.attempts, load.line);
    }
    took.sort_unstable();
    Outcome { seconds, took }
}

impl Outcome {
    fn cells(&self, policy: &str) -> Vec<Cell> {
        let sum = |what: fn(&Second) -> u64| self.seconds.iter().map(what).sum::<u64>();
        let (calls, attempts) = (sum(|second| second.calls), sum(|second| second.attempts));
        let quantile = |share: f64| {
            let rank = (self.took.len() as f64 * share).ceil() as usize;
            self.took.get(rank.saturating_sub(1)).map_or(Cell::Nothing, |time| {
                Cell::Text(format!("{:.0} ms", time.as_secs_f64() * 1000.0))
            })
        };
        let at = (TROUBLE_AT.as_secs() as usize).min(self.seconds.len());
        let after = &self.seconds[at..];
        let bad = |second: &Second| second.failed * 100 > second.calls;
        let back = after.iter().rposition(bad).map_or(0, |at| at + 1);
        vec![
            Cell::Text(policy.to_owned()),
            Cell::Count(calls),
            Cell::Count(sum(|second| second.answered)),
            Cell::Count(sum(|second| second.failed)),
            Cell::Count(attempts),
            Cell::Number(attempts as f64 / calls.max(1) as f64),
            quantile(0.5),
            quantile(0.99),
            Cell::Count(self.seconds.iter().map(|second| second.line).max().unwrap_or(0)),
            if back < after.len() { Cell::Seconds(back as f64) } else { Cell::Never },
        ]
    }
}

fn run(
    request: &Request,
    policies: &[&'static str],
    progress: &mut Progress<'_>,
) -> Result<Report, DrillError> {
    let scene = scene(request)?;
    let yours = your_upstream(request, policies)?;
    let mut jitter = Jitter::new(request.seed);
    let mut arrivals = Vec::new();
    let mut now = 0.0;
    loop {
        now -= (1.0 - jitter.ratio()).ln() / scene.rate;
        if now >= scene.duration.as_secs_f64() {
            break;
        }
        arrivals.push(Moment::from_nanos((now * 1e9) as u64));
    }
    let mut results = Vec::new();
    for (at, &policy) in policies.iter().enumerate() {
        progress(policy, at as f64 / policies.len() as f64);
        let mut places = Places::new(&scene, request.seed);
        let (done, _) = play(upstream(policy, yours), &arrivals, Some(PATIENCE), &mut places);
        results.push((policy, outcome(&scene, &done, &places)));
    }
    Ok(report(request, &scene, &results))
}

fn report(request: &Request, scene: &Scene, results: &[(&'static str, Outcome)]) -> Report {
    let mut details = Table { columns: COLUMNS.to_vec(), rows: Vec::new() };
    for (policy, outcome) in results {
        for (at, second) in outcome.seconds.iter().enumerate() {
            let mut row = vec![Cell::Text((*policy).to_owned()), Cell::Count(at as u64)];
            let counts =
                [second.calls, second.answered, second.failed, second.attempts, second.line];
            row.extend(counts.map(Cell::Count));
            details.rows.push(row);
        }
    }
    let chart = |title: &str, what: fn(&Second) -> u64| Chart {
        title: title.to_owned(),
        x: "seconds".to_owned(),
        y: "a second".to_owned(),
        curves: results
            .iter()
            .map(|(policy, outcome)| Curve {
                name: (*policy).to_owned(),
                points: (0u32..)
                    .zip(&outcome.seconds)
                    .map(|(at, second)| (f64::from(at), what(second) as f64))
                    .collect(),
            })
            .collect(),
        mark: Some((
            scene.trouble.0.as_nanos() as f64 / 1e9,
            scene.trouble.1.as_nanos() as f64 / 1e9,
            "brown-out".to_owned(),
        )),
    };
    Report {
        drill: "brown-out",
        seed: request.seed,
        model: vec![
            ("mu", Cell::Number(scene.mu)),
            ("rate", Cell::Number(scene.rate)),
            ("stall", Cell::Seconds((scene.trouble.1 - scene.trouble.0).as_secs_f64())),
            ("duration", Cell::Seconds(scene.duration.as_secs_f64())),
        ],
        glimpse: None,
        summary: Table {
            columns: vec![
                "policy", "calls", "answered", "failed", "attempts", "load", "p50", "p99",
                "longest_line", "back_after",
            ],
            rows: results.iter().map(|(policy, outcome)| outcome.cells(policy)).collect(),
        },
        notes: vec![
            "load: attempts a call. p50 and p99 are of answered calls that came in the brown-out; back \
             after: seconds from its start until at most one call in a hundred fails, for good."
                .to_owned(),
        ],
        details,
        charts: vec![
            chart("Calls answered", |second| second.answered),
            chart("Calls failed", |second| second.failed),
            chart("Attempts", |second| second.attempts),
        ],
    }
}
