//! A sleep that lives as long as a call and is set anew as often as the call's next wake changes.

use crate::Clock;
use hedgerow_policy::Moment;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A sleep that can be set anew. It allocates at its first use alone, so a call that never waits
/// for a time does not pay for one.
#[derive(Debug, Default)]
pub struct Timer {
    sleep: Option<Pin<Box<tokio::time::Sleep>>>,
    until: Option<Moment>,
}

impl Timer {
    /// Ready once `until` has come by `clock`; pending for ever without one or for
    /// [`Moment::NEVER`].
    pub fn poll(&mut self, clock: Clock, until: Option<Moment>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(until) = until.filter(|until| *until != Moment::NEVER) else {
            return Poll::Pending;
        };
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(clock.timer(until)));
        if self.until.replace(until) != Some(until) {
            sleep.as_mut().reset(clock.instant(until));
        }
        let done = sleep.as_mut().poll(cx);
        if done.is_ready() {
            self.until = None;
        }
        done
    }
}
