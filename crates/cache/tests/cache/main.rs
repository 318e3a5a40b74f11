//! The guarded cache against a real redis-server, case by case.
//!
//! Invariant: nothing waits for a time to pass; a stalled store is one that was stopped by a signal.

mod bounds;
mod embedded;
mod guarding;
mod order;
mod pinned;
mod port;
mod shared;
mod storm;
mod support;
