//! Plain counters, for metrics and admin pages.
//!
//! Invariant: each read, repair and canary is counted once, under one result.

use hedgerow_policy::breaker::Outcome;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What has happened since the start.
#[derive(Debug, Default)]
pub struct Counts {
    hit: AtomicU64,
    miss: AtomicU64,
    shed: AtomicU64,
    stale: AtomicU64,
    timeout: AtomicU64,
    error: AtomicU64,
    landed: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
    skipped: AtomicU64,
    canaries_good: AtomicU64,
    canaries_failed: AtomicU64,
}

/// How a read was answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadResult {
    /// By the store, with a value.
    Hit,
    /// By the store: there is none.
    Miss,
    /// Not asked.
    Shed,
    /// From the near copy, while shed.
    Stale,
    /// Asked, and no answer in time.
    Timeout,
    /// Asked, and the connection or the store failed.
    Error,
}

/// The counters at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CountsSnapshot {
    /// Reads answered with a value.
    pub hit: u64,
    /// Reads answered: there is none.
    pub miss: u64,
    /// Reads that were not sent.
    pub shed: u64,
    /// Shed reads answered from the near copy.
    pub stale: u64,
    /// Reads without an answer in time.
    pub timeout: u64,
    /// Reads that failed otherwise.
    pub error: u64,
    /// Repairs the store took.
    pub repairs_landed: u64,
    /// Repairs the store would not take.
    pub repairs_refused: u64,
    /// Repairs that failed.
    pub repairs_failed: u64,
    /// Writes that were not sent because the gate was shut or occupied.
    pub writes_skipped: u64,
    /// Canaries that came back.
    pub canaries_good: u64,
    /// Canaries that did not.
    pub canaries_failed: u64,
}

impl Counts {
    pub(crate) fn read(&self, result: ReadResult) {
        let counter = match result {
            ReadResult::Hit => &self.hit,
            ReadResult::Miss => &self.miss,
            ReadResult::Shed => &self.shed,
            ReadResult::Stale => &self.stale,
            ReadResult::Timeout => &self.timeout,
            ReadResult::Error => &self.error,
        };
        counter.fetch_add(1, Relaxed);
    }

    pub(crate) fn repair(&self, outcome: Outcome) {
        let counter = match outcome {
            Outcome::Ok | Outcome::Miss => &self.landed,
            Outcome::Refused | Outcome::WriteDenied => &self.refused,
            Outcome::Timeout | Outcome::Connection | Outcome::ServerError => &self.failed,
            Outcome::Shed | Outcome::Cancelled => return,
        };
        counter.fetch_add(1, Relaxed);
    }

    pub(crate) fn skipped(&self) {
        self.skipped.fetch_add(1, Relaxed);
    }

    pub(crate) fn canary(&self, good: bool) {
        let counter = if good { &self.canaries_good } else { &self.canaries_failed };
        counter.fetch_add(1, Relaxed);
    }

    /// The counters as they are.
    #[must_use]
    pub fn snapshot(&self) -> CountsSnapshot {
        CountsSnapshot {
            hit: self.hit.load(Relaxed),
            miss: self.miss.load(Relaxed),
            shed: self.shed.load(Relaxed),
            stale: self.stale.load(Relaxed),
            timeout: self.timeout.load(Relaxed),
            error: self.error.load(Relaxed),
            repairs_landed: self.landed.load(Relaxed),
            repairs_refused: self.refused.load(Relaxed),
            repairs_failed: self.failed.load(Relaxed),
            writes_skipped: self.skipped.load(Relaxed),
            canaries_good: self.canaries_good.load(Relaxed),
            canaries_failed: self.canaries_failed.load(Relaxed),
        }
    }
}

impl CountsSnapshot {
    /// Reads, by how they were answered: the one list of it.
    #[must_use]
    pub fn reads(&self) -> [(&'static str, u64); 6] {
        [
            ("hit", self.hit),
            ("miss", self.miss),
            ("shed", self.shed),
            ("stale", self.stale),
            ("timeout", self.timeout),
            ("error", self.error),
        ]
    }

    /// Repairs that were sent, by what became of them.
    #[must_use]
    pub fn repairs(&self) -> [(&'static str, u64); 3] {
        [
            ("landed", self.repairs_landed),
            ("refused", self.repairs_refused),
            ("failed", self.repairs_failed),
        ]
    }

    /// Canaries, by whether they came back.
    #[must_use]
    pub fn canaries(&self) -> [(&'static str, u64); 2] {
        [("good", self.canaries_good), ("failed", self.canaries_failed)]
    }

    /// Repairs that were sent.
    #[must_use]
    pub fn repairs_tried(&self) -> u64 {
        self.repairs_landed + self.repairs_refused + self.repairs_failed
    }
}
