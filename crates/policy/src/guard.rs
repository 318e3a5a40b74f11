//! The one thing a cache asks before each store call: the breaker and the repair gate together.
//!
//! Invariants:
//! - a read goes through a circuit that lets it; else it is shed, and reaches nothing;
//! - a write goes through a circuit that lets it and reports, or past it through the gate and
//!   does not; else it is skipped, and its caller gets the fallback (an invalidation: the journal);
//! - server, drills and tests hold this very object, so what a drill shows is what is run.
//!
//! Thread-safe. Through a closed circuit a call takes no lock and allocates nothing.
//!
//! The driver's duties: ask before each call, settle every permit; report what its connections
//! send and hear ([`Guard::on_sent`], [`Guard::on_heard`], [`Guard::on_lost`]); report signs of
//! life ([`Guard::on_sign_of_life`]); wake at [`Guard::next_wake`], call [`Guard::on_wake`] and
//! send the canary that [`Guard::canary_due`] gives; and ask [`Guard::stirred`] after events:
//! then tell the transitions and ask for the wake anew.

#[cfg(all(test, hedgerow_loom))]
mod loom_tests;
mod owed;
#[cfg(all(test, not(hedgerow_loom)))]
mod tests;

use crate::breaker::{
    self, Admission, Breaker, BreakerConfig, BreakerSettings, Circuit, ConfigError, Outcome,
    Override, State, Transition,
};
use crate::moment::Moment;
use crate::repair::{Attempt, CanaryConfig, CanaryPermit, GateChange, GateState};
use crate::repair::{Repair, RepairConfig};
use crate::sync::{Mutex, lock};
use owed::Owed;
use std::time::Duration;

/// The bounds as somebody wrote them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GuardSettings {
    /// The breaker's. Its `probe_timeout` and `early_wait` are derived from the others here.
    pub breaker: BreakerSettings,
    /// The canary's; `None`: no canary, the strict rule.
    pub canary: Option<CanaryConfig>,
    /// The deadline of one store call.
    pub call_timeout: Duration,
    /// Silence after which a connection that owes answers is given up.
    pub liveness_timeout: Duration,
}

impl Default for GuardSettings {
    /// The contract's defaults; a stall is seen before those who wait give up and wait once more.
    fn default() -> GuardSettings {
        GuardSettings {
            breaker: BreakerSettings {
                stall: Duration::from_millis(80),
                ..BreakerSettings::default()
            },
            canary: Some(CanaryConfig::default()),
            call_timeout: Duration::from_millis(100),
            liveness_timeout: Duration::from_millis(5_000),
        }
    }
}

/// Bounds that can work.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GuardConfig {
    breaker: BreakerConfig,
    repair: RepairConfig,
}

impl GuardConfig {
    /// Checks the bounds.
    ///
    /// # Errors
    /// Names the first key that cannot work, and what would.
    pub fn new(settings: GuardSettings) -> Result<GuardConfig, ConfigError> {
        let (call_timeout, canary) = (settings.call_timeout, settings.canary);
        let repair = RepairConfig { call_timeout, canary };
        repair.check()?;
        if settings.liveness_timeout < settings.call_timeout {
            let expected = "at least call_timeout_ms";
            return Err(ConfigError { key: "liveness_timeout_ms", expected });
        }
        let early_wait = settings.canary.map_or(Duration::ZERO, |c| c.early_wait());
        let probe_timeout = repair.place_timeout();
        let breaker = BreakerSettings { probe_timeout, early_wait, ..settings.breaker };
        Ok(GuardConfig { breaker: BreakerConfig::new(breaker)?, repair })
    }

    /// The breaker's bounds.
    #[must_use]
    pub fn breaker(&self) -> &BreakerConfig {
        &self.breaker
    }

    /// The bounds of repairs.
    #[must_use]
    pub fn repair(&self) -> &RepairConfig {
        &self.repair
    }
}

/// How a permitted call stands to the circuit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Role {
    /// Through a closed circuit; reports.
    Call,
    /// One of a half-open circuit's few; reports.
    Probe,
    /// A write past a circuit that is not closed; reports to the gate alone.
    Repair,
}

/// The right to make one store call. Settled at most once, by [`Guard::settle`]; one that is
/// dropped counts as nothing, and a place it held comes free by itself.
#[must_use = "a permit that is never settled tells the guard nothing"]
#[derive(PartialEq, Eq, Debug)]
pub struct Permit(Kind);

#[derive(PartialEq, Eq, Debug)]
enum Kind {
    Reported(breaker::Permit),
    Repair(Attempt),
}

impl Permit {
    /// How the call stands to the circuit.
    #[must_use]
    pub const fn role(&self) -> Role {
        match &self.0 {
            Kind::Reported(permit) if permit.is_probe() => Role::Probe,
            Kind::Reported(_) => Role::Call,
            Kind::Repair(_) => Role::Repair,
        }
    }
}

/// The answer to a read.
#[derive(PartialEq, Eq, Debug)]
pub enum ReadDecision {
    /// Ask the store.
    Call(Permit),
    /// Answer with the fallback; nothing is sent.
    Shed,
}

/// The answer to a write, a touch or an invalidation.
#[derive(PartialEq, Eq, Debug)]
pub enum WriteDecision {
    /// Send it to the store. A failure gives the fallback, never another error.
    Call(Permit),
    /// Nothing is sent: the fallback; an invalidation goes to the journal.
    Skip,
}

/// What the guard shows of itself.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Snapshot {
    /// The circuit.
    pub breaker: breaker::Snapshot,
    /// The repair gate.
    pub gate: GateState,
    /// Replies that are awaited over all connections.
    pub owed: u64,
}

/// The façade. See the module's head.
#[derive(Debug)]
pub struct Guard {
    breaker: Breaker,
    repair: Mutex<Repair>,
    owed: Owed,
}

impl Guard {
    /// A closed circuit without history.
    #[must_use]
    pub fn new(config: GuardConfig, now: Moment) -> Guard {
        Guard {
            breaker: Breaker::new(config.breaker, now),
            repair: Mutex::new(Repair::new(config.repair)),
            owed: Owed::new(&config.breaker),
        }
    }

    /// May a read ask the store?
    #[inline]
    pub fn read(&self, now: Moment) -> ReadDecision {
        match self.breaker.admit(now) {
            Admission::Admitted(permit) => ReadDecision::Call(Permit(Kind::Reported(permit))),
            Admission::Shed(_) => ReadDecision::Shed,
        }
    }

    /// May a write, a touch or an invalidation go to the store?
    #[inline]
    pub fn write(&self, now: Moment) -> WriteDecision {
        match self.breaker.admit(now) {
            Admission::Admitted(permit) => WriteDecision::Call(Permit(Kind::Reported(permit))),
            Admission::Shed(_) => self.write_past(now),
        }
    }

    #[cold]
    fn write_past(&self, now: Moment) -> WriteDecision {
        // Looked at under the gate's lock: the gate follows the circuit in order. Should it have
        // closed since the breaker was asked, the write is an ordinary one after all.
        let attempt = {
            let mut repair = lock(&self.repair);
            let circuit = self.breaker.circuit();
            repair.on_write(now, circuit)
        };
        match attempt {
            Some(attempt) => WriteDecision::Call(Permit(Kind::Repair(attempt))),
            None => match self.breaker.admit_if_closed() {
                Some(permit) => WriteDecision::Call(Permit(Kind::Reported(permit))),
                None => WriteDecision::Skip,
            },
        }
    }

    /// A permitted call has ended. What it says belongs to the state that permitted it; if that is
    /// over, it says nothing.
    #[inline]
    pub fn settle(&self, now: Moment, permit: Permit, outcome: Outcome) -> GateChange {
        match permit.0 {
            Kind::Reported(permit) => {
                self.breaker.settle(now, permit, outcome);
                GateChange::None
            }
            Kind::Repair(attempt) => {
                let mut repair = lock(&self.repair);
                repair.settle(now, self.breaker.circuit(), attempt, outcome)
            }
        }
    }

    /// Whether a canary is to be sent now. It writes and reads back a key of its own, within the
    /// deadline of a call.
    pub fn canary_due(&self, now: Moment) -> Option<CanaryPermit> {
        if self.breaker.state() != State::Open {
            return None;
        }
        let mut repair = lock(&self.repair);
        repair.on_canary_due(now, self.breaker.circuit())
    }

    /// A canary has come back, well or not. True if that ended the episode.
    pub fn settle_canary(&self, now: Moment, permit: CanaryPermit, good: bool) -> bool {
        let mut repair = lock(&self.repair);
        let circuit = self.breaker.circuit();
        repair.settle_canary(now, circuit, permit, good)
            && self.breaker.end_early(now, circuit.generation)
    }

    /// A sign that the store is back: an owed reply that came after its caller's deadline, or a
    /// fresh connection that has been greeted. The next canary goes at once.
    pub fn on_sign_of_life(&self, now: Moment) {
        if self.breaker.state() == State::Open {
            lock(&self.repair).on_sign_of_life(now, self.breaker.circuit());
        }
    }

    /// A connection has sent `commands`, each of which owes one reply. Also looks whether the
    /// silence has become a stall. Not for what may be silent and healthy: a blocking command, a
    /// subscription.
    pub fn on_sent(&self, now: Moment, commands: u64) {
        self.owed.on_sent(now, commands);
        self.look_for_stall(now);
    }

    /// A connection has heard something: `replies` whole ones, perhaps none yet.
    pub fn on_heard(&self, now: Moment, replies: u64) {
        self.owed.on_heard(now, replies);
    }

    /// A connection is gone, and with it the `replies` it owed.
    pub fn on_lost(&self, replies: u64) {
        self.owed.on_lost(replies);
    }

    /// Time has passed.
    pub fn on_wake(&self, now: Moment) {
        self.breaker.on_wake(now);
        self.look_for_stall(now);
    }

    fn look_for_stall(&self, now: Moment) {
        if let Some((owed, since)) = self.owed.stalled(now) {
            self.breaker.on_owed(now, owed, since);
        }
    }

    /// When [`Guard::on_wake`] or [`Guard::canary_due`] has something to do without another event.
    #[must_use]
    pub fn next_wake(&self) -> Option<Moment> {
        let canary = {
            let mut repair = lock(&self.repair);
            repair.next_wake(self.breaker.circuit())
        };
        let stall = self.owed.next_wake().filter(|_| self.breaker.state() == State::Closed);
        [self.breaker.next_wake(), canary, stall].into_iter().flatten().min()
    }

    /// Whether a transition waits to be told, and so [`Guard::next_wake`] may have moved, or a
    /// silence has begun that could become a stall. Cheap enough to ask after every event.
    #[inline]
    #[must_use]
    pub fn stirred(&self) -> bool {
        self.breaker.stirred() || self.owed.stirred()
    }

    /// Whether a transition waits to be told: what is left of [`Guard::stirred`] for a driver whose
    /// connections set their own timers for silence.
    #[inline]
    #[must_use]
    pub fn moved(&self) -> bool {
        self.breaker.stirred()
    }

    /// The next transition that has not been told, in order; `None` also ends
    /// [`Guard::stirred`].
    pub fn next_transition(&self) -> Option<Transition> {
        self.owed.seen();
        self.breaker.next_transition()
    }

    /// Holds the circuit open or closed, or lets it decide again.
    pub fn set_override(&self, now: Moment, to: Override) {
        self.breaker.set_override(now, to);
    }

    /// Takes other bounds. The window keeps what it holds.
    pub fn reconfigure(&self, now: Moment, config: GuardConfig) {
        self.breaker.reconfigure(now, config.breaker);
        self.owed.reconfigure(&config.breaker);
        lock(&self.repair).reconfigure(config.repair);
    }

    /// The circuit as it stands.
    #[must_use]
    pub fn circuit(&self) -> Circuit {
        self.breaker.circuit()
    }

    /// The state of the circuit.
    #[inline]
    #[must_use]
    pub fn state(&self) -> State {
        self.breaker.state()
    }

    /// Everything there is to show.
    #[must_use]
    pub fn snapshot(&self, now: Moment) -> Snapshot {
        let gate = lock(&self.repair).gate(self.breaker.circuit());
        Snapshot { breaker: self.breaker.snapshot(now), gate, owed: self.owed.owed() }
    }
}
