//! Which endpoint of an upstream gets the next attempt.
//!
//! Invariants:
//! - the endpoint with the fewest attempts pending is preferred, among those that are well;
//! - one that had to be hedged against several times in a row is passed over for a while even if it
//!   answers late: a stalled endpoint has the fewest calls pending and would attract the next one;
//! - a twin goes where the key has no attempt yet, if there is such a place, and never spends a
//!   half-open probe;
//! - no hedge and no retry goes to an endpoint before the time it asked for with Retry-After.

use crate::moment::Moment;
use std::time::Duration;

/// When an endpoint is passed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DemoteConfig {
    /// After so many hedges against it in a row; 0: never.
    pub after: u32,
    /// For so long.
    pub cooldown: Duration,
}

/// What an endpoint's breaker says of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Health {
    /// It is called.
    #[default]
    Closed,
    /// It is being tried out: a call to it is a probe.
    HalfOpen,
    /// It is not called.
    Open,
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
    /// Where the search starts, so that equals take turns.
    turn: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    pending: u32,
    hedged_in_row: u32,
    demoted_until: Option<Moment>,
    rests_until: Option<Moment>,
    health: Health,
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
    /// What its breaker says.
    pub health: Health,
}

impl Endpoints {
    /// `count` endpoints, at least one.
    #[must_use]
    pub fn new(count: usize, demote: DemoteConfig) -> Endpoints {
        Endpoints { demote, list: vec![State::default(); count.max(1)], turn: 0 }
    }

    /// How many there are.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "there is always one")]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// The endpoint for an attempt of a key that already has attempts at `used`; it counts as
    /// pending from now on. `None` when there is no place to go.
    pub fn pick(&mut self, now: Moment, role: Role, used: &[Endpoint]) -> Option<Endpoint> {
        let count = self.list.len();
        let order = (0..count).map(|step| (self.turn + step) % count);
        let best = order
            .filter(|&at| self.list[at].may_serve(now, role))
            .min_by_key(|&at| self.list[at].rank(now, used.contains(&at)))?;
        self.turn = (best + 1) % count;
        self.list[best].pending += 1;
        Some(best)
    }

    /// Whether [`Endpoints::pick`] would find a place now.
    #[must_use]
    pub fn has_room(&self, now: Moment, role: Role) -> bool {
        self.list.iter().any(|state| state.may_serve(now, role))
    }

    /// From when on a retry has a place to go; `None`: never, as things stand.
    #[must_use]
    pub fn retry_from(&self, now: Moment) -> Option<Moment> {
        let open = self.list.iter().filter(|state| state.health != Health::Open);
        open.map(|state| state.rests_until.map_or(now, |until| until.max(now))).min()
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

    /// Its breaker changed its mind.
    pub fn on_health(&mut self, endpoint: Endpoint, health: Health) {
        if let Some(state) = self.list.get_mut(endpoint) {
            state.health = health;
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
            health: state.health,
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
            Role::Primary => self.health != Health::Open,
            Role::Hedge => self.health == Health::Closed && !self.rests(now),
            Role::Retry => self.health != Health::Open && !self.rests(now),
        }
    }

    /// The least wins. A probe is due as soon as its time has come, or it would never be made.
    fn rank(&self, now: Moment, used: bool) -> (bool, bool, bool, u32) {
        (used, self.rests(now), self.demoted(now), self.pending)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::from_millis(seconds * 1_000)
    }

    fn endpoints(count: usize) -> Endpoints {
        Endpoints::new(count, DemoteConfig { after: 3, cooldown: Duration::from_secs(30) })
    }

    #[test]
    fn the_least_pending_first_and_equals_take_turns() {
        let mut e = endpoints(3);
        let picked: Vec<_> = (0..4).map(|_| e.pick(at(0), Role::Primary, &[]).unwrap()).collect();
        assert_eq!(picked, [0, 1, 2, 0]);
        e.on_end(2);
        assert_eq!(e.pick(at(0), Role::Primary, &[]), Some(2));
    }

    #[test]
    fn a_twin_goes_elsewhere_even_to_a_demoted_place_and_home_only_if_there_is_none() {
        let mut e = endpoints(2);
        (0..3).for_each(|_| _ = e.on_quiet(at(0), 1));
        assert_eq!(e.pick(at(1), Role::Hedge, &[0]), Some(1));
        assert_eq!(endpoints(1).pick(at(1), Role::Hedge, &[0]), Some(0));
    }

    #[test]
    fn a_twin_never_spends_a_probe_and_a_call_may() {
        let mut e = endpoints(2);
        e.on_health(1, Health::HalfOpen);
        assert_eq!(e.pick(at(0), Role::Hedge, &[0]), Some(0), "home, over another connection");
        assert_eq!(e.pick(at(0), Role::Primary, &[0]), Some(1));
        e.on_health(0, Health::Open);
        assert_eq!(e.pick(at(0), Role::Hedge, &[]), None);
        e.on_health(1, Health::Open);
        assert_eq!(e.pick(at(0), Role::Primary, &[]), None);
        assert_eq!(e.retry_from(at(0)), None);
    }

    #[test]
    fn case_38_three_in_a_row_are_demoted_for_the_cooldown() {
        let mut e = endpoints(2);
        assert!(!e.on_quiet(at(0), 0));
        assert!(!e.on_quiet(at(1), 0));
        e.on_prompt(0);
        assert!(!e.on_quiet(at(2), 0), "the row was broken");
        assert!(!e.on_quiet(at(3), 0));
        assert!(e.on_quiet(at(4), 0));
        for second in 5..34 {
            let picked = e.pick(at(second), Role::Primary, &[]).unwrap();
            assert_eq!(picked, 1, "second {second}");
        }
        assert_eq!(e.pick(at(34), Role::Primary, &[]), Some(0), "the cooldown is over");
    }

    #[test]
    fn all_demoted_is_as_good_as_none() {
        let mut e = endpoints(2);
        (0..6).for_each(|n| _ = e.on_quiet(at(0), n % 2));
        assert!(e.pick(at(1), Role::Primary, &[]).is_some());
    }

    #[test]
    fn retry_after_binds_hedges_and_retries_and_is_avoided_by_calls() {
        let mut e = endpoints(2);
        e.on_retry_after(0, at(40));
        e.on_retry_after(0, at(20));
        assert_eq!(e.retry_from(at(10)), Some(at(10)));
        (0..5).for_each(|_| assert_eq!(e.pick(at(10), Role::Primary, &[]), Some(1)));
        e.on_retry_after(1, at(60));
        assert_eq!(e.retry_from(at(10)), Some(at(40)));
        assert_eq!(e.pick(at(39), Role::Retry, &[]), None);
        assert_eq!(e.pick(at(39), Role::Hedge, &[]), None);
        assert_eq!(e.pick(at(40), Role::Retry, &[0]), Some(0));
        assert!(e.pick(at(39), Role::Primary, &[]).is_some());
    }
}
