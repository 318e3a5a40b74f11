//! The bounds on a wait, and which of them ends it.
//!
//! Invariant: a wait has one end, the earliest of its bounds, and the bound that ended it gives
//! the failure its phase. On a tie the outer bound (the request's) does not take the blame.

use crate::failure::Phase;
use crate::moment::Moment;
use std::time::Duration;

/// A bound in time, with the phase to name when it is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deadline {
    /// When the wait ends.
    pub at: Moment,
    /// Which wait it bounds.
    pub phase: Phase,
}

impl Deadline {
    /// A deadline that is never reached.
    pub const NEVER: Deadline = Deadline { at: Moment::NEVER, phase: Phase::Request };

    /// A deadline at `at` for `phase`.
    #[must_use]
    pub const fn new(at: Moment, phase: Phase) -> Deadline {
        Deadline { at, phase }
    }

    /// The deadline of a wait that begins now and may take `limit` within this one.
    #[must_use]
    pub fn within(self, now: Moment, limit: Duration, phase: Phase) -> Deadline {
        let inner = now + limit;
        if inner <= self.at { Deadline { at: inner, phase } } else { self }
    }

    /// Whether the deadline has been reached.
    #[must_use]
    pub fn reached(self, now: Moment) -> bool {
        now >= self.at
    }

    /// How long is left, zero once reached.
    #[must_use]
    pub fn left(self, now: Moment) -> Duration {
        self.at.since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earlier_bound_names_the_phase() {
        let request = Deadline::new(Moment::from_millis(5_000), Phase::Request);
        let now = Moment::from_millis(1_000);
        let read = request.within(now, Duration::from_secs(3), Phase::Read);
        assert_eq!(read, Deadline::new(Moment::from_millis(4_000), Phase::Read));
        assert_eq!(request.within(now, Duration::from_secs(10), Phase::Read), request);
        assert_eq!(request.within(now, Duration::from_secs(4), Phase::Read).phase, Phase::Read);
    }
}
