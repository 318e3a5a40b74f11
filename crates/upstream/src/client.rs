//! The client: named upstreams, and calls to them.

use crate::body::Body;
use crate::dial::{Dial, Tcp};
use crate::flight::Flight;
use crate::ledger::{Ledger, LedgerConfig};
use crate::pool::Connections;
use crate::report::{CallError, Report};
use crate::response::Response;
use crate::settings::{Settings, SettingsError};
use crate::upstream::{Surroundings, Upstream};
use hedgerow_clock::Clock;
use hedgerow_policy::breaker;
use hedgerow_policy::failure::{At, Class, Failure};
use hedgerow_policy::hedge::{HedgeCap, RaceConfig, UpstreamSnapshot};
use hedgerow_policy::observe::Silent;
use hedgerow_policy::{Moment, Observer};
use http::Request;
use std::collections::HashMap;
use std::sync::Arc;

/// Calls HTTP services that do not wait for the slowest. Clones share everything.
#[derive(Clone)]
pub struct Client {
    upstreams: Arc<HashMap<String, Arc<Upstream>>>,
    pub(crate) around: Surroundings,
}

/// What a client is made of, beside its upstreams.
pub struct ClientBuilder {
    clock: Clock,
    dial: Arc<dyn Dial>,
    observer: Arc<dyn Observer>,
    ledger: LedgerConfig,
}

/// How a caller takes a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Taken {
    /// Event streams and NDJSON as they come, anything else as the rules of the call say.
    #[default]
    ByKind,
    /// As it comes: its first data wins, where the whole of it would.
    AsItComes,
    /// Whole: even a stream is of no use before its end.
    Whole,
}

/// What one call brings along.
#[derive(Clone, Debug)]
pub struct CallOptions {
    /// The rules of this call; `None`: the upstream's.
    pub rules: Option<Arc<RaceConfig>>,
    /// When the caller stops waiting, by the client's clock.
    pub deadline: Moment,
    /// False: this call is not hedged.
    pub hedging: bool,
    /// How the caller takes the response.
    pub taken: Taken,
    /// What the batch it belongs to has left for twins.
    pub cap: Option<Arc<HedgeCap>>,
    /// The trace of the request that it belongs to.
    pub trace: Arc<str>,
    /// The trace context that it is made under, where its request brings none of its own.
    pub traceparent: Option<Arc<str>>,
    /// What the ledger calls it.
    pub label: Option<Arc<str>>,
}

impl Default for CallOptions {
    fn default() -> CallOptions {
        CallOptions {
            rules: None,
            deadline: Moment::NEVER,
            hedging: true,
            taken: Taken::ByKind,
            cap: None,
            trace: "".into(),
            traceparent: None,
            label: None,
        }
    }
}

/// What an upstream shows of itself.
#[derive(Clone, Debug)]
pub struct UpstreamView {
    /// Its name.
    pub name: String,
    /// What its policy shows.
    pub state: UpstreamSnapshot,
    /// Its endpoints as configured, in the order of the snapshot's.
    pub urls: Vec<Arc<str>>,
    /// Their breakers, if it has any.
    pub breakers: Vec<breaker::Snapshot>,
    /// Connections at each endpoint.
    pub connections: Vec<Connections>,
}

impl UpstreamView {
    /// What the breaker of that endpoint is called.
    #[must_use]
    pub fn breaker_name(&self, endpoint: usize) -> String {
        match self.urls.get(endpoint) {
            Some(url) if self.urls.len() > 1 => format!("{} {url}", self.name),
            _ => self.name.clone(),
        }
    }
}

impl ClientBuilder {
    /// With that clock instead of one that starts now.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> ClientBuilder {
        self.clock = clock;
        self
    }

    /// With other ways to open connections than TCP.
    #[must_use]
    pub fn dial(mut self, dial: Arc<dyn Dial>) -> ClientBuilder {
        self.dial = dial;
        self
    }

    /// Told of what happens.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> ClientBuilder {
        self.observer = observer;
        self
    }

    /// How much the ledger remembers.
    #[must_use]
    pub fn ledger(mut self, ledger: LedgerConfig) -> ClientBuilder {
        self.ledger = ledger;
        self
    }

    /// The client with these upstreams.
    ///
    /// # Errors
    /// When two have the same name, one has no endpoint, certificates cannot be used, or the
    /// ledger's file cannot be written.
    pub fn build(
        self,
        upstreams: impl IntoIterator<Item = Settings>,
    ) -> Result<Client, SettingsError> {
        let ledger = Arc::new(Ledger::new(self.ledger)?);
        let ClientBuilder { clock, dial, observer, .. } = self;
        let around = Surroundings { clock, dial, observer, ledger };
        let none = Client { upstreams: Arc::new(HashMap::new()), around };
        none.with_upstreams(upstreams.into_iter().collect())
    }
}

impl Client {
    /// A client with the usual surroundings: TCP, a clock of its own, nobody told.
    ///
    /// # Errors
    /// See [`ClientBuilder::build`].
    pub fn new(upstreams: impl IntoIterator<Item = Settings>) -> Result<Client, SettingsError> {
        Client::builder().build(upstreams)
    }

    /// A client with chosen surroundings.
    #[must_use]
    pub fn builder() -> ClientBuilder {
        ClientBuilder {
            clock: Clock::start(),
            dial: Arc::new(Tcp::new()),
            observer: Arc::new(Silent),
            ledger: LedgerConfig::default(),
        }
    }

    /// The same client with other upstreams. One whose settings are the same stays as it is, with
    /// its connections and all it has learned; calls under way end as they began.
    ///
    /// # Errors
    /// See [`ClientBuilder::build`].
    pub fn with_upstreams(&self, settings: Vec<Settings>) -> Result<Client, SettingsError> {
        let mut upstreams = HashMap::with_capacity(settings.len());
        for settings in settings {
            if settings.endpoints.is_empty() {
                return Err(SettingsError::NoEndpoint(settings.name));
            }
            let name = settings.name.clone();
            let kept = self.upstreams.get(&name).filter(|known| known.settings == settings);
            let upstream = match kept {
                Some(known) => known.clone(),
                None => Arc::new(Upstream::new(settings, self.around.clone())?),
            };
            if upstreams.insert(name.clone(), upstream).is_some() {
                return Err(SettingsError::Twice(name));
            }
        }
        Ok(Client { upstreams: Arc::new(upstreams), around: self.around.clone() })
    }

    /// The clock whose moments deadlines are.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.around.clock
    }

    /// The ledger.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.around.ledger
    }

    /// Whether there is an upstream of that name.
    #[must_use]
    pub fn knows(&self, name: &str) -> bool {
        self.upstreams.contains_key(name)
    }

    /// Calls an upstream. The request's path is put behind the endpoint's own.
    ///
    /// # Errors
    /// When there is no response: see [`CallError`]. A status that says no is a response.
    pub async fn call(
        &self,
        upstream: &str,
        request: Request<Body>,
    ) -> Result<Response, CallError> {
        self.call_with(upstream, request, CallOptions::default()).await
    }

    /// The same, with a deadline, a trace, other rules.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn call_with(
        &self,
        upstream: &str,
        request: Request<Body>,
        options: CallOptions,
    ) -> Result<Response, CallError> {
        let Some(upstream) = self.named(upstream) else { return Err(unknown(upstream)) };
        run(upstream, request, options).await
    }

    pub(crate) fn named(&self, name: &str) -> Option<Arc<Upstream>> {
        self.upstreams.get(name).cloned()
    }

    /// What every upstream shows of itself, by name.
    #[must_use]
    pub fn view(&self) -> Vec<UpstreamView> {
        let now = self.around.clock.now();
        let views = self.upstreams.values().map(|upstream| UpstreamView {
            name: upstream.settings.name.clone(),
            state: upstream.state().snapshot(now),
            urls: upstream.urls.clone(),
            breakers: upstream.breakers.iter().map(|breaker| breaker.snapshot(now)).collect(),
            connections: upstream.pools.iter().map(|pool| pool.counts()).collect(),
        });
        let mut views: Vec<UpstreamView> = views.collect();
        views.sort_by(|a, b| a.name.cmp(&b.name));
        views
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.upstreams.keys()).finish()
    }
}

pub(crate) async fn run(
    upstream: Arc<Upstream>,
    request: Request<Body>,
    options: CallOptions,
) -> Result<Response, CallError> {
    let mut flight = Flight::start(upstream, request, options)?;
    std::future::poll_fn(|cx| flight.poll_settled(cx)).await;
    flight.into_answer()
}

pub(crate) fn unknown(name: &str) -> CallError {
    let name: String = name.chars().take(100).collect();
    let text = format!("there is no upstream {name:?}");
    let failure = Failure::new(Class::UpstreamForbidden, At::Gateway, text);
    CallError { failure, report: Report::default(), last_status: None }
}
