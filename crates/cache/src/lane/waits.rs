//! How long things may take, as the last configuration said.
//!
//! Invariant: a wait that has begun keeps the length it began with.

use crate::settings::RedisSettings;
use hedgerow_policy::guard::GuardSettings;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The waits of all connections to one store.
#[derive(Debug)]
pub(crate) struct Waits {
    call: AtomicU64,
    connect: AtomicU64,
    liveness: AtomicU64,
    stall: AtomicU64,
}

impl Waits {
    pub(crate) fn new(redis: &RedisSettings, stall: Duration) -> Waits {
        let [call, connect, liveness, stall] =
            [redis.call_timeout, redis.connect_timeout, redis.liveness_timeout, stall]
                .map(|wait| AtomicU64::new(nanos(wait)));
        Waits { call, connect, liveness, stall }
    }

    pub(crate) fn set(&self, guard: &GuardSettings, connect: Duration) {
        self.call.store(nanos(guard.call_timeout), Relaxed);
        self.connect.store(nanos(connect), Relaxed);
        self.liveness.store(nanos(guard.liveness_timeout), Relaxed);
        self.stall.store(nanos(guard.breaker.stall), Relaxed);
    }

    /// A caller waits so long for an answer.
    pub(crate) fn call(&self) -> Duration {
        Duration::from_nanos(self.call.load(Relaxed))
    }

    /// Connecting, and all that is said before the first command.
    pub(crate) fn connect(&self) -> Duration {
        Duration::from_nanos(self.connect.load(Relaxed))
    }

    /// Silence, while answers are owed, that ends a connection.
    pub(crate) fn liveness(&self) -> Duration {
        Duration::from_nanos(self.liveness.load(Relaxed))
    }

    /// Silence that may be a stall: then the guard is asked. Zero: never.
    pub(crate) fn stall(&self) -> Duration {
        Duration::from_nanos(self.stall.load(Relaxed))
    }
}

fn nanos(wait: Duration) -> u64 {
    u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX)
}
