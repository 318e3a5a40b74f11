//! Which worker gets which request, and when a worker is started, replaced or put off.
//!
//! Invariants:
//! - every slot is in exactly one phase, so `starting + idle + busy + backing off == size`;
//! - a worker has at most one request, and one that timed out or broke an exchange never gets
//!   another: it is killed and its slot starts anew at once, without counting as a crash;
//! - only crashes and failed starts back off; a planned replacement (request count, memory, restart,
//!   reload) boots its successor first, so it never costs capacity;
//! - a reload replaces all slots at once when every new worker is ready, or none.
//!
//! The machine does nothing itself: it queues [`Action`]s for its driver, in order.

mod admission;
mod lifecycle;
mod reload;
mod slot;
#[cfg(test)]
mod tests;

pub use admission::{Admission, Refusal, RefusalKind};
pub use slot::{SlotPhase, SlotSnapshot};

use crate::backoff::BackoffConfig;
use crate::drain_rate::DrainRate;
use crate::jitter::Jitter;
use crate::moment::Moment;
use crate::observe::EndReason;
use crate::queue::{Queue, QueueConfig, Ticket};
use reload::Reload;
use slot::Slot;
use std::collections::VecDeque;
use std::time::Duration;

/// The bounds of a pool's decisions.
#[derive(Clone, PartialEq, Debug)]
pub struct PoolConfig {
    /// How many slots; at least 1.
    pub size: u32,
    /// Whether the driver starts the processes. Where somebody else does, a worker that misbehaved
    /// cannot be killed: it rests for the backoff instead.
    pub supervised: bool,
    /// The queue in front of the slots.
    pub queue: QueueConfig,
    /// Delay between failing starts.
    pub backoff: BackoffConfig,
    /// Bound on the time from start to readiness.
    pub start_timeout: Duration,
    /// Replace a worker after this many requests; 0: never.
    pub max_requests: u64,
    /// Up to this ratio (0–1) fewer requests, drawn for each worker, so that not all are replaced
    /// together.
    pub max_requests_jitter: f64,
    /// Replace a worker that holds more than this many bytes between requests; 0: never.
    pub max_rss: u64,
}

/// One worker process, or one connection's worth of an external worker. Never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WorkerId {
    /// The slot it was started for, from 0.
    pub slot: u32,
    /// Rises with every start in the pool.
    pub generation: u64,
}

/// The right to send one request to one worker. Settled exactly once, by [`Pool::settle`].
#[must_use = "a permit that is never settled keeps its slot busy for ever"]
#[derive(PartialEq, Eq, Debug)]
pub struct Permit {
    /// The worker.
    pub worker: WorkerId,
    /// When it was granted.
    pub granted: Moment,
}

/// How the use of a permit ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The worker answered in full, however late; it can serve the next request.
    Done,
    /// The worker answered in full and said that it is about to exit.
    DoneLast,
    /// Nothing was sent to it.
    Unused,
    /// It ran past a timeout.
    TimedOut,
    /// The exchange broke.
    Fault,
}

/// What the driver has to do.
#[derive(PartialEq, Eq, Debug)]
pub enum Action {
    /// Start a worker with the settings of this load (0, then one more with each reload).
    Start {
        /// Its identity.
        worker: WorkerId,
        /// Which settings.
        load: u64,
    },
    /// Kill its process group at once.
    Kill {
        /// Which.
        worker: WorkerId,
        /// Why.
        reason: EndReason,
    },
    /// It has no request: ask it to end, kill it after the grace time.
    Retire {
        /// Which.
        worker: WorkerId,
        /// Why.
        reason: EndReason,
    },
    /// The waiter gets its worker.
    Grant {
        /// Who waited.
        ticket: Ticket,
        /// The right to the worker.
        permit: Permit,
        /// How long it waited.
        waited: Duration,
    },
    /// A start is put off.
    Postponed {
        /// The slot.
        slot: u32,
        /// For how long.
        delay: Duration,
        /// Crashes and failed starts in a row.
        failures: u32,
    },
    /// The reload is complete.
    ReloadDone,
    /// The reload was given up; its workers are being killed, the old ones serve on.
    ReloadAbandoned {
        /// Why.
        error: String,
    },
}

/// The state machine. See the module's head.
#[derive(Debug)]
pub struct Pool {
    config: PoolConfig,
    load: u64,
    slots: Vec<Slot>,
    /// Slots that can be granted. The last used is on top: it is the warmest.
    idle: Vec<u32>,
    queue: Queue,
    rate: DrainRate,
    in_flight: usize,
    /// Busy workers that have lost their slot and end after their request.
    retiring: Vec<(WorkerId, EndReason)>,
    reload: Option<Reload>,
    ever_ready: bool,
    boot_error: Option<String>,
    generations: u64,
    jitter: Jitter,
    woken: Moment,
    stopping: bool,
    actions: VecDeque<Action>,
}

/// What a pool shows of itself.
#[derive(Clone, PartialEq, Debug)]
pub struct PoolSnapshot {
    /// The bounds in force.
    pub config: PoolConfig,
    /// Requests that wait.
    pub queue_depth: usize,
    /// Requests that are with a worker.
    pub in_flight: usize,
    /// Busy workers that end after their request.
    pub retiring: usize,
    /// Whether a worker of this load has ever been ready, and one is now.
    pub ready: bool,
    /// Whether a reload is under way.
    pub reloading: bool,
    /// The slots, in order.
    pub slots: Vec<SlotSnapshot>,
}

impl Pool {
    /// A pool that starts all its workers. `seed` decides jitter and nothing else.
    #[must_use]
    pub fn new(config: PoolConfig, now: Moment, seed: u64) -> Pool {
        let mut pool = Pool {
            slots: (0..config.size).map(|_| Slot::new(config.backoff, now)).collect(),
            idle: Vec::with_capacity(config.size as usize),
            queue: Queue::new(config.queue),
            rate: DrainRate::new(),
            in_flight: 0,
            retiring: Vec::new(),
            reload: None,
            ever_ready: false,
            boot_error: None,
            generations: 0,
            load: 0,
            jitter: Jitter::new(seed),
            woken: now,
            stopping: false,
            actions: VecDeque::new(),
            config,
        };
        for slot in 0..pool.config.size {
            pool.start(now, slot);
        }
        pool.check_invariants();
        pool
    }

    /// The next thing to do, in the order it was decided.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When [`Pool::on_wake`] has something to do without another event.
    #[must_use]
    pub fn next_wake(&self) -> Option<Moment> {
        if self.stopping {
            return None;
        }
        let slots = self.slots.iter().filter_map(Slot::next_wake);
        // What was due at the last wake and did not happen waits for another event, not for time.
        let times = slots.chain(self.reload.as_ref().map(Reload::deadline));
        times.filter(|at| *at > self.woken).min()
    }

    /// Whether a worker is ready to be granted or busy with a request.
    #[must_use]
    pub fn ready(&self) -> bool {
        self.slots.iter().any(Slot::is_ready)
    }

    /// Whether the first of this load is ready, or has failed: the listener may open.
    #[must_use]
    pub fn settled_once(&self) -> bool {
        self.ever_ready || self.boot_error.is_some()
    }

    /// What the last failed boot said, while no worker of this load has been ready.
    #[must_use]
    pub fn boot_error(&self) -> Option<&str> {
        if self.ever_ready { None } else { self.boot_error.as_deref() }
    }

    /// Everything there is to show.
    #[must_use]
    pub fn snapshot(&self) -> PoolSnapshot {
        PoolSnapshot {
            config: self.config.clone(),
            queue_depth: self.queue.depth(),
            in_flight: self.in_flight,
            retiring: self.retiring.len(),
            ready: self.ready(),
            reloading: self.reload.is_some(),
            slots: self.slots.iter().enumerate().map(|(i, s)| s.snapshot(i as u32)).collect(),
        }
    }

    fn slot_mut(&mut self, worker: WorkerId) -> Option<&mut Slot> {
        self.slots.get_mut(worker.slot as usize)
    }

    fn next_id(&mut self, slot: u32) -> WorkerId {
        self.generations += 1;
        WorkerId { slot, generation: self.generations }
    }

    /// Holds in every state; debug builds ask after every event.
    pub fn check_invariants(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        let mut idle: Vec<u32> = self.idle.clone();
        idle.sort_unstable();
        let expected: Vec<u32> =
            (0..self.slots.len() as u32).filter(|&i| self.slots[i as usize].is_idle()).collect();
        assert_eq!(idle, expected, "the idle stack holds the idle slots, each once");
        assert_eq!(self.slots.len(), self.config.size as usize, "one slot each");
        let busy = self.slots.iter().filter(|s| s.is_busy()).count();
        assert_eq!(self.in_flight, busy + self.retiring.len(), "every request is with a worker");
        for slot in &self.slots {
            slot.check_invariants(self.stopping);
        }
    }
}
