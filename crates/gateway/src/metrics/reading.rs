//! What the history takes down each second: the same counters that the page shows.

use super::histogram::Histogram;
use crate::history::reading::{counters, gauges};
use crate::history::{Column, Kind, Reading, Value};
use crate::record::Inner;
use hedgerow_cache::guarded::CacheShown;
use hedgerow_policy::Class;
use hedgerow_policy::breaker::State;
use hedgerow_policy::hedge::{Outcome, Reason};
use hedgerow_policy::pool::SlotPhase;
use hedgerow_upstream::UpstreamView;
use hedgerow_worker::snapshot::Snapshot;
use std::sync::atomic::Ordering::Relaxed;

/// Everything at this moment.
pub(crate) fn read(
    inner: &Inner,
    pool: Option<&Snapshot>,
    cache: Option<&CacheShown>,
    upstreams: &[UpstreamView],
) -> Reading {
    let mut values = Vec::with_capacity(96);
    requests(inner, &mut values);
    queue(inner, pool, &mut values);
    workers(inner, pool, &mut values);
    if let Some(shown) = cache {
        of_cache(shown, &mut values);
    }
    breakers(cache, upstreams, &mut values);
    let upstreams = upstreams.iter().map(|view| (view.name.clone(), calls(inner, view)));
    Reading { values, upstreams: upstreams.collect() }
}

fn quantile(group: &'static str, name: &'static str, quantile: f64, of: &Histogram) -> Value {
    Value { column: Column { group, name }, kind: Kind::Quantile(quantile, of.counts()) }
}

fn requests(inner: &Inner, to: &mut Vec<Value>) {
    let metrics = &inner.metrics;
    let (mut all, mut client, mut server) = (0, 0, 0);
    let mut classes = vec![0; Class::ALL.len()];
    metrics.requests.each(|count| {
        all += count.value;
        match (count.class, count.status) {
            (Some(class), _) => classes[class as usize] += count.value,
            (None, Some(400..=499)) => client += count.value,
            (None, Some(500..)) => server += count.value,
            (None, _) => {}
        }
    });
    to.extend(counters(
        "http",
        [
            ("requests", all),
            ("client_errors", client),
            ("server_errors", server),
            ("bytes_in", metrics.bytes_in.load(Relaxed)),
            ("bytes_out", metrics.bytes_out.load(Relaxed)),
        ],
    ));
    to.extend(counters("failed", Class::ALL.iter().map(|class| class.name()).zip(classes)));
    to.extend(gauges(
        "http",
        [
            ("in_flight", inner.live.in_flight() as u64),
            ("connections", u64::try_from(metrics.connections.load(Relaxed)).unwrap_or(0)),
        ],
    ));
    to.push(quantile("http", "p50_ms", 0.5, &metrics.durations));
    to.push(quantile("http", "p95_ms", 0.95, &metrics.durations));
}

fn queue(inner: &Inner, pool: Option<&Snapshot>, to: &mut Vec<Value>) {
    let metrics = &inner.metrics;
    to.extend(gauges("queue", [("depth", pool.map_or(0, |pool| pool.queue_depth as u64))]));
    to.extend(counters(
        "queue",
        [
            ("waits", metrics.queue_waits.load(Relaxed)),
            ("rejected", metrics.queue_rejected.load(Relaxed)),
            ("timeouts", metrics.queue_timeouts.load(Relaxed)),
        ],
    ));
    to.push(quantile("queue", "wait_p95_ms", 0.95, &metrics.queue_wait));
}

fn workers(inner: &Inner, pool: Option<&Snapshot>, to: &mut Vec<Value>) {
    let Some(pool) = pool else { return };
    let all = [SlotPhase::Starting, SlotPhase::Idle, SlotPhase::Busy, SlotPhase::BackingOff];
    let phases = all.map(|phase| {
        (phase.name(), pool.workers.iter().filter(|worker| worker.phase == phase).count() as u64)
    });
    to.extend(gauges("workers", phases));
    let rss: u64 = pool.workers.iter().filter_map(|worker| worker.rss).sum();
    to.extend(gauges("workers", [("retiring", pool.retiring as u64), ("rss_kb", rss / 1_024)]));
    to.extend(counters("restarts", inner.metrics.restarts.all()));
}

fn of_cache(shown: &CacheShown, to: &mut Vec<Value>) {
    let counts = shown.counts;
    to.extend(counters("cache", counts.reads()));
    to.extend(counters(
        "cache",
        [
            ("repairs_landed", counts.repairs_landed),
            ("repairs_refused", counts.repairs_refused),
            ("repairs_failed", counts.repairs_failed),
            ("writes_skipped", counts.writes_skipped),
            ("canaries_good", counts.canaries_good),
            ("canaries_failed", counts.canaries_failed),
        ],
    ));
    let owed = shown.lanes.iter().map(|lane| lane.pending as u64).sum();
    to.extend(gauges("cache", [("journal_depth", shown.journal.depth as u64), ("owed", owed)]));
}

fn breakers(cache: Option<&CacheShown>, upstreams: &[UpstreamView], to: &mut Vec<Value>) {
    let theirs = upstreams.iter().flat_map(|view| &view.breakers);
    let states = theirs.map(|shown| shown.circuit.state).chain(cache.map(|c| c.breaker.state));
    let (mut open, mut half) = (0, 0);
    for state in states {
        open += u64::from(state == State::Open);
        half += u64::from(state == State::HalfOpen);
    }
    to.extend(gauges("breakers", [("open", open), ("half_open", half)]));
}

fn calls(inner: &Inner, view: &UpstreamView) -> Vec<Value> {
    let of = &view.state.counters;
    let suppressed = Reason::ALL.iter().map(|reason| of.suppressed_for(*reason)).sum();
    let mut values: Vec<Value> = counters(
        "",
        [
            ("calls", of.calls),
            ("succeeded", of.succeeded),
            ("failed", of.failed),
            ("abandoned", of.abandoned),
            ("shed", of.shed),
            ("hedges", of.hedges),
            ("hedges_won", of.hedges_that(Outcome::Won)),
            ("suppressed", suppressed),
            ("retries", of.retries),
            ("saved_ms", of.saved_micros / 1_000),
        ],
    )
    .collect();
    let open = of.calls.saturating_sub(of.succeeded + of.failed + of.abandoned);
    values.extend(gauges("", [("in_flight", open)]));
    let settled = inner.metrics.settled_calls();
    if let Some(durations) = settled.get(&view.name) {
        values.push(quantile("", "p50_ms", 0.5, durations));
        values.push(quantile("", "p95_ms", 0.95, durations));
    }
    values
}
