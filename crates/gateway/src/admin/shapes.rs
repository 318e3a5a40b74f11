//! The JSON that the admin listener answers with.
//!
//! Invariant: every field is always there; `null` says that there is no such thing or that it
//! could not be read.

use super::State;
use crate::live::Entry;
use crate::metrics::{Totals, alive_tasks};
use crate::wall;
use hedgerow_policy::Moment;
use hedgerow_policy::pool::SlotPhase;
use hedgerow_worker::snapshot::{Snapshot, WorkerSnapshot};
use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// `stats` of `/admin/runtime`.
#[derive(Serialize)]
pub(super) struct Stats {
    http_requests_total: u64,
    http_errors_total: u64,
    http_timeouts_total: u64,
    http_streams_total: u64,
    admin_actions_total: u64,
    worker_queue_waits_total: u64,
    worker_queue_rejected_total: u64,
    worker_queue_timeouts_total: u64,
    upstream_plans_total: u64,
    upstream_plan_errors_total: u64,
}

impl Stats {
    pub(super) fn of(state: &State) -> Stats {
        let totals: Totals = state.recorder.inner.metrics.totals();
        let (plans, plan_errors) = state.control.calls().map_or((0, 0), |calls| calls.plans());
        Stats {
            http_requests_total: totals.http_requests,
            http_errors_total: totals.http_errors,
            http_timeouts_total: totals.http_timeouts,
            http_streams_total: totals.http_streams,
            admin_actions_total: totals.admin_actions,
            worker_queue_waits_total: totals.queue_waits,
            worker_queue_rejected_total: totals.queue_rejected,
            worker_queue_timeouts_total: totals.queue_timeouts,
            upstream_plans_total: plans,
            upstream_plan_errors_total: plan_errors,
        }
    }
}

/// `/admin/stats`.
#[derive(Serialize)]
pub(super) struct StatsPage {
    started_at_unix: u64,
    uptime_seconds: u64,
    #[serde(flatten)]
    stats: Stats,
}

/// `/admin/runtime`.
#[derive(Serialize)]
pub(super) struct Runtime<'s> {
    pid: u32,
    started_at_unix: u64,
    uptime_seconds: u64,
    version: &'static str,
    ready: bool,
    tasks: usize,
    http_requests_in_flight: usize,
    worker_pool_size: usize,
    worker_backend_mode: &'static str,
    worker_queue_capacity: usize,
    worker_queue_timeout_ms: u64,
    worker_queue_depth: usize,
    capabilities: BTreeMap<&'s str, bool>,
    active_upstreams: usize,
    stats: Stats,
}

/// `/admin/workers`.
#[derive(Serialize)]
pub(super) struct Workers {
    worker_autostart: bool,
    worker_pool_size: usize,
    worker_max_requests: u64,
    worker_sockets: Vec<String>,
    workers: Vec<Worker>,
}

impl Workers {
    /// The workers alone.
    pub(super) fn into_list(self) -> Vec<Worker> {
        self.workers
    }
}

/// One of them.
#[derive(Serialize)]
pub(super) struct Worker {
    id: u32,
    socket: String,
    alive: bool,
    pid: Option<u32>,
    rss_kb: Option<u64>,
    draining: bool,
    inflight_requests: u32,
    served_requests: u64,
    restart_count: u64,
    /// Milliseconds since 1970, 0 where no start is put off.
    next_retry_ts: u64,
    state: &'static str,
    state_ms: u64,
    capabilities: Vec<&'static str>,
}

/// `/admin/requests`.
#[derive(Serialize)]
pub(super) struct Requests<'e> {
    /// In flight, shown or not.
    pub(super) total: usize,
    pub(super) requests: Vec<Request<'e>>,
}

/// One of them.
#[derive(Clone, Serialize)]
pub(super) struct Request<'e> {
    trace_id: &'e str,
    request_id: &'e str,
    method: &'e str,
    path: Cow<'e, str>,
    phase: &'static str,
    age_ms: u64,
    phase_ms: u64,
    worker_id: Option<u32>,
    /// Until the deadline; below zero it is overdue.
    deadline_ms: Option<i64>,
}

/// `/admin/runtime/upstreams`.
#[derive(Serialize)]
pub(super) struct Upstreams {
    pub(super) active_count: usize,
    pub(super) returned_count: usize,
    pub(super) details: bool,
    pub(super) limit: usize,
    pub(super) offset: usize,
    pub(super) sessions: Vec<super::usage::Session>,
}

pub(super) fn stats(state: &State) -> StatsPage {
    StatsPage {
        started_at_unix: state.recorder.inner.started.unix_seconds(),
        uptime_seconds: uptime(state),
        stats: Stats::of(state),
    }
}

pub(super) fn runtime(state: &State) -> Runtime<'_> {
    let pool = state.control.pool();
    let pool = pool.as_ref();
    Runtime {
        pid: std::process::id(),
        started_at_unix: state.recorder.inner.started.unix_seconds(),
        uptime_seconds: uptime(state),
        version: env!("CARGO_PKG_VERSION"),
        ready: state.control.ready(),
        tasks: alive_tasks(),
        http_requests_in_flight: state.recorder.inner.live.in_flight(),
        worker_pool_size: pool.map_or(0, |pool| pool.size),
        worker_backend_mode: if pool.is_some() { "required" } else { "disabled" },
        worker_queue_capacity: pool.map_or(0, |pool| pool.queue_capacity),
        worker_queue_timeout_ms: pool.map_or(0, |pool| whole_millis(pool.queue_timeout)),
        worker_queue_depth: pool.map_or(0, |pool| pool.queue_depth),
        capabilities: state.settings.capabilities.iter().copied().collect(),
        active_upstreams: super::usage::active(state),
        stats: Stats::of(state),
    }
}

pub(super) fn workers(pool: Option<&Snapshot>) -> Workers {
    let shown = pool.map_or(&[][..], |pool| &pool.workers);
    Workers {
        worker_autostart: pool.is_some_and(|pool| pool.supervised),
        worker_pool_size: pool.map_or(0, |pool| pool.size),
        worker_max_requests: pool.map_or(0, |pool| pool.max_requests),
        worker_sockets: shown.iter().map(|worker| text(&worker.socket)).collect(),
        workers: shown.iter().map(Worker::from).collect(),
    }
}

impl Worker {
    pub(super) fn id(&self) -> u32 {
        self.id
    }
}

impl From<&WorkerSnapshot> for Worker {
    fn from(worker: &WorkerSnapshot) -> Worker {
        let up = matches!(worker.phase, SlotPhase::Idle | SlotPhase::Busy);
        let retry = worker.next_start_in.map(|wait| wall::now().unix_millis_after(wait));
        Worker {
            id: worker.id,
            socket: text(&worker.socket),
            alive: up || worker.pid.is_some(),
            pid: worker.pid,
            rss_kb: worker.rss.map(|bytes| bytes / 1_024),
            draining: worker.draining,
            inflight_requests: worker.in_flight,
            served_requests: worker.served,
            restart_count: worker.restarts,
            next_retry_ts: retry.unwrap_or(0),
            state: worker.phase.name(),
            state_ms: whole_millis(worker.phase_for),
            capabilities: worker.capabilities.clone(),
        }
    }
}

impl<'e> Requests<'e> {
    pub(super) fn of(entries: &'e [std::sync::Arc<Entry>], total: usize, now: Moment) -> Self {
        let requests = entries.iter().map(|entry| Request::of(entry, now)).collect();
        Requests { total, requests }
    }
}

impl<'e> Request<'e> {
    pub(super) fn of(entry: &'e Entry, now: Moment) -> Request<'e> {
        let (stage, since) = entry.stage();
        Request {
            trace_id: &entry.trace_id,
            request_id: &entry.request_id,
            method: entry.method.as_str(),
            path: Cow::Borrowed(&entry.path),
            phase: stage.name(),
            age_ms: whole_millis(now.since(entry.received)),
            phase_ms: whole_millis(now.since(since)),
            worker_id: entry.worker(),
            deadline_ms: entry.deadline().map(|at| {
                let left = i64::try_from(whole_millis(at.since(now))).unwrap_or(i64::MAX);
                left - i64::try_from(whole_millis(now.since(at))).unwrap_or(i64::MAX)
            }),
        }
    }
}

impl Request<'_> {
    /// The same with at most so many characters of the path.
    pub(super) fn cut(mut self, most: usize) -> Self {
        if let Some((end, _)) = self.path.char_indices().nth(most) {
            let cut = format!("{}…", self.path.get(..end).unwrap_or(""));
            self.path = Cow::Owned(cut);
        }
        self
    }
}

fn uptime(state: &State) -> u64 {
    state.clock.now().since(Moment::START).as_secs()
}

pub(super) fn whole_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
