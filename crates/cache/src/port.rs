//! The port that any Redis client can use.
//!
//! Invariants:
//! - a client's replies come in the order of its commands, one each, whatever happened to them;
//! - what a command may be answered without the store follows from `crate::commands` alone;
//! - a client that reads nothing costs its own connection, and nobody else anything;
//! - an idle client holds next to no memory.
//!
//! The way of a command: `client` reads → `dispatch` asks the policies and hands it to a lane →
//! `finish` writes what came, or `fallback`; `local` answers what the store need not know,
//! `pinned` gives a client a store connection of its own, `embedded` serves without a store.

mod client;
mod dispatch;
mod embedded;
mod fallback;
mod finish;
mod held;
mod info;
mod local;
mod pinned;

use crate::guarded::Guarded;
use crate::settings::PortSettings;
use crate::share::Room;
use client::Client;
use hedgerow_clock::Clock;
pub use held::TooMuch;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// After an error of `accept` (no descriptors left), before the next try.
const BREATH: Duration = Duration::from_millis(20);

/// A listening port. Dropping it ends it at once; [`Port::stop`] lets it end in order.
pub struct Port {
    shared: Arc<Shared>,
    address: SocketAddr,
    stop: watch::Sender<bool>,
    listening: JoinHandle<()>,
}

/// What all clients of a port have in common.
pub(crate) struct Shared {
    settings: PortSettings,
    guarded: Guarded,
    clock: Clock,
    counts: PortCounts,
    room: Arc<Room>,
    next_id: AtomicI64,
    pinned: pinned::Idle,
}

/// What has happened at the port, as plain counters.
#[derive(Debug, Default)]
struct PortCounts {
    clients: AtomicUsize,
    accepted: AtomicU64,
    turned_away: AtomicU64,
    closed: held::Closed,
    commands: AtomicU64,
    pinned: AtomicUsize,
    output: AtomicUsize,
}

/// The port at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortShown {
    /// Clients that are connected.
    pub clients: usize,
    /// How many may be.
    pub max_clients: usize,
    /// Clients so far.
    pub accepted: u64,
    /// Clients that came when there were too many.
    pub turned_away: u64,
    /// Clients closed because they did not read.
    pub overflowed: u64,
    /// Commands so far.
    pub commands: u64,
    /// Store connections that belong to one client.
    pub pinned: usize,
    /// Bytes of replies that clients have not read, of all clients.
    pub output_bytes: usize,
    /// How many one client may leave unread.
    pub output_limit: usize,
    /// Clients closed because of what they held, by the reason: in the order of [`TooMuch::ALL`].
    pub closed: [u64; 4],
    /// Bytes of commands and replies held for all clients, beyond the first 64 KiB of each.
    pub held_bytes: u64,
    /// How many may be.
    pub held_limit: u64,
    /// Replies let go of: because too many of one client waited, because all clients held too much.
    pub withheld: (u64, u64),
}

/// Looks at a port. It keeps nothing open.
#[derive(Clone)]
pub struct PortView(std::sync::Weak<Shared>);

/// Why a port could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// Anyone who reaches the address could use the cache.
    #[error("{0} is not a loopback address: the port needs a password")]
    Exposed(SocketAddr),
}

impl Port {
    /// Opens the port.
    ///
    /// # Errors
    /// When it cannot be listened on, or is open to others without a password.
    pub async fn start(
        settings: PortSettings,
        guarded: Guarded,
        clock: Clock,
    ) -> Result<Port, PortError> {
        if settings.password.is_empty() && !settings.listen.ip().is_loopback() {
            return Err(PortError::Exposed(settings.listen));
        }
        let failed = |error| PortError::Listen { address: settings.listen, error };
        let listener = TcpListener::bind(settings.listen).await.map_err(failed)?;
        let failed = |error| PortError::Listen { address: settings.listen, error };
        let address = listener.local_addr().map_err(failed)?;
        let shared = Arc::new(Shared {
            room: Arc::new(Room::new(settings.total_limit, settings.output_limit)),
            settings,
            guarded,
            clock,
            counts: PortCounts::default(),
            next_id: AtomicI64::new(1),
            pinned: pinned::Idle::default(),
        });
        let (stop, stopped) = watch::channel(false);
        let listening = tokio::spawn(listen(listener, shared.clone(), stopped));
        Ok(Port { shared, address, stop, listening })
    }

    /// Where it listens.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Takes no new client, lets those there finish what they have sent, and returns when the last
    /// has gone or `within` has passed.
    pub async fn stop(mut self, within: Duration) {
        let clock = self.shared.clock;
        let limit = clock.now() + within;
        let _ = self.stop.send(true);
        let _ = clock.until(limit, &mut self.listening).await;
        // Each client holds the other end until it is gone.
        let _ = clock.until(limit, self.stop.closed()).await;
    }

    /// What there is to show.
    #[must_use]
    pub fn snapshot(&self) -> PortShown {
        self.shared.shown()
    }

    /// Looks at the port for as long as it is there.
    #[must_use]
    pub fn view(&self) -> PortView {
        PortView(Arc::downgrade(&self.shared))
    }
}

impl PortView {
    /// What there is to show; `None` once the port and its last client are gone.
    #[must_use]
    pub fn snapshot(&self) -> Option<PortShown> {
        self.0.upgrade().map(|shared| shared.shown())
    }
}

impl Shared {
    fn shown(&self) -> PortShown {
        let (counts, room) = (&self.counts, self.room.shown());
        let closed = counts.closed.all();
        PortShown {
            clients: counts.clients.load(Relaxed),
            max_clients: self.settings.max_clients,
            accepted: counts.accepted.load(Relaxed),
            turned_away: counts.turned_away.load(Relaxed),
            overflowed: closed[TooMuch::Output as usize],
            closed,
            held_bytes: room.beyond,
            held_limit: room.limit,
            withheld: self.room.withheld(),
            commands: counts.commands.load(Relaxed),
            pinned: counts.pinned.load(Relaxed),
            output_bytes: counts.output.load(Relaxed),
            output_limit: self.settings.output_limit,
        }
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.listening.abort();
        let _ = self.stop.send(true);
    }
}

async fn listen(listener: TcpListener, shared: Arc<Shared>, mut stopped: watch::Receiver<bool>) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopped.changed() => return,
        };
        let Ok((stream, peer)) = accepted else {
            shared.clock.sleep_until(shared.clock.now() + BREATH).await;
            continue;
        };
        shared.counts.accepted.fetch_add(1, Relaxed);
        if shared.counts.clients.load(Relaxed) >= shared.settings.max_clients {
            shared.counts.turned_away.fetch_add(1, Relaxed);
            tokio::spawn(turn_away(stream));
            continue;
        }
        let _ = stream.set_nodelay(true);
        shared.counts.clients.fetch_add(1, Relaxed);
        let client = Client::new(shared.clone(), stream, peer, stopped.clone());
        tokio::spawn(async move {
            let mut client = Box::pin(client.run());
            client.as_mut().await;
        });
    }
}

async fn turn_away(mut stream: TcpStream) {
    let _ = stream.write_all(b"-ERR max number of clients reached\r\n").await;
}
