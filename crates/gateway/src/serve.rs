//! The data plane as its owner sees it: start, drain, new settings.
//!
//! Invariant: settings are swapped whole. A request sees those it began with to its end, a
//! connection keeps its timeouts, and settings that cannot be used (a certificate that does not
//! load) leave the ones before in force.

use crate::body::Memory;
use crate::calls::Calls;
use crate::failure::Style;
use crate::listener;
use crate::names::Names;
use crate::record::Recorder;
use crate::settings::Settings;
use crate::tls::{Acceptor, TlsError};
use hedgerow_clock::Clock;
use hedgerow_policy::failure::{At, Class, Failure};
use hedgerow_worker::Pool;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::{Semaphore, watch};

/// Why the data plane cannot start, or cannot take new settings.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be opened.
    #[error("cannot listen on {addr}: {source}")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
    /// The certificate or the key cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The prefix does not make a header name.
    #[error("the header prefix {0:?} is not made of header name characters")]
    HeaderPrefix(String),
}

/// How long those that a drain ends have to take their last answer.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What connections are told.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Phase {
    Serving,
    /// Finish what was begun, take nothing new.
    Draining,
    /// What is not finished fails now, as `draining`.
    Failing,
    /// End now.
    Over,
}

/// Settings, and what is made of them once.
pub(crate) struct Live {
    pub(crate) settings: Settings,
    pub(crate) names: Arc<Names>,
    pub(crate) style: Style,
    pub(crate) tls: Option<Acceptor>,
}

impl Live {
    pub(crate) fn new(settings: Settings) -> Result<Live, StartError> {
        let names = Names::new(&settings.header_prefix)
            .map_err(|_| StartError::HeaderPrefix(settings.header_prefix.clone()))?;
        let tls = match &settings.tls {
            Some(files) => Some(Acceptor::load(files, settings.http2)?),
            None => None,
        };
        let style = Style {
            problem_json: settings.problem_json,
            proxy_status: settings.proxy_status,
            expose_exception: settings.expose_worker_exception,
        };
        Ok(Live { names: Arc::new(names), style, tls, settings })
    }
}

/// What all connections share.
pub(crate) struct Shared {
    live: RwLock<Arc<Live>>,
    calls: OnceLock<Calls>,
    pool: Option<Pool>,
    pub(crate) recorder: Recorder,
    pub(crate) clock: Clock,
    pub(crate) memory: Arc<Memory>,
    pub(crate) connections: Arc<Semaphore>,
    phase: watch::Receiver<Phase>,
}

impl Shared {
    /// Returns once a drain has run out of time.
    pub(crate) async fn failing(&self) {
        let mut phase = self.phase.clone();
        // An error means that the gateway is gone, which is as good as the phase.
        let _ = phase.wait_for(|phase| *phase >= Phase::Failing).await;
    }

    /// The workers.
    ///
    /// # Errors
    /// `not_found`, where there are none.
    pub(crate) fn pool(&self) -> Result<&Pool, Failure> {
        let none =
            || Failure::new(Class::NotFound, At::Gateway, "no route leads here, and no worker");
        self.pool.as_ref().ok_or_else(none)
    }

    /// What makes the calls that workers ask for.
    pub(crate) fn calls(&self) -> Option<&Calls> {
        self.calls.get()
    }

    /// The settings in force. The lock is held for the clone alone.
    pub(crate) fn live(&self) -> Arc<Live> {
        Arc::clone(&self.live.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// How much there is room for, for whoever shows it.
fn tell_limits(recorder: &Recorder, connections: u32, settings: &Settings) {
    let dispatches = settings.dispatch.as_ref().map_or(0, |dispatch| dispatch.max_open);
    recorder.set_limits(u64::from(connections), settings.body_memory, dispatches);
}

/// The running data plane. Dropping it ends every connection.
pub struct Gateway {
    shared: Arc<Shared>,
    phase: watch::Sender<Phase>,
    /// Closed once nothing is accepted any more.
    accepted: watch::Receiver<()>,
    local_addr: SocketAddr,
    permits: u32,
}

impl Gateway {
    /// Opens the address and serves. Without a pool, only the routes that lead elsewhere do; what
    /// would go to a worker is `not_found`. Needs a tokio runtime with time and I/O.
    ///
    /// # Errors
    /// When the address, the certificate or the header prefix cannot be used. Nothing is left
    /// running then.
    pub fn start(
        settings: Settings,
        pool: impl Into<Option<Pool>>,
        recorder: Recorder,
        clock: Clock,
    ) -> Result<Gateway, StartError> {
        let addr = settings.listen;
        let listen = |source| StartError::Listen { addr, source };
        let live = Live::new(settings)?;
        let listener = listener::bind(addr).map_err(listen)?;
        let local_addr = listener.local_addr().map_err(listen)?;
        let most = u32::try_from(Semaphore::MAX_PERMITS).unwrap_or(u32::MAX);
        let permits = u32::try_from(live.settings.max_connections).unwrap_or(most).clamp(1, most);
        tell_limits(&recorder, permits, &live.settings);
        let told = recorder.clone();
        let (phase, phases) = watch::channel(Phase::Serving);
        let shared = Arc::new(Shared {
            memory: Memory::new(live.settings.body_memory, move |held| told.set_body_memory(held)),
            live: RwLock::new(Arc::new(live)),
            calls: OnceLock::new(),
            pool: pool.into(),
            recorder,
            clock,
            connections: Arc::new(Semaphore::new(permits as usize)),
            phase: phases.clone(),
        });
        let (accepting, accepted) = watch::channel(());
        tokio::spawn(listener::run(Arc::clone(&shared), listener, phases, accepting));
        Ok(Gateway { shared, phase, accepted, local_addr, permits })
    }

    /// Makes the calls that workers ask for from now on. Said once; what opens them can be replaced
    /// (see [`Calls::replace`]).
    pub fn make_calls(&self, calls: Calls) {
        let _ = self.shared.calls.set(calls);
    }

    /// Whether these settings could be put in force: the certificate loads, the prefix is a name.
    ///
    /// # Errors
    /// What [`Gateway::reconfigure`] would say.
    pub fn check(settings: &Settings) -> Result<(), StartError> {
        Live::new(settings.clone()).map(drop)
    }

    /// Where it listens; with the port that was given where the settings said 0.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Puts new settings in force for requests and connections that begin from now on. `listen` and
    /// `max_connections` stay as they were at the start.
    ///
    /// # Errors
    /// When the certificate or the header prefix cannot be used: the settings before stay.
    pub fn reconfigure(&self, settings: Settings) -> Result<(), StartError> {
        let live = Live::new(settings)?;
        self.shared.memory.set_limit(live.settings.body_memory);
        tell_limits(&self.shared.recorder, self.permits, &live.settings);
        *self.shared.live.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(live);
        Ok(())
    }

    /// Stops accepting, closes idle connections and lets requests in flight finish. What is left
    /// after [`Settings::drain`] fails as `draining`, and a second later its connection is cut.
    /// True when nothing had to be ended.
    pub async fn drain(&self) -> bool {
        let within = self.shared.live().settings.drain;
        self.phase.send_replace(Phase::Draining);
        // Waiting for all connections takes every permit that is free, so what is still to be
        // accepted comes first.
        let _ = self.accepted.clone().changed().await;
        if self.all_closed(within).await {
            return true;
        }
        self.phase.send_replace(Phase::Failing);
        if !self.all_closed(LAST_WORDS).await {
            self.phase.send_replace(Phase::Over);
            self.all_closed(LAST_WORDS).await;
        }
        false
    }

    async fn all_closed(&self, within: Duration) -> bool {
        // Every connection holds one permit, so all of them are free when all are closed.
        let limit = self.shared.clock.now() + within;
        let all = self.shared.connections.acquire_many(self.permits);
        self.shared.clock.until(limit, all).await.is_some()
    }
}
