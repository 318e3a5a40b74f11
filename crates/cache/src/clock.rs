//! The one place of this crate that reads a clock and sleeps.
//!
//! Invariant: time comes from the runtime's clock, so a test that pauses it owns all time here. The
//! wall clock is asked only for what a client wrote as a date (`EXPIREAT`).
#![allow(clippy::disallowed_methods, reason = "this is the driver's clock")]

use hedgerow_policy::Moment;
use std::future::Future;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

/// A start, and the runtime's clock since then. Shared by everything whose moments are compared.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock that starts now.
    #[must_use]
    pub fn start() -> Clock {
        Clock { start: Instant::now() }
    }

    /// The moment it is.
    #[must_use]
    pub fn now(&self) -> Moment {
        Moment::START + self.start.elapsed()
    }

    /// Milliseconds since 1970.
    #[must_use]
    pub fn unix_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }

    /// A timer that fires at `moment`; [`Moment::NEVER`] is far away. It can be reset.
    pub(crate) fn timer(&self, moment: Moment) -> tokio::time::Sleep {
        tokio::time::sleep_until(self.instant(moment))
    }

    /// The runtime's instant of a moment, for [`tokio::time::Sleep::reset`].
    pub(crate) fn instant(&self, moment: Moment) -> Instant {
        // A month is never for a connection, and the runtime's timers do not like 584 years.
        const FAR: std::time::Duration = std::time::Duration::from_secs(30 * 86_400);
        let since = moment.since(Moment::START);
        self.start.checked_add(since).unwrap_or_else(|| self.start + FAR)
    }

    /// Returns once `moment` has come; never for [`Moment::NEVER`].
    pub async fn sleep_until(&self, moment: Moment) {
        if moment == Moment::NEVER {
            return std::future::pending().await;
        }
        tokio::time::sleep_until(self.instant(moment)).await;
    }

    /// Runs `work` until `moment`; `None` when it was not done by then. Work that is done is
    /// preferred over a bound that has passed.
    pub async fn until<T>(&self, moment: Moment, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = work => Some(done),
            () = self.sleep_until(moment) => None,
        }
    }
}
