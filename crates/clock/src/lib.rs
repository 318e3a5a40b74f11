//! The drivers' clock: the one place where the crates that wait read the time and sleep.
//!
//! Invariant: time comes from the runtime's clock, so a test that pauses it owns all time. Policies
//! get [`Moment`]s as arguments and know nothing of this crate.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "this is the drivers' clock")]

mod timer;
mod unix;

pub use timer::Timer;
pub use unix::{unix_ms, unix_seconds};

use hedgerow_policy::Moment;
use std::future::Future;
use std::time::Duration;
use tokio::time::Instant;

/// What is further from the start than this is never for a timer: 30 years, the runtime's own idea
/// of the far future. A [`Moment`] holds 584.
const FAR: Duration = Duration::from_secs(30 * 365 * 86_400);

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

    /// The runtime's instant of a moment, for [`tokio::time::Sleep::reset`]; [`Moment::NEVER`] has
    /// one too, 30 years from the start.
    #[must_use]
    pub fn instant(&self, moment: Moment) -> Instant {
        self.start + moment.since(Moment::START).min(FAR)
    }

    /// A timer that fires at `moment` and can be reset.
    pub fn timer(&self, moment: Moment) -> tokio::time::Sleep {
        tokio::time::sleep_until(self.instant(moment))
    }

    /// Returns once `moment` has come; never for [`Moment::NEVER`].
    pub async fn sleep_until(&self, moment: Moment) {
        if moment == Moment::NEVER {
            return std::future::pending().await;
        }
        self.timer(moment).await;
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

#[cfg(test)]
mod tests;
