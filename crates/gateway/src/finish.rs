//! The end of a request: one access line, one event, one step of the counters.
//!
//! Invariant: this is the only way out of the record, and it is taken once per request.

use crate::live::{Entry, Place};
use crate::record::{Inner, Outcome};
use crate::{access, events, wall};
use std::sync::atomic::Ordering::Relaxed;

/// The status that lines and counters show for a client that went away; it is never sent.
pub(crate) const CLIENT_CLOSED: u16 = 499;

/// Writes down how `entry` ended.
pub(crate) fn finish(inner: &Inner, entry: &Entry, place: Option<Place>, outcome: &Outcome) {
    inner.live.leave(place);
    let took = inner.clock.now().since(entry.received);
    let failure = outcome.failure.as_ref();
    inner.metrics.request(&entry.method, outcome.status, failure, outcome.stream, took);
    inner.metrics.bytes(entry.bytes_in.load(Relaxed), entry.bytes_out.load(Relaxed));
    if inner.access.is_none() && inner.events.is_none() {
        return;
    }
    // One stamp for both lines: they are found by each other.
    let at = wall::now();
    access::line(inner, entry, outcome, took, at);
    events::request(inner, entry, outcome, took, at);
}
