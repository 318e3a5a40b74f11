//! The race of one key: which attempts run for it, which one answers, and when it has failed.
//!
//! A *key* is one thing a caller wants. Its first attempt is the primary; a twin (hedge) is started
//! when everything that runs for the key has gone quiet; a retry when nothing runs any more.
//!
//! Invariants:
//! - a key settles exactly once: with the first success, or with a failure only when nothing runs
//!   for it and nothing more may start. When all fail, the primary's answer is the key's;
//! - a failed twin never displaces a running original, nor the other way round;
//! - every attempt that was started ends exactly once: by itself, or by an [`Action::Cancel`];
//! - once an attempt is the answer it stays the answer: bytes of two attempts are never spliced;
//! - a refused budget, cap or place suppresses the new attempt and touches nothing that runs;
//! - an answer that arrives at the very moment of a timer is taken: drivers deliver what has
//!   arrived before they call [`Race::on_wake`].
//!
//! (The idea of hedged requests: Dean and Barroso, "The Tail at Scale", 2013. That a failure waits
//! for its twin, that the budget is a window, and the idle clock are this project's own.)

mod attempt;
mod config;
mod events;
mod report;
mod start;
#[cfg(test)]
mod tests;
mod timers;
mod upstream;

pub use attempt::{AttemptId, Cut, Outcome, Resend};
pub use config::{
    Answer, Call, HedgeConfig, HedgeMode, Progress, RaceConfig, Replay, RetryConfig,
    UpstreamConfig, repeatable,
};
pub use report::{AttemptReport, RaceReport, Summary};
pub use start::{HedgeCap, Reason};
pub use upstream::{Counters, Upstream, UpstreamSnapshot};

pub use crate::endpoints::{Endpoint, Role};

use crate::backoff::Backoff;
use crate::jitter::Jitter;
use crate::moment::Moment;
use attempt::Attempt;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// What the driver has to do, or may tell its observers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Send the request, over a connection that no other attempt of this key uses.
    Start {
        /// The attempt: 0 is the primary, the others follow in the order of their start.
        attempt: AttemptId,
        /// What it is to its key.
        role: Role,
        /// Where it goes.
        endpoint: Endpoint,
    },
    /// End the attempt in the background. Nothing it still says matters.
    Cancel {
        /// Which.
        attempt: AttemptId,
        /// Why.
        cut: Cut,
    },
    /// The key is settled. Comes exactly once.
    Settle(Verdict),
    /// A twin was started; its [`Action::Start`] comes next.
    Hedged {
        /// Time since the key's start.
        after: Duration,
    },
    /// A twin was not started.
    Suppressed(Reason),
    /// A twin would have been started, but the configuration only observes.
    Observed,
    /// A retry will be started.
    RetryAt(Moment),
    /// The endpoint is passed over for a while.
    Demoted(Endpoint),
}

/// What the head of a response says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// The status.
    pub status: u16,
    /// How long it asks to be left alone.
    pub retry_after: Option<Duration>,
    /// It is a stream that is passed on as it comes: where the complete response would win, its
    /// first data does.
    pub streams: bool,
}

/// How a key is settled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// This attempt's response is the key's.
    Answer {
        /// Which attempt.
        attempt: AttemptId,
        /// False: everything failed, and this is what the primary was answered.
        success: bool,
    },
    /// There is no response: what the primary failed with is the key's failure.
    Failed {
        /// The attempt whose failure is the key's.
        attempt: AttemptId,
        /// What ended it.
        fault: Fault,
    },
    /// The deadline, or the limit over all attempts, has passed.
    TimedOut,
    /// Every endpoint is shed by its breaker: nothing was sent.
    Shed {
        /// When the first of them lets a call through again.
        until: Moment,
    },
    /// The caller went away.
    Abandoned,
}

/// What an attempt failed with, where it was not a status.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It broke before a byte of the request was written: the same work cannot run twice.
    Unsent,
    /// It broke later.
    Broken,
    /// It ran into one of its own limits.
    TimedOut(Cut),
}

/// Where the race is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Not settled.
    Racing,
    /// Settled with an attempt whose response is still under way.
    Committed(AttemptId),
    /// Nothing more will happen.
    Over,
}

/// The state machine. See the module's head.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub struct Race {
    config: Arc<RaceConfig>,
    call: Call,
    /// The `after` clock of this key's attempts.
    after: Option<Duration>,
    started: Moment,
    /// The deadline, or the limit over all attempts.
    until: Moment,
    attempts: Vec<Attempt>,
    state: State,
    hedges: u32,
    retries: u32,
    /// When the last twin was started.
    last_twin: Option<Moment>,
    /// A twin was refused or only observed: what runs now gets none.
    muted: bool,
    retry_at: Option<Moment>,
    backoff: Backoff,
    jitter: Jitter,
    winner: Option<AttemptId>,
    hedged_after: Option<Duration>,
    settled: bool,
    actions: VecDeque<Action>,
}

impl Race {
    /// The next thing to do, in the order it was decided.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Whether nothing more will happen.
    #[must_use]
    pub fn over(&self) -> bool {
        self.state == State::Over
    }

    /// The attempt whose response is the key's, once that is decided.
    #[must_use]
    pub fn committed(&self) -> Option<AttemptId> {
        match self.state {
            State::Committed(attempt) => Some(attempt),
            State::Racing | State::Over => None,
        }
    }

    fn racing(&self) -> bool {
        self.state == State::Racing
    }

    fn running(&self) -> impl Iterator<Item = &Attempt> {
        self.attempts.iter().filter(|a| a.is_running())
    }

    /// Settles, once.
    fn settle(&mut self, verdict: Verdict) {
        debug_assert!(!self.settled, "a key settles once");
        if !self.settled {
            self.settled = true;
            self.actions.push_back(Action::Settle(verdict));
        }
    }

    /// Holds in every state; debug builds ask after every event.
    pub fn check_invariants(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        assert_eq!(self.settled, self.state != State::Racing, "settled when it is over, only then");
        let open = self.attempts.iter().filter(|a| a.is_open()).count();
        match self.state {
            State::Over => assert_eq!(open, 0, "nothing is left behind"),
            State::Committed(id) => {
                assert!(self.attempts[id.index()].is_open(), "the answer is under way");
                assert_eq!(open, 1, "and nothing else is");
            }
            State::Racing => assert!(
                self.running().next().is_some() || self.retry_at.is_some(),
                "something runs, or will"
            ),
        }
        let count = |role| self.attempts.iter().filter(|a| a.role == role).count();
        assert_eq!(count(Role::Hedge), self.hedges as usize, "every hedge was counted");
        let started = self.retries as usize - usize::from(self.retry_at.is_some());
        assert_eq!(count(Role::Retry), started, "every retry was counted");
        assert!(self.hedges <= self.config.hedge.as_ref().map_or(0, |h| h.max), "within max");
        assert!(self.retries <= self.config.retry.max, "within max");
    }
}
