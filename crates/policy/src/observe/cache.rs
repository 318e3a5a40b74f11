//! Facts about the guarded cache.

use crate::repair::GateChange;

/// What happened to the cache, its journal and its connections. Never one for each call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CacheEvent<'a> {
    /// A write that went past an open circuit changed what others may do.
    Repair {
        /// What it did to the gate.
        change: GateChange,
    },
    /// A canary came back.
    Canary {
        /// Whether what it wrote was read back in time.
        good: bool,
    },
    /// A connection to the store serves.
    Connected {
        /// Its database.
        database: u32,
        /// Whether it took the place of another.
        again: bool,
        /// Whether the store lets us end lost connections: where not, a write that was given up on
        /// may land over a newer one.
        order_guaranteed: bool,
    },
    /// A connection to the store was lost, or could not be made.
    Lost {
        /// Its database.
        database: u32,
        /// Why.
        error: &'a str,
    },
    /// An invalidation did not fit into the journal: reads of its database stay shed.
    JournalOverflowed {
        /// The database.
        database: u32,
    },
    /// The journal's file could not be written: what is owed is known to this process alone.
    JournalFileFailed {
        /// Why.
        error: &'a str,
    },
}
