//! What is over, as spans.
//!
//! Invariant: a part lies within its request, in time as in parentage; only an attempt that nobody
//! waits for any more may end after it. A loser did not fail: its status is not set.

use super::{Context, Over};
use crate::ids;
use crate::live::{Entry, Via};
use crate::timeline::{Stage, Step};
use hedgerow_policy::hedge::{Outcome, Role};
use hedgerow_policy::observe::AttemptFacts;
use hedgerow_policy::{Class, Moment};
use hedgerow_upstream::Origin;
use hedgerow_wire::otlp::{Kind, Span, Value};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// A wait in the queue that is shorter is not told.
const WAIT: Duration = Duration::from_millis(1);

/// A call that is over.
pub(crate) struct Call {
    pub(super) upstream: String,
    pub(super) key: Option<String>,
    pub(super) method: String,
    pub(super) started: Moment,
    pub(super) attempts: Vec<Attempt>,
}

/// One attempt of it.
pub(crate) struct Attempt {
    role: Role,
    endpoint: String,
    span: Option<u64>,
    start: Duration,
    first_data: Option<Duration>,
    end: Option<Duration>,
    outcome: Outcome,
    status: Option<u16>,
    bytes: u64,
}

impl Attempt {
    pub(super) fn of(facts: &AttemptFacts<'_>) -> Attempt {
        Attempt {
            role: facts.role,
            endpoint: facts.endpoint.to_owned(),
            span: facts.span,
            start: facts.start,
            first_data: facts.first_data,
            end: facts.end,
            outcome: facts.outcome,
            status: facts.status,
            bytes: facts.bytes,
        }
    }
}

/// Turns moments into nanoseconds since 1970.
#[derive(Clone, Copy)]
pub(super) struct Epoch(pub(super) u64);

impl Epoch {
    fn at(self, moment: Moment) -> u64 {
        self.0.saturating_add(moment.as_nanos())
    }
}

/// Appends the spans of what is over.
pub(super) fn write(out: &mut Vec<Span>, over: &Over, epoch: Epoch) {
    match over {
        Over::Request { entry, status, class, ended } => {
            if let Some(context) = &entry.span {
                request(out, entry, context, (*status, *class), *ended, epoch);
            }
        }
        Over::Call { parent, trace_id, call } => {
            for (number, attempt) in call.attempts.iter().enumerate() {
                let span = attempt_of(call, attempt, number, trace_id, epoch);
                out.push(Span { trace_id: parent.trace, parent: Some(parent.span), ..span });
            }
        }
    }
}

fn request(
    out: &mut Vec<Span>,
    entry: &Entry,
    context: &Context,
    (status, class): (u16, Option<Class>),
    ended: Moment,
    epoch: Epoch,
) {
    let left = class == Some(Class::ClientClosed);
    let mut attributes: Vec<(&'static str, Value)> = vec![
        ("http.request.method", method(entry.method.as_str()).into()),
        ("url.path", entry.path.as_str().into()),
        ("url.scheme", context.scheme.into()),
        ("client.address", entry.remote_addr.to_string().into()),
        ("network.protocol.version", version(entry.protocol).into()),
        ("hedgerow.trace_id", entry.trace_id.as_ref().into()),
        ("hedgerow.request_id", entry.request_id.as_ref().into()),
        ("http.request.body.size", entry.bytes_in.load(Relaxed).into()),
        ("http.response.body.size", entry.bytes_out.load(Relaxed).into()),
    ];
    if !context.host.is_empty() {
        server(&mut attributes, &context.host);
    }
    if !left {
        attributes.push(("http.response.status_code", u64::from(status).into()));
    }
    if let Some(class) = class {
        attributes.push(("error.type", class.name().into()));
    } else if status >= 500 {
        attributes.push(("error.type", status.to_string().into()));
    }
    if entry.via == Via::Egress {
        attributes.push(("hedgerow.listener", "egress".into()));
    }
    let name = method(entry.method.as_str());
    out.push(Span {
        trace_id: context.trace,
        span_id: context.span,
        parent: context.parent,
        trace_state: context.state.clone(),
        name: if name == OTHER { "HTTP".to_owned() } else { name.to_owned() },
        kind: Kind::Server,
        start: epoch.at(entry.received),
        end: epoch.at(ended),
        attributes,
        // A client's mistake, or its leaving, is no failure of the server.
        failed: status >= 500 || (class.is_some() && !left && status < 400),
    });
    parts(out, entry, context, class, ended, epoch);
}

/// The wait in the queue and each exchange with a worker.
fn parts(
    out: &mut Vec<Span>,
    entry: &Entry,
    context: &Context,
    class: Option<Class>,
    ended: Moment,
    epoch: Epoch,
) {
    let steps: Vec<Step> = entry.timeline.steps().0.collect();
    for (at, step) in steps.iter().enumerate() {
        let next = steps.get(at + 1);
        let last = next.is_none_or(|next| next.stage == Stage::Sending && at + 2 == steps.len());
        let mut attributes = Vec::new();
        let end = match (step.stage, next) {
            // A worker's stream is its exchange still.
            (Stage::Working, Some(next)) if next.stage == Stage::Streaming => ended,
            (_, Some(next)) => next.at,
            (_, None) => ended,
        };
        let name = match step.stage {
            Stage::Queued if end.since(step.at) >= WAIT => "wait for a worker",
            Stage::Working if step.worker.is_some() => "worker exchange",
            _ => continue,
        };
        if let Some(worker) = step.worker {
            attributes.push(("hedgerow.worker.id", u64::from(worker).into()));
        }
        let class = class.filter(|class| last && *class != Class::ClientClosed);
        if let Some(class) = class {
            attributes.push(("error.type", class.name().into()));
        }
        out.push(Span {
            trace_id: context.trace,
            span_id: ids::span(),
            parent: Some(context.span),
            trace_state: context.state.clone(),
            name: name.to_owned(),
            kind: Kind::Internal,
            start: epoch.at(step.at),
            end: epoch.at(end),
            attributes,
            failed: class.is_some(),
        });
    }
}

fn attempt_of(call: &Call, attempt: &Attempt, number: usize, trace_id: &str, epoch: Epoch) -> Span {
    let mut attributes: Vec<(&'static str, Value)> = vec![
        ("http.request.method", method(&call.method).into()),
        // Of the path only what is configured: what is behind it may be a secret.
        ("url.full", attempt.endpoint.as_str().into()),
        ("hedgerow.trace_id", trace_id.into()),
        ("hedgerow.upstream", call.upstream.as_str().into()),
        ("hedgerow.attempt.role", attempt.role.name().into()),
        ("hedgerow.attempt.outcome", attempt.outcome.name().into()),
        ("http.response.body.size", attempt.bytes.into()),
    ];
    if let Ok(origin) = Origin::parse(&attempt.endpoint) {
        server(&mut attributes, origin.authority());
    }
    if let Some(key) = &call.key {
        attributes.push(("hedgerow.key", key.as_str().into()));
    }
    if attempt.role == Role::Retry {
        attributes.push(("http.request.resend_count", (number as u64).into()));
    }
    if let Some(first) = attempt.first_data {
        let micros = u64::try_from(first.saturating_sub(attempt.start).as_micros());
        attributes.push(("hedgerow.attempt.first_data_us", micros.unwrap_or(u64::MAX).into()));
    }
    if let Some(status) = attempt.status {
        attributes.push(("http.response.status_code", u64::from(status).into()));
    }
    let failed = attempt.outcome == Outcome::Failed;
    match (attempt.outcome, attempt.status) {
        (Outcome::Lost, _) => attributes.push(("superseded", true.into())),
        (Outcome::Failed, Some(status)) => {
            attributes.push(("error.type", status.to_string().into()));
        }
        (Outcome::Failed, None) => attributes.push(("error.type", "connection".into())),
        _ => {}
    }
    Span {
        trace_id: [0; 16],
        span_id: attempt.span.unwrap_or_else(ids::span),
        parent: None,
        trace_state: String::new(),
        name: method(&call.method).to_owned(),
        kind: Kind::Client,
        start: epoch.at(call.started + attempt.start),
        end: epoch.at(call.started + attempt.end.unwrap_or(attempt.start)),
        attributes,
        failed,
    }
}

/// `server.address` and `server.port` of `host:port`.
fn server(attributes: &mut Vec<(&'static str, Value)>, authority: &str) {
    let parsed = crate::smuggling::parse_authority(authority);
    let (host, port) = parsed.map_or((authority, None), |found| (found.host, found.port));
    attributes.push(("server.address", host.into()));
    if let Some(port) = port {
        attributes.push(("server.port", u64::from(port).into()));
    }
}

/// What a method is called that the convention does not know.
const OTHER: &str = "_OTHER";

fn method(method: &str) -> &str {
    const KNOWN: [&str; 9] =
        ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];
    if KNOWN.contains(&method) { method } else { OTHER }
}

fn version(protocol: &str) -> &str {
    match protocol {
        "HTTP/2.0" => "2",
        other => other.strip_prefix("HTTP/").unwrap_or(other),
    }
}
