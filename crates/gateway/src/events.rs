//! The event log's lines: NDJSON, `type` and `ts` first.
//!
//! Invariant: an event is taken down only where somebody keeps it (the event log, the newest events
//! in memory), once for both, and taking it down touches nothing but the buffers of the thread.
//! Words of an application go into `error_message`, `error` and `line`, and into those alone; where
//! the log is to be redacted, all three are masked.

mod cache;
mod calls;
mod notable;
mod pool;

pub(crate) use pool::Processes;

use crate::facts::{self, Facts, Fields, Key};
use crate::finish;
use crate::line::{self, Line};
use crate::live::{Entry, Via};
use crate::recent::Kind;
use crate::record::{Inner, Outcome, Recorder};
use crate::traces::Made;
use crate::wall::{self, Stamp};
use hedgerow_policy::observe::{CallEvent, Event, Observer};
use hedgerow_policy::{Failure, Moment};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// What stands in for words that are not to be written down.
const MASK: &str = "[redacted]";

/// Writes one event. False when the log had no room for it.
pub(crate) fn write(inner: &Inner, kind: Key, fields: impl FnOnce(&mut Facts)) -> bool {
    write_as(inner, kind, wall::now(), Some(Kind::Notable), fields)
}

/// The same, for one that is usual, or not kept in memory at all.
fn write_as(
    inner: &Inner,
    kind: Key,
    at: Stamp,
    keep: Option<Kind>,
    fields: impl FnOnce(&mut Facts),
) -> bool {
    let keep = keep.filter(|_| inner.recent.is_on());
    if inner.events.is_none() && keep.is_none() {
        return true;
    }
    let limit = inner.settings.line_limit;
    facts::with_facts(limit, |facts| {
        facts.begin(kind, at);
        fields(facts);
        if let Some(keep) = keep {
            inner.recent.push(facts, keep);
        }
        let Some(sink) = &inner.events else { return true };
        line::with_buffer(|out| {
            facts.events().for_each(|event| event.write(out, limit));
            sink.push(out)
        })
    })
}

/// How something is kept that went well, or did not.
const fn kept(well: bool) -> Option<Kind> {
    Some(if well { Kind::Usual } else { Kind::Notable })
}

/// What an application said, as far as it may be written down.
pub(crate) fn words<'w>(inner: &Inner, said: &'w str) -> &'w str {
    if inner.settings.redact { MASK } else { said }
}

/// A request has ended.
pub(crate) fn request(inner: &Inner, entry: &Entry, end: &Outcome, took: Duration, at: Stamp) {
    let kind: Key = match entry.via {
        Via::Server => &"http.request",
        Via::Egress => &"egress.request",
    };
    let well = end.failure.is_none() && end.status < 500;
    write_as(inner, kind, at, kept(well), |line| {
        who(line, entry);
        line.addr(&"remote_addr", entry.remote_addr);
        line.str(&"protocol", entry.protocol);
        finish::fields(line, entry, end, took);
        line.opt_num(&"worker_pid", entry.worker_pid());
        entry.timeline.write(line, entry.received, entry.received + took);
        if entry.stream_failed.load(Relaxed) {
            line.flag(&"stream_failed", true);
        }
        if let Some(failure) = &end.failure {
            failed(inner, line, failure);
        }
    });
}

/// A stream that had begun broke.
pub(crate) fn stream_error(inner: &Inner, entry: &Entry, failure: &Failure) {
    let kind: Key = match entry.via {
        Via::Server => &"http.stream.error",
        Via::Egress => &"egress.stream.error",
    };
    write(inner, kind, |line| {
        who(line, entry);
        line.millis(&"duration_ms", inner.clock.now().since(entry.received));
        line.opt_num(&"worker_id", entry.worker());
        failed(inner, line, failure);
    });
}

fn who(line: &mut Facts, entry: &Entry) {
    line.str(&"trace_id", &entry.trace_id);
    line.str(&"request_id", &entry.request_id);
    line.str(&"method", entry.method.as_str());
    line.str(&"path", &entry.path);
}

/// The fields of a failure. The message comes last: it may need all the room that is left.
fn failed(inner: &Inner, line: &mut Facts, failure: &Failure) {
    line.str(&"error_class", failure.class.name());
    line.opt_str(&"timeout_phase", failure.phase.map(hedgerow_policy::failure::Phase::name));
    line.opt_num(&"retry_after_s", failure.retry_after_s);
    let mut message = failure.message.as_ref();
    if let Some(report) = &failure.report {
        line.str(&"worker_error_class", &report.class);
        line.opt_str(&"worker_exception", report.exception.as_deref());
        message = report.message.as_deref().unwrap_or(message);
    }
    line.message(&"error_message", words(inner, message));
}

/// Something that was no request came in.
pub(crate) fn bad_head(inner: &Inner, remote_addr: IpAddr, reason: &str) {
    write(inner, &"http.bad_head", |line| {
        line.addr(&"remote_addr", remote_addr);
        line.str(&"reason", reason);
    });
}

/// The gateway serves.
pub(crate) fn server_started(inner: &Inner, listen: &[SocketAddr]) {
    write(inner, &"server.started", |line| {
        let listen: Vec<String> = listen.iter().map(SocketAddr::to_string).collect();
        line.str(&"listen", &listen.join(" "));
        line.str(&"version", env!("CARGO_PKG_VERSION"));
        line.num(&"pid", std::process::id());
    });
}

/// The gateway has stopped.
pub(crate) fn server_stopped(inner: &Inner, reason: &str) {
    write(inner, &"server.stopped", |line| {
        line.str(&"reason", reason);
        line.millis(&"uptime_ms", inner.clock.now().since(Moment::START));
    });
}

/// Somebody did something through the admin listener.
pub(crate) fn admin_action(inner: &Inner, action: &str, target: &str) {
    notable::action(inner, action, target);
    write(inner, &"admin.action", |line| {
        line.str(&"action", action);
        line.str(&"target", target);
    });
}

/// Lines were dropped. Written by the log's own thread, once there is room again.
pub(crate) fn dropped(out: &mut Vec<u8>, count: u64) {
    let mut line = Line::event(out, 512, "events.dropped", wall::now());
    line.num(&"count", count);
    line.end();
}

impl Observer for Recorder {
    fn on(&self, event: &Event<'_>) {
        self.inner.metrics.pool(event);
        traced(&self.inner, event);
        notable::keep(&self.inner, event);
        pool::record(&self.inner, event);
    }
}

/// A call that is over is a part of a trace.
fn traced(inner: &Inner, event: &Event<'_>) {
    let Some(tracer) = &inner.tracer else { return };
    if let Event::Call { upstream, trace, ref event } = *event
        && let CallEvent::KeyOver { key, method, traceparent, age, attempts, .. } = *event
    {
        tracer.call(upstream, trace, traceparent, &Made { key, method, age, attempts });
    }
}
