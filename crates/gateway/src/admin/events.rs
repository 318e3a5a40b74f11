//! `/admin/events`: the newest events, as they stand in the event log.
//!
//! Invariant: no more is ever answered than is kept in memory, which is bounded.

use super::routes::decoded;
use crate::record::Inner;

/// The newest events, oldest first: those of one trace or request, of the types that begin so
/// (several with commas), or all.
pub(super) fn of(inner: &Inner, trace: Option<&str>, types: Option<&str>) -> Vec<u8> {
    let trace = trace.map(decoded);
    inner.recent.lines(inner.settings.line_limit, |event| {
        let asked = trace.as_deref().is_none_or(|trace| event.belongs(trace));
        asked && types.is_none_or(|types| types.split(',').any(|kind| event.kind.starts_with(kind)))
    })
}
