//! The table of requests in flight.
//!
//! Invariant: a request is in the table from its begin to its finish, if there was room; a full
//! table never refuses a request, it only stops showing it. Each thread enters requests into a
//! shard of its own, so that begin and finish do not meet on one lock.

use crate::cancel::Cancel;
use crate::timeline::Timeline;
use crate::traces::Context;
use hedgerow_policy::Moment;
use hedgerow_upstream::Report;
use std::future::Future;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

pub use crate::timeline::Stage;

/// A power of two, and well over the threads a gateway runs.
const SHARDS: usize = 32;
/// A worker id that says "none".
const NO_WORKER: u32 = u32::MAX;
/// A duration that says "none".
const NONE: u64 = u64::MAX;

/// Where a request came in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Via {
    /// Where clients connect.
    Server,
    /// Where the application calls its upstreams.
    Egress,
}

/// The call to an upstream that answered a request, or failed to.
#[derive(Debug)]
pub(crate) struct CallMade {
    pub(crate) upstream: String,
    pub(crate) report: Report,
}

/// One request in flight. What changes is atomic, so that a snapshot never stops the request.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) trace_id: Arc<str>,
    pub(crate) request_id: Arc<str>,
    pub(crate) method: http::Method,
    pub(crate) path: String,
    pub(crate) remote_addr: IpAddr,
    pub(crate) protocol: &'static str,
    pub(crate) received: Moment,
    /// Its place in its trace, where traces are told.
    pub(crate) span: Option<Context>,
    pub(crate) via: Via,
    pub(crate) call: OnceLock<CallMade>,
    pub(crate) timeline: Timeline,
    worker: AtomicU32,
    worker_pid: AtomicU32,
    deadline: AtomicU64,
    queue_wait: AtomicU64,
    pub(crate) bytes_in: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
    /// Bytes of its body on disk.
    pub(crate) spooled: AtomicU64,
    pub(crate) stream_failed: AtomicBool,
    pub(crate) cancel: Cancel,
}

impl Entry {
    pub(crate) fn new(mut start: crate::record::Start, via: Via) -> Entry {
        // A query may hold what must not be written down; no path has a question mark of its own.
        if let Some(query) = start.path.find('?') {
            start.path.truncate(query);
        }
        Entry {
            trace_id: start.trace_id,
            request_id: start.request_id,
            method: start.method,
            path: start.path,
            remote_addr: start.remote_addr,
            protocol: start.protocol,
            received: start.received,
            span: start.span,
            via,
            call: OnceLock::new(),
            timeline: Timeline::new(start.received),
            worker: AtomicU32::new(NO_WORKER),
            worker_pid: AtomicU32::new(0),
            deadline: AtomicU64::new(NONE),
            queue_wait: AtomicU64::new(NONE),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            spooled: AtomicU64::new(0),
            stream_failed: AtomicBool::new(false),
            cancel: Cancel::default(),
        }
    }

    pub(crate) fn set_stage(&self, stage: Stage, now: Moment) {
        let worker = if stage == Stage::Working { self.worker() } else { None };
        self.timeline.enter(stage, now, worker);
    }

    pub(crate) fn set_worker(&self, worker: u32, pid: Option<u32>) {
        self.worker.store(worker, Relaxed);
        self.worker_pid.store(pid.unwrap_or(0), Relaxed);
    }

    pub(crate) fn worker(&self) -> Option<u32> {
        Some(self.worker.load(Relaxed)).filter(|&id| id != NO_WORKER)
    }

    /// The process of that worker; none where somebody else runs it.
    pub(crate) fn worker_pid(&self) -> Option<u32> {
        Some(self.worker_pid.load(Relaxed)).filter(|&pid| pid != 0)
    }

    pub(crate) fn set_deadline(&self, at: Moment) {
        self.deadline.store(at.as_nanos(), Relaxed);
    }

    pub(crate) fn deadline(&self) -> Option<Moment> {
        Some(self.deadline.load(Relaxed)).filter(|&at| at != NONE).map(Moment::from_nanos)
    }

    pub(crate) fn set_queue_wait(&self, wait: std::time::Duration) {
        self.queue_wait.store(u64::try_from(wait.as_nanos()).unwrap_or(NONE - 1), Relaxed);
    }

    pub(crate) fn queue_wait(&self) -> Option<std::time::Duration> {
        let wait = Some(self.queue_wait.load(Relaxed)).filter(|&wait| wait != NONE);
        wait.map(std::time::Duration::from_nanos)
    }

    /// Stage, and when it began.
    pub(crate) fn stage(&self) -> (Stage, Moment) {
        self.timeline.stage()
    }
}

/// Ready once an operator has cancelled the request, and from then on.
pub(crate) struct Cancelling(pub(crate) Arc<Entry>);

impl Future for Cancelling {
    type Output = ();

    fn poll(
        self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<()> {
        self.0.cancel.poll(cx)
    }
}

/// Where an entry sits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    shard: u32,
    slot: u32,
}

#[derive(Default)]
struct Shard {
    slots: Vec<Option<Arc<Entry>>>,
    free: Vec<u32>,
}

/// Kept apart in memory: two threads that use neighbours must not share a cache line.
#[repr(align(128))]
#[derive(Default)]
struct Padded(Mutex<Shard>);

/// The table.
pub(crate) struct Live {
    shards: Vec<Padded>,
    limit: usize,
    in_flight: AtomicUsize,
    unlisted: AtomicU64,
}

impl Live {
    pub(crate) fn new(limit: usize) -> Live {
        Live {
            shards: (0..SHARDS).map(|_| Padded::default()).collect(),
            limit,
            in_flight: AtomicUsize::new(0),
            unlisted: AtomicU64::new(0),
        }
    }

    /// Enters a request. `None` where the table is full: it runs, and is not shown.
    pub(crate) fn enter(&self, entry: &Arc<Entry>) -> Option<Place> {
        if self.in_flight.fetch_add(1, Relaxed) >= self.limit {
            self.unlisted.fetch_add(1, Relaxed);
            return None;
        }
        let index = shard_of_thread();
        let mut shard = lock(self.shards.get(index)?);
        let slot = match shard.free.pop() {
            Some(slot) => slot,
            None => {
                let slot = u32::try_from(shard.slots.len()).ok()?;
                shard.slots.push(None);
                slot
            }
        };
        *shard.slots.get_mut(slot as usize)? = Some(Arc::clone(entry));
        Some(Place { shard: u32::try_from(index).ok()?, slot })
    }

    /// Removes a request, by the place it was given.
    pub(crate) fn leave(&self, place: Option<Place>) {
        self.in_flight.fetch_sub(1, Relaxed);
        let Some(place) = place else { return };
        let Some(shard) = self.shards.get(place.shard as usize) else { return };
        let mut shard = lock(shard);
        let gone = shard.slots.get_mut(place.slot as usize).and_then(Option::take);
        if gone.is_some() {
            shard.free.push(place.slot);
        }
        // The entry is dropped after the lock: freeing memory under it would hold up the others.
        drop(shard);
        drop(gone);
    }

    /// Requests in flight, shown or not.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(Relaxed)
    }

    /// Requests the table could not show, in all.
    pub(crate) fn unlisted(&self) -> u64 {
        self.unlisted.load(Relaxed)
    }

    /// How many the table shows at most.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Up to `most` requests, those longest in flight first.
    pub(crate) fn snapshot(&self, most: usize) -> Vec<Arc<Entry>> {
        let mut all = Vec::new();
        for shard in &self.shards {
            all.extend(lock(shard).slots.iter().flatten().cloned());
        }
        all.sort_by(|a, b| a.received.cmp(&b.received).then_with(|| a.trace_id.cmp(&b.trace_id)));
        all.truncate(most);
        all
    }

    /// Cancels every request of a trace, and says how many there were.
    pub(crate) fn cancel(&self, trace_id: &str) -> usize {
        let mut hit = Vec::new();
        for shard in &self.shards {
            let shard = lock(shard);
            hit.extend(shard.slots.iter().flatten().filter(|e| *e.trace_id == *trace_id).cloned());
        }
        for entry in &hit {
            entry.cancel.ask();
        }
        hit.len()
    }
}

/// A poisoned shard is still a table: nothing in it can be half-done.
fn lock(shard: &Padded) -> std::sync::MutexGuard<'_, Shard> {
    shard.0.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The shard of this thread. Threads are numbered as they come.
fn shard_of_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: usize = NEXT.fetch_add(1, Relaxed) % SHARDS;
    }
    MINE.try_with(|&index| index).unwrap_or(0)
}
