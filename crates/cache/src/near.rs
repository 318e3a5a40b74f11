//! Values kept beside the store, for reads that are shed.
//!
//! Invariant: what is older than the limit is never given, and what was invalidated or written
//! through this process is gone from here before its caller is answered.

use crate::memory::Memory;
use bytes::Bytes;
use hedgerow_policy::Moment;
use std::time::Duration;

/// The near copy; off without an age.
#[derive(Debug)]
pub(crate) struct Near(Option<(Memory, Duration)>);

impl Near {
    pub(crate) fn new(stale: Duration, max_bytes: u64) -> Near {
        Near((!stale.is_zero()).then(|| (Memory::new(max_bytes), stale)))
    }

    pub(crate) fn on(&self) -> bool {
        self.0.is_some()
    }

    /// Bytes it holds, and may hold.
    pub(crate) fn size(&self) -> Option<(u64, u64)> {
        self.0.as_ref().map(|(memory, _)| (memory.bytes(), memory.capacity()))
    }

    /// The store has answered a read.
    pub(crate) fn keep(&self, database: u32, key: &[u8], value: &[u8], now: Moment) {
        if let Some((memory, stale)) = &self.0 {
            memory.save(database, key, value, now, now + *stale);
        }
    }

    /// A value of at most the age that is allowed.
    pub(crate) fn load(&self, database: u32, key: &[u8], now: Moment) -> Option<Bytes> {
        self.0.as_ref().and_then(|(memory, _)| memory.load(database, key, now))
    }

    /// The key is invalidated, or something was done to it.
    pub(crate) fn forget(&self, database: u32, key: &[u8], now: Moment) {
        if let Some((memory, _)) = &self.0 {
            memory.purge(database, key, now);
        }
    }

    /// The database is emptied; `None` for all.
    pub(crate) fn forget_all(&self, database: Option<u32>) {
        if let Some((memory, _)) = &self.0 {
            memory.clear(database);
        }
    }
}
