//! Which writes may reach a store whose circuit is not closed: the repair gate and the canary.
//!
//! Invariants:
//! - repairs are always on; what they find neither closes nor opens the circuit;
//! - until a repair of the episode has succeeded, one is in flight, never two; so a dead store
//!   costs one timeout an episode, not one a concurrent request;
//! - the first failed repair shuts the gate for the requests of this episode; only the canary,
//!   which runs beside the traffic, opens it again: then one trial is in flight, and if it fails
//!   the gate stays shut for the rest of the episode;
//! - the gate belongs to one state of the circuit (its generation): the next has a fresh one;
//! - without a canary the rule is the strict one: the first failed repair is the last.
//!
//! A half-open circuit has a gate of the same kind, for writes that got no probe. The machine is
//! told the circuit as it stands with every event; [`crate::guard::Guard`] does that for it.
//!
//! (The idea: from the incident that `docs/` replays. A breaker that refuses writes as well as
//! reads keeps an empty cache empty; the canary is there because the stall that opens a circuit
//! fails the first repair too.)

mod canary;
#[cfg(all(test, not(hedgerow_loom)))]
mod tests;

pub use canary::{CanaryConfig, CanaryPermit};

use crate::breaker::{Circuit, ConfigError, Outcome, State};
use crate::moment::Moment;
use canary::Canary;
use std::time::Duration;

/// The bounds of repairs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RepairConfig {
    /// How long an attempt that is not settled holds the only place: the deadline of a store call,
    /// and a little more.
    pub attempt_timeout: Duration,
    /// The canary; `None`: the strict rule.
    pub canary: Option<CanaryConfig>,
}

impl RepairConfig {
    /// Checks the bounds.
    ///
    /// # Errors
    /// Names the first key that cannot work, and what would.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.attempt_timeout.is_zero() {
            return Err(ConfigError { key: "call_timeout_ms", expected: "over 0" });
        }
        self.canary.as_ref().map_or(Ok(()), CanaryConfig::check)
    }
}

/// What the gate shows of itself. The gate of a closed circuit is open.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum GateState {
    /// Writes go through (one at a time until the first has succeeded).
    Open,
    /// The canary has opened it again; the next write is the trial.
    Trial,
    /// No write goes through.
    Closed,
}

impl GateState {
    /// The state as the admin pages spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            GateState::Open => "open",
            GateState::Trial => "trial",
            GateState::Closed => "closed",
        }
    }
}

/// The right to send one write past the breaker. Settled at most once, by [`Repair::settle`].
#[must_use = "an attempt that is never settled keeps the next repair waiting"]
#[derive(PartialEq, Eq, Debug)]
pub struct Attempt {
    generation: u64,
    phase: u32,
    number: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Gate {
    /// No repair of this episode has come back yet: one in flight.
    Unproven,
    /// The last that came back had succeeded: any number in flight.
    Proven,
    /// A repair failed; the canary may open the gate again.
    Shut,
    /// The canary opened it again: one in flight.
    Trial,
    /// A repair failed after the canary had opened it again: shut for good.
    ShutForGood,
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    number: u64,
    granted: Moment,
}

/// What a settled attempt did to the gate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GateChange {
    /// Nothing.
    None,
    /// It shut the gate.
    Shut,
    /// It showed that repairs land.
    Proven,
}

/// The state machine. See the module's head.
#[derive(Debug)]
pub struct Repair {
    config: RepairConfig,
    generation: u64,
    gate: Gate,
    /// Rises when the gate shuts or is opened again: results from before do not count after.
    phase: u32,
    /// A trial has been given out in this episode.
    tried_again: bool,
    /// The one attempt in flight while the gate is unproven or on trial.
    in_flight: Option<InFlight>,
    next_number: u64,
    canary: Canary,
}

impl Repair {
    /// A gate that has seen nothing.
    #[must_use]
    pub fn new(config: RepairConfig) -> Repair {
        Repair {
            config,
            generation: 0,
            gate: Gate::Unproven,
            phase: 0,
            tried_again: false,
            in_flight: None,
            next_number: 0,
            canary: Canary::default(),
        }
    }

    /// A write found the circuit not closed and got no probe: may it go past the breaker?
    pub fn on_write(&mut self, now: Moment, circuit: Circuit) -> Option<Attempt> {
        self.follow(circuit);
        let free = match self.gate {
            Gate::Proven => true,
            Gate::Unproven | Gate::Trial => {
                let bound = self.config.attempt_timeout;
                self.in_flight.is_none_or(|one| now.since(one.granted) >= bound)
            }
            Gate::Shut | Gate::ShutForGood => false,
        };
        if !free || circuit.state == State::Closed {
            return None;
        }
        self.next_number += 1;
        let number = self.next_number;
        if self.gate != Gate::Proven {
            self.in_flight = Some(InFlight { number, granted: now });
            self.tried_again |= self.gate == Gate::Trial;
        }
        self.check_invariants();
        Some(Attempt { generation: self.generation, phase: self.phase, number })
    }

    /// An attempt has ended. One of another episode, or from before the gate last shut, moves
    /// nothing.
    ///
    /// One whose caller went away keeps its place until the bound: its command may still be owed,
    /// and the next would wait behind it.
    #[expect(clippy::needless_pass_by_value, reason = "an attempt is settled once")]
    pub fn settle(&mut self, circuit: Circuit, attempt: Attempt, outcome: Outcome) -> GateChange {
        self.follow(circuit);
        if attempt.generation != self.generation || attempt.phase != self.phase {
            return GateChange::None;
        }
        let is_the_one = self.in_flight.is_some_and(|one| one.number == attempt.number);
        if is_the_one && outcome != Outcome::Cancelled {
            self.in_flight = None;
        }
        let change = if outcome.is_failure() {
            self.shut(if self.tried_again { Gate::ShutForGood } else { Gate::Shut });
            GateChange::Shut
        } else if outcome.is_nothing() || self.gate == Gate::Proven {
            GateChange::None
        } else {
            self.gate = Gate::Proven;
            self.in_flight = None;
            GateChange::Proven
        };
        self.check_invariants();
        change
    }

    /// Whether a canary is due: then it is to be sent now, beside the traffic.
    pub fn on_canary_due(&mut self, now: Moment, circuit: Circuit) -> Option<CanaryPermit> {
        self.follow(circuit);
        let config = self.config.canary.filter(|_| circuit.state == State::Open)?;
        self.canary.start(now, &config, self.config.attempt_timeout, self.generation)
    }

    /// A canary has come back: `good` if what it wrote was read back in time. True when enough
    /// have in a row for the episode to end early.
    #[expect(clippy::needless_pass_by_value, reason = "a canary is settled once")]
    pub fn settle_canary(
        &mut self,
        now: Moment,
        circuit: Circuit,
        permit: CanaryPermit,
        good: bool,
    ) -> bool {
        self.follow(circuit);
        let Some(config) = self.config.canary.filter(|_| circuit.state == State::Open) else {
            return false;
        };
        if permit.generation() != self.generation
            || !self.canary.settle(now, &config, &permit, good)
        {
            return false;
        }
        match self.gate {
            Gate::Shut if good => self.shut(Gate::Trial),
            // Nobody has paid for the trial yet, and nobody should for a store that is gone again.
            Gate::Trial if !good && self.in_flight.is_none() => self.shut(Gate::Shut),
            _ => {}
        }
        self.check_invariants();
        good && config.early_close && self.canary.good_in_a_row() >= config.successes
    }

    /// A sign that the store is back (an owed reply that came late, a fresh connection): the next
    /// canary goes at once, though never two within an interval.
    pub fn on_sign_of_life(&mut self, now: Moment, circuit: Circuit) {
        self.follow(circuit);
        if let Some(config) = self.config.canary.filter(|_| circuit.state == State::Open) {
            self.canary.hurry(now, &config);
        }
    }

    /// When the next canary is due.
    #[must_use]
    pub fn next_wake(&mut self, circuit: Circuit) -> Option<Moment> {
        self.follow(circuit);
        self.config.canary.filter(|_| circuit.state == State::Open)?;
        Some(self.canary.next_wake(self.config.attempt_timeout))
    }

    /// What the gate shows of itself.
    #[must_use]
    pub fn gate(&mut self, circuit: Circuit) -> GateState {
        self.follow(circuit);
        match self.gate {
            _ if circuit.state == State::Closed => GateState::Open,
            Gate::Unproven | Gate::Proven => GateState::Open,
            Gate::Trial => GateState::Trial,
            Gate::Shut | Gate::ShutForGood => GateState::Closed,
        }
    }

    /// Takes other bounds, for what is decided from now on.
    pub fn reconfigure(&mut self, config: RepairConfig) {
        self.config = config;
    }

    /// The bounds in force.
    #[must_use]
    pub fn config(&self) -> &RepairConfig {
        &self.config
    }

    /// Another state of the circuit has a fresh gate, and its own canaries.
    fn follow(&mut self, circuit: Circuit) {
        if circuit.generation == self.generation {
            return;
        }
        self.generation = circuit.generation;
        self.shut(Gate::Unproven);
        self.tried_again = false;
        let interval = self.config.canary.map_or(Duration::ZERO, |c| c.interval);
        self.canary = Canary::begin(circuit.since, interval);
    }

    /// Another phase of the gate: what is in flight belongs to the one before.
    fn shut(&mut self, gate: Gate) {
        self.gate = gate;
        self.phase = self.phase.wrapping_add(1);
        self.in_flight = None;
    }

    /// Holds in every state; debug builds ask after every event.
    pub fn check_invariants(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        if !matches!(self.gate, Gate::Unproven | Gate::Trial) {
            assert!(self.in_flight.is_none(), "only an unproven gate counts what is in flight");
        }
        if matches!(self.gate, Gate::Trial | Gate::ShutForGood) {
            assert!(self.config.canary.is_some() || self.tried_again, "only a canary re-opens");
        }
        if self.gate == Gate::Shut {
            assert!(!self.tried_again, "after a trial the gate shuts for good");
        }
    }
}
