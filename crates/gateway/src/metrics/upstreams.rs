//! The part of the page about calls out. The counters are the policy's own.

use super::page::Writer;
use crate::calls::Calls;
use hedgerow_cache::guarded::CacheShown;
use hedgerow_policy::hedge::{Counters, Outcome, Reason};
use hedgerow_upstream::UpstreamView;
use std::fmt::Error;

type Series<'v> = (Vec<(&'static str, &'v str)>, u64);

/// What there is to show of calls out.
#[derive(Default)]
pub(crate) struct Called {
    pub(crate) views: Vec<UpstreamView>,
    /// Keys that the ledger's file had no room for.
    pub(crate) ledger_dropped: u64,
}

impl Called {
    /// What these calls show now.
    pub(crate) fn of(calls: &Calls) -> Called {
        let client = calls.current().client().clone();
        Called { views: client.view(), ledger_dropped: client.ledger().dropped() }
    }
}

/// Writes it, or nothing where there are no upstreams.
pub(super) fn write(to: &mut Writer<'_>, called: &Called) -> Result<(), Error> {
    let views = called.views.as_slice();
    if views.is_empty() {
        return Ok(());
    }
    let help = "Keys that the file of the ledger had no room for";
    to.counter("ledger_lines_dropped", help, called.ledger_dropped)?;
    let outcomes = |c: &Counters| {
        [
            ("success", c.succeeded),
            ("failure", c.failed),
            ("abandoned", c.abandoned),
            ("shed", c.shed),
        ]
    };
    let help = "Calls to upstreams that are settled, by outcome";
    to.labelled("upstream_calls", help, each(views, "outcome", outcomes))?;
    let roles = |c: &Counters| [("primary", c.calls), ("hedge", c.hedges), ("retry", c.retries)];
    let help = "Attempts, by role: calls, hedges and retries";
    to.labelled("upstream_attempts", help, each(views, "role", roles))?;
    let hedges = |c: &Counters| {
        let all = [Outcome::Won, Outcome::Lost, Outcome::Failed, Outcome::Abandoned];
        all.map(|outcome| (outcome.name(), c.hedges_that(outcome)))
    };
    to.labelled("hedges", "Hedges that have ended, by outcome", each(views, "outcome", hedges))?;
    let suppressed =
        |c: &Counters| Reason::ALL.map(|reason| (reason.name(), c.suppressed_for(reason)));
    let help = "Hedges that were not started, by reason";
    to.labelled("hedges_suppressed", help, each(views, "reason", suppressed))?;
    let help = "Hedges that would have been started, were they not only observed";
    to.labelled("hedges_observed", help, one(views, |c| c.observed))?;
    to.labelled("upstream_retries", "Retries started", one(views, |c| c.retries))?;
    let saved = one(views, |c| c.saved_micros / 1_000_000);
    to.labelled("hedge_saved_seconds", "Seconds that hedges have saved, at least", saved)?;
    let left = views.iter().map(|view| (view.name.as_str(), view.state.budget.left));
    let help = "Hedges and retries that may be started right now";
    to.gauges("upstream_budget_left", help, "upstream", left)
}

/// The state of every circuit: the cache's and the upstreams'.
pub(super) fn breaker_states(
    to: &mut Writer<'_>,
    cache: Option<&CacheShown>,
    views: &[UpstreamView],
) -> Result<(), Error> {
    let own = cache.map(|shown| {
        let state = u64::from(shown.breaker.state.gauge());
        (shown.breaker.name.to_owned(), state)
    });
    let theirs = views.iter().flat_map(|view| {
        let breakers = view.breakers.iter().enumerate();
        breakers.map(|(index, shown)| {
            (view.breaker_name(index), u64::from(shown.circuit.state.gauge()))
        })
    });
    let all: Vec<(String, u64)> = own.into_iter().chain(theirs).collect();
    if all.is_empty() {
        return Ok(());
    }
    let help = "State of a circuit: 0 closed, 1 half-open, 2 open";
    let named = all.iter().map(|(name, state)| (name.as_str(), *state));
    to.gauges("breaker_state", help, "name", named)
}

fn one(views: &[UpstreamView], value: impl Fn(&Counters) -> u64) -> Vec<Series<'_>> {
    let views = views.iter();
    views.map(|v| (vec![("upstream", v.name.as_str())], value(&v.state.counters))).collect()
}

fn each<'v, const N: usize>(
    views: &'v [UpstreamView],
    label: &'static str,
    values: impl Fn(&Counters) -> [(&'static str, u64); N],
) -> Vec<Series<'v>> {
    let series = |view: &'v UpstreamView| {
        let named = values(&view.state.counters).into_iter();
        named.map(move |(key, value)| (vec![("upstream", view.name.as_str()), (label, key)], value))
    };
    views.iter().flat_map(series).collect()
}
