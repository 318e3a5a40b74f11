//! One request with the workers: the first that is asked, and whoever is asked after it.
//!
//! Invariant: a worker is taken only here, and the live table and the records say which.

use crate::answer;
use crate::batch::{self, Parked};
use crate::connection::Response;
use crate::head::Head;
use crate::record::Stage;
use crate::route::PoolTimes;
use crate::service::{Inner, NoAnswer, Ready, Turn};
use hedgerow_policy::Deadline;
use hedgerow_policy::failure::{At, Failure};
use hedgerow_wire::batch::Then;
use hedgerow_worker::{Answer, Body, Job, Lease};
use std::future::Future;
use std::sync::Arc;

impl Inner {
    /// The answer to a request that goes to the workers. One that asks for a batch is asked again
    /// with the results.
    pub(crate) async fn work(
        &self,
        turn: Turn,
        head: &Arc<Head>,
        ready: Ready,
        deadline: Deadline,
    ) -> Result<Response, NoAnswer> {
        let parked = Parked::new(&ready.body, ready.request_timeout, ready.pool);
        let mut answer = tokio::select! {
            biased;
            answer = self.first(&turn, head, ready.body, &parked, deadline) => answer,
            failure = self.ended(&turn) => Err(failure),
        };
        let mut rounds = 0;
        let answer = loop {
            let batch = match answer {
                Ok(Answer::Plan(frame)) => {
                    return self.plan(turn, &head.method, &head.headers, &frame).await;
                }
                Ok(Answer::Batch(frame)) => match batch::read(&frame, At::Worker) {
                    Ok(batch) if batch.then == Then::Respond => {
                        return self.batch(turn, &head.headers, batch);
                    }
                    Ok(batch) => batch,
                    Err(failure) => break Err(failure),
                },
                answer => break answer,
            };
            rounds += 1;
            answer = tokio::select! {
                biased;
                answer = self.resume(&turn, head, &parked, batch, rounds) => answer,
                failure = self.ended(&turn) => Err(failure),
            };
        };
        let reply = answer.and_then(|answer| answer::reply(answer, &head.method, &turn.live.names));
        match reply {
            Ok(reply) => Ok(self.reply(turn, reply)),
            Err(failure) => self.fail(turn, failure, &head.headers, false),
        }
    }

    /// The answer of the first worker that is asked; of the second, where the first was offered the
    /// request as a stream in steps and does not take it.
    pub(crate) async fn first(
        &self,
        turn: &Turn,
        head: &Arc<Head>,
        body: Body,
        parked: &Parked,
        deadline: Deadline,
    ) -> Result<Answer, Failure> {
        let (pool, times) = (self.shared.pool()?, parked.times);
        let Some(dispatch) = turn.live.settings.dispatch else {
            let lease = self.worker(turn, pool.acquire_with(deadline, times.queue)).await?;
            let head = Arc::<Head>::clone(head);
            return lease.exchange(turn.job(head, body, deadline, times)).await;
        };
        if let Some(answer) = self.offer(turn, head, dispatch, parked, deadline).await? {
            return Ok(answer);
        }
        let lease = self.worker(turn, pool.resume(deadline)).await?;
        let head = Arc::<Head>::clone(head);
        lease.exchange(turn.job(head, parked.body()?, deadline, times)).await
    }

    /// Waits for a worker, as the live table and the records see it.
    pub(crate) async fn worker(
        &self,
        turn: &Turn,
        wait: impl Future<Output = Result<Lease, Failure>>,
    ) -> Result<Lease, Failure> {
        turn.active.set_stage(Stage::Queued);
        let lease = wait.await?;
        turn.active.set_worker(lease.worker(), lease.pid());
        if !lease.waited().is_zero() {
            turn.active.set_queue_wait(lease.waited());
        }
        turn.active.set_stage(Stage::Working);
        Ok(lease)
    }
}

impl Turn {
    /// What a worker is given.
    pub(crate) fn job(
        &self,
        head: Arc<dyn hedgerow_worker::Head>,
        body: Body,
        deadline: Deadline,
        times: PoolTimes,
    ) -> Job {
        let (read_timeout, stream_idle_timeout) = (times.read, times.stream_idle);
        let wants_body = !self.bodiless;
        Job { head, body, deadline, read_timeout, stream_idle_timeout, wants_body }
    }
}
