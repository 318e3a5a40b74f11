//! What the admin listener can see and do.

use crate::calls::Calls;
use hedgerow_cache::{Guarded, PortShown, PortView};
use hedgerow_worker::Pool;
use hedgerow_worker::snapshot::Snapshot;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The part of a running gateway that operators look at and act on. Nothing here may wait.
pub trait Control: Send + Sync + 'static {
    /// The pool at this moment; `None` where the gateway has no workers.
    fn pool(&self) -> Option<Snapshot>;

    /// Replaces one worker. False if there is no such slot.
    fn restart(&self, worker: u32) -> bool;

    /// Replaces every worker, and says how many there are.
    fn restart_all(&self) -> usize;

    /// The guarded cache; `None` where the gateway has none.
    fn cache(&self) -> Option<Guarded> {
        None
    }

    /// The cache's port; `None` where the gateway has none.
    fn cache_port(&self) -> Option<PortShown> {
        None
    }

    /// The calls out; `None` where the gateway makes none.
    fn calls(&self) -> Option<Calls> {
        None
    }

    /// Whether the listeners for clients are up and not draining.
    fn serving(&self) -> bool;

    /// Whether a request could be served now.
    fn ready(&self) -> bool {
        self.serving() && self.pool().is_none_or(|pool| pool.ready)
    }
}

/// A control that is told whether the listeners are up. Clones share what they were told.
#[derive(Clone)]
pub struct Plane<P> {
    pool: Option<P>,
    cache: Option<Guarded>,
    cache_port: Option<PortView>,
    calls: Option<Calls>,
    serving: Arc<AtomicBool>,
}

impl<P> Plane<P> {
    /// Of a gateway with this pool, or with none. It is not serving yet.
    #[must_use]
    pub fn new(pool: Option<P>) -> Plane<P> {
        let serving = Arc::new(AtomicBool::new(false));
        Plane { pool, cache: None, cache_port: None, calls: None, serving }
    }

    /// The same with this cache beside the pool.
    #[must_use]
    pub fn with_cache(mut self, cache: Option<Guarded>) -> Plane<P> {
        self.cache = cache;
        self
    }

    /// The same with the cache's port.
    #[must_use]
    pub fn with_cache_port(mut self, port: Option<PortView>) -> Plane<P> {
        self.cache_port = port;
        self
    }

    /// The same with these calls out.
    #[must_use]
    pub fn with_calls(mut self, calls: Option<Calls>) -> Plane<P> {
        self.calls = calls;
        self
    }

    /// The listeners are up, or are closing.
    pub fn set_serving(&self, serving: bool) {
        self.serving.store(serving, Relaxed);
    }
}

/// The part of a pool that a [`Plane`] needs.
pub trait Workers: Send + Sync + 'static {
    /// The pool at this moment.
    fn snapshot(&self) -> Snapshot;
    /// Whether a request could be served now.
    fn ready(&self) -> bool {
        self.snapshot().ready
    }
    /// Replaces one worker. False if there is no such slot.
    fn restart(&self, worker: u32) -> bool;
    /// Replaces every worker.
    fn restart_all(&self);
}

impl Workers for Pool {
    fn snapshot(&self) -> Snapshot {
        Pool::snapshot(self)
    }

    fn ready(&self) -> bool {
        Pool::ready(self)
    }

    fn restart(&self, worker: u32) -> bool {
        Pool::restart(self, worker)
    }

    fn restart_all(&self) {
        Pool::restart_all(self);
    }
}

impl<P: Workers> Control for Plane<P> {
    fn pool(&self) -> Option<Snapshot> {
        self.pool.as_ref().map(Workers::snapshot)
    }

    fn restart(&self, worker: u32) -> bool {
        self.pool.as_ref().is_some_and(|pool| pool.restart(worker))
    }

    fn restart_all(&self) -> usize {
        let Some(pool) = &self.pool else { return 0 };
        pool.restart_all();
        pool.snapshot().size
    }

    fn cache(&self) -> Option<Guarded> {
        self.cache.clone()
    }

    fn cache_port(&self) -> Option<PortShown> {
        self.cache_port.as_ref().and_then(PortView::snapshot)
    }

    fn calls(&self) -> Option<Calls> {
        self.calls.clone()
    }

    fn serving(&self) -> bool {
        self.serving.load(Relaxed)
    }

    fn ready(&self) -> bool {
        self.serving() && self.pool.as_ref().is_none_or(Workers::ready)
    }
}
