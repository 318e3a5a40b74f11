//! Where this crate waits. Its waiting is what it is asked to do: the scenarios are about real
//! programs that take real time.

use std::time::{Duration, Instant};

/// Sleeps for so many milliseconds.
#[allow(clippy::disallowed_methods, reason = "a scripted actor takes the time it is told to take")]
pub(crate) fn sleep_ms(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

/// The moment so many milliseconds from now.
#[allow(clippy::disallowed_methods, reason = "what a scripted store holds expires by the clock")]
pub(crate) fn in_ms(ms: u64) -> Instant {
    Instant::now() + Duration::from_millis(ms)
}

/// How long until then; none once it has come.
#[allow(clippy::disallowed_methods, reason = "what a scripted store holds expires by the clock")]
pub(crate) fn left(until: Instant) -> Option<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    (!left.is_zero()).then_some(left)
}

/// Sleeps until the process is ended.
pub(crate) fn sleep_for_ever() -> ! {
    loop {
        sleep_ms(3_600_000);
    }
}
