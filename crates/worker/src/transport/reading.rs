//! Waiting for a worker under two bounds: the caller's, which ends the caller's wait, and the
//! worker's, which ends the worker.
//!
//! Invariant: the caller's bound or leaving never frees the worker. Only its answer does, or the
//! read timeout, after which it is not used again.

use super::connection::timed_out;
use hedgerow_clock::Clock;
use hedgerow_policy::{Deadline, Failure, Moment};
use std::future::Future;
use tokio::sync::oneshot;

/// The caller of an exchange, as long as it waits.
pub(super) struct Caller<T> {
    waiting: Option<oneshot::Sender<Result<T, Failure>>>,
    until: Deadline,
    clock: Clock,
}

impl<T> Caller<T> {
    pub(super) fn new(
        waiting: oneshot::Sender<Result<T, Failure>>,
        until: Deadline,
        clock: Clock,
    ) -> Caller<T> {
        Caller { waiting: Some(waiting), until, clock }
    }

    /// Whether nobody takes the answer any more.
    pub(super) fn gone(&self) -> bool {
        self.waiting.as_ref().is_none_or(oneshot::Sender::is_closed)
    }

    /// Until when it waits.
    pub(super) fn until(&self) -> Moment {
        self.until.at
    }

    /// Gives the caller its answer. False if it is not there to take it.
    pub(super) fn answer(&mut self, answer: Result<T, Failure>) -> bool {
        self.waiting.take().is_some_and(|waiting| waiting.send(answer).is_ok())
    }

    /// Runs `work` until the worker's bound; on the way the caller's bound answers the caller.
    pub(super) async fn wait<O>(
        &mut self,
        worker: Deadline,
        work: impl Future<Output = Result<O, Failure>>,
    ) -> Result<O, Failure> {
        tokio::pin!(work);
        if self.waiting.is_some() && self.until.at < worker.at {
            match self.clock.until(self.until.at, &mut work).await {
                Some(done) => return done,
                None => {
                    self.answer(Err(timed_out(self.until)));
                }
            }
        }
        match self.clock.until(worker.at, work).await {
            Some(done) => done,
            None => Err(timed_out(worker)),
        }
    }
}
