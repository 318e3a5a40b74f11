//! What the dashboard is told: the history once, and then each second.
//!
//! Invariant: a frame has a bound of its own, whatever the gateway holds: so many requests, keys,
//! events, and so many characters of a path. What is left out is counted (`total`).

use super::State;
use super::cache::{Breakers, Cache};
use super::routes::{Answer, json};
use super::shapes::{self, Request, Stats};
use crate::history::{Happening, Move, ROWS, STEP, Shown};
use crate::live::{Entry, Stage};
use crate::metrics::reading;
use crate::wall;
use bytes::Bytes;
use http::StatusCode;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Requests in flight that are listed, the oldest.
const REQUESTS: usize = 50;
/// Requests that are looked through for those the workers have.
const LOOKED_AT: usize = 10_000;
/// Keys of the ledger, the newest.
const KEYS: usize = 25;
/// Characters of a path.
const PATH: usize = 200;
/// How far back each frame goes for what happened: a page that missed a few loses nothing.
const RECENT: Duration = Duration::from_secs(20);
/// Events and moves in one frame.
const HAPPENINGS: usize = 40;
/// The same where the whole history is asked for.
const ALL_HAPPENINGS: usize = 256;

/// `/admin/history`.
#[derive(Serialize)]
struct History<'e> {
    step_ms: u64,
    capacity: usize,
    held: usize,
    #[serde(flatten)]
    shown: Second<'e>,
}

/// Rows, what happened meanwhile, and what is the case now: one event of `/admin/stream`.
#[derive(Serialize)]
struct Second<'e> {
    #[serde(flatten)]
    rows: Shown,
    events: Vec<Happening>,
    moves: Vec<Move>,
    now: Now<'e>,
}

/// What is the case at a moment.
#[derive(Serialize)]
struct Now<'e> {
    at: u64,
    ready: bool,
    version: &'static str,
    started_at_unix: u64,
    totals: Stats,
    queue: Queue,
    workers: Vec<Worker<'e>>,
    retiring: usize,
    requests: Listed<'e>,
    breakers: Breakers,
    cache: Option<Cache>,
    usage: Value,
}

#[derive(Serialize, Default)]
struct Queue {
    depth: usize,
    capacity: usize,
    timeout_ms: u64,
}

/// A worker, and the oldest request it has.
#[derive(Serialize)]
struct Worker<'e> {
    #[serde(flatten)]
    worker: shapes::Worker,
    on: Option<Request<'e>>,
}

#[derive(Serialize)]
struct Listed<'e> {
    total: usize,
    requests: Vec<Request<'e>>,
}

/// Takes down what the counters say.
pub(super) fn add_row(state: &State) {
    let inner = &state.recorder.inner;
    let cache = state.control.cache().map(|cache| cache.snapshot());
    let calls = state.control.calls().map(|calls| calls.current().client().view());
    let pool = state.control.pool();
    let upstreams = calls.unwrap_or_default();
    let read = reading::read(inner, pool.as_ref(), cache.as_ref(), &upstreams);
    inner.history.add(wall::now().unix_millis(), read);
}

/// The history after row `after`, or all of it.
pub(super) fn history(state: &State, after: Option<u64>) -> Answer {
    let entries = state.recorder.inner.live.snapshot(LOOKED_AT);
    let history = &state.recorder.inner.history;
    let (events, moves) = history.happenings().since(0, ALL_HAPPENINGS);
    let shown = History {
        step_ms: shapes::whole_millis(STEP),
        capacity: ROWS,
        held: history.held(),
        shown: Second { rows: history.after(after), events, moves, now: Now::of(state, &entries) },
    };
    json(StatusCode::OK, &shown)
}

/// The newest second, as an event of a stream.
pub(super) fn event(state: &State) -> Bytes {
    let entries = state.recorder.inner.live.snapshot(LOOKED_AT);
    let history = &state.recorder.inner.history;
    let since = wall::now().unix_millis().saturating_sub(shapes::whole_millis(RECENT));
    let (events, moves) = history.happenings().since(since, HAPPENINGS);
    let second = Second { rows: history.newest(), events, moves, now: Now::of(state, &entries) };
    let mut out = b"event: second\ndata: ".to_vec();
    // Only maps whose keys are no strings fail, and there is none.
    let written = serde_json::to_writer(&mut out, &second);
    debug_assert!(written.is_ok(), "JSON");
    out.extend_from_slice(b"\n\n");
    out.into()
}

impl<'e> Now<'e> {
    fn of(state: &State, entries: &'e [Arc<Entry>]) -> Now<'e> {
        let inner = &state.recorder.inner;
        let moment = state.clock.now();
        let pool = state.control.pool();
        let shown = |entry: &'e Entry| Request::of(entry, moment).cut(PATH);
        let mut on: BTreeMap<u32, Request<'e>> = BTreeMap::new();
        for entry in entries.iter().filter(|entry| at_worker(entry)) {
            if let Some(worker) = entry.worker() {
                on.entry(worker).or_insert_with(|| shown(entry));
            }
        }
        let cache = state.control.cache().map(|cache| cache.snapshot());
        let mut breakers = Breakers::of(cache.as_ref());
        super::usage::add_breakers(state, &mut breakers);
        let workers = shapes::workers(pool.as_ref()).into_list().into_iter().map(|worker| {
            let on = on.remove(&worker.id());
            Worker { worker, on }
        });
        Now {
            at: wall::now().unix_millis(),
            ready: state.control.ready(),
            version: env!("CARGO_PKG_VERSION"),
            started_at_unix: inner.started.unix_seconds(),
            totals: Stats::of(state),
            workers: workers.collect(),
            retiring: pool.as_ref().map_or(0, |pool| pool.retiring),
            queue: pool.as_ref().map_or_else(Queue::default, |pool| Queue {
                depth: pool.queue_depth,
                capacity: pool.queue_capacity,
                timeout_ms: shapes::whole_millis(pool.queue_timeout),
            }),
            requests: Listed {
                total: inner.live.in_flight(),
                requests: entries.iter().take(REQUESTS).map(|entry| shown(entry)).collect(),
            },
            breakers,
            cache: cache.map(Cache::of),
            usage: super::usage::of(state, KEYS),
        }
    }
}

/// Whether a worker has the request now.
fn at_worker(entry: &Entry) -> bool {
    matches!(entry.stage().0, Stage::Working | Stage::Streaming | Stage::Sending)
}
