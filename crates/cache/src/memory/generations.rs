//! When something last happened to a key, in little memory and without forgetting.
//!
//! Invariant: a number taken after an event is larger than the event's, and one taken before is
//! never larger again, whatever was evicted in between. Keys share places, so that a key may seem
//! to have been touched when a neighbour was: that refuses once too often, never once too seldom.

use std::sync::atomic::{AtomicU64, Ordering};

const PLACES: usize = 1 << 14;

/// The last event of each place.
#[derive(Debug)]
pub(crate) struct Generations {
    next: AtomicU64,
    /// An event that touched every key.
    all: AtomicU64,
    places: Vec<AtomicU64>,
}

impl Default for Generations {
    fn default() -> Generations {
        Generations {
            next: AtomicU64::new(1),
            all: AtomicU64::new(0),
            places: (0..PLACES).map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

impl Generations {
    /// A number larger than those of all events so far, and smaller than those of later ones.
    pub(crate) fn lease(&self) -> u64 {
        self.next.fetch_add(1, Ordering::AcqRel)
    }

    /// An event at a key.
    pub(crate) fn step(&self, hash: u64) {
        let number = self.lease();
        self.places[hash as usize % PLACES].fetch_max(number, Ordering::AcqRel);
    }

    /// An event at every key.
    pub(crate) fn step_all(&self) {
        let number = self.lease();
        self.all.fetch_max(number, Ordering::AcqRel);
    }

    /// The last event of a key.
    pub(crate) fn of(&self, hash: u64) -> u64 {
        let place = self.places[hash as usize % PLACES].load(Ordering::Acquire);
        place.max(self.all.load(Ordering::Acquire))
    }
}
