//! What an upstream is told. Plain values; whoever reads a configuration fills them in.

use crate::origin::Origin;
use hedgerow_policy::breaker::BreakerConfig;
use hedgerow_policy::budget::BudgetConfig;
use hedgerow_policy::endpoints::DemoteConfig;
use hedgerow_policy::hedge::RaceConfig;
use std::path::PathBuf;
use std::time::Duration;

/// How HTTP is spoken with an upstream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Protocol {
    /// HTTP/2 where TLS agrees on it, else HTTP/1.1.
    #[default]
    Auto,
    /// HTTP/1.1, whatever the server could do.
    Http1,
    /// HTTP/2 at once, without TLS too (prior knowledge).
    Http2,
}

/// Whose certificates are believed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Trust {
    /// The public authorities that browsers trust, as of this build.
    #[default]
    Public,
    /// The authorities in this PEM file, and no others.
    File(PathBuf),
    /// The authorities in this PEM text, and no others.
    Pem(Vec<u8>),
}

/// One named upstream. The defaults are the contract's.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// Its name.
    pub name: String,
    /// Where it is; at least one.
    pub endpoints: Vec<Origin>,
    /// Hedging, retries, limits in time.
    pub race: RaceConfig,
    /// What hedges and retries may spend together.
    pub budget: BudgetConfig,
    /// When an endpoint is passed over.
    pub demote: DemoteConfig,
    /// A breaker in front of each endpoint; `None`: none.
    pub breaker: Option<BreakerConfig>,
    /// Bytes of a request body kept for a second attempt.
    pub buffer_limit: usize,
    /// Bytes of a response held back before its attempt is committed.
    pub response_buffer_limit: usize,
    /// Largest request body, in bytes.
    pub body_limit: u64,
    /// Twins that the keys of one batch may start together; `None`: no cap.
    pub batch_max_hedges: Option<u32>,
    /// What one call costs, in the user's own unit; zero: not known.
    pub price_per_call: f64,
    /// How HTTP is spoken.
    pub protocol: Protocol,
    /// Whose certificates are believed.
    pub trust: Trust,
}

/// What is wrong with settings.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SettingsError {
    /// A URL that cannot be called.
    #[error("{url:?} is no URL to call: {reason}")]
    Url {
        /// As it was written.
        url: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// No endpoint.
    #[error("the upstream {0:?} has no endpoint")]
    NoEndpoint(String),
    /// Two of the same name.
    #[error("there are two upstreams {0:?}")]
    Twice(String),
    /// Certificates that cannot be used.
    #[error("the certificates of {name:?}: {reason}")]
    Trust {
        /// The upstream.
        name: String,
        /// What is wrong with them.
        reason: String,
    },
    /// The file of the ledger cannot be written.
    #[error("the ledger's file {path}: {reason}")]
    Ledger {
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl Settings {
    /// An upstream at these URLs, with the contract's defaults: no hedging, no retries.
    ///
    /// # Errors
    /// When a URL cannot be called, or there is none.
    pub fn new<'a>(
        name: &str,
        urls: impl IntoIterator<Item = &'a str>,
    ) -> Result<Settings, SettingsError> {
        let endpoints: Vec<Origin> =
            urls.into_iter().map(Origin::parse).collect::<Result<_, _>>()?;
        if endpoints.is_empty() {
            return Err(SettingsError::NoEndpoint(name.to_owned()));
        }
        Ok(Settings { name: name.to_owned(), endpoints, ..Settings::anywhere() })
    }

    /// The defaults, with neither a name nor an endpoint: for calls to bare URLs.
    #[must_use]
    pub fn anywhere() -> Settings {
        Settings {
            name: String::new(),
            endpoints: Vec::new(),
            race: RaceConfig::default(),
            budget: BudgetConfig { ratio: 0.1, burst: 3 },
            demote: DemoteConfig { after: 3, cooldown: Duration::from_secs(30) },
            breaker: None,
            buffer_limit: 64 << 10,
            response_buffer_limit: 1 << 20,
            body_limit: 10 << 20,
            batch_max_hedges: None,
            price_per_call: 0.0,
            protocol: Protocol::Auto,
            trust: Trust::Public,
        }
    }
}
