//! What the admin listener shows of calls out: the ledger, the open sessions, the breakers.

use super::State;
use super::cache::{Breaker, Breakers};
use hedgerow_policy::hedge::{Outcome, Reason, UpstreamSnapshot};
use hedgerow_upstream::UpstreamView;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// One open plan or batch.
#[derive(Serialize)]
pub(super) struct Session {
    id: u64,
    request_id: String,
    trace_id: String,
    name: String,
    transport: &'static str,
    codec: &'static str,
    mapper: &'static str,
    stream_type: &'static str,
    source: String,
    started_at_unix: f64,
}

/// The open plans and batches.
pub(super) fn sessions(state: &State, offset: usize, limit: usize) -> Vec<Session> {
    let Some(calls) = state.control.calls() else { return Vec::new() };
    let opened = calls.current();
    let listed = opened.sessions().list(offset, limit).into_iter();
    listed
        .map(|session| Session {
            id: session.id,
            request_id: session.request_id,
            trace_id: session.trace_id,
            name: session.name,
            transport: session.transport,
            codec: session.codec,
            mapper: session.mapper,
            stream_type: session.stream_type,
            source: session.source,
            started_at_unix: session.started_at_unix,
        })
        .collect()
}

/// How many are open.
pub(super) fn active(state: &State) -> usize {
    state.control.calls().map_or(0, |calls| calls.current().sessions().active())
}

/// `/admin/usage`: the sums of each upstream, and the newest keys, at most so many.
pub(super) fn of(state: &State, keys: usize) -> Value {
    let Some(calls) = state.control.calls() else {
        return json!({"upstreams": {}, "recent": []});
    };
    let opened = calls.current();
    let client = opened.client();
    let mut upstreams = Map::new();
    for view in client.view() {
        let totals = client.ledger().totals(&view.name);
        upstreams.insert(view.name.clone(), sums(&view, totals.cost, totals.cost_unknown));
    }
    let recent: Vec<Value> = client
        .ledger()
        .recent()
        .iter()
        .take(keys)
        .map(hedgerow_upstream::KeyEntry::to_json)
        .collect();
    json!({"upstreams": upstreams, "recent": recent})
}

fn sums(view: &UpstreamView, cost: f64, cost_unknown: u64) -> Value {
    let UpstreamSnapshot { counters, threshold, quantiles, budget, .. } = &view.state;
    let suppressed: Map<String, Value> = Reason::ALL
        .iter()
        .map(|reason| (reason.name().to_owned(), counters.suppressed_for(*reason).into()))
        .collect();
    let rate = match counters.calls {
        0 => 0.0,
        calls => counters.hedges as f64 / calls as f64,
    };
    let percentiles = quantiles.as_ref().map(|[p50, p95, p99]| {
        json!({"p50": p50.to_string(), "p95": p95.to_string(), "p99": p99.to_string()})
    });
    json!({
        "calls": counters.calls,
        "attempts": counters.attempts,
        "hedges_fired": counters.hedges,
        "hedges_won": counters.hedges_that(Outcome::Won),
        "hedges_observed": counters.observed,
        "hedge_rate": rate,
        "suppressed": suppressed,
        "retries": counters.retries,
        "seconds_saved": counters.saved_micros as f64 / 1e6,
        "cost": (cost > 0.0).then_some(cost),
        "cost_unknown": cost_unknown,
        "threshold_ms": threshold.map(millis),
        "seconds": percentiles,
        "budget_left": budget.left,
        "endpoints": endpoints(view),
    })
}

fn endpoints(view: &UpstreamView) -> Vec<Value> {
    let endpoints = view.urls.iter().zip(&view.state.endpoints).zip(&view.connections);
    endpoints
        .map(|((url, endpoint), connections)| {
            json!({
                "url": &**url,
                "pending": endpoint.pending,
                "demoted": endpoint.demoted_until.is_some(),
                "rests": endpoint.rests_until.is_some(),
                "idle_connections": connections.idle,
                "http2_connections": connections.shared,
            })
        })
        .collect()
}

fn millis(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1e3
}

/// The breakers of the upstreams, one for each endpoint, beside the cache's.
pub(super) fn add_breakers(state: &State, to: &mut Breakers) {
    let Some(calls) = state.control.calls() else { return };
    let now = state.clock.now();
    for view in calls.current().client().view() {
        for (index, shown) in view.breakers.iter().enumerate() {
            let since = now - shown.circuit.since;
            to.breakers.push(Breaker {
                name: view.breaker_name(index),
                state: shown.circuit.state.name(),
                since_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
                calls: shown.counts.calls,
                failures: shown.counts.failures,
                failure_ratio: shown.failure_ratio(),
                episode: shown.episode,
                probes_in_flight: shown.probes_in_flight,
            });
        }
    }
}
