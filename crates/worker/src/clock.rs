//! The one place of this crate that reads a clock and sleeps.
//!
//! Invariant: time comes from the runtime's clock, so a test that pauses it owns all time here.
#![allow(clippy::disallowed_methods, reason = "this is the driver's clock")]

use hedgerow_policy::Moment;
use std::future::Future;
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

    /// Returns once `moment` has come; never for [`Moment::NEVER`].
    pub async fn sleep_until(&self, moment: Moment) {
        if moment == Moment::NEVER {
            return std::future::pending().await;
        }
        tokio::time::sleep_until(self.start + moment.since(Moment::START)).await;
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
