//! The rules of choice, one by one.

use super::*;
use crate::breaker::{BreakerConfig, BreakerSettings, Override};

fn at(seconds: u64) -> Moment {
    Moment::from_millis(seconds * 1_000)
}

fn to(picked: Option<(Endpoint, Option<Permit>)>) -> Option<Endpoint> {
    picked.map(|(endpoint, _)| endpoint)
}

fn guarded(count: usize) -> (Endpoints, Vec<Arc<Breaker>>) {
    let config = BreakerConfig::new(BreakerSettings::default()).unwrap();
    let breakers: Vec<_> = (0..count).map(|_| Arc::new(Breaker::new(config, at(0)))).collect();
    let mut e = endpoints(count);
    e.guard_with(breakers.clone());
    (e, breakers)
}

fn endpoints(count: usize) -> Endpoints {
    Endpoints::new(count, DemoteConfig { after: 3, cooldown: Duration::from_secs(30) })
}

#[test]
fn the_least_pending_first_and_equals_take_turns() {
    let mut e = endpoints(3);
    let picked: Vec<_> = (0..4).map(|_| to(e.pick(at(0), Role::Primary, &[])).unwrap()).collect();
    assert_eq!(picked, [0, 1, 2, 0]);
    e.on_end(2);
    assert_eq!(to(e.pick(at(0), Role::Primary, &[])), Some(2));
}

#[test]
fn a_twin_goes_elsewhere_even_to_a_demoted_place_and_home_only_if_there_is_none() {
    let mut e = endpoints(2);
    (0..3).for_each(|_| _ = e.on_quiet(at(0), 1));
    assert_eq!(to(e.pick(at(1), Role::Hedge, &[0])), Some(1));
    assert_eq!(to(endpoints(1).pick(at(1), Role::Hedge, &[0])), Some(0));
}

#[test]
fn a_twin_never_spends_a_probe_and_a_call_may() {
    let (mut e, breakers) = guarded(2);
    let open = |which: usize| breakers[which].set_override(at(0), Override::ForceOpen);
    let release = |which: usize| breakers[which].set_override(at(0), Override::Auto);
    open(1);
    release(1); // half-open from here
    assert_eq!(breakers[1].state(), Circuit::HalfOpen);
    assert!(e.has_room_for_twin(at(0)));
    assert_eq!(to(e.pick(at(0), Role::Hedge, &[0])), Some(0), "home, over another connection");
    assert_eq!(to(e.pick(at(0), Role::Primary, &[0])), Some(1), "the probe");
    assert_eq!(to(e.pick(at(0), Role::Primary, &[0])), Some(0), "there is one probe at a time");
    open(0);
    assert!(!e.has_room_for_twin(at(0)));
    assert_eq!(e.pick(at(0), Role::Hedge, &[]), None);
    open(1);
    assert_eq!(e.pick(at(0), Role::Primary, &[]), None);
}

#[test]
fn results_reach_the_breaker_and_a_losers_does_not() {
    let (mut e, breakers) = guarded(1);
    for outcome in [Outcome::Cancelled, Outcome::Connection] {
        for _ in 0..20 {
            let (endpoint, permit) = e.pick(at(1), Role::Primary, &[]).unwrap();
            e.on_end(endpoint);
            e.settle(at(1), endpoint, permit, outcome);
        }
        let opened = outcome == Outcome::Connection;
        assert_eq!(breakers[0].state() == Circuit::Open, opened, "{outcome:?}");
    }
    assert_eq!(e.retry_from(at(2)), at(31));
    assert_eq!(e.all_shed_until(at(2)), at(31));
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
        let picked = to(e.pick(at(second), Role::Primary, &[])).unwrap();
        assert_eq!(picked, 1, "second {second}");
    }
    assert_eq!(to(e.pick(at(34), Role::Primary, &[])), Some(0), "the cooldown is over");
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
    assert_eq!(e.retry_from(at(10)), at(10));
    (0..5).for_each(|_| assert_eq!(to(e.pick(at(10), Role::Primary, &[])), Some(1)));
    e.on_retry_after(1, at(60));
    assert_eq!(e.retry_from(at(10)), at(40));
    assert_eq!(e.pick(at(39), Role::Retry, &[]), None);
    assert_eq!(e.pick(at(39), Role::Hedge, &[]), None);
    assert_eq!(to(e.pick(at(40), Role::Retry, &[0])), Some(0));
    assert!(e.pick(at(39), Role::Primary, &[]).is_some());
}
