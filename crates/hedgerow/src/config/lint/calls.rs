//! What hedges, retries and their budget make of each other.

use super::{Linter, shown};
use crate::config::field::Set;
use crate::config::file::calls::{Calls, Hedge};
use crate::config::report::Place;
use crate::config::resolve::blame;
use crate::config::value::{Millis, Real};
use std::time::Duration;

impl Linter<'_> {
    /// The calls of an upstream, or those of plans to a bare URL.
    pub(super) fn calls(&mut self, path: &str, calls: &Calls) {
        let retries = calls.retry.inner.max.value.0;
        if calls.hedge.is_some() || retries > 0 {
            self.budget(path, calls);
        }
        if retries > 0 {
            self.retries(path, calls);
        }
        let Some(hedge) = calls.hedge.as_ref().map(|sub| &sub.inner) else {
            let cap = &calls.batch_max_hedges;
            if cap.value.0 > 0 {
                let message = format!("`{path}.batch_max_hedges` does nothing");
                self.warn(&cap.place, message, "nothing is hedged here: add a hedge");
            }
            return;
        };
        self.after(path, calls, hedge);
        self.quantile(path, calls, hedge);
        if let Some(idle) = &hedge.idle_ms
            && let Some(limit) = limit(&calls.idle_timeout_ms)
            && idle.value.0 >= limit
        {
            let message = format!("`{path}.hedge.idle_ms` is not below `{path}.idle_timeout_ms`");
            let advice = format!(
                "a body that stalls is cut off after {}, before its twin could start at {}",
                shown(limit),
                shown(idle.value.0)
            );
            self.warn(&blame([&idle.place, &calls.idle_timeout_ms.place]), message, advice);
        }
        if hedge.non_idempotent.value {
            let message = format!("`{path}.hedge.non_idempotent` is true");
            let advice = "requests that change something may be carried out twice";
            self.warn(&hedge.non_idempotent.place, message, advice);
        }
    }

    /// A port for calls, and nothing that could be called.
    pub(super) fn egress(&mut self) {
        let listen = &self.document.egress.inner.listen;
        let somewhere =
            !self.config.upstreams.is_empty() || !self.config.plan.allow_hosts.is_empty();
        if self.config.egress.listen.is_some() && !somewhere {
            let message = "`egress.listen` opens a port that leads nowhere";
            let advice =
                "add [upstream.NAME] for /NAME/…, or plan.allow_hosts for batches of bare URLs";
            self.warn(&listen.place, message, advice);
        }
    }

    /// Whether a twin can start before something ends the call.
    fn after(&mut self, path: &str, calls: &Calls, hedge: &Hedge) {
        let Some(after) = &hedge.after_ms else { return };
        let start = after.value.0;
        if let Some(total) = limit(&calls.total_timeout_ms) {
            let useful = &hedge.min_useful_ms;
            if start >= total {
                let message =
                    format!("`{path}.hedge.after_ms` is not below `{path}.total_timeout_ms`");
                let advice = "the call is over before a twin could start: this hedge never fires";
                self.warn(&after.place, message, advice);
            } else if start + useful.value.0 > total {
                let message = format!("`{path}.hedge.min_useful_ms` leaves no time for a twin");
                let advice = format!(
                    "it could start at {} and must have {}, but the call ends at {}: this hedge \
                     never fires",
                    shown(start),
                    shown(useful.value.0),
                    shown(total)
                );
                self.warn(&useful.place, message, advice);
            }
        }
        if let Some(first) = limit(&calls.first_data_timeout_ms)
            && start >= first
        {
            let message =
                format!("`{path}.hedge.after_ms` is not below `{path}.first_data_timeout_ms`");
            let advice = format!(
                "a silent attempt is ended at {}, before its twin could start at {}",
                shown(first),
                shown(start)
            );
            let place = blame([&after.place, &calls.first_data_timeout_ms.place]);
            self.warn(&place, message, advice);
        }
    }

    /// Whether the budget pays for the share of calls that the quantile hedges.
    fn quantile(&mut self, path: &str, calls: &Calls, hedge: &Hedge) {
        let Some(quantile) = &hedge.after_quantile else { return };
        let ratio: &Set<Real<1, true>> = &calls.budget.inner.ratio;
        let asks = (1.0 - quantile.value.0) * 100.0;
        let paid = ratio.value.0 * 100.0;
        // What is written as 0.9 and 0.1 is the same share.
        if asks > paid + 1e-6 && paid > 0.0 {
            let message = format!("`{path}.budget.ratio` does not pay for `after_quantile`");
            let advice = format!(
                "{asks:.0} of 100 calls ask for a twin, the budget pays for {paid:.0}: the rest is \
                 suppressed"
            );
            self.warn(&blame([&quantile.place, &ratio.place]), message, advice);
        }
    }

    fn budget(&mut self, path: &str, calls: &Calls) {
        let budget = &calls.budget.inner;
        if budget.ratio.value.0 == 0.0 && budget.burst.value.0 == 0 {
            let advice = match &calls.hedge {
                Some(_) => "this hedge never fires",
                None => "nothing is ever retried",
            };
            self.warn(&budget.ratio.place, format!("`{path}.budget` is empty"), advice);
        }
    }

    /// Whether the call still runs when its last retry is due.
    fn retries(&mut self, path: &str, calls: &Calls) {
        let Some(total) = limit(&calls.total_timeout_ms) else { return };
        let retry = &calls.retry.inner;
        let (base, most) = (retry.backoff_ms.value.0, retry.backoff_max_ms.value.0);
        let mut pauses = Duration::ZERO;
        for n in 0..retry.max.value.0 {
            // Jitter shortens a pause by a quarter at most.
            pauses += base.saturating_mul(1 << n.min(16)).min(most).mul_f64(0.75);
            if pauses >= total {
                let message = format!("`{path}.retry.max` is more than the call has time for");
                let advice = format!(
                    "the pauses before retry {} come to {} at least; the call ends at {}",
                    n + 1,
                    shown(pauses),
                    shown(total)
                );
                let places: [&Place; 3] =
                    [&retry.max.place, &retry.backoff_ms.place, &calls.total_timeout_ms.place];
                return self.warn(&blame(places), message, advice);
            }
        }
    }
}

/// A limit, where zero is none.
fn limit(set: &Set<Millis>) -> Option<Duration> {
    Some(set.value.0).filter(|time| !time.is_zero())
}
