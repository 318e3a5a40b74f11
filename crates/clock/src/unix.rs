//! The wall clock. It is asked for two things alone: what a client wrote as a date (`EXPIREAT`),
//! and time stamps that people read. No duration is made from it: it jumps.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Milliseconds since 1970.
#[must_use]
pub fn unix_ms() -> i64 {
    i64::try_from(since_1970().as_millis()).unwrap_or(i64::MAX)
}

/// Seconds since 1970.
#[must_use]
pub fn unix_seconds() -> f64 {
    since_1970().as_secs_f64()
}
