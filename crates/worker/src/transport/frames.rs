//! One request over the frames contract: a frame out; a response, a stream, a plan, a batch or a step back.
//!
//! Invariant: the lease is settled by how the worker ended, whatever became of the caller: in full
//! it serves on; past a timeout or out of step it is never used again.

mod unwanted;

use super::attended::Attended;
use super::connection::{Connection, PIECE, silent, timed_out};
use super::reading::Caller;
use crate::answer::{Answer, Content, Response, Stream, StreamItem};
use crate::job::{Head, Job};
use crate::pool::{Inner, Lease};
use crate::worker::Worker;
use bytes::{Bytes, BytesMut};
use hedgerow_policy::failure::{At, Phase, Report, Retry};
use hedgerow_policy::observe::Event;
use hedgerow_policy::pool::Outcome;
use hedgerow_policy::{Class, Deadline, Failure};
use hedgerow_wire::answer::{self as wire, Kind, WorkerError};
use hedgerow_wire::capabilities::Capabilities;
use hedgerow_wire::request::{EncodeError, Sent};
use hedgerow_wire::stream as wire_stream;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Runs the exchange and waits for its answer.
pub(crate) async fn exchange(lease: Lease, job: Job) -> Result<Answer, Failure> {
    let (waiting, answer) = oneshot::channel();
    Attended { work: Some(Box::pin(run(lease, job, waiting))), answer }.await
}

struct Exchange {
    lease: Lease,
    pool: Arc<Inner>,
    worker: Arc<Worker>,
    connection: Connection,
    caller: Caller<Answer>,
    head: Arc<dyn Head>,
    read_timeout: Duration,
    stream_idle_timeout: Duration,
    wants_body: bool,
    keep: bool,
}

async fn run(mut lease: Lease, job: Job, waiting: oneshot::Sender<Result<Answer, Failure>>) {
    let mut second = false;
    let (pool, worker, connection) = loop {
        let opened = match lease.live() {
            Ok((pool, worker)) => Connection::open(&worker, pool.clock, job.deadline)
                .await
                .map(|connection| (pool, worker, connection)),
            Err(failure) => Err(failure),
        };
        match opened {
            Ok(open) => break open,
            Err(failure) => {
                // Not a byte was written: the one failure on the way to a worker that may be
                // tried again, once, and only if another worker is idle right now.
                let other =
                    if second || failure.retry != Retry::Unsent { None } else { lease.another() };
                let ended = if failure.class == Class::Timeout {
                    Outcome::TimedOut
                } else {
                    Outcome::Fault
                };
                lease.settle(ended);
                match other {
                    Some(next) => (lease, second) = (next, true),
                    None => return drop(waiting.send(Err(failure))),
                }
            }
        }
    };
    let caller = Caller::new(waiting, job.deadline, pool.clock);
    let exchange = Exchange {
        lease,
        pool,
        connection,
        caller,
        head: job.head.clone(),
        read_timeout: job.read_timeout.unwrap_or(worker.settings.read_timeout),
        stream_idle_timeout: job.stream_idle_timeout.unwrap_or(worker.settings.stream_idle_timeout),
        worker,
        wants_body: job.wants_body,
        keep: true,
    };
    exchange.go(job).await;
}

impl Exchange {
    async fn go(mut self, job: Job) {
        let mut frame = BytesMut::with_capacity(1024);
        let capabilities = self.worker.capabilities();
        let raw = match job.head.encode(&job.body, capabilities, &mut frame) {
            Ok(Sent::Whole) => false,
            Ok(Sent::RawFollows(_)) => true,
            Err(error) => return self.complete(Outcome::Unused, Err(does_not_fit(error))),
        };
        let bound = self.read_timeout;
        if let Err(failure) = self.connection.send(&frame, raw, job.body, bound).await {
            return self.broken(failure);
        }
        drop(frame);
        let bound = self.read_bound();
        let payload = match self.caller.wait(bound, self.connection.frame()).await {
            Ok(payload) => payload,
            Err(failure) => return self.broken(failure),
        };
        if self.caller.gone() {
            let worker = self.worker.id.slot;
            self.pool.observer.on(&Event::LateAnswer { worker, trace: self.head.id() });
        }
        match wire::decode(&payload, self.head.id()) {
            Ok(wire::Answer::Response(head)) => self.response(head).await,
            Ok(wire::Answer::StreamStart(start)) => self.stream(start).await,
            Ok(wire::Answer::Plan(json)) => self.handed_over(&payload, Answer::Plan(json)),
            Ok(wire::Answer::Batch(json)) => self.handed_over(&payload, Answer::Batch(json)),
            Ok(wire::Answer::Dispatch(json)) if self.head.asks_for_a_step() => {
                self.handed_over(&payload, Answer::Dispatch(json));
            }
            Ok(wire::Answer::Dispatch(_)) => {
                let text = "the worker answered a plain request with a dispatch result";
                self.broken(Failure::new(Class::TransportError, At::Worker, text));
            }
            Err(error) if error.kind == Kind::Contract => {
                // Raw bytes may follow a head that was refused.
                self.keep = false;
                let failure = Failure::new(Class::AppContractError, At::Worker, error.detail);
                self.complete(Outcome::Done, Err(failure));
            }
            Err(error) => {
                self.broken(Failure::new(Class::TransportError, At::Worker, error.detail));
            }
        }
    }

    /// The exchange broke or took too long: the caller hears it first, then the worker ends.
    fn broken(&mut self, failure: Failure) {
        let outcome = match failure.class {
            Class::Timeout => Outcome::TimedOut,
            _ => Outcome::Fault,
        };
        self.caller.answer(Err(failure));
        self.settle(outcome);
    }

    /// The worker is done: it is free before the caller can ask for it again.
    fn complete(&mut self, outcome: Outcome, answer: Result<Answer, Failure>) {
        self.settle(outcome);
        self.caller.answer(answer);
    }

    /// A plan or a batch: the worker has nothing more to do with it.
    fn handed_over(&mut self, payload: &Bytes, answer: Answer) {
        self.learn(wire::capabilities(payload));
        self.complete(Outcome::Done, Ok(answer));
    }

    async fn response(&mut self, mut head: wire::Response) {
        self.learn(head.capabilities);
        let reported = head.worker_error.take();
        let done = outcome_of(reported.as_ref());
        let body = std::mem::replace(&mut head.body, wire::Body::Inline(Bytes::new()));
        let whole = self.worker.settings.answer_buffer.min(PIECE) as u64;
        let content = match body {
            wire::Body::Inline(bytes) => bytes,
            wire::Body::Raw(length) if reported.is_some() || !self.wants_body => {
                let answer = match reported {
                    Some(error) => Err(failure_of(error)),
                    None => {
                        // The length is all that is told of a body.
                        if length > 0 {
                            head.declared_length.get_or_insert(length);
                        }
                        let content = Content::Full(Bytes::new());
                        Ok(Answer::Response(Response { head, content }))
                    }
                };
                return self.unwanted(length, answer, done).await;
            }
            wire::Body::Raw(length) if length > whole => {
                let sender = self.begin_pieces(head, length);
                return self.pieces(length, sender, done).await;
            }
            wire::Body::Raw(length) => {
                let mut bytes = BytesMut::with_capacity(length as usize);
                while (bytes.len() as u64) < length {
                    let left = length - bytes.len() as u64;
                    let bound = self.read_bound();
                    match self.caller.wait(bound, self.connection.piece(left)).await {
                        Ok(piece) => bytes.extend_from_slice(&piece),
                        Err(failure) => return self.broken(failure),
                    }
                }
                bytes.freeze()
            }
        };
        let answer = match reported {
            Some(error) => Err(failure_of(error)),
            None => Ok(Answer::Response(Response { head, content: Content::Full(content) })),
        };
        self.complete(done, answer);
    }

    fn begin_pieces(
        &mut self,
        head: wire::Response,
        length: u64,
    ) -> mpsc::Sender<Result<Bytes, Failure>> {
        let pieces = (self.worker.settings.answer_buffer / PIECE).max(1);
        let (sender, pieces) = mpsc::channel(pieces);
        let content = Content::Pieces { length, pieces };
        self.caller.answer(Ok(Answer::Response(Response { head, content })));
        sender
    }

    /// Passes on a long body; reads and drops what is left of it once its client has gone.
    async fn pieces(
        &mut self,
        length: u64,
        client: mpsc::Sender<Result<Bytes, Failure>>,
        done: Outcome,
    ) {
        let mut client = Some(client);
        let mut left = length;
        while left > 0 {
            let bound = self.read_bound();
            let piece = match self.pool.clock.until(bound.at, self.connection.piece(left)).await {
                Some(Ok(piece)) => piece,
                broken => {
                    let failure = broken.and_then(Result::err).unwrap_or_else(|| timed_out(bound));
                    self.broken(failure.clone());
                    self.pass_on(client, Err(failure)).await;
                    return;
                }
            };
            left -= piece.len() as u64;
            if left == 0 {
                self.settle(done);
            }
            client = self.pass_on(client, Ok(piece)).await;
        }
    }

    async fn stream(&mut self, start: wire_stream::StreamStart) {
        self.learn(start.capabilities);
        let (sender, items) = mpsc::channel(STREAM_ITEMS);
        let answer = Answer::Stream(Stream { start, items });
        if !self.wants_body {
            return self.unwanted_stream(answer).await;
        }
        self.caller.answer(Ok(answer));
        let mut client = Some(sender);
        let mut left_until = None;
        loop {
            let idle = self.stream_idle_timeout;
            let bound = left_until.unwrap_or_else(|| {
                Deadline::NEVER.within(self.connection.now(), idle, Phase::Read)
            });
            let gone = async {
                match &client {
                    Some(client) => client.closed().await,
                    None => std::future::pending().await,
                }
            };
            let event = tokio::select! {
                biased;
                payload = self.connection.frame() => payload.and_then(|p| self.event(&p)),
                () = gone => {
                    client = None;
                    left_until = Some(self.client_left().await);
                    continue;
                }
                () = self.pool.clock.sleep_until(bound.at) => match left_until {
                    Some(bound) => Err(timed_out(bound)),
                    None => Err(silent(bound)),
                },
            };
            let last = match event {
                Ok(wire_stream::Event::Chunk(chunk)) => {
                    client = self.pass_on(client, StreamItem::Chunk(chunk)).await;
                    if client.is_none() && left_until.is_none() {
                        left_until = Some(self.client_left().await);
                    }
                    continue;
                }
                Ok(wire_stream::Event::End) => {
                    self.settle(Outcome::Done);
                    StreamItem::End
                }
                Ok(wire_stream::Event::Error(error)) => {
                    self.settle(outcome_of(Some(&error)));
                    StreamItem::Failed(failure_of(error))
                }
                Err(failure) => {
                    self.broken(failure.clone());
                    StreamItem::Failed(failure)
                }
            };
            self.pass_on(client, last).await;
            return;
        }
    }

    fn event(&self, payload: &Bytes) -> Result<wire_stream::Event, Failure> {
        wire_stream::decode(payload, self.head.id())
            .map_err(|error| Failure::new(Class::TransportError, At::Worker, error.detail))
    }

    /// The client of a stream is gone: a worker that understands it is told; any worker has the
    /// read timeout left to come to its end.
    async fn client_left(&mut self) -> Deadline {
        if self.worker.capabilities().cancel {
            self.connection.half_close().await;
            self.keep = false;
        }
        self.read_bound()
    }

    /// Gives something to the client. A client that takes nothing for the stream idle timeout is
    /// given up: it may not hold the worker for ever.
    async fn pass_on<T>(
        &self,
        client: Option<mpsc::Sender<T>>,
        item: T,
    ) -> Option<mpsc::Sender<T>> {
        let client = client?;
        let patience = self.connection.now() + self.stream_idle_timeout;
        match self.pool.clock.until(patience, client.send(item)).await {
            Some(Ok(())) => Some(client),
            _ => None,
        }
    }

    fn read_bound(&self) -> Deadline {
        Deadline::NEVER.within(self.connection.now(), self.read_timeout, Phase::Read)
    }

    fn learn(&self, announced: Option<Capabilities>) {
        if let Some(set) = announced {
            self.worker.announce(set);
        }
    }

    /// Keeps the connection where the worker can use it again, and settles the lease.
    fn settle(&mut self, outcome: Outcome) {
        let mut outcome = outcome;
        if outcome == Outcome::Done && self.keep && self.connection.has_more() {
            // It said more than was asked: what it would say next is anybody's guess.
            outcome = Outcome::Fault;
        }
        let kept = self.keep && matches!(outcome, Outcome::Done | Outcome::Unused);
        if kept && self.worker.capabilities().keep_alive {
            self.connection.give_back(&self.worker);
        }
        self.lease.settle(outcome);
        if outcome == Outcome::Done
            && self.worker.settings.pool.max_rss > 0
            && let Some(bytes) = self.worker.pid().and_then(crate::rss::resident_bytes)
        {
            let id = self.worker.id;
            self.pool.with(|policy, now| policy.on_rss(now, id, bytes));
        }
    }
}

/// Chunks of a stream read ahead of a slow client.
const STREAM_ITEMS: usize = 16;

fn does_not_fit(error: EncodeError) -> Failure {
    let text = format!("{error}; the worker does not take raw bodies");
    Failure::new(Class::RequestTooLarge, At::Gateway, text)
}

/// How a worker stands after an answer in full.
fn outcome_of(reported: Option<&WorkerError>) -> Outcome {
    if reported.is_some_and(|error| error.exiting) { Outcome::DoneLast } else { Outcome::Done }
}

/// What a worker says of its own failure. It may name the two classes that are the application's;
/// anything else it names is an uncaught error.
fn failure_of(error: WorkerError) -> Failure {
    let class = match Class::from_name(&error.class) {
        Some(Class::AppContractError) => Class::AppContractError,
        _ => Class::WorkerRuntimeError,
    };
    let text = error.message.clone().unwrap_or_default();
    let report = Report { class: error.class, exception: error.exception, message: error.message };
    Failure::new(class, At::Worker, text).reported(report)
}
