//! The admin listener: what operators and Prometheus ask, on an address of its own.
//!
//! Invariant: nothing here can be reached through the data plane, and nothing a client of the
//! data plane does can keep an operator out: own socket, own connections, own bounds. A web page
//! elsewhere cannot use a browser to get in (`admin/guard.rs`).

mod assets;
mod cache;
mod control;
mod crowd;
mod events;
mod frame;
mod guard;
mod routes;
mod shapes;
#[cfg(test)]
mod tests;
mod usage;
mod watch;
#[cfg(test)]
mod watched;

pub use control::{Control, Plane, Workers};
pub(crate) use watch::Watched;

use crate::record::Recorder;
use crowd::{Crowd, Place};
use hedgerow_clock::Clock;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch as signal;
use tokio::task::JoinSet;

/// How long a request head may take, and how long a connection may be idle.
const HEAD: Duration = Duration::from_secs(10);
/// How long a connection may live: one that reads nothing must not hold its place for ever.
const LIFE: Duration = Duration::from_secs(300);
/// How long the last answer of a connection may take.
const LAST: Duration = Duration::from_secs(2);
/// A pause after the system refused a connection: out of descriptors, a loop would only spin.
const REFUSED: Duration = Duration::from_millis(50);

/// What the admin listener is told at start.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where it listens.
    pub listen: SocketAddr,
    /// What must be shown to get in. None is accepted on loopback only.
    pub token: Option<String>,
    /// Names under which it may be addressed, besides IP addresses and `localhost`.
    pub hosts: Vec<String>,
    /// Connections at once.
    pub max_connections: usize,
    /// Whether `/metrics` is served.
    pub metrics: bool,
    /// What this gateway can do, for `/admin/runtime`.
    pub capabilities: Vec<(&'static str, bool)>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            listen: SocketAddr::from(([127, 0, 0, 1], 9080)),
            token: None,
            hosts: Vec::new(),
            max_connections: 256,
            metrics: true,
            capabilities: vec![
                ("http", true),
                ("stream", true),
                ("stream_direct", true),
                ("stream_dispatch", false),
                ("stream_upstream_plan", false),
            ],
        }
    }
}

/// The token is for nobody's eyes.
impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let token = self.token.as_ref().map(|_| "[hidden]");
        f.debug_struct("Settings")
            .field("listen", &self.listen)
            .field("token", &token)
            .finish_non_exhaustive()
    }
}

/// Why the admin listener did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be used.
    #[error("cannot listen on the admin address {addr}: {source}")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// Everyone could get in.
    #[error("the admin address {0} is not loopback, so admin.token must be set")]
    TokenNeeded(SocketAddr),
}

/// What every admin request is answered from.
pub(crate) struct State {
    pub(crate) settings: Settings,
    pub(crate) recorder: Recorder,
    pub(crate) control: Arc<dyn Control>,
    pub(crate) clock: Clock,
    pub(crate) watch: watch::Watch,
}

/// A running admin listener. Dropping it ends it at once.
#[derive(Debug)]
pub struct Admin {
    addr: SocketAddr,
    stop: signal::Sender<bool>,
    task: tokio::task::JoinHandle<()>,
    sampling: tokio::task::JoinHandle<()>,
}

impl Admin {
    /// Listens, and answers until it is stopped. To be called inside a runtime.
    ///
    /// # Errors
    /// When the address is taken, or is open to others and there is no token.
    pub fn start(
        settings: Settings,
        recorder: Recorder,
        control: Arc<dyn Control>,
        clock: Clock,
    ) -> Result<Admin, StartError> {
        let asked = settings.listen;
        let settings = Settings { token: settings.token.filter(|t| !t.is_empty()), ..settings };
        if settings.token.is_none() && !asked.ip().to_canonical().is_loopback() {
            return Err(StartError::TokenNeeded(asked));
        }
        let (listener, addr) =
            bind(asked).map_err(|source| StartError::Listen { addr: asked, source })?;
        let (stop, stopping) = signal::channel(false);
        let watch = watch::Watch::new();
        let state = Arc::new(State { settings, recorder, control, clock, watch });
        let sampling = tokio::spawn(watch::sample(Arc::clone(&state)));
        let task = tokio::spawn(accept(listener, state, stopping));
        Ok(Admin { addr, stop, task, sampling })
    }

    /// Where it listens.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    /// Takes no more connections, lets answers that are being written come to their end, and
    /// returns within a few seconds.
    pub async fn stop(mut self) {
        let _ = self.stop.send(true);
        // An error means that the task is gone already.
        let _ = (&mut self.task).await;
        self.sampling.abort();
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        self.task.abort();
        self.sampling.abort();
    }
}

fn bind(addr: SocketAddr) -> std::io::Result<(TcpListener, SocketAddr)> {
    let listener = std::net::TcpListener::bind(addr)?;
    listener.set_nonblocking(true)?;
    let addr = listener.local_addr()?;
    Ok((TcpListener::from_std(listener)?, addr))
}

async fn accept(listener: TcpListener, state: Arc<State>, mut stopping: signal::Receiver<bool>) {
    let mut connections = JoinSet::new();
    let most = state.settings.max_connections.max(1);
    let mut crowd = Crowd::default();
    loop {
        let full = connections.len() >= most && !crowd.gives_way(state.clock.now());
        let accepted = tokio::select! {
            biased;
            _ = stopping.wait_for(|stop| *stop) => break,
            Some(_) = connections.join_next() => continue,
            // Over the bound the kernel's backlog waits, not a client's request.
            accepted = listener.accept(), if !full => accepted,
            () = state.clock.sleep_until(state.clock.now() + REFUSED), if full => continue,
        };
        match accepted {
            Ok((stream, _)) => {
                if connections.len() >= most {
                    crowd.give_way(state.clock.now());
                }
                let place = Arc::new(Place::new(state.clock.now()));
                let serving =
                    serve(stream, Arc::clone(&state), Arc::clone(&place), stopping.clone());
                crowd.enter(place, connections.spawn(serving));
            }
            Err(_) => state.clock.sleep_until(state.clock.now() + REFUSED).await,
        }
    }
    drop(listener);
    state.watch.end();
    let until = state.clock.now() + LAST + LAST;
    state.clock.until(until, async { while connections.join_next().await.is_some() {} }).await;
}

async fn serve(
    stream: TcpStream,
    state: Arc<State>,
    place: Arc<Place>,
    mut stopping: signal::Receiver<bool>,
) {
    let clock = state.clock;
    let service = service_fn(|request| {
        let (state, place) = (Arc::clone(&state), Arc::clone(&place));
        place.asked(state.clock.now());
        async move { Ok::<_, Infallible>(routes::answer(&state, &request, &place).await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(32 << 10);
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        // What broke on an admin connection is the business of who connected.
        _ = connection.as_mut() => return,
        () = place.given_up() => return,
        _ = stopping.wait_for(|stop| *stop) => {}
        () = clock.sleep_until(clock.now() + LIFE) => {}
    }
    connection.as_mut().graceful_shutdown();
    clock.until(clock.now() + LAST, connection).await;
}
