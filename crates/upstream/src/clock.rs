//! The one place of this crate that reads a clock and sleeps.
//!
//! Invariant: time comes from the runtime's clock, so a test that pauses it owns all time here.
#![allow(clippy::disallowed_methods, reason = "this is the driver's clock")]

use hedgerow_policy::Moment;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
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

    /// A clock by which it is `now`: moments of another clock that says so mean the same here.
    #[must_use]
    pub fn at(now: Moment) -> Clock {
        let here = Instant::now();
        Clock { start: here.checked_sub(now.since(Moment::START)).unwrap_or(here) }
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

/// A sleep that can be set anew, for waits that live as long as a call.
#[derive(Debug, Default)]
pub(crate) struct Timer {
    sleep: Option<Pin<Box<tokio::time::Sleep>>>,
    until: Option<Moment>,
}

impl Timer {
    /// Ready once `until` has come; pending for ever without one.
    pub(crate) fn poll(
        &mut self,
        clock: Clock,
        until: Option<Moment>,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        let Some(until) = until.filter(|until| *until != Moment::NEVER) else {
            return Poll::Pending;
        };
        let at = clock.start + until.since(Moment::START);
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at)));
        if self.until.replace(until) != Some(until) {
            sleep.as_mut().reset(at);
        }
        let done = sleep.as_mut().poll(cx);
        if done.is_ready() {
            self.until = None;
        }
        done
    }
}

/// The wall clock, for time stamps that people read.
pub(crate) fn unix_now() -> f64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}
