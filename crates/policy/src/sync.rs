//! The atomics and the lock of the machines that many threads ask at once.
//!
//! Invariant: such a machine takes them from here alone, so that the model checker can stand in
//! for them (`RUSTFLAGS="--cfg hedgerow_loom"`; the name is our own, because loom's own also
//! changes other crates).

#[cfg(hedgerow_loom)]
pub(crate) use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64, Ordering},
};
#[cfg(not(hedgerow_loom))]
pub(crate) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

/// The lock's content. A thread that panicked while holding it left it between two whole
/// statements of a machine whose every statement keeps it usable, so the others go on.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
