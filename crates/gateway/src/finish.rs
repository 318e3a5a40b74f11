//! The end of a request: one access line, one event, one step of the counters.
//!
//! Invariant: this is the only way out of the record, and it is taken once per request.

use crate::facts::Fields;
use crate::live::{CallMade, Entry, Place, Via};
use crate::record::{Inner, Outcome};
use crate::{access, events, wall};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The status that lines and counters show for a client that went away; it is never sent.
pub(crate) const CLIENT_CLOSED: u16 = 499;

/// Writes down how `entry` ended.
pub(crate) fn finish(inner: &Inner, entry: &Arc<Entry>, place: Option<Place>, outcome: &Outcome) {
    inner.live.leave(place);
    inner.metrics.unspooled(entry.spooled.load(Relaxed));
    let took = inner.clock.now().since(entry.received);
    let failure = outcome.failure.as_ref();
    match entry.via {
        Via::Server => {
            inner.metrics.request(&entry.method, outcome.status, failure, outcome.stream, took);
            inner.metrics.bytes(entry.bytes_in.load(Relaxed), entry.bytes_out.load(Relaxed));
        }
        Via::Egress => inner.metrics.egress(&entry.method, outcome.status, failure),
    }
    if let Some(tracer) = &inner.tracer {
        tracer.request(entry, outcome, took);
    }
    if inner.access.is_none() && inner.events.is_none() && !inner.recent.is_on() {
        return;
    }
    // One stamp for both lines: they are found by each other.
    let at = wall::now();
    access::line(inner, entry, outcome, took, at);
    events::request(inner, entry, outcome, took, at);
}

/// How a request went: the fields that the access line and the event have in common.
pub(crate) fn fields(line: &mut impl Fields, entry: &Entry, end: &Outcome, took: Duration) {
    line.num(&"status", end.status);
    line.num(&"bytes_in", entry.bytes_in.load(Relaxed));
    line.num(&"bytes_out", entry.bytes_out.load(Relaxed));
    line.millis(&"duration_ms", took);
    if let Some(wait) = entry.queue_wait() {
        line.millis(&"queue_wait_ms", wait);
    }
    line.opt_num(&"worker_id", entry.worker());
    line.opt_str(&"stream", end.stream);
    if let Some(CallMade { upstream, report }) = entry.call.get() {
        line.str(&"upstream", upstream);
        line.num(&"attempts", report.attempts);
        line.opt_str(&"winner", report.winner.map(hedgerow_policy::hedge::Role::name));
        if let Some(after) = report.hedged_after {
            line.millis(&"hedged_after_ms", after);
        }
    }
}
