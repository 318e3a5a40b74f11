//! The cases of the guarded cache that the breaker decides, each by its number. `model` holds it
//! against a plain statement of its rules, `threads` under real ones.

mod model;
mod threads;

use super::*;
use std::time::Duration;

fn ms(n: u64) -> Moment {
    Moment::from_millis(n)
}

fn breaker(settings: BreakerSettings) -> Breaker {
    Breaker::new(BreakerConfig::new(settings).unwrap(), ms(0))
}

/// A circuit that one failure opens.
fn touchy() -> BreakerSettings {
    BreakerSettings { min_throughput: 1, ..BreakerSettings::default() }
}

fn admitted(breaker: &Breaker, now: Moment) -> Permit {
    match breaker.admit(now) {
        Admission::Admitted(permit) => permit,
        Admission::Shed(shed) => panic!("shed: {shed:?}"),
    }
}

fn call(breaker: &Breaker, now: Moment, outcome: Outcome) {
    let permit = admitted(breaker, now);
    breaker.settle(now, permit, outcome);
}

fn sheds(breaker: &Breaker, now: Moment) -> bool {
    matches!(breaker.admit(now), Admission::Shed(_))
}

fn opened_at(breaker: &Breaker) -> Moment {
    let circuit = breaker.circuit();
    assert_eq!(circuit.state, State::Open);
    circuit.since
}

fn moves(breaker: &Breaker) -> Vec<(State, Cause)> {
    std::iter::from_fn(|| breaker.next_transition()).map(|t| (t.to, t.cause)).collect()
}

#[test]
fn case_15_a_miss_is_a_success_whatever_the_hit_ratio() {
    for hits_in_a_thousand in [0, 196, 999] {
        for threshold in [1, 2, 7] {
            let settings = BreakerSettings { success_threshold: threshold, ..touchy() };
            let breaker = breaker(settings);
            call(&breaker, ms(0), Outcome::Timeout);
            for probe in 0..threshold {
                assert_ne!(breaker.state(), State::Closed, "only after {threshold}");
                let is_hit = probe * 997 % 1_000 < hits_in_a_thousand;
                let outcome = if is_hit { Outcome::Ok } else { Outcome::Miss };
                call(&breaker, ms(30_000), outcome);
            }
            assert_eq!(breaker.state(), State::Closed);
            for _ in 0..1_000 {
                call(&breaker, ms(30_001), Outcome::Miss);
            }
            assert_eq!(breaker.snapshot(ms(30_001)).counts.failures, 0);
        }
    }
}

#[test]
fn case_16_it_is_a_rate_with_a_minimum() {
    let many = breaker(BreakerSettings::default());
    (0..1_000).for_each(|_| call(&many, ms(5), Outcome::Ok));
    (0..5).for_each(|_| call(&many, ms(6), Outcome::Timeout));
    assert_eq!(many.state(), State::Closed);

    let failing = breaker(BreakerSettings::default());
    (0..19).for_each(|_| call(&failing, ms(5), Outcome::Connection));
    assert_eq!(failing.state(), State::Closed);
    call(&failing, ms(5), Outcome::Connection);
    assert_eq!(failing.state(), State::Open);

    for first_fails in [true, false] {
        let settings = BreakerSettings { min_throughput: 10, ..BreakerSettings::default() };
        let alternating = breaker(settings);
        for n in 0..10 {
            assert_eq!(alternating.state(), State::Closed, "call {n}");
            let fails = (n % 2 == 0) == first_fails;
            call(&alternating, ms(5), if fails { Outcome::Timeout } else { Outcome::Ok });
        }
        assert_eq!(alternating.state(), State::Open);
    }
}

#[test]
fn case_17_one_failure_and_the_next_call_is_shed() {
    let breaker = breaker(touchy());
    call(&breaker, ms(7), Outcome::ServerError);
    let shed = Shed { state: State::Open, generation: 2, until: ms(30_007) };
    assert_eq!(breaker.admit(ms(7)), Admission::Shed(shed));
    assert_eq!(moves(&breaker), [(State::Open, Cause::Rate)]);
    assert_eq!(breaker.snapshot(ms(8)).counts, Counts { calls: 1, failures: 1 });
}

#[test]
fn case_18_old_failures_weigh_nothing() {
    for silence in [10_000, 20_000] {
        let breaker = breaker(BreakerSettings::default());
        (0..19).for_each(|_| call(&breaker, ms(0), Outcome::Timeout));
        call(&breaker, ms(silence), Outcome::Timeout);
        assert_eq!(breaker.state(), State::Closed);
        let seen = breaker.snapshot(ms(silence));
        assert_eq!((seen.counts, seen.failure_ratio()), (Counts { calls: 1, failures: 1 }, 1.0));
    }
    // It slides: after any number of good calls, as many failures as make the rate will open it.
    let breaker = breaker(BreakerSettings::default());
    (0..50_000).for_each(|n| call(&breaker, ms(n / 10), Outcome::Ok));
    (0..20).for_each(|_| call(&breaker, ms(15_000), Outcome::Timeout));
    assert_eq!(breaker.state(), State::Open);
}

#[test]
fn case_19_a_late_failure_does_not_date_the_opening() {
    let breaker = breaker(touchy());
    let (first, late, later) =
        (admitted(&breaker, ms(1)), admitted(&breaker, ms(2)), admitted(&breaker, ms(3)));
    breaker.settle(ms(10), first, Outcome::Timeout);
    breaker.settle(ms(500), late, Outcome::Timeout);
    assert_eq!(opened_at(&breaker), ms(10));
    // Nor does it count in the states after.
    call(&breaker, ms(30_010), Outcome::Ok);
    breaker.settle(ms(30_010), later, Outcome::Timeout);
    assert_eq!(breaker.state(), State::HalfOpen);
    call(&breaker, ms(30_010), Outcome::Ok);
    assert_eq!(breaker.snapshot(ms(30_010)).counts, Counts::default());
}

#[test]
fn case_21_bounds_that_cannot_work_are_errors() {
    let good = BreakerSettings::default();
    let zero = Duration::ZERO;
    let year = Duration::from_secs(400 * 86_400);
    let cases = [
        ("half_open_probes", BreakerSettings { half_open_probes: 0, ..good }),
        ("failure_ratio", BreakerSettings { failure_ratio: 0.0, ..good }),
        ("failure_ratio", BreakerSettings { failure_ratio: -0.5, ..good }),
        ("failure_ratio", BreakerSettings { failure_ratio: 1.01, ..good }),
        ("failure_ratio", BreakerSettings { failure_ratio: f64::NAN, ..good }),
        ("failure_ratio", BreakerSettings { failure_ratio: f64::INFINITY, ..good }),
        ("window_ms", BreakerSettings { window: zero, ..good }),
        ("window_ms", BreakerSettings { window: year, ..good }),
        ("min_throughput", BreakerSettings { min_throughput: 0, ..good }),
        ("success_threshold", BreakerSettings { success_threshold: 0, ..good }),
        ("open_ms", BreakerSettings { open: zero, ..good }),
        ("open_ms", BreakerSettings { open: year, ..good }),
        ("probe_timeout", BreakerSettings { probe_timeout: zero, ..good }),
        (
            "stall_outstanding",
            BreakerSettings { stall: Duration::from_millis(1), stall_outstanding: 0, ..good },
        ),
    ];
    for (key, settings) in cases {
        let error = BreakerConfig::new(settings).expect_err(key);
        assert_eq!(error.key, key);
        assert!(error.to_string().starts_with(&format!("{key} must be ")), "{error}");
    }
    assert!(BreakerConfig::new(BreakerSettings { failure_ratio: 1.0, ..good }).is_ok());
    assert!(BreakerConfig::new(BreakerSettings { failure_ratio: 0.01, ..good }).is_ok());
    assert_eq!(BreakerConfig::default(), BreakerConfig::new(good).unwrap());
}

#[test]
fn case_22_only_the_monotonic_time_opens_the_way() {
    let day = 86_400_000;
    let breaker = breaker(touchy());
    call(&breaker, ms(2 * day), Outcome::Timeout);
    // A clock set back a day: the driver's moments go on, and so does one that was read earlier.
    assert!(sheds(&breaker, ms(day)));
    assert!(sheds(&breaker, ms(2 * day + 29_999)));
    assert_eq!(opened_at(&breaker), ms(2 * day));
    assert!(admitted(&breaker, ms(2 * day + 30_000)).is_probe());
}

#[test]
fn a_thread_that_was_held_up_does_not_date_a_state_back() {
    let breaker = breaker(touchy());
    breaker.set_override(ms(40_000), Override::ForceOpen);
    breaker.set_override(ms(40_000), Override::ForceClosed);
    breaker.set_override(ms(40_000), Override::Auto);
    let permit = admitted(&breaker, ms(40_000));
    // It read its clock long ago. An opening of then would be over already.
    breaker.settle(ms(5), permit, Outcome::Timeout);
    assert_eq!(opened_at(&breaker), ms(40_000));
    assert!(sheds(&breaker, ms(69_999)));
}

#[test]
fn an_exact_ratio_opens_whatever_floats_do() {
    for percent in 1..=100u64 {
        let failure_ratio = percent as f64 / 100.0;
        let settings =
            BreakerSettings { failure_ratio, min_throughput: 100, ..BreakerSettings::default() };
        let breaker = breaker(settings);
        (0..100 - percent).for_each(|_| call(&breaker, ms(0), Outcome::Ok));
        (0..percent).for_each(|_| {
            assert_eq!(breaker.state(), State::Closed, "{percent} %");
            call(&breaker, ms(0), Outcome::Timeout);
        });
        assert_eq!(breaker.state(), State::Open, "{percent} of 100 are {percent} %");
    }
}

#[test]
fn what_is_nothing_is_counted_nowhere() {
    let breaker = breaker(touchy());
    call(&breaker, ms(0), Outcome::Cancelled);
    call(&breaker, ms(0), Outcome::Shed);
    drop(admitted(&breaker, ms(0)));
    assert_eq!(breaker.snapshot(ms(0)).counts, Counts::default());
    call(&breaker, ms(0), Outcome::Refused);
    call(&breaker, ms(0), Outcome::WriteDenied);
    assert_eq!(breaker.snapshot(ms(0)).counts, Counts { calls: 2, failures: 0 });

    call(&breaker, ms(0), Outcome::Timeout);
    assert_eq!(breaker.state(), State::Closed, "one of three");
    call(&breaker, ms(0), Outcome::Timeout);
    // A probe whose caller left gives its place up at once, and says nothing.
    call(&breaker, ms(30_000), Outcome::Cancelled);
    let seen = breaker.snapshot(ms(30_000));
    assert_eq!(
        (seen.circuit.state, seen.probes_in_flight, seen.probes_good),
        (State::HalfOpen, 0, 0)
    );
}

#[test]
fn a_lost_probe_gives_up_its_place_and_then_says_nothing() {
    let breaker = breaker(touchy());
    call(&breaker, ms(0), Outcome::Timeout);
    let lost = admitted(&breaker, ms(30_000));
    assert!(sheds(&breaker, ms(30_999)));
    assert_eq!(breaker.next_wake(), Some(ms(31_000)));
    breaker.on_wake(ms(31_000));
    assert_eq!(breaker.snapshot(ms(31_000)).probes_in_flight, 0);
    let probe = admitted(&breaker, ms(31_000));
    breaker.settle(ms(31_001), lost, Outcome::Timeout);
    assert_eq!(breaker.state(), State::HalfOpen);
    breaker.settle(ms(31_002), probe, Outcome::Timeout);
    assert_eq!(opened_at(&breaker), ms(31_002));
    let expected = [
        (State::Open, Cause::Rate),
        (State::HalfOpen, Cause::TimeOver),
        (State::Open, Cause::ProbeFailed),
    ];
    assert_eq!(moves(&breaker), expected);
    assert!(!breaker.stirred());
}

#[test]
fn a_twin_spends_no_probe() {
    let breaker = breaker(touchy());
    assert!(breaker.admit_if_closed().is_some());
    call(&breaker, ms(0), Outcome::Timeout);
    breaker.on_wake(ms(30_000));
    assert_eq!(breaker.state(), State::HalfOpen);
    assert_eq!(breaker.admit_if_closed(), None);
    assert!(admitted(&breaker, ms(30_000)).is_probe());
}

#[test]
fn silence_with_much_owed_is_a_stall() {
    let stall = Duration::from_millis(250);
    let breaker = breaker(BreakerSettings { stall, ..BreakerSettings::default() });
    breaker.on_owed(ms(10_249), 1_000, ms(10_000));
    breaker.on_owed(ms(20_000), 9, ms(10_000));
    assert_eq!(breaker.state(), State::Closed);
    breaker.on_owed(ms(10_250), 10, ms(10_000));
    assert_eq!(moves(&breaker), [(State::Open, Cause::Stall)]);
    // It opens what is closed; it does not prolong what is open.
    breaker.on_owed(ms(20_000), 10, ms(10_000));
    assert_eq!(opened_at(&breaker), ms(10_250));
}

#[test]
fn an_early_end_that_was_too_early_makes_the_next_wait_double() {
    let breaker = breaker(touchy());
    let (mut now, mut waits) = (0, Vec::new());
    for _ in 0..9 {
        call(&breaker, ms(now), Outcome::Timeout);
        let generation = breaker.circuit().generation;
        let wait = breaker.snapshot(ms(now)).early_wait.as_millis() as u64;
        waits.push(wait);
        assert!(!breaker.end_early(ms(now + wait - 1), generation));
        assert!(!breaker.end_early(ms(now + wait), generation - 1), "another episode's");
        if wait < 30_000 {
            assert!(breaker.end_early(ms(now + wait), generation));
            assert_eq!(breaker.state(), State::Closed);
        }
        now += wait + 1_000;
    }
    assert_eq!(waits, [300, 600, 1_200, 2_400, 4_800, 9_600, 19_200, 30_000, 30_000]);
}

#[test]
fn a_circuit_that_stayed_closed_for_an_open_time_is_well_again() {
    let breaker = breaker(touchy());
    let wait = |now| breaker.snapshot(ms(now)).early_wait.as_millis();
    call(&breaker, ms(0), Outcome::Timeout);
    assert!(breaker.end_early(ms(300), breaker.circuit().generation));
    call(&breaker, ms(30_299), Outcome::Timeout);
    assert_eq!(wait(30_299), 600);
    // A failed probe is the same incident still.
    call(&breaker, ms(60_299), Outcome::Timeout);
    assert_eq!((breaker.state(), wait(60_299)), (State::Open, 600));
    // So is an opening soon after it was closed by probes; nothing was too early about that.
    call(&breaker, ms(90_299), Outcome::Ok);
    call(&breaker, ms(90_299), Outcome::Ok);
    call(&breaker, ms(91_000), Outcome::Timeout);
    assert_eq!(wait(91_000), 600);
    assert!(breaker.end_early(ms(92_000), breaker.circuit().generation));
    call(&breaker, ms(122_000), Outcome::Timeout);
    assert_eq!(wait(122_000), 300);
}

#[test]
fn by_hand_it_stays_where_it_is_put() {
    let breaker = breaker(touchy());
    breaker.set_override(ms(0), Override::ForceOpen);
    assert_eq!((breaker.next_wake(), breaker.snapshot(ms(0)).until), (None, None));
    assert!(sheds(&breaker, ms(1_000_000)));
    assert!(!breaker.end_early(ms(1_000_000), breaker.circuit().generation));
    breaker.set_override(ms(1_000_000), Override::ForceClosed);
    let before = admitted(&breaker, ms(1_000_000));
    call(&breaker, ms(1_000_000), Outcome::Timeout);
    breaker.on_owed(ms(2_000_000), 1_000, ms(0));
    let seen = breaker.snapshot(ms(1_000_000));
    assert_eq!((seen.circuit.state, seen.counts.failures), (State::Closed, 1));
    breaker.set_override(ms(1_000_001), Override::Auto);
    breaker.settle(ms(1_000_001), before, Outcome::Timeout);
    assert_eq!(breaker.snapshot(ms(1_000_001)).counts, Counts::default());
    call(&breaker, ms(1_000_002), Outcome::Timeout);
    assert_eq!(breaker.state(), State::Open);
    breaker.set_override(ms(1_000_003), Override::ForceOpen);
    breaker.set_override(ms(1_000_004), Override::Auto);
    assert_eq!(breaker.state(), State::HalfOpen);
}

#[test]
fn other_bounds_keep_the_window_and_the_opening() {
    let settings = BreakerSettings::default();
    let breaker = breaker(settings);
    (0..8).for_each(|_| call(&breaker, ms(1_000), Outcome::Timeout));
    (0..2).for_each(|_| call(&breaker, ms(2_000), Outcome::Ok));
    let held = Counts { calls: 10, failures: 8 };
    for window in [3_000, 10_000, 60_000] {
        let window = Duration::from_millis(window);
        let other = BreakerSettings { window, min_throughput: 12, ..settings };
        breaker.reconfigure(ms(2_500), BreakerConfig::new(other).unwrap());
        assert_eq!(breaker.snapshot(ms(2_500)).counts, held);
    }
    call(&breaker, ms(2_600), Outcome::Ok);
    assert_eq!(breaker.state(), State::Closed);
    call(&breaker, ms(2_600), Outcome::Timeout);
    assert_eq!(opened_at(&breaker), ms(2_600));
    let shorter = BreakerSettings { open: Duration::from_millis(100), ..settings };
    breaker.reconfigure(ms(2_650), BreakerConfig::new(shorter).unwrap());
    assert!(sheds(&breaker, ms(2_699)));
    assert!(admitted(&breaker, ms(2_700)).is_probe());
}

#[test]
fn untold_transitions_are_bounded() {
    let breaker = breaker(touchy());
    for n in 0..100 {
        breaker.set_override(ms(n), Override::ForceOpen);
        breaker.set_override(ms(n), Override::ForceClosed);
    }
    assert_eq!(moves(&breaker).len(), 64);
    assert_eq!(breaker.snapshot(ms(200)).untold_lost, 136);
}
