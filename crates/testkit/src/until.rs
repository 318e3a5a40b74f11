//! Waiting for a condition.
#![allow(clippy::disallowed_methods, reason = "the bound on a test's patience is real time")]

use std::time::{Duration, Instant};

/// How long a test waits for what must happen. Never a measure of speed.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Looks until `look` gives a value.
///
/// # Panics
/// When it has not after [`PATIENCE`].
pub fn until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    within(PATIENCE, what, look)
}

/// The same where what must happen has a bound of its own.
///
/// # Panics
/// When it has not happened by then.
pub fn within<T>(bound: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < bound, "waited in vain for: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
