//! What the store holds.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

/// The most keys it takes: it is for scenes, not for data.
const MOST_KEYS: usize = 1 << 20;

/// The fields of a hash, in order.
pub(super) type Fields = BTreeMap<Vec<u8>, Vec<u8>>;

/// A value of one of its two types.
#[derive(Clone)]
pub(super) enum Value {
    Text(Vec<u8>),
    Hash(Fields),
}

/// A value and how long it is there.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) value: Value,
    pub(super) until: Option<Instant>,
}

/// All databases.
#[derive(Default)]
pub(super) struct Data(HashMap<(u8, Vec<u8>), Entry>);

impl Data {
    /// An entry that is there.
    pub(super) fn entry(&mut self, database: u8, key: &[u8]) -> Option<&mut Entry> {
        let at = (database, key.to_vec());
        let over =
            |entry: &Entry| entry.until.is_some_and(|until| crate::clock::left(until).is_none());
        if self.0.get(&at).is_some_and(over) {
            self.0.remove(&at);
        }
        self.0.get_mut(&at)
    }

    /// Stores an entry; false when there are too many.
    pub(super) fn store(&mut self, database: u8, key: &[u8], entry: Entry) -> bool {
        let room = self.0.len() < MOST_KEYS;
        if room {
            self.0.insert((database, key.to_vec()), entry);
        }
        room
    }

    /// Removes a key; true if it was there.
    pub(super) fn remove(&mut self, database: u8, key: &[u8]) -> bool {
        self.entry(database, key).is_some() && self.0.remove(&(database, key.to_vec())).is_some()
    }

    /// The names of a database, in order.
    pub(super) fn names(&mut self, database: u8) -> Vec<Vec<u8>> {
        self.0
            .retain(|_, entry| entry.until.is_none_or(|until| crate::clock::left(until).is_some()));
        let of_it = self.0.keys().filter(|(of, _)| *of == database);
        let mut names: Vec<Vec<u8>> = of_it.map(|(_, name)| name.clone()).collect();
        names.sort_unstable();
        names
    }

    /// Empties a database, or all.
    pub(super) fn clear(&mut self, database: Option<u8>) {
        self.0.retain(|(of, _), _| database.is_some_and(|database| *of != database));
    }

    /// How many keys it holds, in all databases.
    pub(super) fn keys(&self) -> usize {
        self.0.len()
    }
}
