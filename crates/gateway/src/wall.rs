//! The one place of this crate that reads the wall clock.
//!
//! Invariant: wall time is for people only (the `ts` of a line, `started_at_unix`). No decision
//! and no duration is made from it: those come from the driver's clock, which never jumps.
#![allow(clippy::disallowed_methods, reason = "log lines carry the time of day")]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A time of day, in milliseconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stamp(u64);

/// The time of day it is.
pub(crate) fn now() -> Stamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    Stamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Nanoseconds since 1970, for spans.
pub(crate) fn unix_nanos() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

impl Stamp {
    /// Whole seconds since 1970.
    pub(crate) const fn unix_seconds(self) -> u64 {
        self.0 / 1_000
    }

    /// Milliseconds since 1970.
    pub(crate) const fn unix_millis(self) -> u64 {
        self.0
    }

    /// Milliseconds since 1970, so much later.
    pub(crate) fn unix_millis_after(self, later: Duration) -> u64 {
        self.0.saturating_add(u64::try_from(later.as_millis()).unwrap_or(u64::MAX))
    }

    /// Appends the RFC 3339 form in UTC, with milliseconds: `2026-11-29T08:15:00.042Z`.
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        let (days, in_day) = (self.0 / 86_400_000, self.0 % 86_400_000);
        let (year, month, day) = civil(days);
        digits(out, year, 4);
        out.push(b'-');
        digits(out, month, 2);
        out.push(b'-');
        digits(out, day, 2);
        out.push(b'T');
        digits(out, in_day / 3_600_000, 2);
        out.push(b':');
        digits(out, in_day / 60_000 % 60, 2);
        out.push(b':');
        digits(out, in_day / 1_000 % 60, 2);
        out.push(b'.');
        digits(out, in_day % 1_000, 3);
        out.push(b'Z');
    }
}

/// Year, month and day of a day number since 1970 (Howard Hinnant's `civil_from_days`, which
/// counts in eras of 400 years that begin in March, so that the leap day comes last).
const fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (year + era * 400 + if month <= 2 { 1 } else { 0 }, month, day)
}

/// Appends the last `width` digits of `value`, with leading zeros.
fn digits(out: &mut Vec<u8>, value: u64, width: usize) {
    let start = out.len();
    out.resize(start + width, b'0');
    let mut rest = value;
    for digit in out[start..].iter_mut().rev() {
        *digit += u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(millis: u64) -> String {
        let mut out = Vec::new();
        Stamp(millis).write(&mut out);
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn days_that_are_easily_wrong() {
        assert_eq!(text(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(text(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(text(1_709_251_199_999), "2024-02-29T23:59:59.999Z");
        assert_eq!(text(1_709_251_200_000), "2024-03-01T00:00:00.000Z");
        assert_eq!(text(4_107_542_400_000), "2100-03-01T00:00:00.000Z");
    }

    #[test]
    fn each_day_follows_the_one_before() {
        let mut before = civil(0);
        for day in 1..200_000 {
            let after = civil(day);
            let next_in_month = after == (before.0, before.1, before.2 + 1);
            let first = after.2 == 1 && (28..=31).contains(&before.2);
            let next_month = first && after.0 * 12 + after.1 == before.0 * 12 + before.1 + 1;
            assert!(next_in_month || next_month, "{before:?} then {after:?}");
            before = after;
        }
    }
}
