//! The end of a request: one access line, one event, one step of the counters.

use crate::live::{Entry, Place};
use crate::record::{Inner, Outcome};

pub(crate) fn finish(inner: &Inner, _entry: &Entry, place: Option<Place>, _outcome: &Outcome) {
    inner.live.leave(place);
}
