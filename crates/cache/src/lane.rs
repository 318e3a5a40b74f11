//! One connection to the store, shared by everybody who uses the same database.
//!
//! Invariants:
//! - replies come in the order of the calls, and each belongs to its call: one whose caller has left
//!   is discarded when it comes, never given to another;
//! - a caller's deadline ends that caller's wait and nothing else; nobody waits on a lock;
//! - the connection is replaced when it has been silent for the liveness timeout while answers are
//!   owed, counted from the oldest of them; an idle one is never;
//! - nothing is sent twice. A call that was not yet handed to the connection is sent on the next
//!   one if its caller still waits; every other one fails;
//! - writes keep their order: a new connection serves only when the old one is at its end.
//!
//! [`slot`] (where replies arrive) · [`driver`] (the connection's life) · [`wire`] (bytes in and
//! out) · [`connect`] (the greeting) · [`doubt`] and [`linger`] (what a lost one may still do).

mod connect;
pub(crate) mod doubt;
mod driver;
mod linger;
pub(crate) mod slot;
pub(crate) mod stream;
mod waits;
mod wire;

pub(crate) use connect::{Identity, connect};
pub(crate) use slot::Slot;
pub(crate) use waits::Waits;

use crate::fault::Fault;
use crate::settings::RedisSettings;
use bytes::Bytes;
use doubt::Hidden;
use hedgerow_clock::Clock;
use hedgerow_policy::breaker::State;
use hedgerow_policy::guard::Guard;
use hedgerow_policy::{Moment, Observer};
use hedgerow_wire::resp::Protocol;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use stream::Tls;
use tokio::sync::Notify;

/// What all connections to one store have in common.
pub(crate) struct Store {
    pub(crate) settings: RedisSettings,
    pub(crate) tls: Tls,
    pub(crate) clock: Clock,
    pub(crate) guard: Arc<Guard>,
    pub(crate) observer: Arc<dyn Observer>,
    /// Wakes whoever tells the guard's transitions.
    pub(crate) stir: Arc<Notify>,
    /// The deadlines in force; those in `settings` are the first ones.
    pub(crate) waits: Waits,
    pub(crate) told: Told,
}

/// What the connections have seen, for whoever shows it.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// Connections that replaced another.
    pub(crate) reconnects: AtomicU64,
    /// Replies that came after their callers had left.
    pub(crate) late: AtomicU64,
    /// Keys and fields removed because a lost connection may have written them.
    pub(crate) settled: AtomicU64,
    /// False when the store does not let us end connections.
    pub(crate) order_guaranteed: AtomicBool,
    /// Databases the store has, 0 while unknown.
    pub(crate) databases: AtomicUsize,
    /// Connections so far.
    pub(crate) connections: AtomicU64,
}

/// A call as the lane keeps it.
pub(crate) struct Call {
    bytes: Bytes,
    replies: u32,
    slot: Arc<Slot>,
}

/// A shared connection. Clones share it.
#[derive(Clone)]
pub(crate) struct Lane {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    store: Arc<Store>,
    database: u32,
    protocol: Protocol,
    queue: Mutex<Queue>,
    hidden: Hidden,
    connected: AtomicBool,
    /// The number of the present or last connection; 0 before the first. No two connections of any
    /// lane have the same.
    connection: AtomicU64,
    /// Replies that are awaited.
    pending: AtomicUsize,
}

struct Queue {
    calls: VecDeque<Call>,
    bytes: usize,
    /// The driver sleeps and is to be woken.
    waker: Option<Waker>,
    /// Why nothing is taken.
    shut: Option<Fault>,
    stopped: bool,
}

/// A lane at one moment.
#[derive(Clone, Debug)]
pub struct LaneSnapshot {
    /// The database.
    pub database: u32,
    /// Whether it speaks version 3 with the store.
    pub resp3: bool,
    /// Replies that are awaited.
    pub pending: usize,
    /// Whether there is a connection.
    pub connected: bool,
    /// Keys that read as misses until a lost connection is gone.
    pub in_doubt: usize,
    /// Bytes of commands that wait to be sent.
    pub queued_bytes: usize,
}

impl Lane {
    /// A lane that connects at once.
    pub(crate) fn start(store: Arc<Store>, database: u32, protocol: Protocol) -> Lane {
        let queue =
            Queue { calls: VecDeque::new(), bytes: 0, waker: None, shut: None, stopped: false };
        let shared = Arc::new(Shared {
            store,
            database,
            protocol,
            queue: Mutex::new(queue),
            hidden: Hidden::default(),
            connected: AtomicBool::new(false),
            connection: AtomicU64::new(0),
            pending: AtomicUsize::new(0),
        });
        tokio::spawn(driver::drive(shared.clone()));
        Lane { shared }
    }

    /// Hands over `replies` commands in one piece. What is answered comes to `slot`; a caller that
    /// lets go of it is answered nothing.
    ///
    /// # Errors
    /// At once, when nothing can be sent: [`Fault::unsent`] holds.
    pub(crate) fn submit(&self, bytes: Bytes, replies: u32, slot: &Arc<Slot>) -> Result<(), Fault> {
        let settings = &self.shared.store.settings;
        let mut queue = self.shared.queue();
        if let Some(fault) = &queue.shut {
            return Err(fault.clone());
        }
        // Looked at before adding: one large value always finds a place in an empty queue.
        if queue.bytes >= settings.queue_bytes
            || self.shared.pending.load(Ordering::Relaxed) >= settings.max_owed
        {
            return Err(Fault::Busy);
        }
        queue.bytes += bytes.len();
        queue.calls.push_back(Call { bytes, replies, slot: slot.clone() });
        let waker = queue.waker.take();
        drop(queue);
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }

    /// Whether reads of this key are to be answered as misses.
    pub(crate) fn hides(&self, key: &[u8]) -> bool {
        self.shared.hidden.has(key)
    }

    /// Whether there is a connection.
    pub(crate) fn connected(&self) -> bool {
        self.shared.connected.load(Ordering::Acquire)
    }

    /// The number of the present connection, or of the last one.
    pub(crate) fn connection(&self) -> u64 {
        self.shared.connection.load(Ordering::Acquire)
    }

    /// Ends the connection and fails what waits.
    pub(crate) fn stop(&self) {
        let waker = {
            let mut queue = self.shared.queue();
            queue.stopped = true;
            queue.shut = Some(Fault::Unconnected("it is being stopped".into()));
            queue.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// What there is to show.
    pub(crate) fn snapshot(&self) -> LaneSnapshot {
        LaneSnapshot {
            database: self.shared.database,
            resp3: self.shared.protocol == Protocol::Resp3,
            pending: self.shared.pending.load(Ordering::Relaxed),
            connected: self.connected(),
            in_doubt: self.shared.hidden.len(),
            queued_bytes: self.shared.queue().bytes,
        }
    }
}

impl Store {
    /// The store has shown that it lives: the next canary goes at once, so whoever sends it is woken.
    fn sign_of_life(&self, now: Moment) {
        if self.guard.state() == State::Open {
            self.guard.on_sign_of_life(now);
            self.stir.notify_one();
        }
    }

    /// Tells of a transition that the guard may have made.
    fn stirred(&self) {
        if self.guard.moved() {
            self.stir.notify_one();
        }
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Moment {
        self.store.clock.now()
    }
}

impl Queue {
    /// The next call whose caller still waits.
    fn next(&mut self) -> Option<Call> {
        loop {
            let call = self.calls.pop_front()?;
            self.bytes = self.bytes.saturating_sub(call.bytes.len());
            if !Slot::abandoned(&call.slot) {
                return Some(call);
            }
        }
    }

    /// Nothing is taken any more, for this reason; what waits fails.
    fn shut(&mut self, fault: &Fault) {
        if !self.stopped {
            self.shut = Some(fault.clone());
        }
        self.bytes = 0;
        for call in self.calls.drain(..) {
            call.slot.fail(fault.clone());
        }
    }

    fn open(&mut self) {
        if !self.stopped {
            self.shut = None;
        }
    }
}
