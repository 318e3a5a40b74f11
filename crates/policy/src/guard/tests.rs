//! The cases of the guarded cache that the façade decides, each by its number. `store` plays the
//! longer ones against a store that stalls, in virtual time.

mod store;

use super::*;

fn ms(n: u64) -> Moment {
    Moment::from_millis(n)
}

/// A circuit that one failure opens, for 30 s.
fn touchy() -> GuardSettings {
    let breaker = BreakerSettings { min_throughput: 1, ..GuardSettings::default().breaker };
    GuardSettings { breaker, ..GuardSettings::default() }
}

fn strict() -> GuardSettings {
    GuardSettings { canary: None, ..touchy() }
}

fn guard(settings: GuardSettings) -> Guard {
    Guard::new(GuardConfig::new(settings).unwrap(), ms(0))
}

fn open_at(now: Moment, settings: GuardSettings) -> Guard {
    let guard = guard(settings);
    read(&guard, now, Outcome::Timeout);
    assert_eq!(guard.state(), State::Open);
    guard
}

fn read(guard: &Guard, now: Moment, outcome: Outcome) {
    match guard.read(now) {
        ReadDecision::Call(permit) => guard.settle(now, permit, outcome),
        ReadDecision::Shed => panic!("shed"),
    };
}

fn write(guard: &Guard, now: Moment) -> Option<Permit> {
    match guard.write(now) {
        WriteDecision::Call(permit) => Some(permit),
        WriteDecision::Skip => None,
    }
}

fn repair(guard: &Guard, now: Moment, outcome: Outcome) -> GateChange {
    let permit = write(guard, now).expect("the gate is open");
    assert_eq!(permit.role(), Role::Repair);
    guard.settle(now, permit, outcome)
}

fn canary(guard: &Guard, now: Moment, good: bool) -> bool {
    let permit = guard.canary_due(now).expect("a canary is due");
    guard.settle_canary(now, permit, good)
}

fn gate(guard: &Guard) -> GateState {
    guard.snapshot(ms(0)).gate
}

#[test]
fn case_01_open_sheds_reads() {
    let guard = open_at(ms(10), touchy());
    assert_eq!(guard.read(ms(11)), ReadDecision::Shed);
}

#[test]
fn case_02_open_and_healthy_writes_land_and_move_nothing() {
    let guard = open_at(ms(10), touchy());
    let before = guard.snapshot(ms(20));
    assert_eq!(repair(&guard, ms(20), Outcome::Ok), GateChange::Proven);
    assert_eq!(repair(&guard, ms(30), Outcome::Ok), GateChange::None);
    assert_eq!(guard.snapshot(ms(40)), before);
}

#[test]
fn case_04_refused_is_no_failure() {
    let guard = open_at(ms(10), touchy());
    for _ in 0..50 {
        repair(&guard, ms(20), Outcome::Refused);
        assert_eq!(gate(&guard), GateState::Open);
    }
}

#[test]
fn case_06_half_open_a_write_without_a_probe_passes_unreported() {
    for outcome in [Outcome::Ok, Outcome::Timeout] {
        let guard = open_at(ms(0), touchy());
        repair(&guard, ms(10), Outcome::Timeout);
        assert_eq!(gate(&guard), GateState::Closed);
        let ReadDecision::Call(probe) = guard.read(ms(30_000)) else { panic!("a probe is free") };
        assert_eq!(guard.state(), State::HalfOpen);
        let before = guard.snapshot(ms(30_001)).breaker;
        repair(&guard, ms(30_001), outcome);
        assert_eq!(guard.snapshot(ms(30_002)).breaker, before, "unreported");
        guard.settle(ms(30_003), probe, Outcome::Miss);
        assert_eq!(guard.snapshot(ms(30_003)).breaker.probes_good, 1);
    }
}

#[test]
fn half_open_a_write_with_a_probe_reports() {
    let guard = open_at(ms(0), touchy());
    for closed in [false, true] {
        let permit = write(&guard, ms(30_000)).unwrap();
        assert_eq!(permit.role(), Role::Probe);
        guard.settle(ms(30_000), permit, Outcome::Ok);
        assert_eq!(guard.state() == State::Closed, closed);
    }
    let again = open_at(ms(0), touchy());
    let permit = write(&again, ms(30_000)).unwrap();
    again.settle(ms(30_100), permit, Outcome::Timeout);
    assert_eq!(again.circuit().since, ms(30_100));
}

#[test]
fn case_07_closed_failing_writes_open_the_one_breaker() {
    for outcome in [Outcome::Timeout, Outcome::Connection] {
        let guard = guard(GuardSettings::default());
        for n in 0..20 {
            assert_eq!(guard.state(), State::Closed, "write {n}");
            let permit = write(&guard, ms(n)).unwrap();
            assert_eq!(permit.role(), Role::Call);
            guard.settle(ms(n), permit, outcome);
        }
        assert_eq!(guard.state(), State::Open);
    }
}

#[test]
fn case_07_a_store_that_takes_no_writes_discards_no_later_ones() {
    let closed = guard(touchy());
    let (mut sent, mut landed) = (0, 0);
    for guard in [&closed, &open_at(ms(0), touchy())] {
        for n in 0..100 {
            let permit = write(guard, ms(n)).expect("no write is discarded");
            guard.settle(ms(n), permit, Outcome::WriteDenied);
            sent += 1;
        }
        // Nor while several are under way.
        let permits: Vec<_> = (0..10).map(|_| write(guard, ms(200)).unwrap()).collect();
        landed += permits.len();
        permits.into_iter().for_each(|p| {
            guard.settle(ms(201), p, Outcome::Ok);
        });
    }
    assert_eq!((sent, landed, closed.state()), (200, 20, State::Closed));
}

#[test]
fn case_21_the_liveness_timeout_is_no_shorter_than_the_deadline() {
    let millis = Duration::from_millis;
    let good = GuardSettings::default();
    let canary = CanaryConfig::default();
    let with = |canary| GuardSettings { canary: Some(canary), ..good };
    let cases = [
        ("liveness_timeout_ms", GuardSettings { liveness_timeout: millis(99), ..good }),
        ("call_timeout_ms", GuardSettings { call_timeout: millis(0), ..good }),
        ("interval_ms", with(CanaryConfig { interval: millis(0), ..canary })),
        ("max_interval_ms", with(CanaryConfig { max_interval: millis(99), ..canary })),
        ("successes", with(CanaryConfig { successes: 0, ..canary })),
    ];
    for (key, settings) in cases {
        assert_eq!(GuardConfig::new(settings).unwrap_err().key, key);
    }
    let breaker = BreakerSettings { half_open_probes: 0, ..good.breaker };
    let error = GuardConfig::new(GuardSettings { breaker, ..good }).unwrap_err();
    assert_eq!(error.key, "half_open_probes");
    assert!(GuardConfig::new(GuardSettings { liveness_timeout: millis(100), ..good }).is_ok());
}

#[test]
fn case_41_a_touch_passes_like_any_repair_and_its_failure_is_no_error() {
    // What the driver answers is a fallback in both arms; there is no third.
    let guard = open_at(ms(0), touchy());
    assert_eq!(repair(&guard, ms(10), Outcome::Timeout), GateChange::Shut);
    assert_eq!(guard.write(ms(11)), WriteDecision::Skip);
}

#[test]
fn case_42_each_episode_has_its_own_gate() {
    for settings in [strict(), touchy()] {
        let guard = open_at(ms(0), settings);
        repair(&guard, ms(10), Outcome::Timeout);
        assert_eq!(write(&guard, ms(20)), None);
        read(&guard, ms(30_000), Outcome::Timeout);
        assert_eq!((guard.state(), guard.snapshot(ms(30_000)).breaker.episode), (State::Open, 2));
        let only = write(&guard, ms(30_001)).expect("one new repair is tried");
        assert_eq!(write(&guard, ms(30_002)), None, "exactly one");
        guard.settle(ms(30_101), only, Outcome::Timeout);
        assert_eq!(write(&guard, ms(30_102)), None);
    }
}

#[test]
fn case_43_a_healthy_circuit_knows_nothing_of_gates() {
    let guard = guard(GuardSettings::default());
    for n in 0..1_000 {
        read(&guard, ms(n), Outcome::Miss);
        let permit = write(&guard, ms(n)).unwrap();
        assert_eq!(permit.role(), Role::Call);
        let outcome = if n % 5 == 0 { Outcome::Timeout } else { Outcome::Ok };
        guard.settle(ms(n), permit, outcome);
        assert!(guard.canary_due(ms(n)).is_none());
    }
    assert_eq!(
        (guard.state(), gate(&guard), guard.stirred()),
        (State::Closed, GateState::Open, false)
    );
    // And the same failures alone open it.
    (0..20).for_each(|n| {
        if let Some(permit) = write(&guard, ms(20_000 + n)) {
            guard.settle(ms(20_000 + n), permit, Outcome::Timeout);
        }
    });
    assert_eq!(guard.state(), State::Open);
}

#[test]
fn case_44_a_trial_that_fails_shuts_the_gate_for_good() {
    let guard = open_at(ms(0), touchy());
    repair(&guard, ms(10), Outcome::Timeout);
    assert!(!canary(&guard, ms(100), true));
    assert_eq!(gate(&guard), GateState::Trial);
    let trial = write(&guard, ms(110)).unwrap();
    assert_eq!(write(&guard, ms(111)), None, "one trial in flight");
    assert_eq!(guard.settle(ms(120), trial, Outcome::Timeout), GateChange::Shut);
    for n in 2..100 {
        // Good canaries do not open it again; here they may not end the episode either.
        if let Some(permit) = guard.canary_due(ms(n * 100)) {
            guard.settle_canary(ms(n * 100), permit, n % 2 == 0);
        }
        assert_eq!((gate(&guard), write(&guard, ms(n * 100))), (GateState::Closed, None));
    }
}

#[test]
fn a_trial_that_lands_opens_the_gate_for_all() {
    let guard = open_at(ms(0), touchy());
    repair(&guard, ms(10), Outcome::Timeout);
    canary(&guard, ms(100), true);
    repair(&guard, ms(110), Outcome::Ok);
    let many: Vec<_> = (0..50).filter_map(|_| write(&guard, ms(120))).collect();
    assert_eq!((many.len(), gate(&guard)), (50, GateState::Open));
    // The first of them that fails shuts it; the others' results are of before.
    for (n, permit) in many.into_iter().enumerate() {
        let change = guard.settle(ms(220), permit, Outcome::Timeout);
        assert_eq!(change == GateChange::Shut, n == 0);
    }
    canary(&guard, ms(200), true);
    assert_eq!(gate(&guard), GateState::Closed, "its second failure was the last");
}

#[test]
fn a_trial_nobody_took_is_withdrawn_when_the_canary_fails() {
    let guard = open_at(ms(0), touchy());
    repair(&guard, ms(10), Outcome::Timeout);
    for n in 1..5 {
        canary(&guard, ms(n * 1_000), true);
        assert_eq!(gate(&guard), GateState::Trial);
        canary(&guard, ms(n * 1_000 + 500), false);
        assert_eq!(gate(&guard), GateState::Closed);
    }
}

#[test]
fn case_46_a_late_reply_sends_a_canary_at_once() {
    let guard = open_at(ms(0), touchy());
    let mut now = 0;
    while now < 5_000 {
        now = guard.next_wake().unwrap().as_millis();
        canary(&guard, ms(now), false);
    }
    assert_eq!(guard.next_wake(), Some(ms(now + 1_000)), "backed up to the most");
    assert!(guard.canary_due(ms(now + 400)).is_none());
    guard.on_sign_of_life(ms(now + 400));
    assert_eq!(guard.next_wake(), Some(ms(now + 400)));
    canary(&guard, ms(now + 400), false);
    // A thousand more signs make no storm: not within an interval.
    (0..1_000).for_each(|_| guard.on_sign_of_life(ms(now + 401)));
    assert_eq!(guard.next_wake(), Some(ms(now + 500)));
    // One that comes while a canary is out counts for the next.
    let permit = guard.canary_due(ms(now + 500)).unwrap();
    guard.on_sign_of_life(ms(now + 550));
    guard.settle_canary(ms(now + 600), permit, false);
    assert_eq!(guard.next_wake(), Some(ms(now + 600)));
}

#[test]
fn enough_good_canaries_end_the_episode() {
    let guard = open_at(ms(0), touchy());
    assert_eq!(guard.next_wake(), Some(ms(100)));
    let ends = [100, 200, 300].map(|now| canary(&guard, ms(now), true));
    assert_eq!((ends, guard.state()), ([false, false, true], State::Closed));
    let causes: Vec<_> = std::iter::from_fn(|| guard.next_transition()).map(|t| t.cause).collect();
    assert_eq!(causes, [breaker::Cause::Rate, breaker::Cause::EarlyEnd]);
    // In a row: a bad one begins anew.
    let guard = open_at(ms(0), touchy());
    let mut at = Vec::new();
    let ends = [true, true, false, true, true, true].map(|good| {
        let now = guard.next_wake().unwrap();
        at.push(now.as_millis());
        canary(&guard, now, good)
    });
    assert_eq!(ends, [false, false, false, false, false, true]);
    // A good one is confirmed after a quarter of the interval, a bad one doubles it.
    assert_eq!(at, [100, 125, 150, 350, 375, 400]);
}

#[test]
fn without_early_close_the_open_time_rules() {
    let canary_config = CanaryConfig { early_close: false, ..CanaryConfig::default() };
    let guard = open_at(ms(0), GuardSettings { canary: Some(canary_config), ..touchy() });
    for n in 1..300 {
        assert!(!canary(&guard, ms(n * 100), true));
    }
    assert_eq!(guard.next_wake(), Some(ms(30_000)));
    guard.on_wake(ms(30_000));
    assert_eq!(guard.state(), State::HalfOpen);
    assert!(guard.canary_due(ms(30_000)).is_none());
}

#[test]
fn a_canary_that_is_lost_holds_nothing_up() {
    let guard = open_at(ms(0), touchy());
    let lost = guard.canary_due(ms(100)).unwrap();
    assert_eq!(guard.next_wake(), Some(ms(300)), "twice the deadline of a call");
    let next = guard.canary_due(ms(300)).expect("as if it had failed");
    assert!(!guard.settle_canary(ms(301), lost, true));
    assert!(guard.canary_due(ms(302)).is_none(), "the next is still out");
    guard.settle_canary(ms(303), next, true);
}

#[test]
fn silence_over_all_connections_is_a_stall() {
    let guard = guard(GuardSettings::default());
    guard.on_sent(ms(0), 9);
    assert_eq!((guard.next_wake(), guard.stirred()), (None, false));
    guard.on_sent(ms(50), 1);
    assert_eq!((guard.next_wake(), guard.stirred()), (Some(ms(80)), true));
    guard.on_heard(ms(70), 0);
    guard.on_wake(ms(149));
    assert_eq!(guard.state(), State::Closed, "half a reply is a sign, too");
    guard.on_wake(ms(150));
    assert_eq!((guard.state(), guard.snapshot(ms(150)).owed), (State::Open, 10));
    // The one who sends notices as well, when nobody woke.
    let other = self::guard(GuardSettings::default());
    other.on_sent(ms(0), 20);
    other.on_lost(15);
    other.on_sent(ms(1_000), 1);
    assert_eq!(other.state(), State::Closed, "six are not enough");
    other.on_sent(ms(1_001), 10);
    assert_eq!(other.state(), State::Open);
}

#[test]
fn a_caller_that_left_leaves_its_attempt_in_its_place() {
    let guard = open_at(ms(0), touchy());
    assert_eq!(repair(&guard, ms(10), Outcome::Cancelled), GateChange::None);
    assert_eq!(write(&guard, ms(209)), None, "its command may still be owed");
    assert_eq!(repair(&guard, ms(210), Outcome::Shed), GateChange::None);
    assert_eq!(repair(&guard, ms(211), Outcome::Ok), GateChange::Proven, "a shed one was not");
}

#[test]
fn results_of_another_episode_or_state_move_no_gate() {
    let guard = open_at(ms(0), touchy());
    let late = write(&guard, ms(10)).unwrap();
    let late_canary = guard.canary_due(ms(100)).unwrap();
    guard.on_wake(ms(30_000));
    read(&guard, ms(30_000), Outcome::Timeout);
    assert_eq!(guard.settle(ms(30_001), late, Outcome::Timeout), GateChange::None);
    assert!(!guard.settle_canary(ms(30_001), late_canary, true));
    assert_eq!(repair(&guard, ms(30_002), Outcome::Ok), GateChange::Proven);
}
