//! What is owed to one database.
//!
//! Invariant: a key that is owed whole covers its fields, so nothing is in the ledger twice; what
//! has gone out on the present connection is a prefix of the order.

use super::delivery::{Batch, Command, Entry};
use super::{Database, Record};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The number of an entry, from 1. Rises with each.
pub(super) type Number = u64;

/// What an invalidation removes, or a save overwrites: a key, or one field of a hash.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Item {
    /// The key, any bytes.
    pub key: Arc<[u8]>,
    /// The field; `None`: the whole key.
    pub field: Option<Arc<[u8]>>,
}

impl Item {
    /// A whole key.
    #[must_use]
    pub fn key(key: &[u8]) -> Item {
        Item { key: key.into(), field: None }
    }

    /// One field of a hash.
    #[must_use]
    pub fn field(key: &[u8], field: &[u8]) -> Item {
        Item { key: key.into(), field: Some(field.into()) }
    }

    /// The key of which this is a field; itself if it is no field.
    fn whole(&self) -> Item {
        Item { key: Arc::clone(&self.key), field: None }
    }

    /// Bytes of key and field.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.key.len() + self.field.as_ref().map_or(0, |field| field.len())
    }
}

/// A flush that is owed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flush {
    pub(super) number: Number,
    /// It has been sent once. From then on it covers nothing new: it may have been carried out
    /// before that.
    pub(super) out: bool,
}

/// What has gone out on the present connection: everything up to a number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    connection: u64,
    up_to: Number,
}

#[derive(Debug, Default)]
pub(super) struct Debt {
    items: BTreeMap<Item, Number>,
    /// By number, so that they go out in order.
    order: BTreeMap<Number, Item>,
    bytes: usize,
    pub(super) flush: Option<Flush>,
    pub(super) sent: Option<Sent>,
    pub(super) overflowed: Option<Number>,
}

impl Debt {
    pub(super) fn flush(number: Number) -> Debt {
        Debt { flush: Some(Flush { number, out: false }), ..Debt::default() }
    }

    pub(super) fn is_clear(&self) -> bool {
        self.items.is_empty() && self.flush.is_none() && self.overflowed.is_none()
    }

    pub(super) fn depth(&self) -> usize {
        self.items.len() + usize::from(self.flush.is_some())
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether an invalidation of the item, of its whole key, or of a field of it is owed.
    pub(super) fn knows(&self, item: &Item) -> bool {
        self.items.contains_key(item)
            || self.items.contains_key(&item.whole())
            || (item.field.is_none() && !self.fields_of(item).is_empty())
    }

    /// Puts an item in, under a new number whatever was known of it before.
    pub(super) fn insert(&mut self, item: &Item, number: Number) {
        let whole = item.whole();
        let item = if self.items.contains_key(&whole) { &whole } else { item };
        if item.field.is_none() {
            self.fields_of(item).iter().for_each(|field| self.drop_item(field));
        }
        self.drop_item(item);
        self.bytes += item.bytes();
        self.order.insert(number, item.clone());
        self.items.insert(item.clone(), number);
    }

    /// Takes out what `item` covers, each if its number `may` go. True if anything went.
    pub(super) fn remove(&mut self, item: &Item, may: impl Fn(Number) -> bool) -> bool {
        let mut covered = if item.field.is_none() { self.fields_of(item) } else { Vec::new() };
        covered.push(item.clone());
        covered.retain(|item| self.items.get(item).is_some_and(|number| may(*number)));
        covered.iter().for_each(|item| self.drop_item(item));
        !covered.is_empty()
    }

    /// A flush that was sent at `mark` was carried out.
    pub(super) fn flushed(&mut self, mark: Number) {
        let gone: Vec<Item> = self.order.range(..mark).map(|(_, item)| item.clone()).collect();
        gone.iter().for_each(|item| self.drop_item(item));
        self.flush = self.flush.filter(|flush| flush.number >= mark);
        self.overflowed = self.overflowed.filter(|number| *number >= mark);
    }

    /// Up to which number everything has gone out on this connection.
    pub(super) fn sent_up_to(&self, connection: u64) -> Number {
        self.sent.filter(|sent| sent.connection == connection).map_or(0, |sent| sent.up_to)
    }

    pub(super) fn set_sent(&mut self, connection: u64, up_to: Number) {
        self.sent = Some(Sent { connection, up_to });
    }

    /// Whether more than `limit` have not gone out on this connection yet.
    pub(super) fn unsent_over(&self, connection: u64, limit: usize) -> bool {
        self.order.range(self.sent_up_to(connection) + 1..).nth(limit).is_some()
    }

    /// The next that have not gone out on this connection, up to `limit`.
    pub(super) fn take(&mut self, connection: u64, limit: usize, batch: &mut Batch) {
        let mut up_to = self.sent_up_to(connection);
        if let Some(flush) = self.flush.as_mut().filter(|flush| flush.number > up_to) {
            flush.out = true;
            up_to = flush.number;
            batch.push(Command::Flush, Entry::Flush(flush.number));
        }
        for (&number, item) in self.order.range(up_to + 1..).take(limit) {
            up_to = number;
            batch.push(Command::Remove(item.clone()), Entry::Item(item.clone(), number));
        }
        self.set_sent(connection, up_to);
    }

    /// Something that went out on this connection was not carried out, or nobody knows.
    pub(super) fn lost(&mut self, connection: u64) {
        self.sent = self.sent.filter(|sent| sent.connection != connection);
    }

    /// What a save of `item` needs ahead of it. True if that was anything.
    pub(super) fn ahead_of_save(&self, item: &Item, batch: &mut Batch) -> bool {
        let owed = |item: &Item| self.items.get(item).map(|n| Entry::Item(item.clone(), *n));
        let whole = item.whole();
        let before = batch.commands.len();
        if let Some(entry) = owed(&whole) {
            batch.push(Command::Remove(whole), entry);
        } else if item.field.is_some() {
            if let Some(entry) = owed(item) {
                batch.push(Command::Remove(item.clone()), entry);
            }
        } else {
            let fields = self.fields_of(item);
            if !fields.is_empty() {
                // The save takes the place of the whole key, whatever it was; one removal will do.
                batch.commands.push(Command::Remove(whole));
                batch.entries.extend(fields.iter().filter_map(owed));
            }
        }
        batch.commands.len() > before
    }

    pub(super) fn records(&self, database: Database, write: &mut dyn FnMut(&Record)) {
        if self.flush.is_some() {
            write(&Record::Flush { database });
        }
        for item in self.order.values() {
            write(&Record::Item { database, item: item.clone() });
        }
        if self.overflowed.is_some() {
            write(&Record::Overflowed { database });
        }
    }

    fn fields_of(&self, key: &Item) -> Vec<Item> {
        let from = self.items.range(key..).map(|(item, _)| item);
        from.take_while(|item| item.key == key.key)
            .filter(|item| item.field.is_some())
            .cloned()
            .collect()
    }

    fn drop_item(&mut self, item: &Item) {
        if let Some(number) = self.items.remove(item) {
            self.order.remove(&number);
            self.bytes -= item.bytes();
        }
    }

    pub(super) fn check_invariants(&self) {
        assert_eq!(self.items.len(), self.order.len(), "each item has one number");
        let Some((last, _)) = self.order.last_key_value() else { return };
        assert!(
            self.flush.is_none_or(|f| f.out && f.number < *last),
            "a flush not sent covers all"
        );
        // The rest looks at everything, and so only while that is little.
        if self.items.len() > 16 {
            return;
        }
        let bytes: usize = self.items.keys().map(Item::bytes).sum();
        assert_eq!(bytes, self.bytes, "bytes are counted");
        let fields = self.items.keys().filter(|item| item.field.is_some());
        let twice = fields.filter(|field| self.items.contains_key(&field.whole())).count();
        assert_eq!(twice, 0, "a whole key covers its fields");
    }
}
