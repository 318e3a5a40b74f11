//! Whether the store stands still.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Awake until it is told otherwise.
#[derive(Default)]
pub(super) struct Gate {
    stalled: Mutex<Option<Until>>,
    woken: Condvar,
}

#[derive(Clone, Copy)]
enum Until {
    Woken,
    Moment(Instant),
}

impl Gate {
    /// Stands still for so many milliseconds, or until it is woken.
    pub(super) fn stall(&self, ms: Option<u64>) {
        let until = ms.map_or(Until::Woken, |ms| Until::Moment(crate::clock::in_ms(ms)));
        *self.stalled() = Some(until);
        // Who waits already looks again at how long.
        self.woken.notify_all();
    }

    pub(super) fn wake(&self) {
        *self.stalled() = None;
        self.woken.notify_all();
    }

    pub(super) fn is_stalled(&self) -> bool {
        match *self.stalled() {
            None => false,
            Some(Until::Woken) => true,
            Some(Until::Moment(moment)) => crate::clock::left(moment).is_some(),
        }
    }

    /// Returns once it is awake.
    pub(super) fn wait(&self) {
        let mut stalled = self.stalled();
        while let Some(until) = *stalled {
            stalled = match until {
                Until::Woken => self.woken.wait(stalled).unwrap_or_else(PoisonError::into_inner),
                Until::Moment(moment) => {
                    let Some(left) = crate::clock::left(moment) else { return };
                    let woken = self.woken.wait_timeout(stalled, left);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    fn stalled(&self) -> MutexGuard<'_, Option<Until>> {
        self.stalled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
