//! A point in time that somebody else measured.
//!
//! Invariant: a `Moment` is nanoseconds since a start its driver chose; two moments of different
//! drivers are never compared. All arithmetic saturates, so no deadline however far can overflow.
//! (The idea: quinn-proto's `now` in every call, without tying it to a clock type.)

use std::ops::{Add, Sub};
use std::time::Duration;

/// Nanoseconds since the driver's start. Lasts 584 years, then stands still.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Moment(u64);

impl Moment {
    /// The driver's start.
    pub const START: Moment = Moment(0);
    /// Later than every other moment: "never".
    pub const NEVER: Moment = Moment(u64::MAX);

    /// A moment `nanos` nanoseconds after the start.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Moment {
        Moment(nanos)
    }

    /// A moment `millis` milliseconds after the start.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Moment {
        Moment(millis.saturating_mul(1_000_000))
    }

    /// Nanoseconds since the start.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole milliseconds since the start.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// How long ago `earlier` was, zero if it is later than `self`.
    #[must_use]
    pub const fn since(self, earlier: Moment) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Moment {
    type Output = Moment;
    fn add(self, by: Duration) -> Moment {
        let nanos = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        Moment(self.0.saturating_add(nanos))
    }
}

impl Sub for Moment {
    type Output = Duration;
    fn sub(self, earlier: Moment) -> Duration {
        self.since(earlier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        assert_eq!(Moment::NEVER + Duration::from_secs(1), Moment::NEVER);
        assert_eq!(Moment::START + Duration::MAX, Moment::NEVER);
        assert_eq!(Moment::START - Moment::from_millis(5), Duration::ZERO);
        assert_eq!(Moment::from_millis(7) - Moment::from_millis(5), Duration::from_millis(2));
    }
}
