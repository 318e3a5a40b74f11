//! Which writes may reach a store whose circuit is not closed: the repair gate and the canary.
//!
//! Invariants:
//! - repairs are always on; what they find neither closes nor opens the circuit;
//! - until a repair of the episode has succeeded, one is in flight, never two; so a dead store
//!   costs one timeout an episode, not one a concurrent request;
//! - once one has, any number are, but none sets out behind one that has been out too long; so a
//!   store that dies again costs the few that set out in that time, not all of a whole deadline;
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
use std::collections::VecDeque;
use std::time::Duration;

/// The bounds of repairs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RepairConfig {
    /// The deadline of one store call. An attempt that is not settled gives up its place after
    /// twice that; one that has been out for a tenth of it (or four times the last round trip
    /// if that is longer, up to half of it) holds the next back.
    pub call_timeout: Duration,
    /// The canary; `None`: the strict rule.
    pub canary: Option<CanaryConfig>,
}

impl RepairConfig {
    /// Checks the bounds.
    ///
    /// # Errors
    /// Names the first key that cannot work, and what would.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.call_timeout.is_zero() {
            return Err(ConfigError { key: "call_timeout_ms", expected: "over 0" });
        }
        self.canary.as_ref().map_or(Ok(()), CanaryConfig::check)
    }

    /// After this long an attempt or a canary that was not settled will not be.
    #[must_use]
    pub fn place_timeout(&self) -> Duration {
        self.call_timeout.saturating_mul(2)
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
    /// The last that came back had succeeded: any number in flight, while none is late.
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
    /// The canary has opened the gate again, and that holds: a failure now is the last.
    reopened: bool,
    /// The attempts of this phase that are out, in order.
    in_flight: VecDeque<InFlight>,
    next_number: u64,
    /// How long the last repair of this state that landed took.
    round_trip: Duration,
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
            reopened: false,
            in_flight: VecDeque::new(),
            next_number: 0,
            round_trip: Duration::ZERO,
            canary: Canary::default(),
        }
    }

    /// A write found the circuit not closed and got no probe: may it go past the breaker?
    pub fn on_write(&mut self, now: Moment, circuit: Circuit) -> Option<Attempt> {
        self.follow(circuit);
        self.expire(now);
        let deadline = self.config.call_timeout;
        let patience = self.round_trip.saturating_mul(4).clamp(deadline / 10, deadline / 2);
        let free = match self.gate {
            Gate::Proven => self.in_flight.front().is_none_or(|f| now.since(f.granted) < patience),
            Gate::Unproven | Gate::Trial => self.in_flight.is_empty(),
            Gate::Shut | Gate::ShutForGood => false,
        };
        if !free || circuit.state == State::Closed {
            return None;
        }
        self.next_number += 1;
        let number = self.next_number;
        self.in_flight.push_back(InFlight { number, granted: now });
        self.check_invariants();
        Some(Attempt { generation: self.generation, phase: self.phase, number })
    }

    /// An attempt has ended. One of another episode, or from before the gate last shut, moves
    /// nothing.
    ///
    /// One whose caller went away keeps its place until the bound: its command may still be owed,
    /// and the next would wait behind it.
    #[expect(clippy::needless_pass_by_value, reason = "an attempt is settled once")]
    pub fn settle(
        &mut self,
        now: Moment,
        circuit: Circuit,
        attempt: Attempt,
        outcome: Outcome,
    ) -> GateChange {
        self.follow(circuit);
        if attempt.generation != self.generation || attempt.phase != self.phase {
            return GateChange::None;
        }
        self.expire(now);
        let at = self.in_flight.binary_search_by_key(&attempt.number, |one| one.number);
        if let Ok(at) = at
            && outcome != Outcome::Cancelled
        {
            let one = self.in_flight.remove(at);
            if !outcome.is_failure() && !outcome.is_nothing() {
                self.round_trip = one.map_or(Duration::ZERO, |one| now.since(one.granted));
            }
        }
        let change = if outcome.is_failure() {
            self.shut(if self.reopened { Gate::ShutForGood } else { Gate::Shut });
            GateChange::Shut
        } else if outcome.is_nothing() || self.gate == Gate::Proven {
            GateChange::None
        } else {
            self.gate = Gate::Proven;
            GateChange::Proven
        };
        self.check_invariants();
        change
    }

    /// Whether a canary is due: then it is to be sent now, beside the traffic.
    pub fn on_canary_due(&mut self, now: Moment, circuit: Circuit) -> Option<CanaryPermit> {
        self.follow(circuit);
        let config = self.config.canary.filter(|_| circuit.state == State::Open)?;
        self.canary.start(now, &config, self.config.place_timeout(), self.generation)
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
        self.expire(now);
        match self.gate {
            Gate::Shut if good => self.shut(Gate::Trial),
            // Nobody has paid for the trial yet, and nobody should for a store that is gone again.
            Gate::Trial if !good && self.in_flight.is_empty() => self.shut(Gate::Shut),
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
        Some(self.canary.next_wake(self.config.place_timeout()))
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
        self.round_trip = Duration::ZERO;
        let interval = self.config.canary.map_or(Duration::ZERO, |c| c.interval);
        self.canary = Canary::begin(circuit.since, interval);
    }

    /// Attempts that will not be settled any more give up their places.
    fn expire(&mut self, now: Moment) {
        let bound = self.config.place_timeout();
        while self.in_flight.front().is_some_and(|one| now.since(one.granted) >= bound) {
            self.in_flight.pop_front();
        }
    }

    /// Another phase of the gate: what is in flight belongs to the one before.
    fn shut(&mut self, gate: Gate) {
        self.gate = gate;
        self.reopened = gate == Gate::Trial;
        self.phase = self.phase.wrapping_add(1);
        self.in_flight.clear();
    }

    /// Holds in every state; debug builds ask after every event.
    pub fn check_invariants(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        match self.gate {
            Gate::Unproven | Gate::Trial => assert!(self.in_flight.len() <= 1, "one in flight"),
            Gate::Shut | Gate::ShutForGood => assert!(self.in_flight.is_empty(), "none counts"),
            Gate::Proven => {}
        }
        if matches!(self.gate, Gate::Trial | Gate::ShutForGood) {
            assert!(self.phase > 1, "the gate was shut before");
        }
        let reopened = matches!(self.gate, Gate::Trial | Gate::Proven);
        assert!(!self.reopened || reopened, "after a trial the gate shuts for good");
    }
}
