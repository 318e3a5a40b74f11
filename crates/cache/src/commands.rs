//! What each command is to the guard: the one table.
//!
//! Invariant: a command that is not in the table carries meaning: its reply is never made up, and it
//! is never sent twice. The classes are those of the contract; whatever has to know a command asks
//! here.

use hedgerow_wire::resp::upgrade::Shape;

/// What may be done with a command while the store is not asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// Shed while the circuit is open.
    Read,
    /// Reaches the store past an open circuit; else as if it had not been stored.
    Repair,
    /// Tried past an open circuit; else journalled.
    Invalidation,
    /// Its reply carries meaning: an error rather than an invention.
    Meaning,
    /// Answered by the guard itself, always.
    Local,
    /// Needs a store connection of its own: a transaction, a subscription, a wait.
    Pinned,
    /// Would disturb the connection that others share.
    Refused,
}

/// What a command is answered as if nothing were stored, or nothing had been done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fallback {
    /// Nothing.
    Nil,
    /// Nothing, for each key or field.
    Nils,
    /// An empty array.
    Empty,
    /// An empty map.
    EmptyMap,
    /// An empty set.
    EmptySet,
    /// `0`.
    Zero,
    /// `-2`: there is no such key.
    NoKey,
    /// `none`: there is no such key.
    NoType,
    /// Cursor 0 and no element.
    Scan,
    /// `OK`.
    Ok,
    /// There is none.
    None,
}

/// What a write that may be carried out late could undo.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Undoes {
    /// Nothing that can be put right by removing it.
    Nothing,
    /// Whole values: their keys are removed.
    Keys,
    /// Fields of a hash: those are removed.
    Fields,
}

/// Where the keys of a command are: first argument, last one (from the end where negative), step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Keys(pub u8, pub i8, pub u8);

/// One command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// In capitals.
    pub name: &'static str,
    /// What the guard does with it.
    pub class: Class,
    /// What it is answered while it is not carried out.
    pub fallback: Fallback,
    /// What it answers where both versions of the protocol are known to differ in the head alone.
    pub shape: Option<Shape>,
    /// Where its keys are.
    pub keys: Keys,
    /// What it could undo.
    pub undoes: Undoes,
}

/// A command that is not in the table.
pub const UNKNOWN: Row = Row {
    name: "",
    class: Class::Meaning,
    fallback: Fallback::None,
    shape: None,
    keys: NO_KEYS,
    undoes: Undoes::Nothing,
};

const NO_KEYS: Keys = Keys(0, 0, 0);
const ONE: Keys = Keys(1, 1, 1);
const ALL: Keys = Keys(1, -1, 1);

const fn row(
    name: &'static str,
    class: Class,
    fallback: Fallback,
    shape: Shape,
    keys: Keys,
) -> Row {
    Row { name, class, fallback, shape: Some(shape), keys, undoes: Undoes::Nothing }
}

const fn undoing(undoes: Undoes, row: Row) -> Row {
    Row { undoes, ..row }
}

const fn read(name: &'static str, fallback: Fallback, shape: Shape) -> Row {
    row(name, Class::Read, fallback, shape, ONE)
}

const fn repair(name: &'static str, fallback: Fallback, keys: Keys) -> Row {
    row(name, Class::Repair, fallback, Shape::Plain, keys)
}

const fn meaning(name: &'static str, keys: Keys) -> Row {
    row(name, Class::Meaning, Fallback::None, Shape::Plain, keys)
}

const fn bare(name: &'static str, class: Class) -> Row {
    Row { class, name, ..UNKNOWN }
}

use Class::{Invalidation, Local, Pinned, Read, Refused};
use Fallback::{Empty, EmptyMap, EmptySet, Nil, Nils, NoKey, NoType, Scan, Zero};
use Shape::{List, Map, Plain, Set};

/// In the order of the alphabet.
#[rustfmt::skip]
const TABLE: &[Row] = &[
    meaning("APPEND", ONE),
    bare("ASKING", Local),
    bare("AUTH", Local),
    bare("BLMOVE", Pinned),
    bare("BLMPOP", Pinned),
    bare("BLPOP", Pinned),
    bare("BRPOP", Pinned),
    bare("BRPOPLPUSH", Pinned),
    bare("BZMPOP", Pinned),
    bare("BZPOPMAX", Pinned),
    bare("BZPOPMIN", Pinned),
    bare("CLIENT", Local),
    bare("COMMAND", Local),
    row("DBSIZE", Read, Zero, Plain, NO_KEYS),
    meaning("DECR", ONE),
    meaning("DECRBY", ONE),
    row("DEL", Invalidation, Zero, Plain, ALL),
    bare("DISCARD", Pinned),
    bare("ECHO", Local),
    bare("EXEC", Pinned),
    row("EXISTS", Read, Zero, Plain, ALL),
    repair("EXPIRE", Zero, ONE),
    repair("EXPIREAT", Zero, ONE),
    row("FLUSHALL", Invalidation, Fallback::Ok, Plain, NO_KEYS),
    row("FLUSHDB", Invalidation, Fallback::Ok, Plain, NO_KEYS),
    read("GET", Nil, Plain),
    meaning("GETDEL", ONE),
    read("GETEX", Nil, Plain),
    meaning("GETRANGE", ONE),
    undoing(Undoes::Keys, meaning("GETSET", ONE)),
    row("HDEL", Invalidation, Zero, Plain, ONE),
    bare("HELLO", Local),
    read("HEXISTS", Zero, Plain),
    read("HGET", Nil, Plain),
    read("HGETALL", EmptyMap, Map),
    meaning("HINCRBY", ONE),
    read("HKEYS", Empty, List),
    read("HLEN", Zero, Plain),
    read("HMGET", Nils, List),
    undoing(Undoes::Fields, repair("HMSET", Nil, ONE)),
    // An array inside an array: only the inner one holds strings, and neither holds nulls.
    read("HSCAN", Scan, Plain),
    undoing(Undoes::Fields, repair("HSET", Zero, ONE)),
    undoing(Undoes::Fields, repair("HSETNX", Zero, ONE)),
    read("HVALS", Empty, List),
    meaning("INCR", ONE),
    meaning("INCRBY", ONE),
    bare("INFO", Class::Meaning),
    row("KEYS", Read, Empty, List, NO_KEYS),
    read("LLEN", Zero, Plain),
    meaning("LPUSH", ONE),
    read("LRANGE", Empty, List),
    row("MGET", Read, Nils, List, ALL),
    bare("MONITOR", Refused),
    undoing(Undoes::Keys, repair("MSET", Nil, Keys(1, -1, 2))),
    undoing(Undoes::Keys, meaning("MSETNX", Keys(1, -1, 2))),
    bare("MULTI", Pinned),
    repair("PERSIST", Zero, ONE),
    repair("PEXPIRE", Zero, ONE),
    repair("PEXPIREAT", Zero, ONE),
    bare("PING", Local),
    undoing(Undoes::Keys, repair("PSETEX", Nil, ONE)),
    bare("PSUBSCRIBE", Pinned),
    bare("PSYNC", Refused),
    read("PTTL", NoKey, Plain),
    meaning("PUBLISH", NO_KEYS),
    bare("PUNSUBSCRIBE", Pinned),
    bare("QUIT", Local),
    bare("READONLY", Local),
    bare("READWRITE", Local),
    bare("REPLCONF", Refused),
    bare("RESET", Local),
    bare("ROLE", Class::Meaning),
    meaning("RPUSH", ONE),
    meaning("SADD", ONE),
    row("SCAN", Read, Scan, Plain, NO_KEYS),
    read("SCARD", Zero, Plain),
    bare("SELECT", Local),
    undoing(Undoes::Keys, repair("SET", Nil, ONE)),
    undoing(Undoes::Keys, repair("SETEX", Nil, ONE)),
    undoing(Undoes::Keys, repair("SETNX", Zero, ONE)),
    bare("SHUTDOWN", Refused),
    read("SMEMBERS", EmptySet, Set),
    meaning("SREM", ONE),
    read("SSCAN", Scan, Plain),
    bare("SSUBSCRIBE", Pinned),
    read("STRLEN", Zero, Plain),
    bare("SUBSCRIBE", Pinned),
    bare("SUNSUBSCRIBE", Pinned),
    bare("SYNC", Refused),
    repair("TOUCH", Zero, ALL),
    read("TTL", NoKey, Plain),
    read("TYPE", NoType, Plain),
    row("UNLINK", Invalidation, Zero, Plain, ALL),
    bare("UNSUBSCRIBE", Pinned),
    bare("UNWATCH", Pinned),
    bare("WAIT", Pinned),
    bare("WAITAOF", Pinned),
    bare("WATCH", Pinned),
    meaning("ZADD", ONE),
    meaning("ZCARD", ONE),
    // With scores its elements are pairs in version 3.
    Row { shape: None, ..read("ZRANGE", Empty, List) },
    meaning("ZREM", ONE),
    read("ZSCAN", Scan, Plain),
];

/// The row of a command, by the name a client wrote.
#[must_use]
pub fn named(name: &[u8]) -> Row {
    let mut upper = [0u8; 16];
    let Some(upper) = upper.get_mut(..name.len()) else { return UNKNOWN };
    for (to, from) in upper.iter_mut().zip(name) {
        *to = from.to_ascii_uppercase();
    }
    let upper = &*upper;
    TABLE.binary_search_by(|row| row.name.as_bytes().cmp(upper)).map_or(UNKNOWN, |at| TABLE[at])
}

/// The row of a command with these arguments, the name first: options can change the class.
#[must_use]
pub fn row_of(args: &[&[u8]]) -> Row {
    let row = args.first().map_or(UNKNOWN, |name| named(name));
    let has = |from: usize, word: &str| {
        args.get(from..).unwrap_or_default().iter().any(|a| a.eq_ignore_ascii_case(word.as_bytes()))
    };
    match row.name {
        // The old value carries meaning.
        "SET" if args.len() > 4 - 1 && has(3, "GET") => {
            Row { class: Class::Meaning, fallback: Fallback::None, ..row }
        }
        "" if is(args, "XREAD") || is(args, "XREADGROUP") => {
            if has(1, "BLOCK") {
                bare("XREAD", Pinned)
            } else {
                UNKNOWN
            }
        }
        _ => row,
    }
}

/// Whether the command has this name.
#[must_use]
pub fn is(args: &[&[u8]], name: &str) -> bool {
    args.first().is_some_and(|first| first.eq_ignore_ascii_case(name.as_bytes()))
}

impl Row {
    /// The keys among the arguments, the name being the first of them.
    pub fn keys_of<'a>(&self, args: &[&'a [u8]]) -> impl Iterator<Item = &'a [u8]> {
        let Keys(first, last, step) = self.keys;
        let end = if last < 0 {
            (args.len() + 1).saturating_sub(usize::from(last.unsigned_abs()))
        } else {
            usize::from(last.unsigned_abs()) + 1
        };
        let from = if step == 0 { args.len() } else { usize::from(first) };
        let args = args.get(from..end.min(args.len()).max(from)).unwrap_or_default().to_vec();
        args.into_iter().step_by(usize::from(step).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> (Row, Vec<&[u8]>) {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        (row_of(&args), args)
    }

    #[test]
    fn the_table_is_in_order_so_that_it_can_be_searched() {
        for two in TABLE.windows(2) {
            assert!(two[0].name < two[1].name, "{} before {}", two[0].name, two[1].name);
        }
        for row in TABLE {
            assert_eq!(named(row.name.to_lowercase().as_bytes()), *row);
        }
    }

    #[test]
    fn options_change_the_class() {
        assert_eq!(of("SET k v EX 5 NX").0.class, Class::Repair);
        assert_eq!(of("set k v get").0.class, Class::Meaning);
        assert_eq!(of("SET k GET").0.class, Class::Repair, "a value of that name");
        assert_eq!(of("XREAD BLOCK 0 STREAMS s 0").0.class, Class::Pinned);
        assert_eq!(of("XREAD STREAMS s 0").0.class, Class::Meaning);
        assert_eq!(of("FT.SEARCHWITHAVERYLONGNAME x").0, UNKNOWN);
    }

    #[test]
    fn keys_are_where_the_table_says() {
        let keys = |line: &str| {
            let (row, args) = of(line);
            let keys: Vec<String> =
                row.keys_of(&args).map(|k| String::from_utf8_lossy(k).into_owned()).collect();
            keys.join(" ")
        };
        assert_eq!(keys("GET a"), "a");
        assert_eq!(keys("MGET a b c"), "a b c");
        assert_eq!(keys("MSET a 1 b 2"), "a b");
        assert_eq!(keys("HSET h f v"), "h");
        assert_eq!(keys("FLUSHDB"), "");
        assert_eq!(keys("GET"), "");
        assert_eq!(keys("DEL"), "");
    }
}
