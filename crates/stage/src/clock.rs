//! Where this crate waits. Its waiting is what it is asked to do: the scenarios are about real
//! programs that take real time.

use std::time::Duration;

/// Sleeps for so many milliseconds.
#[allow(clippy::disallowed_methods, reason = "a scripted actor takes the time it is told to take")]
pub(crate) fn sleep_ms(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

/// Sleeps until the process is ended.
pub(crate) fn sleep_for_ever() -> ! {
    loop {
        sleep_ms(3_600_000);
    }
}
