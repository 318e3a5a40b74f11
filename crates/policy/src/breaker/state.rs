//! What a breaker keeps under its lock: the state, its generation, the probes, the early end.
//!
//! Invariant: whatever moves the circuit goes through `Inner::go`, which gives the new state its
//! generation, so no result of an earlier one can be taken for one of the new.

use super::{
    Admission, CLOSED, Circuit, HALF_OPEN, OPEN, OVERRIDE, Outcome, Permit, Shed, State,
    generation_of,
};
use super::{BreakerConfig, Counts, GENERATION_SHIFT};
use crate::moment::Moment;
use std::collections::VecDeque;
use std::time::Duration;

/// Transitions kept for a driver that does not ask; beyond it the oldest is forgotten.
const MAX_UNTOLD: usize = 64;

/// Whether somebody holds the circuit by hand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Override {
    /// Nobody does.
    #[default]
    Auto,
    /// Held open: no time ends it, no early end either.
    ForceOpen,
    /// Held closed: results are counted, and open nothing.
    ForceClosed,
}

/// Why a circuit moved.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Cause {
    /// The failure rate in the window.
    Rate,
    /// No reply at all, with many owed.
    Stall,
    /// The open time is over.
    TimeOver,
    /// A probe failed.
    ProbeFailed,
    /// Enough probes succeeded.
    Probes,
    /// The episode was ended before its time.
    EarlyEnd,
    /// Somebody holds it, or has let it go.
    Override,
}

impl Cause {
    /// The cause as event lines spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Cause::Rate => "rate",
            Cause::Stall => "stall",
            Cause::TimeOver => "time_over",
            Cause::ProbeFailed => "probe_failed",
            Cause::Probes => "probes",
            Cause::EarlyEnd => "early_end",
            Cause::Override => "override",
        }
    }
}

/// One move of a circuit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transition {
    /// When.
    pub at: Moment,
    /// Before.
    pub from: State,
    /// After.
    pub to: State,
    /// Why.
    pub cause: Cause,
    /// The open episode it begins, belongs to or ends; 0 before the first. Each opening, also one
    /// after half-open, begins another.
    pub episode: u64,
    /// The window's sums where it opened; zero for other moves.
    pub counts: Counts,
}

/// What a breaker shows of itself.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Snapshot {
    /// The state, its generation and its start.
    pub circuit: Circuit,
    /// Whether somebody holds it.
    pub held: Override,
    /// Results in the window; while not closed, those that opened it.
    pub counts: Counts,
    /// Openings so far; the number of the present or last episode.
    pub episode: u64,
    /// Probes that are out.
    pub probes_in_flight: u32,
    /// Successful probes of this half-open state.
    pub probes_good: u32,
    /// When the open time ends, while open and not held.
    pub until: Option<Moment>,
    /// How long an episode now lasts at least before it may be ended early.
    pub early_wait: Duration,
    /// Transitions that were never told because nobody asked.
    pub untold_lost: u64,
}

impl Snapshot {
    /// Failures among the calls, 0–1; 0 without calls.
    #[must_use]
    pub fn failure_ratio(&self) -> f64 {
        if self.counts.calls == 0 {
            0.0
        } else {
            self.counts.failures as f64 / self.counts.calls as f64
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Probe {
    number: u32,
    granted: Moment,
}

/// How the circuit was last closed; it decides the wait before the next early end.
#[derive(Clone, Copy, Debug)]
struct Closing {
    at: Moment,
    early: bool,
}

#[derive(Debug)]
pub(super) struct Inner {
    config: BreakerConfig,
    state: State,
    held: Override,
    generation: u64,
    since: Moment,
    episode: u64,
    opened_by: Counts,
    probes: Vec<Probe>,
    next_probe: u32,
    good: u32,
    early_wait: Duration,
    closing: Option<Closing>,
    untold: VecDeque<Transition>,
    untold_lost: u64,
}

impl Inner {
    pub(super) fn new(config: BreakerConfig, now: Moment) -> Inner {
        Inner {
            config,
            state: State::Closed,
            held: Override::Auto,
            generation: 1,
            since: now,
            episode: 0,
            opened_by: Counts::default(),
            probes: Vec::new(),
            next_probe: 0,
            good: 0,
            early_wait: config.settings().early_wait,
            closing: None,
            untold: VecDeque::new(),
            untold_lost: 0,
        }
    }

    pub(super) fn config(&self) -> &BreakerConfig {
        &self.config
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    pub(super) fn since(&self) -> Moment {
        self.since
    }

    /// The word that all threads read.
    pub(super) fn word(&self) -> u64 {
        let state = match self.state {
            State::Closed => CLOSED,
            State::HalfOpen => HALF_OPEN,
            State::Open => OPEN,
        };
        let held = if self.held == Override::Auto { 0 } else { OVERRIDE };
        self.generation << GENERATION_SHIFT | held | state
    }

    /// When the open time is over; never while it is held or not open.
    pub(super) fn until(&self) -> Moment {
        if self.state == State::Open && self.held == Override::Auto {
            self.since + self.config.settings().open
        } else {
            Moment::NEVER
        }
    }

    pub(super) fn admit(&mut self, now: Moment) -> Admission {
        self.advance(now);
        let bounds = self.config.settings();
        let places = bounds.half_open_probes as usize;
        let probe = match self.state {
            State::Closed => 0,
            State::HalfOpen if self.probes.len() < places => {
                // Zero means "no probe", so it is passed over when the numbers wrap.
                self.next_probe = self.next_probe.checked_add(1).unwrap_or(1);
                self.probes.push(Probe { number: self.next_probe, granted: now });
                self.next_probe
            }
            State::HalfOpen | State::Open => {
                let until = if self.state == State::Open { self.until() } else { self.since };
                let (state, generation) = (self.state, self.generation);
                return Admission::Shed(Shed { state, generation, until });
            }
        };
        Admission::Admitted(Permit { stamp: self.word(), probe })
    }

    pub(super) fn settle_probe(&mut self, now: Moment, stamp: u64, probe: u32, outcome: Outcome) {
        if stamp != self.word() {
            return;
        }
        self.advance(now);
        let Some(at) = self.probes.iter().position(|p| p.number == probe) else {
            // It took too long and has lost its place.
            return;
        };
        self.probes.swap_remove(at);
        if outcome.is_failure() {
            self.go(now, State::Open, Cause::ProbeFailed);
        } else if !outcome.is_nothing() {
            self.good += 1;
            if self.good >= self.config.settings().success_threshold {
                self.go(now, State::Closed, Cause::Probes);
            }
        }
    }

    /// Opens, unless another thread has moved the circuit since `word` was read.
    pub(super) fn trip(&mut self, now: Moment, word: u64, counts: Counts, cause: Cause) {
        if word == self.word() {
            self.opened_by = counts;
            self.go(now, State::Open, cause);
        }
    }

    pub(super) fn advance(&mut self, now: Moment) {
        if self.state == State::Open && now >= self.until() {
            self.go(now, State::HalfOpen, Cause::TimeOver);
        }
        let timeout = self.config.settings().probe_timeout;
        self.probes.retain(|p| now.since(p.granted) < timeout);
    }

    pub(super) fn next_wake(&self) -> Option<Moment> {
        match self.state {
            State::Closed => None,
            State::Open => Some(self.until()).filter(|at| *at < Moment::NEVER),
            State::HalfOpen => {
                let timeout = self.config.settings().probe_timeout;
                self.probes.iter().map(|p| p.granted + timeout).min()
            }
        }
    }

    pub(super) fn end_early(&mut self, now: Moment, generation: u64) -> bool {
        let may = self.state == State::Open
            && self.held == Override::Auto
            && self.generation == generation
            && now >= self.since + self.early_wait;
        if may {
            self.go(now, State::Closed, Cause::EarlyEnd);
        }
        may
    }

    pub(super) fn set_override(&mut self, now: Moment, to: Override) {
        let before = std::mem::replace(&mut self.held, to);
        let state = match to {
            Override::ForceOpen => State::Open,
            Override::ForceClosed => State::Closed,
            Override::Auto if before == Override::ForceOpen => State::HalfOpen,
            Override::Auto => self.state,
        };
        if state != self.state {
            self.go(now, state, Cause::Override);
        } else if before != to {
            // The same state under another rule: nothing to tell, but old results are over.
            self.generation += 1;
        }
    }

    pub(super) fn reconfigure(&mut self, config: BreakerConfig) {
        let was_base = self.early_wait == self.config.settings().early_wait;
        self.config = config;
        let bounds = config.settings();
        self.early_wait =
            if was_base { bounds.early_wait } else { self.early_wait.min(bounds.open) };
    }

    fn go(&mut self, now: Moment, to: State, cause: Cause) {
        // A thread that was held up between reading its clock and this must not date a state back.
        let now = now.max(self.since);
        let from = self.state;
        if to == State::Open {
            self.episode += 1;
            self.wait_before_early_end(now);
        }
        if to == State::Closed {
            self.closing = Some(Closing { at: now, early: cause == Cause::EarlyEnd });
        }
        self.state = to;
        self.generation += 1;
        self.since = now;
        self.probes.clear();
        self.good = 0;
        let opened = matches!(cause, Cause::Rate | Cause::Stall);
        let counts = if opened { self.opened_by } else { Counts::default() };
        if self.untold.len() == MAX_UNTOLD {
            self.untold.pop_front();
            self.untold_lost += 1;
        }
        let episode = self.episode;
        self.untold.push_back(Transition { at: now, from, to, cause, episode, counts });
    }

    /// An opening: a relapse after an early end doubles the wait; a circuit that has stayed closed
    /// for a whole open time is well again; anything else leaves the wait as it is.
    fn wait_before_early_end(&mut self, now: Moment) {
        let bounds = self.config.settings();
        let Some(closing) = self.closing.take() else { return };
        if now.since(closing.at) >= bounds.open {
            self.early_wait = bounds.early_wait;
        } else if closing.early {
            self.early_wait = self.early_wait.saturating_mul(2).min(bounds.open);
        }
    }

    pub(super) fn next_transition(&mut self) -> Option<Transition> {
        self.untold.pop_front()
    }

    pub(super) fn snapshot(&self, in_window: Counts) -> Snapshot {
        let (state, generation, since) = (self.state, self.generation, self.since);
        Snapshot {
            circuit: Circuit { state, generation, since },
            held: self.held,
            counts: if state == State::Closed { in_window } else { self.opened_by },
            episode: self.episode,
            probes_in_flight: self.probes.len() as u32,
            probes_good: self.good,
            until: Some(self.until()).filter(|at| *at < Moment::NEVER),
            early_wait: self.early_wait,
            untold_lost: self.untold_lost,
        }
    }

    /// Holds in every state; debug builds ask after every event.
    pub(super) fn check_invariants(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        assert_eq!(generation_of(self.word()), self.generation, "the word has room");
        assert!(self.untold.len() <= MAX_UNTOLD, "untold transitions are bounded");
        let idle = self.probes.is_empty() && self.good == 0;
        assert!(idle || self.state == State::HalfOpen, "probes are half-open's alone");
        match self.held {
            Override::ForceOpen => assert_eq!(self.state, State::Open, "held open"),
            Override::ForceClosed => assert_eq!(self.state, State::Closed, "held closed"),
            Override::Auto => {}
        }
    }
}
