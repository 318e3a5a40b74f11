//! An exchange as long as somebody waits for its answer, and after that.
//!
//! Invariant: the exchange goes on whatever becomes of its caller. While the caller waits it is
//! driven by the caller's own task, so an ordinary request starts no task and crosses to none; what
//! is left of it once the caller has its answer (a stream, a long body) or has gone becomes a task.

use crate::answer::Answer;
use hedgerow_policy::failure::At;
use hedgerow_policy::{Class, Failure};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::runtime::Handle;
use tokio::sync::oneshot::{self, error::TryRecvError};

/// The exchange, and where its answer comes.
pub(super) struct Attended {
    pub(super) work: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    pub(super) answer: oneshot::Receiver<Result<Answer, Failure>>,
}

impl Future for Attended {
    type Output = Result<Answer, Failure>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        // Taken out, so that one that panics is not asked again when this is dropped.
        if let Some(mut work) = this.work.take()
            && work.as_mut().poll(cx).is_pending()
        {
            this.work = Some(work);
        }
        // Only the work gives the answer, so there is nobody else to be woken by: waiting here would
        // have the work wake the very task that is driving it, once for each request.
        match this.answer.try_recv() {
            Ok(answer) => Poll::Ready(answer),
            Err(TryRecvError::Empty) => Poll::Pending,
            Err(TryRecvError::Closed) => {
                let text = "the exchange ended without an answer";
                Poll::Ready(Err(Failure::new(Class::TransportError, At::Gateway, text)))
            }
        }
    }
}

impl Drop for Attended {
    fn drop(&mut self) {
        // Nobody waits any more, and the work must see that from its next step on.
        self.answer.close();
        // Without a runtime there is nothing left that could wait for the worker.
        if let Some(work) = self.work.take()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(work);
        }
    }
}
