//! What a pool shows of itself, for the admin pages and the metrics.

use hedgerow_policy::pool::SlotPhase;
use std::path::PathBuf;
use std::time::Duration;

/// A pool at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Slots.
    pub size: usize,
    /// Requests waiting.
    pub queue_depth: usize,
    /// How many may wait.
    pub queue_capacity: usize,
    /// How long one may wait.
    pub queue_timeout: Duration,
    /// Requests that are with a worker.
    pub in_flight: usize,
    /// Processes that finish their work and end.
    pub retiring: usize,
    /// Whether a request could be served now: at least one worker is ready.
    pub ready: bool,
    /// True for a pool of supervised processes, false for `sockets`.
    pub supervised: bool,
    /// `max_requests` in force, 0 for none.
    pub max_requests: u64,
    /// The slots, in order.
    pub workers: Vec<WorkerSnapshot>,
}

/// One slot at one moment.
#[derive(Clone, Debug)]
pub struct WorkerSnapshot {
    /// The slot's number, from 0.
    pub id: u32,
    /// Its socket.
    pub socket: PathBuf,
    /// What it is doing.
    pub phase: SlotPhase,
    /// In this phase for so long.
    pub phase_for: Duration,
    /// Its process, where there is one.
    pub pid: Option<u32>,
    /// Resident memory in bytes, where it could be read.
    pub rss: Option<u64>,
    /// Whether a successor is on its way.
    pub draining: bool,
    /// Requests with it now.
    pub in_flight: u32,
    /// Requests the present process has served.
    pub served: u64,
    /// Times this slot's process was replaced.
    pub restarts: u64,
    /// Until the next start, while backing off.
    pub next_start_in: Option<Duration>,
    /// What the worker announced.
    pub capabilities: Vec<&'static str>,
}
