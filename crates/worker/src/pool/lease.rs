//! The right to one worker for one request, on its way from the pool to the exchange.
//!
//! Invariant: a permit is settled exactly once: by the exchange's outcome, or as unused when the
//! lease is dropped before anything was sent.

use super::Inner;
use crate::answer::Answer;
use crate::job::Job;
use crate::transport::frames;
use crate::worker::Worker;
use hedgerow_policy::failure::At;
use hedgerow_policy::pool::{Outcome, Permit};
use hedgerow_policy::{Class, Failure};
use std::sync::Arc;
use std::time::Duration;

/// A permit with its worker, before it is anybody's.
#[derive(Debug)]
pub(super) struct Seed {
    pub(super) permit: Permit,
    pub(super) worker: Option<Arc<Worker>>,
    pub(super) waited: Duration,
}

/// One worker for one request.
pub struct Lease {
    inner: Arc<Inner>,
    permit: Option<Permit>,
    worker: Option<Arc<Worker>>,
    waited: Duration,
}

impl Lease {
    pub(super) fn new(inner: Arc<Inner>, seed: Seed) -> Lease {
        Lease { inner, permit: Some(seed.permit), worker: seed.worker, waited: seed.waited }
    }

    /// The worker's slot, from 0.
    #[must_use]
    pub fn worker(&self) -> u32 {
        self.permit.as_ref().map_or(0, |p| p.worker.slot)
    }

    /// The worker's process; none where somebody else runs it.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.worker.as_ref().and_then(|worker| worker.pid())
    }

    /// How long the request waited in the queue.
    #[must_use]
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Sends the request and waits for the answer.
    ///
    /// The exchange runs in a task of its own. Dropping this future means the client has left: the
    /// worker stays taken until its answer, which is discarded, or until the read timeout.
    ///
    /// # Errors
    /// The one failure that ended the exchange.
    pub async fn exchange(self, job: Job) -> Result<Answer, Failure> {
        frames::exchange(self, job).await
    }

    pub(crate) fn live(&self) -> Result<(Arc<Inner>, Arc<Worker>), Failure> {
        let gone = || Failure::new(Class::TransportError, At::Worker, "the worker is gone");
        Ok((self.inner.clone(), self.worker.clone().ok_or_else(|| gone().unsent())?))
    }

    pub(crate) fn settle(&mut self, outcome: Outcome) {
        if let Some(permit) = self.permit.take() {
            self.inner.settle(permit, outcome);
        }
    }

    /// Another worker, if one is idle right now, for a request of which nothing was sent.
    pub(crate) fn another(&self) -> Option<Lease> {
        let seed = self.inner.second_try()?;
        Some(Lease::new(self.inner.clone(), seed))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.settle(Outcome::Unused);
    }
}
