//! The connections to one endpoint.
//!
//! Invariant: at most [`MAX_IDLE`] HTTP/1 connections idle, none of either kind longer than about
//! [`IDLE_TIME`], and the one used last is used first. A connection that has closed, was told to go away, or is worn out is
//! never handed out.

use crate::connection::{self, ConnectionId, Idle, Lease, Shared};
use crate::dial::Dial;
use crate::origin::Origin;
use crate::settings::Protocol;
use crate::tls::Tls;
use hedgerow_clock::Clock;
use hedgerow_policy::Moment;
use std::future::poll_fn;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Idle connections kept.
const MAX_IDLE: usize = 128;
/// How long a connection may idle. Servers commonly give one up after 60 to 75 seconds.
pub(crate) const IDLE_TIME: Duration = Duration::from_secs(50);

/// The connections to one endpoint at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Connections {
    /// HTTP/1 connections that nobody uses.
    pub idle: usize,
    /// How many of them are kept.
    pub idle_limit: usize,
    /// HTTP/2 connections.
    pub shared: usize,
    /// Streams on them.
    pub streams: usize,
    /// Streams that they may have.
    pub streams_limit: usize,
}

pub(crate) struct Pool {
    pub(crate) origin: Origin,
    pub(crate) dial: Arc<dyn Dial>,
    pub(crate) tls: Tls,
    pub(crate) protocol: Protocol,
    pub(crate) clock: Clock,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// The one used last is last.
    idle: Vec<Idle>,
    shared: Vec<Arc<Shared>>,
    /// A task will look for what has idled too long.
    swept: bool,
    /// How it is told that something has happened on an idle connection.
    sweeper: Option<Waker>,
}

impl Pool {
    pub(crate) fn new(
        origin: Origin,
        dial: Arc<dyn Dial>,
        tls: Tls,
        protocol: Protocol,
        clock: Clock,
    ) -> Pool {
        let kept = Mutex::new(Kept::default());
        Pool { origin, dial, tls, protocol, clock, kept }
    }

    /// A connection that is at hand, other than those.
    pub(crate) fn take(self: &Arc<Self>, but: &[ConnectionId]) -> Option<Lease> {
        let mut kept = self.kept();
        let found = kept
            .shared
            .iter()
            .find(|shared| !but.contains(&shared.id) && !shared.is_worn() && shared.has_room());
        if let Some(shared) = found.cloned() {
            return Some(Lease::http2(self.clone(), &shared, true));
        }
        let mut ended = Vec::new();
        while let Some(mut idle) = kept.idle.pop() {
            if idle.is_ready() {
                drop(kept);
                return Some(Lease::http1(self.clone(), idle));
            }
            ended.push(idle);
        }
        // They close without the lock.
        drop(kept);
        None
    }

    /// A new connection.
    pub(crate) async fn connect(self: Arc<Self>) -> io::Result<Lease> {
        connection::connect(self).await
    }

    pub(crate) fn give_back(self: &Arc<Self>, idle: Idle) {
        let mut kept = self.kept();
        if let Some(sweeper) = &kept.sweeper {
            idle.tell(sweeper);
        }
        kept.idle.push(idle);
        let oldest = (kept.idle.len() > MAX_IDLE).then(|| kept.idle.remove(0));
        self.sweep(kept);
        drop(oldest);
    }

    pub(crate) fn share(self: &Arc<Self>, shared: Arc<Shared>) {
        let mut kept = self.kept();
        kept.shared.push(shared);
        self.sweep(kept);
    }

    /// Sees to it that what idles is looked at.
    fn sweep(self: &Arc<Self>, mut kept: MutexGuard<'_, Kept>) {
        let swept = std::mem::replace(&mut kept.swept, true);
        drop(kept);
        if !swept {
            tokio::spawn(sweep_later(Arc::downgrade(self), self.clock));
        }
    }

    /// Lets go of shared connections that take no more streams: each ends with its last stream.
    pub(crate) fn retire_worn(&self) {
        self.kept().shared.retain(|shared| !shared.is_worn());
    }

    pub(crate) fn counts(&self) -> Connections {
        let kept = self.kept();
        let (shared, streams) = (kept.shared.len(), kept.shared.iter().map(|s| s.streams()).sum());
        let streams_limit = shared * connection::MAX_STREAMS as usize;
        let idle = kept.idle.len();
        Connections { idle, idle_limit: MAX_IDLE, shared, streams, streams_limit }
    }

    /// Ready once something has happened on an idle connection.
    fn poll_news(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut kept = self.kept();
        if kept.idle.iter().any(Idle::has_news) {
            return Poll::Ready(());
        }
        if !kept.sweeper.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            kept.sweeper = Some(cx.waker().clone());
            kept.idle.iter().for_each(|idle| idle.tell(cx.waker()));
        }
        Poll::Pending
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes what has ended at once and what has idled too long in time, until nothing idles.
async fn sweep_later(pool: Weak<Pool>, clock: Clock) {
    loop {
        let news = poll_fn(|cx| match pool.upgrade() {
            Some(pool) => pool.poll_news(cx),
            None => Poll::Ready(()),
        });
        _ = clock.until(clock.now() + IDLE_TIME / 5, news).await;
        let Some(pool) = pool.upgrade() else { return };
        let now = clock.now();
        // The moment before which an idle one was used last.
        let then = Moment::START + now.since(Moment::START + IDLE_TIME);
        let mut kept = pool.kept();
        let stale = |idle: &mut Idle| idle.since + IDLE_TIME <= now || !idle.is_ready();
        let old: Vec<Idle> = kept.idle.extract_if(.., stale).collect();
        let unused = |shared: &mut Arc<Shared>| shared.is_worn() || shared.is_idle_since(then);
        let unused: Vec<Arc<Shared>> = kept.shared.extract_if(.., unused).collect();
        let done = kept.idle.is_empty() && kept.shared.is_empty();
        kept.swept = !done;
        // What was let go is closed without the lock.
        drop(kept);
        drop((old, unused));
        if done {
            return;
        }
    }
}
