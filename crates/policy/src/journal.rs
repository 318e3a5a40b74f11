//! Invalidations that could not reach the store: kept, and delivered before anything is read.
//!
//! Invariants:
//! - a read is let through only where nothing is owed to its database, or behind the replay on the
//!   same connection; so what was invalidated is never served by this process;
//! - an entry leaves only when the very invalidation it stands for, or one that covers it, is known
//!   to have been carried out: one that was journalled again meanwhile has another number;
//! - a flush is one entry; it covers all that came before it, and what comes after it until it is
//!   first sent;
//! - the journal never holds more than its capacity; what no longer fits makes its database
//!   overflow, and an overflowed database lets no read through until it is flushed or resumed.
//!
//! The journal is told which connection a replay goes out on: a lane keeps its order, so reads
//! that follow on the same connection need not wait for the reply. What it hands out must go to
//! that connection in the order in which it was handed out. Entries have numbers; they rise and
//! are never used twice. (The idea: an outbox, with the store's own order as the barrier.)

mod debt;
mod delivery;
mod file;
#[cfg(all(test, not(hedgerow_loom)))]
mod tests;

pub use debt::Item;
pub use delivery::{Batch, Command, ReadOrder};
pub use file::{FileError, HEADER, MAX_RECORD, Record, Restored, read_file, write_record};

use debt::{Debt, Flush, Number};
use std::collections::{BTreeMap, BTreeSet};

/// A database of the store, by its number.
pub type Database = u32;

/// What happens when the journal is full.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Overflow {
    /// Reads of that database stay shed until it is resumed or flushed.
    #[default]
    StayShed,
    /// The database is flushed at the replay. For stores that hold nothing but cache.
    Flush,
}

/// The bounds of a journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JournalConfig {
    /// Entries over all databases. A flush that is owed always finds room: one a database.
    pub capacity: usize,
    /// Bytes of their keys and fields.
    pub max_bytes: usize,
    /// Entries that one replay sends at most. A database that owes more lets no read through
    /// until the rest has been sent.
    pub batch: usize,
    /// What happens when it is full.
    pub overflow: Overflow,
    /// Whether changes are also written down for a file ([`Journal::take_unwritten`]).
    pub file: bool,
}

impl Default for JournalConfig {
    /// The contract's capacity, at a quarter of a KiB an entry.
    fn default() -> JournalConfig {
        let (capacity, overflow) = (100_000, Overflow::StayShed);
        JournalConfig { capacity, max_bytes: capacity * 256, batch: 1_000, overflow, file: false }
    }
}

/// What became of an invalidation that was not delivered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Noted {
    /// It is in the journal, or covered by what is.
    Kept,
    /// It did not fit; its database has overflowed (or had before).
    Overflowed,
}

/// A point in the journal's order: something that was sent before an entry was made does not take
/// the entry with it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Mark(Number);

/// What a journal shows of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JournalSnapshot {
    /// Entries.
    pub depth: usize,
    /// How many there is room for.
    pub capacity: usize,
    /// Bytes of their keys and fields.
    pub bytes: usize,
    /// How many there is room for.
    pub max_bytes: usize,
    /// Databases whose reads stay shed until they are resumed.
    pub overflowed: Vec<Database>,
    /// A damaged file: the databases not resumed since are all as good as overflowed.
    pub in_doubt: bool,
    /// Databases that something is owed to.
    pub owing: Vec<Database>,
}

/// The machine. See the module's head.
#[derive(Debug)]
pub struct Journal {
    config: JournalConfig,
    debts: BTreeMap<Database, Debt>,
    /// A FLUSHALL that is owed; each lane sends one ahead of its own reads, for they share no
    /// order, and the first that is carried out settles it.
    flush_all: Option<Flush>,
    /// After a damaged file: the databases that have been flushed or resumed since.
    doubt: Option<BTreeSet<Database>>,
    next: Number,
    losses: u64,
    unwritten: Vec<u8>,
}

impl Journal {
    /// An empty journal.
    #[must_use]
    pub fn new(config: JournalConfig) -> Journal {
        let (debts, unwritten) = (BTreeMap::new(), Vec::new());
        Journal { config, debts, flush_all: None, doubt: None, next: 1, losses: 0, unwritten }
    }

    /// A journal with what a file held; [`Journal::whole_file`] is then to take the file's place.
    /// After damage no database is to be trusted.
    #[must_use]
    pub fn restore(config: JournalConfig, restored: &Restored) -> Journal {
        let mut journal = Journal::new(JournalConfig { file: false, ..config });
        for record in &restored.records {
            journal.apply(record);
        }
        if restored.damaged {
            match config.overflow {
                Overflow::StayShed => journal.apply(&Record::Doubt),
                Overflow::Flush => journal.on_undelivered_flush_all(),
            }
        }
        journal.config.file = config.file;
        journal.check_invariants();
        journal
    }

    /// Whether nothing at all is owed: the answer to nearly every read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.flush_all.is_none() && self.debts.is_empty() && self.doubt.is_none()
    }

    /// The present point in the journal's order, to be taken when an invalidation is sent.
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark(self.next)
    }

    /// An invalidation of a key or a field did not reach the store, or nobody knows.
    pub fn on_undelivered(&mut self, database: Database, item: &Item) -> Noted {
        let covers = |flush: Option<Flush>| flush.is_some_and(|flush| !flush.out);
        let debt = self.debts.get(&database);
        if covers(self.flush_all) || covers(debt.and_then(|debt| debt.flush)) {
            return Noted::Kept;
        }
        let room = self.depth() < self.config.capacity
            && self.bytes() + item.bytes() <= self.config.max_bytes;
        if room || debt.is_some_and(|debt| debt.knows(item)) {
            self.keep(database, item);
            return Noted::Kept;
        }
        match self.config.overflow {
            Overflow::StayShed => {
                self.overflow(database);
                Noted::Overflowed
            }
            Overflow::Flush => {
                self.on_undelivered_flush(database);
                Noted::Kept
            }
        }
    }

    /// A flush of a database did not reach the store. It covers all that was owed before.
    pub fn on_undelivered_flush(&mut self, database: Database) {
        let number = self.number();
        self.debts.insert(database, Debt::flush(number));
        if let Some(resumed) = &mut self.doubt {
            resumed.insert(database);
        }
        self.write(&Record::Flush { database });
        self.check_invariants();
    }

    /// A flush of all databases did not reach the store. It covers all that was owed before.
    pub fn on_undelivered_flush_all(&mut self) {
        self.flush_all = Some(Flush { number: self.number(), out: false });
        self.debts.clear();
        self.doubt = None;
        self.write(&Record::FlushAll);
        self.check_invariants();
    }

    /// An invalidation that was sent at `mark` was carried out: an older entry of the same is moot.
    pub fn on_invalidated(&mut self, database: Database, item: &Item, mark: Mark) {
        let Some(debt) = self.debts.get_mut(&database) else { return };
        if debt.remove(item, |number| number < mark.0) {
            self.write(&Record::Gone { database, item: item.clone() });
        }
        self.forget_clear();
        self.check_invariants();
    }

    /// A flush of a database (or, with `None`, of all) that was sent at `mark` was carried out.
    /// Also ends an overflow from before.
    pub fn on_flushed(&mut self, database: Option<Database>, mark: Mark) {
        if self.is_empty() {
            return;
        }
        if database.is_none() {
            self.flush_all = self.flush_all.filter(|flush| flush.number >= mark.0);
            self.doubt = None;
        } else if let (Some(resumed), Some(database)) = (&mut self.doubt, database) {
            resumed.insert(database);
        }
        for (_, debt) in self.debts.iter_mut().filter(|(d, _)| database.is_none_or(|it| it == **d))
        {
            debt.flushed(mark.0);
        }
        self.forget_clear();
        self.rewrite();
        self.check_invariants();
    }

    /// Somebody removed all keys that an overflowed database may have lost track of, after `mark`.
    /// What is in the journal is still replayed.
    pub fn on_resumed(&mut self, database: Database, mark: Mark) {
        if let Some(resumed) = &mut self.doubt {
            resumed.insert(database);
        }
        if let Some(debt) = self.debts.get_mut(&database)
            && debt.overflowed.is_some_and(|number| number < mark.0)
        {
            debt.overflowed = None;
            self.write(&Record::Resumed { database });
        }
        self.forget_clear();
        self.check_invariants();
    }

    /// Everything there is to show.
    #[must_use]
    pub fn snapshot(&self) -> JournalSnapshot {
        let overflowed = self.debts.iter().filter(|(_, debt)| debt.overflowed.is_some());
        JournalSnapshot {
            depth: self.depth(),
            capacity: self.config.capacity,
            bytes: self.bytes(),
            max_bytes: self.config.max_bytes,
            overflowed: overflowed.map(|(database, _)| *database).collect(),
            in_doubt: self.doubt.is_some(),
            owing: self.debts.keys().copied().collect(),
        }
    }

    /// What has to be in the file before the reply, appended in this order. Empty without a file.
    pub fn take_unwritten(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.unwritten)
    }

    /// A whole new file with what is owed now, to put in the place of a long one.
    #[must_use]
    pub fn whole_file(&self) -> Vec<u8> {
        let mut out = HEADER.to_vec();
        if let Some(resumed) = &self.doubt {
            write_record(&mut out, &Record::Doubt);
            for &database in resumed {
                write_record(&mut out, &Record::Resumed { database });
            }
        }
        if self.flush_all.is_some() {
            write_record(&mut out, &Record::FlushAll);
        }
        for (&database, debt) in &self.debts {
            debt.records(database, &mut |record| write_record(&mut out, record));
        }
        out
    }

    fn keep(&mut self, database: Database, item: &Item) {
        let number = self.number();
        self.debts.entry(database).or_default().insert(item, number);
        self.write(&Record::Item { database, item: item.clone() });
        self.check_invariants();
    }

    fn overflow(&mut self, database: Database) {
        let number = self.number();
        let debt = self.debts.entry(database).or_default();
        if debt.overflowed.replace(number).is_none() {
            self.write(&Record::Overflowed { database });
        }
        self.check_invariants();
    }

    fn is_overflowed(&self, database: Database) -> bool {
        self.doubt.as_ref().is_some_and(|resumed| !resumed.contains(&database))
            || self.debts.get(&database).is_some_and(|debt| debt.overflowed.is_some())
    }

    /// A change as the file tells it. What the file kept beside a flush is kept here too: the
    /// flush may be gone a few records on, and the item not.
    fn apply(&mut self, record: &Record) {
        let everything = Mark(Number::MAX);
        match record {
            Record::Item { database, item } => {
                let flush = self.debts.get_mut(database).and_then(|debt| debt.flush.as_mut());
                if let Some(flush) = flush {
                    flush.out = true;
                }
                self.keep(*database, item);
            }
            Record::Flush { database } => self.on_undelivered_flush(*database),
            Record::FlushAll => self.on_undelivered_flush_all(),
            Record::Overflowed { database } => self.overflow(*database),
            Record::Gone { database, item } => self.on_invalidated(*database, item, everything),
            Record::GoneFlush { database } => {
                if let Some(debt) = self.debts.get_mut(database) {
                    debt.flush = None;
                }
            }
            Record::GoneFlushAll => self.flush_all = None,
            Record::Resumed { database } => self.on_resumed(*database, everything),
            // A flush of all that is owed still covers whatever was lost.
            Record::Doubt if self.flush_all.is_some() => {}
            Record::Doubt => self.doubt = Some(BTreeSet::new()),
            Record::Restart => {
                self.debts.clear();
                self.flush_all = None;
                self.doubt = None;
            }
        }
        self.forget_clear();
    }

    fn number(&mut self) -> Number {
        self.next += 1;
        self.next - 1
    }

    fn depth(&self) -> usize {
        self.debts.values().map(Debt::depth).sum::<usize>() + usize::from(self.flush_all.is_some())
    }

    fn bytes(&self) -> usize {
        self.debts.values().map(Debt::bytes).sum()
    }

    /// What owes nothing is forgotten, but while a FLUSHALL is owed also where it has been sent.
    fn forget_clear(&mut self) {
        let flush_all = self.flush_all.is_some();
        self.debts.retain(|_, debt| !debt.is_clear() || (flush_all && debt.sent.is_some()));
    }

    fn write(&mut self, record: &Record) {
        if self.config.file {
            write_record(&mut self.unwritten, record);
        }
    }

    /// After a change that no single record describes: all anew.
    fn rewrite(&mut self) {
        if !self.config.file {
            return;
        }
        write_record(&mut self.unwritten, &Record::Restart);
        let whole = self.whole_file();
        self.unwritten.extend_from_slice(&whole[HEADER.len()..]);
    }

    /// Holds in every state; debug builds ask after every event.
    pub fn check_invariants(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        self.debts.values().for_each(Debt::check_invariants);
    }
}
