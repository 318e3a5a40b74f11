//! The lines of the event log about calls out.
//!
//! Invariant: one line for each call, when nothing runs for it any more, with all its attempts; and
//! one at the time for what is out of the ordinary.

use super::{kept, words, write, write_as};
use crate::facts::{Facts, Fields};
use crate::record::Inner;
use crate::wall;
use hedgerow_policy::hedge::Role;
use hedgerow_policy::observe::CallEvent;

/// Writes down a call that is over, and what is rare: a twin, a retry, an endpoint that is passed
/// over, an answer that could not be read.
pub(super) fn record(inner: &Inner, upstream: &str, trace: &str, event: &CallEvent<'_>) {
    let whose = |line: &mut Facts| {
        line.str(&"upstream", upstream);
        line.str(&"trace_id", trace);
    };
    match event {
        CallEvent::HedgeFired { after } => {
            write(inner, &"hedge.fired", |line| {
                whose(line);
                line.millis(&"after_ms", *after);
            });
        }
        CallEvent::HedgeSuppressed { reason } => {
            write(inner, &"hedge.suppressed", |line| {
                whose(line);
                line.str(&"reason", reason.name());
            });
        }
        CallEvent::RetryScheduled { delay } => {
            write(inner, &"upstream.retry", |line| {
                whose(line);
                line.millis(&"delay_ms", *delay);
            });
        }
        CallEvent::EndpointDemoted { endpoint } => {
            write(inner, &"upstream.endpoint_demoted", |line| {
                whose(line);
                line.str(&"endpoint", endpoint);
            });
        }
        CallEvent::PlanDecodeFailed { error } => {
            write(inner, &"plan.decode_failed", |line| {
                whose(line);
                line.message(&"error", error);
            });
        }
        CallEvent::KeyOver {
            key, method, age, duration, winner, hedged_after, attempts, ..
        } => {
            let well = winner.is_some() && attempts.len() == 1;
            write_as(inner, &"upstream.call", wall::now(), kept(well), |line| {
                whose(line);
                line.opt_str(&"key", *key);
                line.str(&"method", method);
                line.millis(&"age_ms", *age);
                line.millis(&"duration_ms", *duration);
                line.opt_str(&"winner", winner.map(Role::name));
                line.opt_millis(&"hedged_after_ms", *hedged_after);
                line.list(&"attempts", *attempts, |line, attempt| {
                    line.str(&"role", attempt.role.name());
                    line.str(&"endpoint", attempt.endpoint);
                    line.millis(&"start_ms", attempt.start);
                    line.opt_millis(&"first_data_ms", attempt.first_data);
                    line.opt_millis(&"end_ms", attempt.end);
                    line.str(&"outcome", attempt.outcome.name());
                    line.opt_num(&"status", attempt.status);
                    line.num(&"bytes", attempt.bytes);
                    line.opt_str(&"error", attempt.error.map(|error| words(inner, error)));
                });
            });
        }
        CallEvent::AttemptStarted { .. }
        | CallEvent::AttemptEnded { .. }
        | CallEvent::HedgeObserved
        | CallEvent::KeySettled { .. } => {}
    }
}
