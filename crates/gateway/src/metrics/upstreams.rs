//! The part of the page about calls out. The counters are the policy's own.

use super::Metrics;
use super::catalogue::Metric;
use super::catalogue::beside as names;
use super::writer::{Number, Writer};
use crate::calls::CallsShown;
use crate::record::Inner;
use hedgerow_cache::guarded::CacheShown;
use hedgerow_policy::hedge::{Counters, Outcome, Reason};
use hedgerow_upstream::{Connections, UpstreamView};
use std::fmt::Error;

/// What calls to bare URLs are counted under: hosts are chosen by workers.
const BARE: &str = "url";

/// An upstream's name, and what it has counted.
type Counted<'v> = (&'v str, Counters);

/// Writes it.
pub(super) fn write(
    to: &mut Writer<'_>,
    metrics: &Metrics,
    shown: &CallsShown,
) -> Result<(), Error> {
    let views = &shown.upstreams;
    races(to, shown)?;
    let durations = metrics.settled_calls();
    to.histograms(&names::DURATION, durations.iter().map(|(name, value)| (name.as_str(), value)))?;
    drop(durations);
    to.by(&names::THRESHOLD, views.iter().filter_map(threshold))?;
    let pending = |view: &UpstreamView| {
        view.state.endpoints.iter().map(|endpoint| u64::from(endpoint.pending)).sum::<u64>()
    };
    one(to, &names::PENDING, views, pending)?;
    one(to, &names::BUDGET_LEFT, views, |view| view.state.budget.left)?;
    one(to, &names::IDLE_CONNECTIONS, views, over_all(|at| at.idle))?;
    one(to, &names::IDLE_CONNECTIONS_LIMIT, views, over_all(|at| at.idle_limit))?;
    one(to, &names::H2_CONNECTIONS, views, over_all(|at| at.shared))?;
    one(to, &names::H2_STREAMS, views, over_all(|at| at.streams))?;
    one(to, &names::H2_STREAMS_LIMIT, views, over_all(|at| at.streams_limit))?;
    to.one(&names::PLANS, shown.plans)?;
    to.one(&names::PLAN_ERRORS, shown.plan_errors)?;
    to.size(&names::PLANS_OPEN, shown.open.0)?;
    to.size(&names::PLANS_OPEN_LIMIT, shown.open.1)?;
    to.size(&names::PLAN_ORIGINS, shown.origins.0)?;
    to.size(&names::PLAN_ORIGINS_LIMIT, shown.origins.1)?;
    to.size(&names::LEDGER_KEYS, shown.ledger.0)?;
    to.size(&names::LEDGER_KEYS_LIMIT, shown.ledger.1)?;
    to.one(&names::LEDGER_DROPPED, shown.ledger_dropped)?;
    to.size(&names::EGRESS_CONNECTIONS, shown.egress.0)?;
    to.size(&names::EGRESS_CONNECTIONS_LIMIT, shown.egress.1)
}

/// Attempts and hedges.
fn races(to: &mut Writer<'_>, shown: &CallsShown) -> Result<(), Error> {
    let named = shown.upstreams.iter().map(|view| (name(view), view.state.counters));
    let bare = (shown.origins.0 > 0).then_some((BARE, shown.bare));
    let all: Vec<Counted<'_>> = named.chain(bare).collect();
    let outcomes = |c: &Counters| {
        [
            ("success", c.succeeded),
            ("failure", c.failed),
            ("abandoned", c.abandoned),
            ("shed", c.shed),
        ]
    };
    to.each(&names::CALLS, each(&all, outcomes))?;
    let roles = |c: &Counters| [("primary", c.calls), ("hedge", c.hedges), ("retry", c.retries)];
    to.each(&names::ATTEMPTS, each(&all, roles))?;
    let hedges = |c: &Counters| {
        let all = [Outcome::Won, Outcome::Lost, Outcome::Failed, Outcome::Abandoned];
        all.map(|outcome| (outcome.name(), c.hedges_that(outcome)))
    };
    to.each(&names::HEDGES, each(&all, hedges))?;
    let suppressed =
        |c: &Counters| Reason::ALL.map(|reason| (reason.name(), c.suppressed_for(reason)));
    to.each(&names::SUPPRESSED, each(&all, suppressed))?;
    to.by(&names::OBSERVED, all.iter().map(|(name, c)| (*name, c.observed)))?;
    #[allow(clippy::cast_precision_loss, reason = "microseconds fit an f64 for 285 years")]
    let saved = all.iter().map(|(name, c)| (*name, c.saved_micros as f64 / 1e6));
    to.by(&names::SAVED, saved)?;
    to.by(&names::RETRIES, all.iter().map(|(name, c)| (*name, c.retries)))
}

/// Every circuit, the cache's and the upstreams': its state, and its moves.
pub(super) fn circuits(
    to: &mut Writer<'_>,
    inner: &Inner,
    cache: Option<&CacheShown>,
    calls: Option<&CallsShown>,
) -> Result<(), Error> {
    let own = cache.map(|shown| {
        let state = u64::from(shown.breaker.state.gauge());
        (shown.breaker.name.to_owned(), state)
    });
    let theirs = calls.into_iter().flat_map(|calls| &calls.upstreams).flat_map(|view| {
        let breakers = view.breakers.iter().enumerate();
        breakers.map(|(index, shown)| {
            (view.breaker_name(index), u64::from(shown.circuit.state.gauge()))
        })
    });
    to.by(&names::BREAKER_STATE, own.into_iter().chain(theirs))?;
    let moves = inner.metrics.transitions.all().into_iter();
    let moves =
        moves.map(|((name, from, to), count)| ([name, from.to_owned(), to.to_owned()], count));
    to.each(&names::BREAKER_TRANSITIONS, moves)
}

/// Over all endpoints of an upstream.
fn over_all(of: fn(&Connections) -> usize) -> impl Fn(&UpstreamView) -> u64 {
    move |view| view.connections.iter().map(of).sum::<usize>() as u64
}

fn threshold(view: &UpstreamView) -> Option<(&str, f64)> {
    Some((name(view), view.state.threshold?.as_secs_f64()))
}

fn name(view: &UpstreamView) -> &str {
    &view.name
}

fn one<N: Number>(
    to: &mut Writer<'_>,
    metric: &Metric,
    views: &[UpstreamView],
    value: impl Fn(&UpstreamView) -> N,
) -> Result<(), Error> {
    to.by(metric, views.iter().map(|view| (name(view), value(view))))
}

fn each<'v, const N: usize>(
    all: &[Counted<'v>],
    values: impl Fn(&Counters) -> [(&'static str, u64); N],
) -> Vec<([&'v str; 2], u64)> {
    let series =
        |(name, counters): &Counted<'v>| values(counters).map(|(key, n)| ([*name, key], n));
    all.iter().flat_map(series).collect()
}
