use super::*;
use std::task::{Context, Poll, Waker};

fn ms(ms: u64) -> Moment {
    Moment::START + Duration::from_millis(ms)
}

#[tokio::test(start_paused = true)]
async fn a_moment_comes_when_the_runtime_says_so() {
    let clock = Clock::start();
    clock.sleep_until(ms(1_500)).await;
    assert_eq!(clock.now(), ms(1_500));
}

#[tokio::test(start_paused = true)]
async fn done_work_is_preferred_over_a_bound_that_has_passed() {
    let clock = Clock::start();
    assert_eq!(clock.until(ms(0), async { 7 }).await, Some(7));
    assert_eq!(clock.until(ms(10), std::future::pending::<()>()).await, None);
    assert_eq!(clock.now(), ms(10));
}

#[tokio::test(start_paused = true)]
async fn never_is_no_overflow() {
    let clock = Clock::start();
    let almost = Moment::from_nanos(u64::MAX - 1);
    for far in [Moment::NEVER, almost] {
        assert!(clock.instant(far) > clock.instant(ms(86_400_000)), "{far:?}");
        assert_eq!(clock.until(ms(20), clock.sleep_until(far)).await, None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_timer_is_set_anew() {
    let clock = Clock::start();
    let mut timer = Timer::default();
    let mut cx = Context::from_waker(Waker::noop());
    assert_eq!(timer.poll(clock, None, &mut cx), Poll::Pending);
    assert_eq!(timer.poll(clock, Some(Moment::NEVER), &mut cx), Poll::Pending);
    assert_eq!(timer.poll(clock, Some(ms(50)), &mut cx), Poll::Pending);
    tokio::time::advance(Duration::from_millis(60)).await;
    assert_eq!(timer.poll(clock, Some(ms(100)), &mut cx), Poll::Pending, "moved before it fired");
    tokio::time::advance(Duration::from_millis(50)).await;
    assert_eq!(timer.poll(clock, Some(ms(100)), &mut cx), Poll::Ready(()));
    assert_eq!(timer.poll(clock, Some(ms(200)), &mut cx), Poll::Pending, "and once more");
}
