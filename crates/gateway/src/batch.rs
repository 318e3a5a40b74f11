//! Batches: calls side by side, and their results for whoever asked.
//!
//! Invariant: the client gets every key once: all together in the order of the requests, or, if it
//! accepts a stream, one by one as they settle.

use crate::answer::{Reply, ReplyBody};
use crate::connection::Response;
use crate::plan::{context, nobody_calls};
use crate::service::{Inner, NoAnswer, Turn};
use crate::stream::Source;
use bytes::{Bytes, BytesMut};
use hedgerow_policy::failure::{At, Class, Failure};
use hedgerow_upstream::{Batch, BatchOptions, Opened, PlanContext};
use hedgerow_wire::batch as wire;
use hedgerow_wire::sse;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, StatusCode};

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
