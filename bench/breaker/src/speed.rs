//! What a call costs on the closed path: may it go, and its success noted.

use crate::peers::{self, Work};
use hedgerow_policy::Moment;
use hedgerow_policy::breaker::{Admission, Breaker, Outcome};
use layered::Service as _;
use std::hint::black_box;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tower_service::Service;

const ROUNDS: usize = 9;

fn own(breaker: &Breaker, nanos: u64) {
    let now = Moment::START + Duration::from_nanos(nanos);
    if let Admission::Admitted(permit) = breaker.admit(now) {
        breaker.settle(now, permit, Outcome::Ok);
    }
}

/// Work that is done already, and what it costs to make it: an allocation of nothing is free.
fn done() -> Work {
    Box::pin(std::future::ready(Ok(())))
}

/// Polled again and again: a breaker with a lock of its own may have to wait for the other thread.
fn poll<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        std::hint::spin_loop();
    }
}

/// Median ns a call, on that many threads that share one breaker.
fn time(threads: u64, calls: u64, step: &(impl Fn(u64) + Sync)) -> f64 {
    let mut rounds: Vec<f64> = (0..=ROUNDS)
        .map(|_| {
            let began = Instant::now();
            std::thread::scope(|scope| {
                for _ in 0..threads {
                    scope.spawn(|| (0..calls).for_each(|n| step(black_box(n * 100))));
                }
            });
            began.elapsed().as_nanos() as f64 / calls as f64
        })
        .skip(1) // a warm-up
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

fn row(name: &str, calls: u64, step: impl Fn(u64) + Sync) {
    let (one, two) = (time(1, calls, &step), time(2, calls, &step));
    println!("| {name} | {one:.0} | {two:.0} | {:.1} |", two / one);
}

/// A table, a breaker a row.
pub fn run(calls: u64) {
    println!("| | ns a call | two threads: ns a call of each | × |");
    println!("| --- | ---: | ---: | ---: |");
    let breaker = peers::own();
    row("Hedgerow, time given", calls, |n| own(&breaker, n));
    let (breaker, start) = (peers::own(), Instant::now());
    row("Hedgerow, one look at the clock", calls, |_| {
        own(&breaker, start.elapsed().as_nanos() as u64);
    });
    let machine = peers::failsafe();
    row("failsafe 1.3", calls, |_| {
        if machine.is_call_permitted() {
            machine.on_success();
        }
    });
    let recloser = peers::recloser();
    row("recloser 1.4", calls, |_| _ = black_box(recloser.call(|| Ok::<(), ()>(()))));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _inside = runtime.enter();
    let belt = peers::seatbelt();
    row("seatbelt 0.11", calls / 10, |_| _ = black_box(poll(belt.execute(done()))));
    let tower = peers::tower();
    // It keeps a record of each call in its window, and looks through them.
    row("tower-resilience 0.14", calls / 500, |_| {
        let mut service = Arc::unwrap_or_clone(tower.clone());
        let _ = Service::<Work>::poll_ready(&mut service, &mut Context::from_waker(Waker::noop()));
        let _ = black_box(poll(service.call(done())));
    });
}

/// So many calls and nothing else, for whoever counts instructions.
pub fn count(calls: u64) {
    let breaker = peers::own();
    (0..calls).for_each(|n| own(&breaker, black_box(n * 100)));
}
