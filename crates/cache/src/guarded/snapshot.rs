//! What the guarded cache shows of itself.

use super::{Guarded, Part};
use crate::counts::CountsSnapshot;
use crate::lane::LaneSnapshot;
use hedgerow_policy::breaker::State;
use hedgerow_policy::journal::JournalSnapshot;
use hedgerow_policy::repair::GateState;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// A circuit at one moment.
#[derive(Clone, Debug)]
pub struct BreakerShown {
    /// Whose.
    pub name: &'static str,
    /// Its state.
    pub state: State,
    /// In this state for so long.
    pub since: Duration,
    /// Results in the window.
    pub calls: u64,
    /// Failures among them.
    pub failures: u64,
    /// Their share.
    pub failure_ratio: f64,
    /// The number of the present or last open episode.
    pub episode: u64,
    /// Probes that are out.
    pub probes_in_flight: u32,
}

/// The cache at one moment.
#[derive(Clone, Debug)]
pub struct CacheShown {
    /// `memory`, or the store's address without its password.
    pub store: String,
    /// The circuit.
    pub breaker: BreakerShown,
    /// The repair gate; open while the circuit is closed.
    pub repair_gate: GateState,
    /// What is owed.
    pub journal: JournalSnapshot,
    /// The shared connections; none for the embedded store.
    pub lanes: Vec<LaneSnapshot>,
    /// The ACL user of the connections.
    pub user: String,
    /// The counters.
    pub counts: CountsSnapshot,
    /// Connections that replaced another.
    pub reconnects: u64,
    /// Replies that came after their callers had left.
    pub late_replies: u64,
    /// Keys and fields removed because a lost connection may have written them.
    pub settled: u64,
    /// Whether writes that were given up on can never land over newer ones.
    pub order_guaranteed: bool,
    /// Bytes the embedded store holds, and may hold.
    pub memory: Option<(u64, u64)>,
    /// The same of the near copy, where there is one.
    pub near: Option<(u64, u64)>,
    /// What each connection to the store may hold; zeros for the embedded store.
    pub bounds: LaneBounds,
}

/// What one shared connection may hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LaneBounds {
    /// Replies that may be owed.
    pub owed: usize,
    /// Bytes that may wait to be sent.
    pub queued_bytes: usize,
}

impl Guarded {
    /// Everything there is to show.
    #[must_use]
    pub fn snapshot(&self) -> CacheShown {
        let keeper = self.keeper();
        let now = keeper.clock.now();
        let guard = keeper.guard.snapshot(now);
        let breaker = BreakerShown {
            name: "cache",
            state: guard.breaker.circuit.state,
            since: now - guard.breaker.circuit.since,
            calls: guard.breaker.counts.calls,
            failures: guard.breaker.counts.failures,
            failure_ratio: guard.breaker.failure_ratio(),
            episode: guard.breaker.episode,
            probes_in_flight: guard.breaker.probes_in_flight,
        };
        let mut shown = CacheShown {
            store: "memory".to_owned(),
            breaker,
            repair_gate: guard.gate,
            journal: keeper.journal_snapshot(),
            lanes: Vec::new(),
            user: String::new(),
            counts: keeper.counts.snapshot(),
            reconnects: 0,
            late_replies: 0,
            settled: 0,
            order_guaranteed: true,
            memory: None,
            near: None,
            bounds: LaneBounds::default(),
        };
        match &self.owned.part {
            Part::Memory(memory, _) => shown.memory = Some((memory.bytes(), memory.capacity())),
            Part::Remote(remote) => {
                let store = &remote.lanes.store;
                let settings = &store.settings;
                let scheme = if settings.tls.is_some() { "rediss" } else { "redis" };
                let address = &settings.address;
                shown.store =
                    format!("{scheme}://{}:{}/{}", address.host, address.port, settings.database);
                let user = settings.credential.as_ref().and_then(|c| c.user.clone());
                shown.user = user.unwrap_or_else(|| "default".to_owned());
                shown.lanes = remote.lanes.snapshot();
                shown.near = remote.near.size();
                shown.bounds =
                    LaneBounds { owed: settings.max_owed, queued_bytes: settings.queue_bytes };
                shown.reconnects = store.told.reconnects.load(Relaxed);
                shown.late_replies = store.told.late.load(Relaxed);
                shown.settled = store.told.settled.load(Relaxed);
                shown.order_guaranteed = store.told.order_guaranteed.load(Relaxed);
            }
        }
        shown
    }
}
