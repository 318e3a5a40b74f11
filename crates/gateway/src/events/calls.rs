//! The lines of the event log about calls out.
//!
//! Invariant: one line for what is out of the ordinary, never one for each call.

use super::write;
use crate::record::Inner;
use hedgerow_policy::observe::CallEvent;

/// Writes down what is rare: a twin, a retry, an endpoint that is passed over, an answer that could
/// not be read. Every attempt is in the ledger.
pub(super) fn record(inner: &Inner, upstream: &str, trace: &str, event: &CallEvent<'_>) {
    let whose = |line: &mut crate::line::Line<'_>| {
        line.str("upstream", upstream);
        line.str("trace_id", trace);
    };
    match event {
        CallEvent::HedgeFired { after } => {
            write(inner, "hedge.fired", |line| {
                whose(line);
                line.millis("after_ms", *after);
            });
        }
        CallEvent::HedgeSuppressed { reason } => {
            write(inner, "hedge.suppressed", |line| {
                whose(line);
                line.str("reason", reason.name());
            });
        }
        CallEvent::RetryScheduled { delay } => {
            write(inner, "upstream.retry", |line| {
                whose(line);
                line.millis("delay_ms", *delay);
            });
        }
        CallEvent::EndpointDemoted { endpoint } => {
            write(inner, "upstream.endpoint_demoted", |line| {
                whose(line);
                line.str("endpoint", endpoint);
            });
        }
        CallEvent::PlanDecodeFailed { error } => {
            write(inner, "plan.decode_failed", |line| {
                whose(line);
                line.message("error", error);
            });
        }
        CallEvent::AttemptStarted { .. }
        | CallEvent::AttemptEnded { .. }
        | CallEvent::HedgeObserved
        | CallEvent::KeySettled { .. } => {}
    }
}
