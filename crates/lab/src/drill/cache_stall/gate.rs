//! The policy between the requests and the store: nothing, the bare breaker, or the guard.
//!
//! Invariant: nothing is decided here. What may go to the store is asked of the product's machines,
//! and what came of it is told to them, as the server's driver does.

use super::Model;
use crate::drill::DrillError;
use hedgerow_policy::Moment;
use hedgerow_policy::breaker::{self, Admission, Breaker, Outcome, State};
use hedgerow_policy::guard::{Guard, GuardConfig, GuardSettings, Permit, Role};
use hedgerow_policy::guard::{ReadDecision, WriteDecision};
use hedgerow_policy::repair::{CanaryConfig, CanaryPermit};

/// What a policy's name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rules {
    kind: Kind,
    /// Coalescing, late fills, and the bounded line.
    pub(super) late: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    None,
    Plain,
    /// Without a canary.
    Strict,
    /// With one that does not end the episode.
    Canary,
    /// With one that does.
    Early,
    /// As somebody's configuration has it.
    Yours,
}

impl Rules {
    /// The rules of a policy this drill knows.
    pub(super) fn of(policy: &str) -> Rules {
        let (name, late) = match policy.strip_suffix("+late") {
            Some(name) => (name, true),
            None => (policy, policy == "full"),
        };
        let kind = match name {
            "plain" => Kind::Plain,
            "strict" => Kind::Strict,
            "canary" => Kind::Canary,
            "port" | "full" => Kind::Early,
            "yours" => Kind::Yours,
            _ => Kind::None,
        };
        Rules { kind, late }
    }

    /// The guard's settings under these rules.
    pub(super) fn settings(self, model: &Model) -> GuardSettings {
        let canary = model.guard.canary.unwrap_or_default();
        let canary = match self.kind {
            Kind::Canary => Some(CanaryConfig { early_close: false, ..canary }),
            Kind::Early => Some(CanaryConfig { early_close: true, ..canary }),
            Kind::Yours => return model.yours.unwrap_or(model.guard),
            Kind::None | Kind::Plain | Kind::Strict => None,
        };
        GuardSettings { canary, ..model.guard }
    }
}

/// The right to one store call.
#[derive(Debug)]
pub(super) enum Pass {
    Free,
    Breaker(breaker::Permit),
    Guard(Permit),
}

impl Pass {
    /// Whether it is a write past a circuit that is not closed.
    pub(super) fn is_repair(&self) -> bool {
        matches!(self, Pass::Guard(permit) if permit.role() == Role::Repair)
    }
}

/// The policy at work.
#[derive(Debug)]
pub(super) enum Gate {
    None,
    Plain { breaker: Box<Breaker>, owed: u64, heard: Moment },
    Guard(Box<Guard>),
}

impl Gate {
    pub(super) fn new(settings: GuardSettings, rules: Rules) -> Result<Gate, DrillError> {
        let config = GuardConfig::new(settings)
            .map_err(|error| DrillError::new(format!("this guard cannot work: {error}")))?;
        Ok(match rules.kind {
            Kind::None => Gate::None,
            Kind::Plain => Gate::Plain {
                breaker: Box::new(Breaker::new(*config.breaker(), Moment::START)),
                owed: 0,
                heard: Moment::START,
            },
            Kind::Strict | Kind::Canary | Kind::Early | Kind::Yours => {
                Gate::Guard(Box::new(Guard::new(config, Moment::START)))
            }
        })
    }

    pub(super) fn read(&self, now: Moment) -> Option<Pass> {
        match self {
            Gate::None => Some(Pass::Free),
            Gate::Plain { breaker, .. } => admitted(breaker.admit(now)),
            Gate::Guard(guard) => match guard.read(now) {
                ReadDecision::Call(permit) => Some(Pass::Guard(permit)),
                ReadDecision::Shed => None,
            },
        }
    }

    pub(super) fn write(&self, now: Moment) -> Option<Pass> {
        match self {
            Gate::None => Some(Pass::Free),
            Gate::Plain { breaker, .. } => admitted(breaker.admit(now)),
            Gate::Guard(guard) => match guard.write(now) {
                WriteDecision::Call(permit) => Some(Pass::Guard(permit)),
                WriteDecision::Skip => None,
            },
        }
    }

    pub(super) fn settle(&self, now: Moment, pass: Pass, outcome: Outcome) {
        match (self, pass) {
            (Gate::Plain { breaker, .. }, Pass::Breaker(permit)) => {
                breaker.settle(now, permit, outcome);
            }
            (Gate::Guard(guard), Pass::Guard(permit)) => {
                guard.settle(now, permit, outcome);
            }
            _ => {}
        }
    }

    pub(super) fn is_open(&self) -> bool {
        match self {
            Gate::None => false,
            Gate::Plain { breaker, .. } => breaker.state() == State::Open,
            Gate::Guard(guard) => guard.state() == State::Open,
        }
    }

    pub(super) fn on_sent(&mut self, now: Moment, commands: u64) {
        match self {
            Gate::None => {}
            Gate::Plain { breaker, owed, heard } => {
                if *owed == 0 {
                    *heard = now.max(*heard);
                }
                *owed += commands;
                breaker.on_owed(now, *owed, *heard);
            }
            Gate::Guard(guard) => guard.on_sent(now, commands),
        }
    }

    pub(super) fn on_heard(&mut self, now: Moment, replies: u64) {
        match self {
            Gate::None => {}
            Gate::Plain { owed, heard, .. } => {
                *heard = now.max(*heard);
                *owed = owed.saturating_sub(replies);
            }
            Gate::Guard(guard) => guard.on_heard(now, replies),
        }
    }

    /// The connection was replaced, and nobody hears these replies any more.
    pub(super) fn on_lost(&mut self, replies: u64) {
        match self {
            Gate::None => {}
            Gate::Plain { owed, .. } => *owed = owed.saturating_sub(replies),
            Gate::Guard(guard) => guard.on_lost(replies),
        }
    }

    /// Whether there is the guard's connection: ended and replaced when it has been silent too long.
    pub(super) fn replaces_connections(&self) -> bool {
        matches!(self, Gate::Guard(_))
    }

    pub(super) fn on_sign_of_life(&self, now: Moment) {
        if let Gate::Guard(guard) = self {
            guard.on_sign_of_life(now);
        }
    }

    /// Time has passed; a canary may be due.
    pub(super) fn on_wake(&self, now: Moment) -> Option<CanaryPermit> {
        match self {
            Gate::None => None,
            Gate::Plain { breaker, owed, heard } => {
                breaker.on_wake(now);
                breaker.on_owed(now, *owed, *heard);
                None
            }
            Gate::Guard(guard) => {
                guard.on_wake(now);
                guard.canary_due(now)
            }
        }
    }

    pub(super) fn settle_canary(&self, now: Moment, permit: CanaryPermit, good: bool) {
        if let Gate::Guard(guard) = self {
            guard.settle_canary(now, permit, good);
        }
    }

    /// Whether the wake has to be asked for anew. Cheap.
    pub(super) fn stirred(&self) -> bool {
        match self {
            Gate::None => false,
            Gate::Plain { breaker, .. } => breaker.stirred(),
            Gate::Guard(guard) => guard.stirred() || guard.state() != State::Closed,
        }
    }

    pub(super) fn next_wake(&self) -> Option<Moment> {
        match self {
            Gate::None => None,
            Gate::Plain { breaker, .. } => {
                while breaker.next_transition().is_some() {}
                breaker.next_wake()
            }
            Gate::Guard(guard) => {
                while guard.next_transition().is_some() {}
                guard.next_wake()
            }
        }
    }
}

fn admitted(admission: Admission) -> Option<Pass> {
    match admission {
        Admission::Admitted(permit) => Some(Pass::Breaker(permit)),
        Admission::Shed(_) => None,
    }
}
