//! The shared connections to one store, one for each database and protocol version.
//!
//! Invariant: everything for one database that can be written by this table's commands goes over
//! the lane of version 2, so writes keep their order; the lane of version 3 carries only what
//! version 2 could not answer to a client of version 3.

use crate::lane::{Lane, LaneSnapshot, Store};
use hedgerow_wire::resp::Protocol;
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock};

/// Databases that clients may name, where the store does not say how many it has.
const MOST_DATABASES: usize = 256;

/// The lanes of one store.
pub(crate) struct Lanes {
    pub(crate) store: Arc<Store>,
    lanes: RwLock<HashMap<(u32, Protocol), Lane>>,
}

impl Lanes {
    pub(crate) fn new(store: Arc<Store>) -> Lanes {
        let lanes = Lanes { store, lanes: RwLock::default() };
        // The first one is there at once: the store is asked who it is before anybody calls.
        lanes.lane(lanes.store.settings.database, Protocol::Resp2);
        lanes
    }

    /// The lane of a database, made where there is none.
    pub(crate) fn lane(&self, database: u32, protocol: Protocol) -> Lane {
        let key = (database, protocol);
        if let Some(lane) = self.lanes.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return lane.clone();
        }
        let mut lanes = self.lanes.write().unwrap_or_else(PoisonError::into_inner);
        let start = || Lane::start(self.store.clone(), database, protocol);
        lanes.entry(key).or_insert_with(start).clone()
    }

    /// Whether the store has a database of that number, as far as it has said.
    pub(crate) fn has(&self, database: u32) -> bool {
        let known = self.store.told.databases.load(Ordering::Relaxed);
        (database as usize) < if known == 0 { MOST_DATABASES } else { known }
    }

    /// What there is to show, in order.
    pub(crate) fn snapshot(&self) -> Vec<LaneSnapshot> {
        let lanes = self.lanes.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<LaneSnapshot> = lanes.values().map(Lane::snapshot).collect();
        all.sort_by_key(|lane| (lane.database, lane.resp3));
        all
    }

    pub(crate) fn stop(&self) {
        let lanes = self.lanes.read().unwrap_or_else(PoisonError::into_inner);
        lanes.values().for_each(Lane::stop);
    }
}
