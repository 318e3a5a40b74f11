//! The cases of the guarded cache that the façade decides, each by its number.

use super::*;

fn ms(n: u64) -> Moment {
    Moment::from_millis(n)
}

/// A circuit that one failure opens, for 30 s.
fn touchy() -> GuardSettings {
    let breaker = BreakerSettings { min_throughput: 1, ..GuardSettings::default().breaker };
    GuardSettings { breaker, ..GuardSettings::default() }
}

fn open_at(now: Moment, settings: GuardSettings) -> Guard {
    let guard = Guard::new(GuardConfig::new(settings).unwrap(), ms(0));
    fail_read(&guard, now);
    assert_eq!(guard.state(), State::Open);
    guard
}

fn fail_read(guard: &Guard, now: Moment) {
    match guard.read(now) {
        ReadDecision::Call(permit) => guard.settle(now, permit, Outcome::Timeout),
        ReadDecision::Shed => panic!("a closed circuit sheds nothing"),
    };
}

fn write(guard: &Guard, now: Moment) -> Option<Permit> {
    match guard.write(now) {
        WriteDecision::Call(permit) => Some(permit),
        WriteDecision::Skip => None,
    }
}

#[test]
fn case_01_open_sheds_reads() {
    let guard = open_at(ms(10), touchy());
    assert_eq!(guard.read(ms(11)), ReadDecision::Shed);
    assert_eq!(guard.snapshot(ms(11)).owed, 0);
}

#[test]
fn case_02_open_and_healthy_writes_land_and_move_nothing() {
    let guard = open_at(ms(10), touchy());
    let before = guard.snapshot(ms(20)).breaker;
    for now in [20, 30] {
        let permit = write(&guard, ms(now)).expect("the gate is open");
        assert_eq!(permit.role(), Role::Repair);
        guard.settle(ms(now + 1), permit, Outcome::Ok);
    }
    assert_eq!(guard.snapshot(ms(40)).breaker, before);
}
