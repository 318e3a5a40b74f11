//! Which endpoint of an upstream gets the next attempt.
//!
//! Invariants:
//! - the endpoint with the fewest attempts pending is preferred, among those that are well;
//! - one that had to be hedged against several times in a row is passed over for a while even if it
//!   answers late: a stalled endpoint has the fewest calls pending and would attract the next one;
//! - a twin goes where the key has no attempt yet, if there is such a place, and never spends a
//!   half-open probe;
//! - no hedge and no retry goes to an endpoint before the time it asked for with Retry-After.

use crate::breaker::{Admission, Breaker, Outcome, Permit, State as Circuit};
use crate::moment::Moment;
use std::sync::Arc;
use std::time::Duration;

/// When an endpoint is passed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DemoteConfig {
    /// After so many hedges against it in a row; 0: never.
    pub after: u32,
    /// For so long.
    pub cooldown: Duration,
}

/// The number of an endpoint, from 0 in the order of the configuration.
pub type Endpoint = usize;

/// What an attempt is to its key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Role {
    /// The first.
    Primary,
    /// A twin beside one that has gone quiet.
    Hedge,
    /// Another try after everything failed.
    Retry,
}

impl Role {
    /// The role as headers, the ledger and metric labels spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Role::Primary => "primary",
            Role::Hedge => "hedge",
            Role::Retry => "retry",
        }
    }
}

/// The endpoints of one upstream. See the module's head.
#[derive(Clone, Debug)]
pub struct Endpoints {
    demote: DemoteConfig,
    list: Vec<State>,
    /// One for each endpoint, or none at all.
    breakers: Vec<Arc<Breaker>>,
    /// Where the search starts, so that equals take turns.
    turn: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    pending: u32,
    hedged_in_row: u32,
    demoted_until: Option<Moment>,
    rests_until: Option<Moment>,
}

/// What an endpoint shows of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndpointSnapshot {
    /// Attempts under way.
    pub pending: u32,
    /// Hedges against it in a row.
    pub hedged_in_row: u32,
    /// Passed over until then.
    pub demoted_until: Option<Moment>,
    /// No hedge and no retry before then.
    pub rests_until: Option<Moment>,
}

impl Endpoints {
    /// `count` endpoints, at least one.
    #[must_use]
    pub fn new(count: usize, demote: DemoteConfig) -> Endpoints {
        Endpoints {
            demote,
            list: vec![State::default(); count.max(1)],
            breakers: Vec::new(),
            turn: 0,
        }
    }

    /// Puts a breaker in front of each endpoint, in order.
    pub fn guard_with(&mut self, breakers: Vec<Arc<Breaker>>) {
        debug_assert_eq!(breakers.len(), self.list.len(), "one each");
        self.breakers = breakers;
    }

    /// How many there are.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "there is always one")]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// The endpoint for an attempt of a key that already has attempts at `used`; it counts as
    /// pending from now on. With it the breaker's permit, to be settled by [`Endpoints::settle`].
    /// `None` when there is no place to go.
    pub fn pick(
        &mut self,
        now: Moment,
        role: Role,
        used: &[Endpoint],
    ) -> Option<(Endpoint, Option<Permit>)> {
        let count = self.list.len();
        let mut refused = Vec::new();
        loop {
            let order = (0..count).map(|step| (self.turn + step) % count);
            let open = order.filter(|at| self.list[*at].may_serve(now, role));
            let left = open.filter(|at| !refused.contains(at));
            let best = left.min_by_key(|&at| self.list[at].rank(now, used.contains(&at)))?;
            let Some(permit) = self.admit(now, role, best) else {
                refused.push(best);
                continue;
            };
            self.turn = (best + 1) % count;
            self.list[best].pending += 1;
            return Some((best, permit));
        }
    }

    /// The breaker's permit, if there is a breaker; `None` if it sheds.
    fn admit(&self, now: Moment, role: Role, endpoint: Endpoint) -> Option<Option<Permit>> {
        let Some(breaker) = self.breakers.get(endpoint) else { return Some(None) };
        match role {
            Role::Hedge => breaker.admit_if_closed().map(Some),
            Role::Primary | Role::Retry => match breaker.admit(now) {
                Admission::Admitted(permit) => Some(Some(permit)),
                Admission::Shed(_) => None,
            },
        }
    }

    /// Tells the breaker what became of an attempt.
    pub fn settle(
        &self,
        now: Moment,
        endpoint: Endpoint,
        permit: Option<Permit>,
        outcome: Outcome,
    ) {
        if let (Some(breaker), Some(permit)) = (self.breakers.get(endpoint), permit) {
            breaker.settle(now, permit, outcome);
        }
    }

    /// Whether [`Endpoints::pick`] would find a place for a twin now.
    #[must_use]
    pub fn has_room_for_twin(&self, now: Moment) -> bool {
        let closed = |at: Endpoint| {
            self.breakers.get(at).is_none_or(|breaker| breaker.state() == Circuit::Closed)
        };
        let places = self.list.iter().enumerate();
        places.into_iter().any(|(at, state)| state.may_serve(now, Role::Hedge) && closed(at))
    }

    /// From when on a retry has a place to go.
    #[must_use]
    pub fn retry_from(&self, now: Moment) -> Moment {
        let places = self.list.iter().enumerate();
        let from = places.map(|(at, state)| {
            let rests = state.rests_until.unwrap_or(now);
            rests.max(self.shed_until(at).unwrap_or(now)).max(now)
        });
        from.min().unwrap_or(now)
    }

    /// When the first of the circuits that shed will let a call through.
    #[must_use]
    pub fn all_shed_until(&self, now: Moment) -> Moment {
        (0..self.list.len()).filter_map(|at| self.shed_until(at)).min().unwrap_or(now).max(now)
    }

    fn shed_until(&self, endpoint: Endpoint) -> Option<Moment> {
        let breaker = self.breakers.get(endpoint)?;
        if breaker.state() == Circuit::Closed { None } else { breaker.next_wake() }
    }

    /// An attempt there has ended, however.
    pub fn on_end(&mut self, endpoint: Endpoint) {
        if let Some(state) = self.list.get_mut(endpoint) {
            debug_assert!(state.pending > 0, "an attempt ends once");
            state.pending = state.pending.saturating_sub(1);
        }
    }

    /// An attempt there went quiet, and somebody had to be asked to help out. True if that demotes
    /// it now.
    pub fn on_quiet(&mut self, now: Moment, endpoint: Endpoint) -> bool {
        let Some(state) = self.list.get_mut(endpoint) else { return false };
        state.hedged_in_row = state.hedged_in_row.saturating_add(1);
        if self.demote.after == 0 || state.hedged_in_row < self.demote.after {
            return false;
        }
        let already = state.demoted(now);
        state.demoted_until = Some(now + self.demote.cooldown);
        !already
    }

    /// It answered before anyone had to be asked to help out.
    pub fn on_prompt(&mut self, endpoint: Endpoint) {
        if let Some(state) = self.list.get_mut(endpoint) {
            state.hedged_in_row = 0;
        }
    }

    /// It asked to be left alone until then.
    pub fn on_retry_after(&mut self, endpoint: Endpoint, until: Moment) {
        if let Some(state) = self.list.get_mut(endpoint) {
            state.rests_until = state.rests_until.max(Some(until));
        }
    }

    /// What there is to show, in order.
    #[must_use]
    pub fn snapshot(&self, now: Moment) -> Vec<EndpointSnapshot> {
        let shown = self.list.iter().map(|state| EndpointSnapshot {
            pending: state.pending,
            hedged_in_row: state.hedged_in_row,
            demoted_until: state.demoted_until.filter(|until| *until > now),
            rests_until: state.rests_until.filter(|until| *until > now),
        });
        shown.collect()
    }
}

impl State {
    fn demoted(&self, now: Moment) -> bool {
        self.demoted_until.is_some_and(|until| until > now)
    }

    fn rests(&self, now: Moment) -> bool {
        self.rests_until.is_some_and(|until| until > now)
    }

    fn may_serve(&self, now: Moment, role: Role) -> bool {
        match role {
            // The application's own call is its own decision; only a breaker sheds it.
            Role::Primary => true,
            Role::Hedge | Role::Retry => !self.rests(now),
        }
    }

    /// The least wins.
    fn rank(&self, now: Moment, used: bool) -> (bool, bool, bool, u32) {
        (used, self.rests(now), self.demoted(now), self.pending)
    }
}

#[cfg(test)]
mod tests;
