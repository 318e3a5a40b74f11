//! A request that is still being sent while its answer is already coming.
//!
//! Invariant: what arrives of the request is sent, whether or not anybody asks for more of the
//! answer. A caller that sends everything before it reads would otherwise wait for ever: it is not
//! read from because the upstream is not written to, and that because the caller does not read.

use crate::body::Reading;
use crate::connection::Task;
use crate::driven::Driven;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

/// See the module's head. Dropped, the connection closes.
pub(crate) struct Uploading {
    /// `None` once it was given up, or given back.
    driven: Arc<Mutex<Option<Driven>>>,
    _task: Task,
}

impl Uploading {
    /// Sends on in the background, until the body has been read.
    pub(crate) fn start(driven: Driven, reading: Reading) -> Uploading {
        let driven = Arc::new(Mutex::new(Some(driven)));
        let shared = driven.clone();
        let sending = poll_fn(move |cx| {
            with(&shared, |driven| match driven {
                Some(driven) if reading.goes_on() && !driven.is_over() => {
                    driven.poll_beside(cx);
                    Poll::Pending
                }
                _ => Poll::Ready(()),
            })
        });
        let _task = Task(tokio::spawn(sending).abort_handle());
        Uploading { driven, _task }
    }

    /// The connection, for a moment.
    pub(crate) fn with<T>(&self, then: impl FnOnce(&mut Option<Driven>) -> T) -> T {
        with(&self.driven, then)
    }

    /// The answer is complete: the connection, for one user again.
    pub(crate) fn end(self) -> Option<Driven> {
        let driven = self.with(Option::take);
        driven.inspect(Driven::alone)
    }
}

impl Drop for Uploading {
    fn drop(&mut self) {
        // The task may be running just now; the connection is not to wait for its end.
        let driven = self.with(Option::take);
        drop(driven);
    }
}

fn with<T>(driven: &Mutex<Option<Driven>>, then: impl FnOnce(&mut Option<Driven>) -> T) -> T {
    then(&mut driven.lock().unwrap_or_else(PoisonError::into_inner))
}
