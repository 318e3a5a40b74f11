//! The counters.
//!
//! Invariant: everything is counted once, here, in plain atomics. The Prometheus page
//! (`metrics/page.rs`) and the totals of `/admin/stats` are two views of the same numbers. A
//! request that ends looks nothing up: its counter sits at a place computed from its method,
//! class and status.

mod cache;
mod catalogue;
mod grid;
pub(crate) mod histogram;
pub(crate) mod page;
mod pool;
pub(crate) mod reading;
mod reference;
mod upstreams;
mod watching;
mod writer;

pub use reference::metrics_reference;

use grid::Grid;
use hedgerow_policy::observe::{CallEvent, Event};
use hedgerow_policy::{Class, Failure};
use hedgerow_wire::dispatch;
use histogram::Histogram;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;

/// Why lines of workers are lost.
const TOO_FAST: &str = "too_fast";
const LOG_FULL: &str = "event_log_full";

/// Counters by a label whose values the program itself names. For what is rare: it locks.
pub(crate) struct Tally(Mutex<BTreeMap<&'static str, u64>>);

impl Tally {
    /// With these values at zero, so that a first step from "absent" is not lost on `rate()`.
    fn of(names: impl IntoIterator<Item = &'static str>) -> Tally {
        Tally(Mutex::new(names.into_iter().map(|name| (name, 0)).collect()))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn step(&self, name: &'static str) {
        self.add(name, 1);
    }

    fn add(&self, name: &'static str, count: u64) {
        *self.lock().entry(name).or_insert(0) += count;
    }

    fn total(&self) -> u64 {
        self.lock().values().sum()
    }

    fn all(&self) -> Vec<(&'static str, u64)> {
        self.lock().iter().map(|(&name, &count)| (name, count)).collect()
    }
}

/// Moves of circuits, by whose, from where and to where. Circuits are named in the configuration,
/// so there are few.
#[derive(Default)]
pub(crate) struct Transitions(Mutex<BTreeMap<Move, u64>>);

/// Whose circuit, from where, to where.
type Move = (String, &'static str, &'static str);

impl Transitions {
    fn step(&self, name: &str, from: &'static str, to: &'static str) {
        let mut moves = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *moves.entry((name.to_owned(), from, to)).or_insert(0) += 1;
    }

    fn all(&self) -> Vec<(Move, u64)> {
        let moves = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        moves.iter().map(|(of, count)| (of.clone(), *count)).collect()
    }
}

/// The counters. See the module's head.
pub(crate) struct Metrics {
    transitions: Transitions,
    requests: Grid,
    egress: Grid,
    durations: Histogram,
    streams: Tally,
    stream_errors: Tally,
    dispatch_steps: Tally,
    dispatch_open: AtomicUsize,
    dispatch_limit: AtomicUsize,
    bad_heads: Tally,
    connections: AtomicI64,
    connections_limit: AtomicU64,
    connections_opened: AtomicU64,
    body_memory: AtomicU64,
    body_memory_limit: AtomicU64,
    bodies_spooled: AtomicU64,
    body_spool: AtomicU64,
    queue_waits: AtomicU64,
    queue_rejected: AtomicU64,
    queue_timeouts: AtomicU64,
    queue_wait: Histogram,
    restarts: Tally,
    late_answers: AtomicU64,
    output_lines: Tally,
    output_dropped: Tally,
    terminal_dropped: AtomicU64,
    reloads: Tally,
    admin_actions: Tally,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    settled: Mutex<BTreeMap<String, Histogram>>,
}

/// The totals of `/admin/stats`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) http_requests: u64,
    pub(crate) http_errors: u64,
    pub(crate) http_timeouts: u64,
    pub(crate) http_streams: u64,
    pub(crate) admin_actions: u64,
    pub(crate) queue_waits: u64,
    pub(crate) queue_rejected: u64,
    pub(crate) queue_timeouts: u64,
}

impl Metrics {
    pub(crate) fn new() -> Metrics {
        use hedgerow_policy::observe::EndReason as R;
        let ends = [R::Timeout, R::Fault, R::MaxRequests, R::MaxRss, R::Restart, R::Reload];
        let ends = ends.into_iter().chain([R::StartTimeout]).map(R::name);
        Metrics {
            transitions: Transitions::default(),
            requests: Grid::new(),
            egress: Grid::new(),
            durations: Histogram::new(),
            streams: Tally::of(["sse", "text"]),
            stream_errors: Tally::of([]),
            dispatch_steps: Tally::of(dispatch::Event::ALL.map(dispatch::Event::name)),
            dispatch_open: AtomicUsize::new(0),
            dispatch_limit: AtomicUsize::new(0),
            bad_heads: Tally::of([]),
            connections: AtomicI64::new(0),
            connections_limit: AtomicU64::new(0),
            connections_opened: AtomicU64::new(0),
            body_memory: AtomicU64::new(0),
            body_memory_limit: AtomicU64::new(0),
            bodies_spooled: AtomicU64::new(0),
            body_spool: AtomicU64::new(0),
            queue_waits: AtomicU64::new(0),
            queue_rejected: AtomicU64::new(0),
            queue_timeouts: AtomicU64::new(0),
            queue_wait: Histogram::new(),
            restarts: Tally::of(ends.chain(["exit", "boot_failed"])),
            late_answers: AtomicU64::new(0),
            output_lines: Tally::of(["stdout", "stderr"]),
            output_dropped: Tally::of([TOO_FAST, LOG_FULL]),
            terminal_dropped: AtomicU64::new(0),
            reloads: Tally::of(["done", "abandoned"]),
            admin_actions: Tally::of([]),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            settled: Mutex::default(),
        }
    }

    /// A request has ended.
    pub(crate) fn request(
        &self,
        method: &http::Method,
        status: u16,
        failure: Option<&Failure>,
        stream: Option<&'static str>,
        took: Duration,
    ) {
        self.requests.step(method, failure.map(|failure| failure.class), status);
        self.durations.observe(took);
        if let Some(kind) = stream {
            self.streams.step(kind);
        }
    }

    /// A request at the egress port has ended.
    pub(crate) fn egress(&self, method: &http::Method, status: u16, failure: Option<&Failure>) {
        self.egress.step(method, failure.map(|failure| failure.class), status);
    }

    /// Bytes of bodies that an ended request has sent and was sent.
    pub(crate) fn bytes(&self, read: u64, written: u64) {
        self.bytes_in.fetch_add(read, Relaxed);
        self.bytes_out.fetch_add(written, Relaxed);
    }

    /// A call to an upstream was settled. Upstreams are named in the configuration, so there are few.
    fn settled(&self, upstream: &str, took: Duration) {
        let mut settled = self.settled_calls();
        match settled.get(upstream) {
            Some(durations) => durations.observe(took),
            None => settled.entry(upstream.to_owned()).or_insert_with(Histogram::new).observe(took),
        }
    }

    pub(crate) fn stream_error(&self, class: Class) {
        self.stream_errors.step(class.name());
    }

    /// A worker is asked for a step of a stream.
    pub(crate) fn dispatch_step(&self, event: dispatch::Event) {
        self.dispatch_steps.step(event.name());
    }

    /// One more stream in steps, if there are fewer than `most`.
    pub(crate) fn open_dispatch(&self, most: usize) -> bool {
        let more = |open| (open < most).then_some(open + 1);
        self.dispatch_open.fetch_update(Relaxed, Relaxed, more).is_ok()
    }

    /// One less.
    pub(crate) fn close_dispatch(&self) {
        self.dispatch_open.fetch_sub(1, Relaxed);
    }

    pub(crate) fn bad_head(&self, reason: &'static str) {
        self.bad_heads.step(reason);
    }

    pub(crate) fn connection_opened(&self) {
        self.connections.fetch_add(1, Relaxed);
        self.connections_opened.fetch_add(1, Relaxed);
    }

    pub(crate) fn connection_closed(&self) {
        self.connections.fetch_sub(1, Relaxed);
    }

    pub(crate) fn set_body_memory(&self, bytes: u64) {
        self.body_memory.store(bytes, Relaxed);
    }

    /// How much there is room for: connections, bytes of bodies in memory, streams in steps.
    pub(crate) fn set_limits(&self, connections: u64, body_memory: u64, dispatches: usize) {
        self.dispatch_limit.store(dispatches, Relaxed);
        self.connections_limit.store(connections, Relaxed);
        self.body_memory_limit.store(body_memory, Relaxed);
    }

    /// More of a body is on disk; `first` where it is the first piece of it.
    pub(crate) fn spooled(&self, bytes: u64, first: bool) {
        self.bodies_spooled.fetch_add(u64::from(first), Relaxed);
        self.body_spool.fetch_add(bytes, Relaxed);
    }

    /// So much less is on disk.
    pub(crate) fn unspooled(&self, bytes: u64) {
        self.body_spool.fetch_sub(bytes, Relaxed);
    }

    pub(crate) fn admin_action(&self, action: &'static str) {
        self.admin_actions.step(action);
    }

    /// The event log had no room for a line of a worker.
    pub(crate) fn output_dropped(&self) {
        self.output_dropped.step(LOG_FULL);
    }

    /// Standard error took a line too few.
    pub(crate) fn terminal_dropped(&self) {
        self.terminal_dropped.fetch_add(1, Relaxed);
    }

    /// A process was replaced, or is about to be, for `reason`.
    pub(crate) fn restarted(&self, reason: &'static str) {
        self.restarts.step(reason);
    }

    /// A fact of the pool. Ends of processes are counted by [`Metrics::restarted`]: whoever calls
    /// it knows which of them are two facts about one process.
    pub(crate) fn pool(&self, event: &Event<'_>) {
        match *event {
            Event::QueueWait => _ = self.queue_waits.fetch_add(1, Relaxed),
            Event::QueueRejected => _ = self.queue_rejected.fetch_add(1, Relaxed),
            Event::QueueTimeout => _ = self.queue_timeouts.fetch_add(1, Relaxed),
            Event::QueueGranted { waited } => self.queue_wait.observe(waited),
            Event::BreakerTransition { name, transition } => {
                self.transitions.step(name, transition.from.name(), transition.to.name());
            }
            Event::Call { upstream, event: CallEvent::KeySettled { duration, .. }, .. } => {
                self.settled(upstream, duration);
            }
            Event::LateAnswer { .. } => _ = self.late_answers.fetch_add(1, Relaxed),
            Event::WorkerOutput { stderr, .. } => {
                self.output_lines.step(if stderr { "stderr" } else { "stdout" });
            }
            Event::WorkerOutputDropped { lines, .. } => self.output_dropped.add(TOO_FAST, lines),
            Event::ReloadDone => self.reloads.step("done"),
            Event::ReloadAbandoned { .. } => self.reloads.step("abandoned"),
            _ => {}
        }
    }

    /// How long the calls of each upstream took that were settled.
    fn settled_calls(&self) -> MutexGuard<'_, BTreeMap<String, Histogram>> {
        self.settled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(crate) fn page_restarts(&self) -> Vec<(&'static str, u64)> {
        self.restarts.all()
    }

    /// The totals so far.
    pub(crate) fn totals(&self) -> Totals {
        let mut totals = Totals {
            http_streams: self.streams.total(),
            admin_actions: self.admin_actions.total(),
            queue_waits: self.queue_waits.load(Relaxed),
            queue_rejected: self.queue_rejected.load(Relaxed),
            queue_timeouts: self.queue_timeouts.load(Relaxed),
            ..Totals::default()
        };
        self.requests.each(|count| {
            totals.http_requests += count.value;
            match count.class {
                // A client that left is no error of anything here.
                None | Some(Class::ClientClosed) => {}
                Some(class) => {
                    totals.http_errors += count.value;
                    if class == Class::Timeout {
                        totals.http_timeouts += count.value;
                    }
                }
            }
        });
        totals
    }
}

/// Tasks of the runtime that have not ended, the asking one among them. What only ever grows here is
/// a leak.
pub(crate) fn alive_tasks() -> usize {
    Handle::try_current().map_or(0, |runtime| runtime.metrics().num_alive_tasks())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hedgerow_policy::failure::At;

    #[test]
    fn totals_are_the_sum_of_the_series() {
        let metrics = Metrics::new();
        let end = |status, class: Option<Class>, stream| {
            let failure = class.map(|class| Failure::new(class, At::Worker, "x"));
            let took = Duration::from_millis(3);
            metrics.request(&http::Method::GET, status, failure.as_ref(), stream, took);
        };
        end(200, None, None);
        end(500, None, None);
        end(200, None, Some("sse"));
        end(504, Some(Class::Timeout), None);
        end(503, Some(Class::WorkerQueueFull), None);
        end(499, Some(Class::ClientClosed), None);
        metrics.pool(&Event::QueueWait);
        metrics.pool(&Event::QueueWait);
        metrics.pool(&Event::QueueTimeout);
        let expected = Totals {
            http_requests: 6,
            http_errors: 2,
            http_timeouts: 1,
            http_streams: 1,
            queue_waits: 2,
            queue_timeouts: 1,
            ..Totals::default()
        };
        assert_eq!(metrics.totals(), expected);
    }
}
