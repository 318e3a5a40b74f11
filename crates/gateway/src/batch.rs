//! Batches: calls side by side, and their results for whoever asked.
//!
//! Invariant: the client gets every key once: all together in the order of the requests, or, if it
//! accepts a stream, one by one as they settle. A worker that asked for them itself is free while
//! they come, and another is asked once more, with the results, ahead of the queue.

use crate::answer::{Reply, ReplyBody};
use crate::connection::Response;
use crate::head::Head;
use crate::plan::{context, nobody_calls};
use crate::record::Stage;
use crate::route::PoolTimes;
use crate::service::{Inner, NoAnswer, Turn};
use crate::stream::Source;
use crate::wall;
use bytes::{Bytes, BytesMut};
use hedgerow_policy::Deadline;
use hedgerow_policy::failure::{At, Class, Failure, Phase};
use hedgerow_upstream::{Batch, BatchOptions, Opened, PlanContext};
use hedgerow_wire::batch as wire;
use hedgerow_wire::capabilities::Capabilities;
use hedgerow_wire::request::{EncodeError, Sent};
use hedgerow_wire::sse;
use hedgerow_worker::{Answer, Body, job};
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, StatusCode};
use std::fs::File;
use std::io::Seek;
use std::sync::Arc;
use std::time::Duration;

/// Batches that one request may be resumed from.
const MAX_ROUNDS: u32 = 16;

/// How a client takes the results of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// One object, when all are there.
    Whole,
    /// A line a key.
    Lines,
    /// An event a key, and one more at the end.
    Events,
}

impl Form {
    pub(crate) fn of(headers: &HeaderMap) -> Form {
        let asked = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let types = asked.flat_map(|value| value.split(','));
        let form = |kind: &str| match kind.split(';').next().unwrap_or_default().trim() {
            "application/x-ndjson" => Some(Form::Lines),
            "text/event-stream" => Some(Form::Events),
            _ => None,
        };
        types.filter_map(form).next().unwrap_or(Form::Whole)
    }

    const fn content_type(self) -> &'static str {
        match self {
            Form::Whole => "application/json",
            Form::Lines => "application/x-ndjson",
            Form::Events => "text/event-stream",
        }
    }
}

/// The results of a batch as a body.
pub(crate) struct Results {
    batch: Option<Batch>,
    form: Form,
}

impl Results {
    /// Starts the calls.
    ///
    /// # Errors
    /// When the batch is over a bound.
    pub(crate) fn start(
        opened: &Opened,
        batch: wire::Batch,
        context: &PlanContext,
        form: Form,
    ) -> Result<Results, Failure> {
        let batch = opened.batch(batch, context, BatchOptions::default())?;
        Ok(Results { batch: Some(batch), form })
    }

    /// The next piece; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        let mut out = BytesMut::new();
        if self.form == Form::Whole {
            whole(self.batch.take()?, &mut out).await;
            return Some(out.freeze());
        }
        let batch = self.batch.as_mut()?;
        let total = batch.total() as u64;
        match batch.next().await {
            Some(settled) => {
                let (key, done) = (settled.key.as_str(), batch.done() as u64);
                let mut line = BytesMut::new();
                wire::write_settled(&mut line, key, &settled.result, done, total);
                match self.form {
                    Form::Events => {
                        sse::write_event(&mut out, None, Some("result"), None, &line);
                    }
                    Form::Whole | Form::Lines => {
                        out = line;
                        out.extend_from_slice(b"\n");
                    }
                }
            }
            None => {
                self.batch = None;
                if self.form == Form::Lines {
                    return None;
                }
                sse::write_event(&mut out, None, Some("done"), None, b"done");
            }
        }
        Some(out.freeze())
    }

    /// The head of the answer that these are the body of.
    pub(crate) fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(8);
        let kind = HeaderValue::from_static(self.form.content_type());
        headers.insert(CONTENT_TYPE, kind);
        if self.form == Form::Events {
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        }
        headers
    }

    pub(crate) const fn stream(&self) -> Option<&'static str> {
        match self.form {
            Form::Whole => None,
            Form::Lines => Some("text"),
            Form::Events => Some("sse"),
        }
    }
}

async fn whole(batch: Batch, out: &mut BytesMut) {
    let results = batch.all().await;
    out.extend_from_slice(b"{\"results\":");
    wire::write_results(out, results.iter().map(|(key, result)| (key.as_str(), result)));
    out.extend_from_slice(b"}");
}

/// Reads a batch that a worker, or a client of the egress port, asked for.
pub(crate) fn read(payload: &[u8], at: At) -> Result<wire::Batch, Failure> {
    wire::decode(payload).map_err(|error| {
        let class = if at == At::Worker { Class::AppContractError } else { Class::BadRequest };
        Failure::new(class, at, error.to_string())
    })
}

impl Inner {
    /// The answer to a request whose worker answered with this batch, for the client itself.
    pub(crate) fn batch(
        &self,
        turn: Turn,
        asked: &HeaderMap,
        batch: wire::Batch,
    ) -> Result<Response, NoAnswer> {
        let Some(calls) = self.shared.calls() else {
            return self.fail(turn, nobody_calls(), asked, false);
        };
        calls.plan_came();
        turn.active.set_stage(Stage::Calling);
        match Results::start(&calls.current(), batch, &context(&turn), Form::of(asked)) {
            Ok(results) => {
                let (headers, stream) = (results.headers(), results.stream());
                let body = ReplyBody::Flow(Source::Results(Box::new(results)));
                let reply = Reply { status: StatusCode::OK, headers, body, stream };
                Ok(self.reply(turn, reply))
            }
            Err(failure) => {
                calls.plan_failed();
                self.fail(turn, failure, asked, false)
            }
        }
    }
}

/// What is kept of a request that a worker may be asked again: while its batch runs, or until it is
/// known who takes it.
pub(crate) struct Parked {
    body: Kept,
    request_timeout: Duration,
    pub(crate) times: PoolTimes,
}

enum Kept {
    Memory(Bytes),
    File(Arc<File>, u64),
    /// The file could not be kept; the request can not be resumed.
    Lost,
}

impl Parked {
    pub(crate) fn new(body: &Body, request_timeout: Duration, times: PoolTimes) -> Parked {
        let body = match body {
            Body::Memory(bytes) => Kept::Memory(bytes.clone()),
            Body::File(file, length) => {
                file.try_clone().map_or(Kept::Lost, |file| Kept::File(Arc::new(file), *length))
            }
        };
        Parked { body, request_timeout, times }
    }

    /// The body, from its start.
    pub(crate) fn body(&self) -> Result<Body, Failure> {
        let lost = || Failure::new(Class::RequestTooLarge, At::Gateway, "the body was not kept");
        match &self.body {
            Kept::Memory(bytes) => Ok(Body::Memory(bytes.clone())),
            Kept::File(file, length) => {
                let mut file = file.try_clone().map_err(|_| lost())?;
                file.rewind().map_err(|_| lost())?;
                Ok(Body::File(file, *length))
            }
            Kept::Lost => Err(lost()),
        }
    }
}

/// The original request once more, with what its batch brought.
struct Resumed {
    head: Arc<Head>,
    state: Bytes,
    results: Vec<(String, wire::KeyResult)>,
}

impl job::Head for Resumed {
    fn encode(
        &self,
        body: &Body,
        capabilities: Capabilities,
        out: &mut BytesMut,
    ) -> Result<Sent, EncodeError> {
        let results = self.results.iter().map(|(key, result)| (key.as_str(), result));
        self.head.encode_within(body, capabilities, out, |out, request| {
            wire::write_resume(out, request, &self.state, results)
        })
    }

    fn id(&self) -> &str {
        job::Head::id(&*self.head)
    }
}

impl Inner {
    /// Runs the batch with the worker free, and asks a worker again with the results. That goes in
    /// front of the queue and whatever its capacity: it is no arrival.
    pub(crate) async fn resume(
        &self,
        turn: &Turn,
        head: &Arc<Head>,
        parked: &Parked,
        batch: wire::Batch,
        rounds: u32,
    ) -> Result<Answer, Failure> {
        let calls = self.shared.calls().ok_or_else(nobody_calls)?;
        calls.plan_came();
        if rounds > MAX_ROUNDS {
            let text = "the application asks for batch after batch";
            return Err(Failure::new(Class::AppContractError, At::Worker, text));
        }
        turn.active.set_stage(Stage::Calling);
        let (clock, state) = (self.shared.clock, batch.state.clone());
        let until = batch.deadline_ms.map(|ms| clock.now() + Duration::from_millis(ms));
        let running = calls.current().batch(batch, &context(turn), BatchOptions::default());
        let results = running.inspect_err(|_| calls.plan_failed())?.all().await;
        // A key that used up the deadline leaves its worker the usual time all the same.
        let own = clock.now() + parked.request_timeout;
        let until = until.map_or(own, |until| until.max(own));
        let wait = self.shared.pool()?.resume(Deadline::new(until, Phase::Request));
        let lease = self.worker(turn, wait).await?;
        head.set_deadline(wall::now().unix_millis_after(parked.request_timeout));
        let deadline = Deadline::new(clock.now() + parked.request_timeout, Phase::Request);
        let head = Arc::new(Resumed { head: Arc::clone(head), state, results });
        let job = turn.job(head, parked.body()?, deadline, parked.times);
        lease.exchange(job).await
    }
}
