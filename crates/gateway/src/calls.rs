//! Calls out, as the parts of a gateway share them: plans, batches, the egress port, the pages.
//!
//! Invariant: what opens calls is swapped whole by a reload; a plan or a batch that is open goes on
//! with what it was opened with.

use hedgerow_upstream::Opened;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

/// What opens calls. Clones share it.
#[derive(Clone)]
pub struct Calls(Arc<Inner>);

struct Inner {
    current: RwLock<Opened>,
    plans: AtomicU64,
    plan_errors: AtomicU64,
}

impl Calls {
    /// Calls that are opened with this.
    #[must_use]
    pub fn new(opened: Opened) -> Calls {
        let (plans, plan_errors) = (AtomicU64::new(0), AtomicU64::new(0));
        Calls(Arc::new(Inner { current: RwLock::new(opened), plans, plan_errors }))
    }

    /// What opens calls now. The lock is held for the clone alone.
    #[must_use]
    pub fn current(&self) -> Opened {
        self.0.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Calls that begin from now on are opened with this.
    pub fn replace(&self, opened: Opened) {
        *self.0.current.write().unwrap_or_else(PoisonError::into_inner) = opened;
    }

    /// Plans and batches that workers asked for, and those of them that failed.
    #[must_use]
    pub fn plans(&self) -> (u64, u64) {
        (self.0.plans.load(Relaxed), self.0.plan_errors.load(Relaxed))
    }

    pub(crate) fn plan_came(&self) {
        self.0.plans.fetch_add(1, Relaxed);
    }

    pub(crate) fn plan_failed(&self) {
        self.0.plan_errors.fetch_add(1, Relaxed);
    }
}

impl std::fmt::Debug for Calls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Calls")
    }
}
