//! Real threads at once: what loom proves of a few steps holds for many.

use super::*;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

/// Runs `work` on as many threads, all from the same instant.
fn at_once(threads: usize, work: impl Fn(usize) + Sync) {
    let start = Barrier::new(threads);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (start, work) = (&start, &work);
            scope.spawn(move || {
                start.wait();
                work(thread);
            });
        }
    });
}

#[test]
fn case_20_of_64_threads_at_expiry_exactly_one_calls() {
    for _ in 0..50 {
        let breaker = breaker(touchy());
        call(&breaker, ms(0), Outcome::Timeout);
        let calls = AtomicU64::new(0);
        at_once(64, |_| {
            if let Admission::Admitted(_unsettled) = breaker.admit(ms(30_000)) {
                calls.fetch_add(1, Ordering::Relaxed);
            }
        });
        assert_eq!(calls.load(Ordering::Relaxed), 1);
        let seen = breaker.snapshot(ms(30_000));
        assert_eq!((seen.circuit.state, seen.probes_in_flight), (State::HalfOpen, 1));
        assert_eq!(moves(&breaker).len(), 2, "it opened once and went half-open once");
    }
}

#[test]
fn no_count_is_lost_between_threads() {
    let breaker = breaker(BreakerSettings { failure_ratio: 0.9, ..BreakerSettings::default() });
    at_once(8, |thread| {
        for n in 0..2_000 {
            let fails = (n + thread) % 4 == 0;
            let outcome = if fails { Outcome::Timeout } else { Outcome::Ok };
            call(&breaker, ms(n as u64), outcome);
        }
    });
    assert_eq!(breaker.snapshot(ms(2_000)).counts, Counts { calls: 16_000, failures: 4_000 });
}

#[test]
fn threads_that_all_fail_open_it_once() {
    for _ in 0..50 {
        let breaker = breaker(BreakerSettings { min_throughput: 64, ..touchy() });
        at_once(64, |_| match breaker.admit(ms(5)) {
            Admission::Admitted(permit) => breaker.settle(ms(6), permit, Outcome::Timeout),
            Admission::Shed(_) => panic!("63 are not enough"),
        });
        assert_eq!(moves(&breaker), [(State::Open, Cause::Rate)]);
        assert_eq!(breaker.snapshot(ms(6)).episode, 1);
    }
}
