//! The embedded store: strings and hashes in this process, bounded by bytes.
//!
//! Invariants:
//! - whether an entry is there is a pure function of the moment asked about: its deadline is in it;
//! - what changes a key holds that key's stripe, so that read-modify-write is one step; reading
//!   takes no stripe;
//! - what it holds weighs no more than it was told, and what falls out first is decided by use;
//! - a lease taken before a purge is never valid again, whatever was evicted in between.
//!
//! `strings`, `hashes` and `keys` are the commands a client may send; `table` lists them.

mod args;
pub(crate) mod generations;
mod glob;
mod hashes;
mod keys;
mod strings;
mod table;

pub use table::execute;
pub(crate) use table::{execute_alone, known};

use bytes::Bytes;
use generations::Generations;
use hedgerow_policy::Moment;
use hedgerow_wire::resp::Protocol;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, Equivalent, OptionsBuilder, Weighter};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hash};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// Locks for what changes a key.
const STRIPES: usize = 64;
/// What an entry costs beside its key and value.
const OVERHEAD: usize = 96;

/// One command of a client.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Name and arguments.
    pub args: &'a [&'a [u8]],
    /// The client's database.
    pub database: u32,
    /// How it wants to be answered.
    pub protocol: Protocol,
    /// The moment it is.
    pub now: Moment,
    /// Milliseconds since 1970 at that moment.
    pub unix_ms: i64,
}

/// The fields of a hash, in order.
type Fields = BTreeMap<Bytes, Bytes>;

#[derive(Clone, Debug)]
enum Data {
    Text(Bytes),
    Hash(Arc<Mutex<Fields>>),
}

#[derive(Clone, Debug)]
struct Entry {
    data: Data,
    deadline: Moment,
    /// Bytes of the data; fixed when it was stored.
    size: usize,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Key {
    database: u32,
    name: Bytes,
}

/// A key that is only looked up.
#[derive(Hash)]
struct Look<'a> {
    database: u32,
    name: &'a [u8],
}

impl Equivalent<Key> for Look<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.database == key.database && self.name == &key.name[..]
    }
}

#[derive(Clone)]
struct Bytewise;

impl Weighter<Key, Entry> for Bytewise {
    fn weight(&self, key: &Key, entry: &Entry) -> u64 {
        (key.name.len() + entry.size + OVERHEAD) as u64
    }
}

/// The store. Shared by reference; every method takes `&self`.
pub struct Memory {
    entries: Cache<Key, Entry, Bytewise, DefaultHashBuilder>,
    hasher: DefaultHashBuilder,
    stripes: Vec<Mutex<()>>,
    /// Taken alone by a transaction, together by everything else.
    whole: RwLock<()>,
    /// When keys were last purged, for leases.
    purged: Generations,
    /// When keys last changed, for transactions that watch them.
    changed: Generations,
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Memory({} of {} bytes)", self.entries.weight(), self.entries.capacity())
    }
}

impl Memory {
    /// An empty store that holds up to `max_bytes`.
    #[must_use]
    pub fn new(max_bytes: u64) -> Memory {
        let items = usize::try_from(max_bytes / 512).unwrap_or(usize::MAX).clamp(64, 1 << 20);
        let options = OptionsBuilder::new()
            .estimated_items_capacity(items)
            .weight_capacity(max_bytes)
            // Large values need large shards: no more than a few.
            .shards(if max_bytes < 64 << 20 { 1 } else { 8 })
            .build();
        let hasher = DefaultHashBuilder::default();
        let lifecycle = DefaultLifecycle::default();
        let entries = match options {
            Ok(options) => Cache::with_options(options, Bytewise, hasher.clone(), lifecycle),
            // Both capacities were given, which is all that is asked for.
            Err(_) => Cache::with(items, max_bytes, Bytewise, hasher.clone(), lifecycle),
        };
        let stripes = (0..STRIPES).map(|_| Mutex::new(())).collect();
        Memory {
            entries,
            hasher,
            stripes,
            whole: RwLock::new(()),
            purged: Generations::default(),
            changed: Generations::default(),
        }
    }

    /// Bytes it holds, expired entries that nobody has met since included.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.entries.weight()
    }

    /// Bytes it may hold.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.entries.capacity()
    }

    /// Runs `work` while nothing else is carried out.
    pub(crate) fn alone<T>(&self, work: impl FnOnce() -> T) -> T {
        let _alone = self.whole.write().unwrap_or_else(PoisonError::into_inner);
        work()
    }

    /// The version of a key for a transaction that watches it: another one later means that it may
    /// have changed.
    pub(crate) fn version(&self, database: u32, name: &[u8]) -> u64 {
        self.changed.of(self.hash(database, name))
    }

    pub(crate) fn hash(&self, database: u32, name: &[u8]) -> u64 {
        self.hasher.hash_one(Look { database, name })
    }

    fn get(&self, database: u32, name: &[u8], now: Moment) -> Option<Entry> {
        self.entries.get(&Look { database, name }).filter(|entry| now < entry.deadline)
    }

    /// Looks at a key and stores, keeps or removes it, in one step.
    fn change<T>(
        &self,
        database: u32,
        name: &[u8],
        now: Moment,
        change: impl FnOnce(Option<Entry>) -> (Change, T),
    ) -> T {
        let hash = self.hash(database, name);
        let _stripe = self.stripe(hash);
        let (change, result) = change(self.get(database, name, now));
        match change {
            Change::Keep => return result,
            Change::Store(entry) => {
                self.entries.insert(Key { database, name: Bytes::copy_from_slice(name) }, entry);
            }
            Change::Remove => {
                self.entries.remove(&Look { database, name });
            }
        }
        self.changed.step(hash);
        result
    }

    fn stripe(&self, hash: u64) -> MutexGuard<'_, ()> {
        self.stripes[hash as usize % STRIPES].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes a key; true if it was there.
    fn remove(&self, database: u32, name: &[u8], now: Moment) -> bool {
        self.purged.step(self.hash(database, name));
        self.change(database, name, now, |entry| match entry {
            Some(_) => (Change::Remove, true),
            None => (Change::Keep, false),
        })
    }

    /// The keys of a database that are there.
    fn names(&self, database: u32, now: Moment) -> impl Iterator<Item = Bytes> {
        let there =
            move |(key, entry): &(Key, Entry)| key.database == database && now < entry.deadline;
        self.entries.iter().filter(there).map(|(key, _)| key.name)
    }

    /// Empties one database, or all.
    pub(crate) fn clear(&self, database: Option<u32>) {
        self.purged.step_all();
        self.changed.step_all();
        match database {
            None => self.entries.clear(),
            Some(database) => self.entries.retain(|key, _| key.database != database),
        }
    }
}

/// What becomes of a key.
enum Change {
    Keep,
    Store(Entry),
    Remove,
}

impl Entry {
    fn text(bytes: &[u8], deadline: Moment) -> Entry {
        let size = bytes.len();
        Entry { data: Data::Text(Bytes::copy_from_slice(bytes)), deadline, size }
    }
}

fn lock(fields: &Mutex<Fields>) -> MutexGuard<'_, Fields> {
    fields.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The same operations for Rust callers, by the moment it is.
impl Memory {
    /// The string under a key.
    #[must_use]
    pub fn load(&self, database: u32, name: &[u8], now: Moment) -> Option<Bytes> {
        match self.get(database, name, now)?.data {
            Data::Text(bytes) => Some(bytes),
            Data::Hash(_) => None,
        }
    }

    /// Stores a string until `deadline`.
    pub fn save(&self, database: u32, name: &[u8], value: &[u8], now: Moment, deadline: Moment) {
        self.change(database, name, now, |_| (Change::Store(Entry::text(value, deadline)), ()));
    }

    /// Stores a string unless the key was purged since `lease` was taken.
    #[must_use]
    pub fn save_with_lease(
        &self,
        database: u32,
        name: &[u8],
        value: &[u8],
        lease: u64,
        now: Moment,
        deadline: Moment,
    ) -> bool {
        let hash = self.hash(database, name);
        self.change(database, name, now, |_| {
            if self.purged.of(hash) > lease {
                (Change::Keep, false)
            } else {
                (Change::Store(Entry::text(value, deadline)), true)
            }
        })
    }

    /// A lease: later than every purge so far, and never given again.
    #[must_use]
    pub fn lease(&self) -> u64 {
        self.purged.lease()
    }

    /// Gives a key another deadline; false if it is not there.
    #[must_use]
    pub fn touch(&self, database: u32, name: &[u8], now: Moment, deadline: Moment) -> bool {
        self.change(database, name, now, |entry| match entry {
            Some(entry) => (Change::Store(Entry { deadline, ..entry }), true),
            None => (Change::Keep, false),
        })
    }

    /// Removes a key; true if it was there.
    pub fn purge(&self, database: u32, name: &[u8], now: Moment) -> bool {
        self.remove(database, name, now)
    }

    /// Empties a database.
    pub fn flush(&self, database: u32) {
        self.clear(Some(database));
    }

    /// Up to `most` keys that begin with `prefix`.
    #[must_use]
    pub fn list(&self, database: u32, prefix: &[u8], most: usize, now: Moment) -> Vec<Bytes> {
        self.names(database, now).filter(|name| name.starts_with(prefix)).take(most).collect()
    }

    /// Keys in a database.
    #[must_use]
    pub fn size(&self, database: u32, now: Moment) -> u64 {
        self.names(database, now).count() as u64
    }
}

#[cfg(test)]
mod tests;
