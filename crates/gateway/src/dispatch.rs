//! Streams that workers make step by step: the gateway keeps them open, and asks for more.
//!
//! Invariant: between two steps no worker is held, and the next step is asked for once the client has
//! taken what the last one brought, at the pace the policy allows. A stream that its worker began and
//! did not end is closed with one `close`, whoever ended it: the task that asks outlives the client.

use crate::answer::contract;
use crate::batch::Parked;
use crate::head::Head;
use crate::record::DispatchOpen;
use crate::route::PoolTimes;
use crate::serve::Shared;
use crate::service::{Inner, Turn};
use crate::settings::Dispatch;
use crate::wall;
use bytes::{Bytes, BytesMut};
use hedgerow_policy::Deadline;
use hedgerow_policy::failure::{At, Class, Failure, Phase};
use hedgerow_policy::pace::{Follow, Pace, PaceConfig};
use hedgerow_wire::capabilities::Capabilities;
use hedgerow_wire::dispatch::{self as wire, Event, Step};
use hedgerow_wire::request::{EncodeError, Sent};
use hedgerow_wire::stream::StreamKind;
use hedgerow_worker::{Answer, Body, Job, Lease, Stream, StreamItem, job};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

impl Inner {
    /// Offers the request to a worker as a stream in steps. `None`: it does not take it, and is to
    /// be asked in the ordinary way. A worker that knows no steps answers at once.
    pub(crate) async fn offer(
        &self,
        turn: &Turn,
        head: &Arc<Head>,
        dispatch: Dispatch,
        parked: &Parked,
        deadline: Deadline,
    ) -> Result<Option<Answer>, Failure> {
        let Some(open) = self.shared.recorder.open_dispatch(dispatch.max_open) else {
            let text = "as many streams in steps as plan.max_open allows are open";
            return Err(Failure::new(Class::WorkerPoolExhausted, At::Gateway, text));
        };
        let times = parked.times;
        let wait = self.shared.pool()?.acquire_with(deadline, times.queue);
        let lease = self.worker(turn, wait).await?;
        let clock = self.shared.clock;
        let silence = times.stream_idle.unwrap_or(dispatch.silence);
        let asking = Asking {
            shared: Arc::clone(&self.shared),
            head: Arc::clone(head),
            times,
            dispatch: Dispatch { silence, ..dispatch },
            state: Bytes::new(),
            pace: Pace::new(PaceConfig::new(silence), clock.now()),
            _open: open,
        };
        let question = asking.question(Event::Open);
        // Its end is not the caller's: what a worker began has to be closed.
        let job = turn.job(question, parked.body()?, Deadline::NEVER, times);
        let (opened, answer) = oneshot::channel();
        tokio::spawn(asking.run(lease, job, opened));
        match clock.until(deadline.at, answer).await {
            Some(Ok(answer)) => answer,
            Some(Err(_)) => Err(contract("nobody answered for the stream")),
            None => {
                let text = "the stream did not begin in time";
                Err(Failure::new(Class::Timeout, At::Worker, text).in_phase(deadline.phase))
            }
        }
    }
}

/// The request with what a step adds to it.
struct Question {
    head: Arc<Head>,
    event: Event,
    state: Bytes,
}

impl job::Head for Question {
    fn encode(
        &self,
        body: &Body,
        capabilities: Capabilities,
        out: &mut BytesMut,
    ) -> Result<Sent, EncodeError> {
        self.head.encode_within(body, capabilities, out, |out, request| {
            wire::write_request(out, request, self.event, &self.state)
        })
    }

    fn id(&self) -> &str {
        job::Head::id(&*self.head)
    }

    fn asks_for_a_step(&self) -> bool {
        true
    }
}

/// One stream, on the side of the workers.
struct Asking {
    shared: Arc<Shared>,
    head: Arc<Head>,
    times: PoolTimes,
    dispatch: Dispatch,
    state: Bytes,
    pace: Pace,
    _open: DispatchOpen,
}

/// The client's end of a stream that has begun.
type Client = mpsc::Sender<StreamItem>;

impl Asking {
    async fn run(
        mut self,
        lease: Lease,
        job: Job,
        opened: oneshot::Sender<Result<Option<Answer>, Failure>>,
    ) {
        let answered = match self.exchange(lease, job, Event::Open).await {
            Ok(Answer::Dispatch(payload)) => self.step(&payload),
            other => return drop(opened.send(other.map(Some))),
        };
        let mut step = match answered {
            Ok(step) if step.handled => step,
            Ok(_) => return drop(opened.send(Ok(None))),
            Err(failure) => return drop(opened.send(Err(failure))),
        };
        // One piece is ready while the client takes the one before; no more is asked for.
        let (client, items) = mpsc::channel(1);
        let stream = Stream { start: step.start.clone(), items };
        let kind = stream.start.kind;
        let _ = opened.send(Ok(Some(Answer::Stream(stream))));
        loop {
            let done = step.done;
            match self.deliver(step, kind, &client).await {
                Some(_) if done => return drop(client.send(StreamItem::End).await),
                Some(Follow::After(pause)) if pause.is_zero() => {}
                Some(Follow::After(pause)) => {
                    let clock = self.shared.clock;
                    tokio::select! {
                        () = clock.sleep_until(clock.now() + pause) => {}
                        () = client.closed() => return self.close().await,
                    }
                }
                Some(Follow::Silent) => {
                    let text = "the steps of the stream brought nothing for too long";
                    let failure = Failure::new(Class::Timeout, At::Worker, text);
                    return self.fail(failure.in_phase(Phase::Read), &client).await;
                }
                None => return self.close().await,
            }
            step = match self.next(&client).await {
                Some(Ok(step)) => step,
                Some(Err(failure)) => return self.fail(failure, &client).await,
                None => return self.close().await,
            };
        }
    }

    /// Hands on what a step brought; `None` once the client has gone. A text of nothing is nothing: no
    /// client would set its pace.
    async fn deliver(&mut self, step: Step, kind: StreamKind, client: &Client) -> Option<Follow> {
        let mut brought = false;
        for chunk in step.chunks {
            if kind == StreamKind::Text && chunk.data.is_empty() {
                continue;
            }
            brought = true;
            client.send(StreamItem::Chunk(chunk)).await.ok()?;
        }
        if client.is_closed() && !step.done {
            return None;
        }
        Some(self.pace.on_step(self.shared.clock.now(), brought))
    }

    /// The next step; `None` once the client has gone.
    async fn next(&mut self, client: &Client) -> Option<Result<Step, Failure>> {
        let lease = tokio::select! {
            lease = self.lease() => lease,
            () = client.closed() => return None,
        };
        let lease = match lease {
            Ok(lease) => lease,
            Err(failure) => return Some(Err(failure)),
        };
        let job = self.ask(Event::Next);
        Some(match self.exchange(lease, job, Event::Next).await {
            Ok(Answer::Dispatch(payload)) => self.step(&payload).map(|mut step| {
                // A worker that knows nothing of the stream any more has nothing more to say.
                step.done |= !step.handled;
                step
            }),
            Ok(_) => Err(contract("the answer to a step of a stream is no step")),
            Err(failure) => Err(failure),
        })
    }

    async fn fail(self, failure: Failure, client: &Client) {
        let _ = client.send(StreamItem::Failed(failure)).await;
        self.close().await;
    }

    /// Tells a worker that the stream is over. What it answers is for nobody.
    async fn close(self) {
        if let Ok(lease) = self.lease().await {
            let job = self.ask(Event::Close);
            let _ = self.exchange(lease, job, Event::Close).await;
        }
    }

    async fn lease(&self) -> Result<Lease, Failure> {
        let until = self.shared.clock.now() + self.dispatch.silence;
        self.shared.pool()?.step(Deadline::new(until, Phase::Queue)).await
    }

    async fn exchange(&self, lease: Lease, job: Job, event: Event) -> Result<Answer, Failure> {
        self.shared.recorder.dispatch_step(event);
        lease.exchange(job).await
    }

    fn question(&self, event: Event) -> Arc<Question> {
        Arc::new(Question { head: Arc::clone(&self.head), event, state: self.state.clone() })
    }

    /// A question after the first. The body came with that one.
    fn ask(&self, event: Event) -> Job {
        let read = self.times.read.unwrap_or(self.dispatch.read_timeout);
        self.head.set_deadline(wall::now().unix_millis_after(read));
        let body = Body::Memory(Bytes::new());
        let mut job = Job::new(self.question(event), body, Deadline::NEVER);
        job.read_timeout = Some(read);
        job
    }

    /// Reads a step, and keeps its state.
    fn step(&mut self, payload: &Bytes) -> Result<Step, Failure> {
        let step = wire::decode(payload, job::Head::id(&*self.head))
            .map_err(|error| Failure::new(Class::AppContractError, At::Worker, error.detail))?;
        if let Some(state) = &step.state {
            if state.len() as u64 > self.dispatch.state_limit {
                return Err(contract("the state of a stream is over plan.state_limit"));
            }
            self.state = state.clone();
        }
        Ok(step)
    }
}
