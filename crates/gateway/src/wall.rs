//! The one place of this crate that reads the wall clock.
//!
//! Invariant: wall time is for people only (the `ts` of a line, `started_at_unix`). No decision
//! and no duration is made from it: those come from the driver's clock, which never jumps.
#![allow(clippy::disallowed_methods, reason = "log lines carry the time of day")]

use std::cell::Cell;
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
    /// So many milliseconds after the beginning of 1970.
    pub(crate) const fn at_millis(millis: u64) -> Stamp {
        Stamp(millis)
    }

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
        let (second, millis) = (self.0 / 1_000, self.0 % 1_000);
        out.extend_from_slice(&to_the_second(second));
        out.extend_from_slice(&[
            b'.',
            digit(millis / 100),
            digit(millis / 10),
            digit(millis),
            b'Z',
        ]);
    }
}

/// `2026-11-29T08:15:00`. Most lines of a busy gateway are of one second, so each thread keeps the
/// last.
fn to_the_second(second: u64) -> [u8; 19] {
    thread_local! {
        static LAST: Cell<(u64, [u8; 19])> = const { Cell::new((u64::MAX, [0; 19])) };
    }
    let (of, text) = LAST.try_with(Cell::get).unwrap_or((u64::MAX, [0; 19]));
    if of == second {
        return text;
    }
    let (year, month, day) = civil(second / 86_400);
    let in_day = second % 86_400;
    let mut text = *b"0000-00-00T00:00:00";
    let two =
        [(5, month), (8, day), (11, in_day / 3_600), (14, in_day / 60 % 60), (17, in_day % 60)];
    for (at, value) in [(0, year / 100), (2, year)].into_iter().chain(two) {
        text[at] = digit(value / 10);
        text[at + 1] = digit(value);
    }
    let _ = LAST.try_with(|last| last.set((second, text)));
    text
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

/// The last digit of `value`.
fn digit(value: u64) -> u8 {
    b'0' + u8::try_from(value % 10).unwrap_or(0)
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
