//! What a lost connection may still do to the store.
//!
//! Invariant: a write whose reply was owed when its connection was lost is in doubt until the old
//! connection is known to be gone; then what it could have written is removed once. What is removed
//! is exactly what it could have written: a field's siblings stay.

use crate::commands::{self, Args, Undoes};
use bytes::{Bytes, BytesMut};
use hedgerow_wire::resp::{Limits, Parsed, Parser, reply};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

/// Keys and fields that a lost connection may still write.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Doubts {
    keys: BTreeSet<Bytes>,
    fields: BTreeMap<Bytes, BTreeSet<Bytes>>,
}

impl Doubts {
    /// Takes note of the commands in `bytes` from the `from`th on.
    pub(crate) fn note(&mut self, bytes: &Bytes, from: u32) {
        let (mut parser, mut rest, mut index) = (Parser::new(), bytes.clone(), 0);
        while let Ok(Parsed::Command(length)) = parser.parse(&rest, Limits::STORE) {
            if index >= from {
                self.note_command(&Args::new(&rest, parser.args()));
            }
            index += 1;
            rest = rest.slice(length..);
        }
    }

    /// Takes note of one command.
    pub(crate) fn note_command(&mut self, args: &Args<'_>) {
        let row = commands::row_of(args);
        match row.undoes {
            Undoes::Nothing => {}
            Undoes::Keys => self.keys.extend(row.keys_of(args).map(Bytes::copy_from_slice)),
            Undoes::Fields => {
                let fields = self.fields.entry(Bytes::copy_from_slice(args.get(1))).or_default();
                fields.extend(args.from(2).step_by(2).map(Bytes::copy_from_slice));
            }
        }
    }

    /// Keys and fields.
    pub(crate) fn len(&self) -> usize {
        self.keys.len() + self.fields.values().map(BTreeSet::len).sum::<usize>()
    }

    /// Appends the commands that remove all of it; returns how many.
    pub(crate) fn write_removal(&self, out: &mut BytesMut) -> u32 {
        let mut commands = 0;
        let keys: Vec<&[u8]> = self.keys.iter().map(|k| &k[..]).collect();
        for some in keys.chunks(1000) {
            reply::array(out, some.len() + 1);
            reply::bulk(out, b"UNLINK");
            some.iter().for_each(|key| reply::bulk(out, key));
            commands += 1;
        }
        for (key, fields) in &self.fields {
            reply::array(out, fields.len() + 2);
            reply::bulk(out, b"HDEL");
            reply::bulk(out, key);
            fields.iter().for_each(|field| reply::bulk(out, field));
            commands += 1;
        }
        commands
    }

    fn all_keys(&self) -> impl Iterator<Item = &Bytes> {
        self.keys.iter().chain(self.fields.keys())
    }
}

/// Keys that read as misses: their old connection may still be executed and cannot be ended.
#[derive(Debug, Default)]
pub(crate) struct Hidden {
    any: AtomicBool,
    keys: RwLock<HashSet<Bytes>>,
}

impl Hidden {
    /// Whether reads of this key are answered as misses.
    pub(crate) fn has(&self, key: &[u8]) -> bool {
        self.any.load(Ordering::Acquire)
            && self.keys.read().unwrap_or_else(PoisonError::into_inner).contains(key)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Exactly the keys of these.
    pub(crate) fn set<'a>(&self, doubts: impl Iterator<Item = &'a Doubts>) {
        let keys: HashSet<Bytes> = doubts.flat_map(Doubts::all_keys).cloned().collect();
        let any = !keys.is_empty();
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
        self.any.store(any, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_owed_and_can_be_removed_is_in_doubt_case_47() {
        let mut bytes = BytesMut::new();
        for line in ["SET done 1", "SET a 1", "HSET h f 1 g 2", "MSET b 1 c 2", "INCR n", "GET x"] {
            let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            reply::command(&mut bytes, &args);
        }
        let mut doubts = Doubts::default();
        doubts.note(&bytes.freeze(), 1);
        let mut out = BytesMut::new();
        assert_eq!(doubts.write_removal(&mut out), 2);
        let mut expected = BytesMut::new();
        reply::command(&mut expected, &[b"UNLINK", b"a", b"b", b"c"]);
        reply::command(&mut expected, &[b"HDEL", b"h", b"f", b"g"]);
        assert_eq!(out, expected);
        let hidden = Hidden::default();
        hidden.set([&doubts].into_iter());
        assert!(hidden.has(b"h") && hidden.has(b"a") && !hidden.has(b"done"));
        hidden.set([].into_iter());
        assert!(!hidden.has(b"a"));
    }
}
