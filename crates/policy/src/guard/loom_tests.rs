//! Every interleaving of a few threads, by the model checker. See `crate::sync` for the command.
//!
//! Each test races a whole turn or a corner of closed → open → half-open → closed, and asks in
//! the end what must hold whatever the order was. The window has two buckets here, to keep the
//! number of interleavings down; the code is the same.

use super::*;
use crate::breaker::{Cause, Transition};
use loom::sync::Arc;
use loom::thread;

fn ms(n: u64) -> Moment {
    Moment::from_millis(n)
}

fn settings() -> GuardSettings {
    let breaker = BreakerSettings {
        min_throughput: 1,
        success_threshold: 1,
        open: Duration::from_millis(1_000),
        ..GuardSettings::default().breaker
    };
    let canary = CanaryConfig { successes: 1, ..CanaryConfig::default() };
    GuardSettings { breaker, canary: Some(canary), ..GuardSettings::default() }
}

fn fresh(settings: GuardSettings) -> Arc<Guard> {
    match GuardConfig::new(settings) {
        Ok(config) => Arc::new(Guard::new(config, ms(0))),
        Err(error) => panic!("{error}"),
    }
}

/// A circuit that opened at 0.
fn opened(settings: GuardSettings) -> Arc<Guard> {
    let guard = fresh(settings);
    read(&guard, 0, Outcome::Timeout);
    assert_eq!(guard.state(), State::Open);
    guard
}

fn read(guard: &Guard, now: u64, outcome: Outcome) -> bool {
    match guard.read(ms(now)) {
        ReadDecision::Call(permit) => {
            guard.settle(ms(now), permit, outcome);
            true
        }
        ReadDecision::Shed => false,
    }
}

/// Explores every order with up to three forced switches between threads; switches where a thread
/// waits or ends do not count.
fn check(test: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(test);
}

fn told(guard: &Guard) -> Vec<Transition> {
    let all: Vec<Transition> = std::iter::from_fn(|| guard.next_transition()).collect();
    // Each begins where the one before it ended, whichever thread made it.
    let mut at = State::Closed;
    for transition in &all {
        assert_eq!(transition.from, at);
        at = transition.to;
    }
    assert_eq!(at, guard.state(), "the last one told is the state");
    all
}

#[test]
fn loom_failures_at_once_open_it_once() {
    check(|| {
        let guard = fresh(settings());
        let other = Arc::clone(&guard);
        let thread = thread::spawn(move || read(&other, 1, Outcome::Timeout));
        let mine = read(&guard, 2, Outcome::Timeout);
        let theirs = thread.join().unwrap();
        assert!(mine || theirs);
        assert_eq!(told(&guard).len(), 1);
    });
}

#[test]
fn loom_no_count_is_lost() {
    check(|| {
        let breaker = BreakerSettings { min_throughput: 3, ..settings().breaker };
        let guard = fresh(GuardSettings { breaker, ..settings() });
        let other = Arc::clone(&guard);
        let thread = thread::spawn(move || read(&other, 1, Outcome::Ok));
        assert!(read(&guard, 1, Outcome::Ok));
        assert!(thread.join().unwrap());
        let counts = guard.snapshot(ms(1)).breaker.counts;
        assert_eq!((counts.calls, counts.failures), (2, 0));
    });
}

#[test]
fn loom_at_expiry_one_probe_goes() {
    check(|| {
        let guard = opened(settings());
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let guard = Arc::clone(&guard);
                thread::spawn(move || guard.read(ms(1_000)))
            })
            .collect();
        let mine = guard.read(ms(1_000));
        let mut all: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
        all.push(mine);
        let calls = all.iter().filter(|d| **d != ReadDecision::Shed).count();
        assert_eq!(calls, 1);
        assert_eq!(guard.snapshot(ms(1_000)).breaker.probes_in_flight, 1);
        assert_eq!(told(&guard).len(), 2);
    });
}

#[test]
fn loom_late_settles_move_nothing_on_the_way_round() {
    // One thread takes the circuit all the way round while another settles, late, what it was
    // permitted before the opening.
    for outcome in [Outcome::Timeout, Outcome::Ok] {
        check(move || {
            let guard = fresh(settings());
            let ReadDecision::Call(late) = guard.read(ms(0)) else { panic!("closed") };
            let ReadDecision::Call(dropped) = guard.read(ms(0)) else { panic!("closed") };
            read(&guard, 1, Outcome::Timeout);
            let other = Arc::clone(&guard);
            let thread = thread::spawn(move || {
                other.settle(ms(500), late, outcome);
                drop(dropped);
            });
            assert!(read(&guard, 1_001, Outcome::Ok), "the probe");
            thread.join().unwrap();
            let seen = guard.snapshot(ms(1_001)).breaker;
            assert_eq!((seen.circuit.state, seen.circuit.generation), (State::Closed, 4));
            assert_eq!((seen.counts.calls, seen.episode), (0, 1));
            let causes: Vec<Cause> = told(&guard).iter().map(|t| t.cause).collect();
            assert_eq!(causes, [Cause::Rate, Cause::TimeOver, Cause::Probes]);
        });
    }
}

#[test]
fn loom_a_result_of_an_older_generation_is_in_no_window() {
    // The race the tags are for: a thread has seen the circuit closed and is about to count, while
    // others open it, close it again and count in the very same bucket.
    // What it counts must not be in the sums, nor may it take the place of what is.
    for late_outcome in [Outcome::Timeout, Outcome::Ok] {
        check(move || {
            let breaker = BreakerSettings { min_throughput: 2, ..settings().breaker };
            let guard = fresh(GuardSettings { breaker, ..settings() });
            let ReadDecision::Call(late) = guard.read(ms(0)) else { panic!("closed") };
            let other = Arc::clone(&guard);
            let thread = thread::spawn(move || other.settle(ms(1), late, late_outcome));
            guard.set_override(ms(1), Override::ForceOpen);
            guard.set_override(ms(1), Override::ForceClosed);
            guard.set_override(ms(1), Override::Auto);
            read(&guard, 1, Outcome::Ok);
            thread.join().unwrap();
            let counts = guard.snapshot(ms(1)).breaker.counts;
            assert_eq!((counts.calls, counts.failures), (1, 0));
            assert_eq!(guard.state(), State::Closed);
        });
    }
}

#[test]
fn loom_two_probes_settle_one_good_one_bad() {
    check(|| {
        let breaker = BreakerSettings { half_open_probes: 2, ..settings().breaker };
        let guard = opened(GuardSettings { breaker, ..settings() });
        let (ReadDecision::Call(good), ReadDecision::Call(bad)) =
            (guard.read(ms(1_000)), guard.read(ms(1_000)))
        else {
            panic!("two probes are free");
        };
        let other = Arc::clone(&guard);
        let thread = thread::spawn(move || other.settle(ms(1_001), good, Outcome::Ok));
        guard.settle(ms(1_001), bad, Outcome::Timeout);
        thread.join().unwrap();
        // Whichever came first decided; the other was of a state that was over.
        let moves: Vec<State> = told(&guard).iter().map(|t| t.to).collect();
        assert_eq!(moves.len(), 3);
        assert_ne!(moves[2], State::HalfOpen);
        assert_eq!(guard.snapshot(ms(1_001)).breaker.probes_in_flight, 0);
    });
}

#[test]
fn loom_one_unproven_repair_is_in_flight() {
    check(|| {
        let guard = opened(settings());
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let guard = Arc::clone(&guard);
                thread::spawn(move || guard.write(ms(10)))
            })
            .collect();
        let mut all: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
        all.push(guard.write(ms(10)));
        assert_eq!(all.iter().filter(|d| **d != WriteDecision::Skip).count(), 1);
    });
}

#[test]
fn loom_a_repair_settles_while_the_circuit_moves_on() {
    // A repair of the first episode fails, late, while a probe fails and begins the second: the
    // gate of the second knows nothing of it.
    check(|| {
        let guard = opened(settings());
        let WriteDecision::Call(repair) = guard.write(ms(10)) else { panic!("the gate is open") };
        let other = Arc::clone(&guard);
        let thread = thread::spawn(move || other.settle(ms(1_000), repair, Outcome::Timeout));
        read(&guard, 1_000, Outcome::Timeout);
        thread.join().unwrap();
        assert_eq!(guard.snapshot(ms(1_000)).breaker.episode, 2);
        assert_ne!(guard.write(ms(1_001)), WriteDecision::Skip, "a fresh gate");
    });
}

#[test]
fn loom_an_early_end_races_writes_and_the_open_time() {
    check(|| {
        let guard = opened(settings());
        let Some(canary) = guard.canary_due(ms(100)) else { panic!("due") };
        let (writer, reader) = (Arc::clone(&guard), Arc::clone(&guard));
        let writes = thread::spawn(move || match writer.write(ms(1_000)) {
            WriteDecision::Call(permit) => {
                let role = permit.role();
                writer.settle(ms(1_000), permit, Outcome::Ok);
                Some(role)
            }
            WriteDecision::Skip => None,
        });
        let wakes = thread::spawn(move || reader.on_wake(ms(1_000)));
        let ended = guard.settle_canary(ms(1_000), canary, true);
        let role = writes.join().unwrap();
        wakes.join().unwrap();
        // Nobody else writes: it goes through, past or as a probe, whatever the circuit did.
        assert!(role.is_some());
        let causes: Vec<Cause> = told(&guard).iter().map(|t| t.cause).collect();
        assert_eq!(causes.contains(&Cause::EarlyEnd), ended);
        assert!(!(ended && causes.contains(&Cause::TimeOver)), "one way or the other");
        assert_ne!(guard.state(), State::Open);
    });
}

#[test]
fn loom_a_stall_and_a_rate_open_it_once() {
    check(|| {
        let guard = fresh(settings());
        guard.on_sent(ms(0), 10);
        let other = Arc::clone(&guard);
        let thread = thread::spawn(move || other.on_sent(ms(250), 1));
        read(&guard, 250, Outcome::Timeout);
        guard.on_heard(ms(251), 11);
        thread.join().unwrap();
        assert_eq!(told(&guard).len(), 1);
        assert_eq!(guard.snapshot(ms(251)).breaker.episode, 1);
    });
}
