//! What the admin listener shows of the guarded cache, and the one thing it can do to it.

use super::routes::{Answer, error, json};
use hedgerow_cache::Guarded;
use hedgerow_cache::guarded::{BreakerShown, CacheShown, ResumeError};
use http::StatusCode;
use serde::Serialize;

/// `/admin/breakers`.
#[derive(Serialize)]
pub(super) struct Breakers {
    pub(super) breakers: Vec<Breaker>,
}

#[derive(Serialize)]
pub(super) struct Breaker {
    pub(super) name: String,
    pub(super) state: &'static str,
    pub(super) since_ms: u64,
    pub(super) calls: u64,
    pub(super) failures: u64,
    pub(super) failure_ratio: f64,
    pub(super) episode: u64,
    pub(super) probes_in_flight: u32,
}

/// `/admin/cache`.
#[derive(Serialize)]
pub(super) struct Cache {
    store: String,
    state: &'static str,
    episode: u64,
    repair_gate: &'static str,
    journal_depth: usize,
    journal_capacity: usize,
    /// Databases whose reads stay shed until `resume`.
    journal_overflowed: Vec<u32>,
    lanes: Vec<Lane>,
    reads: Reads,
    repairs: Repairs,
    canaries: Canaries,
    reconnects: u64,
    late_replies: u64,
    settled: u64,
    order_guaranteed: bool,
    memory_bytes: Option<u64>,
    memory_capacity: Option<u64>,
}

#[derive(Serialize)]
struct Lane {
    user: String,
    db: u32,
    pending: usize,
    connected: bool,
    in_doubt: usize,
}

#[derive(Serialize)]
struct Reads {
    hit: u64,
    miss: u64,
    shed: u64,
    stale: u64,
    timeout: u64,
    error: u64,
}

#[derive(Serialize)]
struct Repairs {
    tried: u64,
    landed: u64,
    refused: u64,
    failed: u64,
}

#[derive(Serialize)]
struct Canaries {
    good: u64,
    failed: u64,
}

impl Breakers {
    pub(super) fn of(cache: Option<&CacheShown>) -> Breakers {
        let breakers = cache.map(|shown| breaker(&shown.breaker)).into_iter().collect();
        Breakers { breakers }
    }
}

fn breaker(shown: &BreakerShown) -> Breaker {
    Breaker {
        name: shown.name.to_owned(),
        state: shown.state.name(),
        since_ms: u64::try_from(shown.since.as_millis()).unwrap_or(u64::MAX),
        calls: shown.calls,
        failures: shown.failures,
        failure_ratio: shown.failure_ratio,
        episode: shown.episode,
        probes_in_flight: shown.probes_in_flight,
    }
}

impl Cache {
    pub(super) fn of(shown: CacheShown) -> Cache {
        let counts = shown.counts;
        let user = shown.user;
        let lanes = shown.lanes.iter().map(|lane| Lane {
            user: user.clone(),
            db: lane.database,
            pending: lane.pending,
            connected: lane.connected,
            in_doubt: lane.in_doubt,
        });
        Cache {
            store: shown.store,
            state: shown.breaker.state.name(),
            episode: shown.breaker.episode,
            repair_gate: shown.repair_gate.name(),
            journal_depth: shown.journal.depth,
            journal_capacity: shown.journal.capacity,
            journal_overflowed: shown.journal.overflowed,
            lanes: lanes.collect(),
            reads: Reads {
                hit: counts.hit,
                miss: counts.miss,
                shed: counts.shed,
                stale: counts.stale,
                timeout: counts.timeout,
                error: counts.error,
            },
            repairs: Repairs {
                tried: counts.repairs_tried(),
                landed: counts.repairs_landed,
                refused: counts.repairs_refused,
                failed: counts.repairs_failed,
            },
            canaries: Canaries { good: counts.canaries_good, failed: counts.canaries_failed },
            reconnects: shown.reconnects,
            late_replies: shown.late_replies,
            settled: shown.settled,
            order_guaranteed: shown.order_guaranteed,
            memory_bytes: shown.memory.map(|(held, _)| held),
            memory_capacity: shown.memory.map(|(_, most)| most),
        }
    }
}

/// Removes what overflowed databases may have lost track of, and lets them be read again.
pub(super) async fn resume(cache: &Guarded, flush: bool) -> Answer {
    #[derive(Serialize)]
    struct Resumed {
        ok: bool,
        databases: usize,
    }
    match cache.resume(flush).await {
        Ok(databases) => json(StatusCode::OK, &Resumed { ok: true, databases }),
        Err(ResumeError::NeedsFlush) => error(StatusCode::CONFLICT, "needs_flush"),
        Err(ResumeError::Store { .. }) => error(StatusCode::BAD_GATEWAY, "store_failed"),
    }
}
