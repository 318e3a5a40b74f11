//! What happened, told to whoever counts and logs.
//!
//! Invariant: crates below the gateway report facts here and never log or count for Prometheus
//! themselves. An observer must not block and must not call back into the reporter.

mod cache;
mod call;

pub use cache::CacheEvent;
pub use call::{AttemptFacts, CallEvent};

use crate::breaker::Transition;
use std::time::Duration;

/// Why a worker process was ended by the pool.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum EndReason {
    /// It ran past a timeout.
    Timeout,
    /// The exchange with it broke.
    Fault,
    /// It has served as many requests as it may.
    MaxRequests,
    /// It holds more memory than it may.
    MaxRss,
    /// Somebody asked for a restart.
    Restart,
    /// A newer application took its place.
    Reload,
    /// It did not become ready in time.
    StartTimeout,
    /// The gateway is stopping.
    Shutdown,
}

impl EndReason {
    /// The reason as metric labels and event lines spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            EndReason::Timeout => "timeout",
            EndReason::Fault => "fault",
            EndReason::MaxRequests => "max_requests",
            EndReason::MaxRss => "max_rss",
            EndReason::Restart => "restart",
            EndReason::Reload => "reload",
            EndReason::StartTimeout => "start_timeout",
            EndReason::Shutdown => "shutdown",
        }
    }
}

/// A fact about the pool, a worker or the cache. `worker` is the slot's number, from 0.
#[derive(Clone, PartialEq, Debug)]
pub enum Event<'a> {
    /// A process was started.
    WorkerStarted {
        /// The slot.
        worker: u32,
        /// The process.
        pid: u32,
    },
    /// A worker said it is ready, `after` its start.
    WorkerReady {
        /// The slot.
        worker: u32,
        /// The process.
        pid: u32,
        /// Time from start to readiness.
        after: Duration,
    },
    /// A worker could not boot.
    WorkerBootFailed {
        /// The slot.
        worker: u32,
        /// The process, 0 where none could be started.
        pid: u32,
        /// What it said, or what was seen.
        error: &'a str,
    },
    /// A process ended by itself (a crash, an exit).
    WorkerExited {
        /// The slot.
        worker: u32,
        /// The process.
        pid: u32,
        /// Exit code or signal, in words.
        status: &'a str,
    },
    /// The pool killed a process and its group.
    WorkerKilled {
        /// The slot.
        worker: u32,
        /// The process.
        pid: u32,
        /// Why.
        reason: EndReason,
    },
    /// The pool asked a process to end after its work.
    WorkerRetired {
        /// The slot.
        worker: u32,
        /// The process.
        pid: u32,
        /// Why.
        reason: EndReason,
    },
    /// A start is put off by the backoff.
    RestartScheduled {
        /// The slot.
        worker: u32,
        /// How long from now.
        delay: Duration,
        /// Crashes and failed starts in a row.
        failures: u32,
    },
    /// A line a worker wrote to its output.
    WorkerOutput {
        /// The slot.
        worker: u32,
        /// The process.
        pid: u32,
        /// True for standard error.
        stderr: bool,
        /// The line, bounded, without its end.
        line: &'a str,
    },
    /// Lines that a worker wrote faster than they are taken, and that are lost.
    WorkerOutputDropped {
        /// The slot.
        worker: u32,
        /// The process.
        pid: u32,
        /// True for standard error.
        stderr: bool,
        /// How many.
        lines: u64,
    },
    /// A worker answered after its client or its deadline had gone; the answer was discarded.
    LateAnswer {
        /// The slot.
        worker: u32,
        /// The trace of the request.
        trace: &'a str,
    },
    /// A request was put into the queue.
    QueueWait,
    /// A request was refused: no place in the queue.
    QueueRejected,
    /// A request waited too long.
    QueueTimeout,
    /// A request got its worker after waiting this long in the queue.
    QueueGranted {
        /// The wait.
        waited: Duration,
    },
    /// A reload put new workers in place of the old ones.
    ReloadDone,
    /// A reload was given up; the old workers still serve.
    ReloadAbandoned {
        /// Why.
        error: &'a str,
    },
    /// Something about a call to an upstream.
    Call {
        /// The upstream's name.
        upstream: &'a str,
        /// The trace of the request that the call belongs to.
        trace: &'a str,
        /// What happened.
        event: CallEvent<'a>,
    },
    /// A circuit moved.
    BreakerTransition {
        /// Whose circuit: `cache`, or the name of an upstream.
        name: &'a str,
        /// The move: from where, to where, why, which episode.
        transition: &'a Transition,
    },
    /// Something about the guarded cache.
    Cache(CacheEvent<'a>),
}

/// Takes events. Implemented by the gateway (metrics, event log) and by tests.
pub trait Observer: Send + Sync {
    /// Called at once, from any thread; must return quickly.
    fn on(&self, event: &Event<'_>);
}

/// An observer that ignores everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn on(&self, _event: &Event<'_>) {}
}
