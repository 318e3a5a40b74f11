//! Calls out, as the parts of a gateway share them: plans, batches, the egress port, the pages.
//!
//! Invariant: what opens calls is swapped whole by a reload; a plan or a batch that is open goes on
//! with what it was opened with.

use hedgerow_policy::hedge::Counters;
use hedgerow_upstream::{Opened, UpstreamView};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

/// What opens calls. Clones share it.
#[derive(Clone)]
pub struct Calls(Arc<Inner>);

struct Inner {
    current: RwLock<Opened>,
    plans: AtomicU64,
    plan_errors: AtomicU64,
    egress: AtomicUsize,
    egress_limit: AtomicUsize,
}

/// Calls out at one moment. A pair is how many there are, and how many there may be.
pub(crate) struct CallsShown {
    pub(crate) upstreams: Vec<UpstreamView>,
    /// Of calls to bare URLs.
    pub(crate) bare: Counters,
    pub(crate) plans: u64,
    pub(crate) plan_errors: u64,
    pub(crate) open: (usize, usize),
    pub(crate) origins: (usize, usize),
    pub(crate) ledger: (usize, usize),
    /// Keys that the ledger's file had no room for.
    pub(crate) ledger_dropped: u64,
    /// Connections to the egress port.
    pub(crate) egress: (usize, usize),
}

impl Calls {
    /// Calls that are opened with this.
    #[must_use]
    pub fn new(opened: Opened) -> Calls {
        let (plans, plan_errors) = (AtomicU64::new(0), AtomicU64::new(0));
        let (egress, egress_limit) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let current = RwLock::new(opened);
        Calls(Arc::new(Inner { current, plans, plan_errors, egress, egress_limit }))
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

    /// Everything there is to show.
    pub(crate) fn shown(&self) -> CallsShown {
        let (opened, (plans, plan_errors)) = (self.current(), self.plans());
        CallsShown {
            upstreams: opened.client().view(),
            bare: opened.bare_counters(),
            plans,
            plan_errors,
            open: (opened.sessions().active(), opened.sessions().limit()),
            origins: opened.origins(),
            ledger: opened.client().ledger().remembered(),
            ledger_dropped: opened.client().ledger().dropped(),
            egress: (self.0.egress.load(Relaxed), self.0.egress_limit.load(Relaxed)),
        }
    }

    /// So many connections to the egress port may be open.
    pub(crate) fn set_egress_limit(&self, most: usize) {
        self.0.egress_limit.store(most, Relaxed);
    }

    /// A connection to the egress port is open for as long as this lives.
    pub(crate) fn egress_connection(&self) -> EgressConnection {
        self.0.egress.fetch_add(1, Relaxed);
        EgressConnection(Arc::clone(&self.0))
    }

    pub(crate) fn plan_came(&self) {
        self.0.plans.fetch_add(1, Relaxed);
    }

    pub(crate) fn plan_failed(&self) {
        self.0.plan_errors.fetch_add(1, Relaxed);
    }
}

/// Counts a connection to the egress port while it is open.
pub(crate) struct EgressConnection(Arc<Inner>);

impl Drop for EgressConnection {
    fn drop(&mut self) {
        self.0.egress.fetch_sub(1, Relaxed);
    }
}

impl std::fmt::Debug for Calls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Calls")
    }
}
