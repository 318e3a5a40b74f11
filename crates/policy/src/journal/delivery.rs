//! What is sent of the journal, ahead of reads and of saves, and what becomes of it.
//!
//! Invariant: what is handed out is settled, delivered or lost; only delivery takes an entry out,
//! and only the entry that was sent.

use super::debt::{Flush, Number};
use super::{Database, Item, Journal, Record};

/// One command of a replay.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// UNLINK the key, or HDEL the field of it. A key of another type holds no such field: an
    /// answer that says so is as good as done.
    Remove(Item),
    /// FLUSHDB.
    Flush,
    /// FLUSHALL.
    FlushAll,
}

/// An entry that a batch takes out of the journal once it is carried out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Entry {
    Item(Item, Number),
    Flush(Number),
    FlushAll(Number),
}

/// Commands to be sent, in order, ahead of what they were asked for; to be handed back when all
/// were carried out ([`Journal::on_delivered`]) or not ([`Journal::on_lost`]).
#[must_use = "what is sent has to be settled: delivered, or lost"]
#[derive(PartialEq, Eq, Debug)]
pub struct Batch {
    /// The database they belong to.
    pub database: Database,
    /// The commands. Never empty.
    pub commands: Vec<Command>,
    pub(super) entries: Vec<Entry>,
    /// The connection it is a replay for; none: it goes ahead of a save.
    connection: Option<u64>,
}

impl Batch {
    fn new(database: Database) -> Batch {
        Batch { database, commands: Vec::new(), entries: Vec::new(), connection: None }
    }

    pub(super) fn push(&mut self, command: Command, entry: Entry) {
        self.commands.push(command);
        self.entries.push(entry);
    }

    fn unless_empty(self) -> Option<Batch> {
        if self.commands.is_empty() { None } else { Some(self) }
    }
}

/// Whether a read may go out on a connection.
///
/// What was sent ahead of it can still fail. So its answer counts only if [`Journal::losses`] is
/// then what it was when the read went out; else it is answered as a shed read.
#[derive(PartialEq, Eq, Debug)]
pub enum ReadOrder {
    /// Nothing is owed, or it went out before on this very connection.
    Clear,
    /// Behind this replay, in one pipeline.
    Behind(Batch),
    /// Not at all: answer as for a shed read. Send on with [`Journal::next_batch`], or, where the
    /// database has overflowed, wait for it to be resumed.
    Shed,
}

impl Journal {
    /// A read wants to go out on `connection`, which is its lane's present one.
    pub fn on_read(&mut self, database: Database, connection: u64) -> ReadOrder {
        if self.is_empty() {
            return ReadOrder::Clear;
        }
        let debt = self.debts.get(&database);
        let limit = self.config.batch.max(1);
        if self.is_overflowed(database) || debt.is_some_and(|d| d.unsent_over(connection, limit)) {
            // Overflowed; or the read would wait behind many replays, past its deadline.
            return ReadOrder::Shed;
        }
        self.next_batch(database, connection).map_or(ReadOrder::Clear, ReadOrder::Behind)
    }

    /// The next of what is owed to a database that has not gone out on `connection` yet.
    pub fn next_batch(&mut self, database: Database, connection: u64) -> Option<Batch> {
        let limit = self.config.batch.max(1);
        let mut batch = Batch::new(database);
        batch.connection = Some(connection);
        if let Some(flush) = &mut self.flush_all {
            let debt = self.debts.entry(database).or_default();
            if debt.sent_up_to(connection) < flush.number {
                debt.set_sent(connection, flush.number);
                flush.out = true;
                batch.push(Command::FlushAll, Entry::FlushAll(flush.number));
            }
        }
        if let Some(debt) = self.debts.get_mut(&database) {
            debt.take(connection, limit, &mut batch);
        }
        self.check_invariants();
        batch.unless_empty()
    }

    /// A plain save wants to go out: what has to be sent ahead of it in the same pipeline, if
    /// anything. The items are what it overwrites: keys, or fields of a key.
    pub fn on_save<'a>(
        &mut self,
        database: Database,
        items: impl IntoIterator<Item = &'a Item>,
    ) -> Option<Batch> {
        if self.is_empty() {
            return None;
        }
        let mut batch = Batch::new(database);
        if let Some(flush) = &mut self.flush_all {
            flush.out = true;
            batch.push(Command::FlushAll, Entry::FlushAll(flush.number));
        }
        let overflowed = self.is_overflowed(database);
        let mut debt = self.debts.get_mut(&database);
        if let Some(flush) = debt.as_mut().and_then(|debt| debt.flush.as_mut()) {
            flush.out = true;
            batch.push(Command::Flush, Entry::Flush(flush.number));
        }
        for item in items {
            let known = debt.as_ref().is_some_and(|debt| debt.ahead_of_save(item, &mut batch));
            if overflowed && !known {
                // The database has lost count, and this key may be among what it lost.
                batch.commands.push(Command::Remove(item.clone()));
            }
        }
        batch.unless_empty()
    }

    /// Whether a leased save has to be refused: what it would store may be older than an
    /// invalidation that is still owed.
    #[must_use]
    pub fn refuses_leased(&self, database: Database, item: &Item) -> bool {
        self.flush_all.is_some()
            || self.is_overflowed(database)
            || self.debts.get(&database).is_some_and(|d| d.flush.is_some() || d.knows(item))
    }

    /// All of a batch was carried out.
    pub fn on_delivered(&mut self, batch: Batch) {
        let database = batch.database;
        for entry in batch.entries {
            match entry {
                Entry::FlushAll(number) => {
                    if self.flush_all.is_some_and(|flush| flush.number == number) {
                        self.flush_all = None;
                        self.write(&Record::GoneFlushAll);
                    }
                }
                Entry::Flush(number) => {
                    let debt = self.debts.get_mut(&database);
                    let is_it = |flush: &mut Flush| flush.number == number;
                    if debt.is_some_and(|debt| debt.flush.take_if(is_it).is_some()) {
                        self.write(&Record::GoneFlush { database });
                    }
                }
                Entry::Item(item, number) => {
                    let debt = self.debts.get_mut(&database);
                    if debt.is_some_and(|debt| debt.remove(&item, |n| n == number)) {
                        self.write(&Record::Gone { database, item });
                    }
                }
            }
        }
        self.forget_clear();
        self.check_invariants();
    }

    /// How many batches have been lost. See [`ReadOrder`].
    #[must_use]
    pub fn losses(&self) -> u64 {
        self.losses
    }

    /// A batch was not carried out, or nobody knows: it is owed as before, and sent again.
    #[expect(clippy::needless_pass_by_value, reason = "a batch is settled once")]
    pub fn on_lost(&mut self, batch: Batch) {
        self.losses += 1;
        if let (Some(connection), Some(debt)) =
            (batch.connection, self.debts.get_mut(&batch.database))
        {
            debt.lost(connection);
        }
        self.forget_clear();
        self.check_invariants();
    }
}
