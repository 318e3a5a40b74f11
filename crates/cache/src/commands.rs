//! What each command is to the guard: the one table.
//!
//! Invariant: a command that is not in the table carries meaning: its reply is never made up, and it
//! is never sent twice. The classes are those of the contract; whatever has to know a command asks
//! here.

mod forms;

pub(crate) use forms::refusal;

use hedgerow_wire::resp::command::Span;
use hedgerow_wire::resp::upgrade::Shape;

/// What may be done with a command while the store is not asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
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
    /// No command, but the beginning of an HTTP request, made by a page in somebody's browser. The
    /// store closes the connection for it, which others share; so the client's is closed here.
    Foreign,
    /// Would disturb the connection that others share, or change the store itself for everybody.
    Refused,
}

/// What a command is answered as if nothing were stored, or nothing had been done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fallback {
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
pub(crate) enum Undoes {
    /// Nothing that can be put right by removing it.
    Nothing,
    /// Whole values: their keys are removed.
    Keys,
    /// Fields of a hash: those are removed.
    Fields,
}

/// Where the keys of a command are: first argument, last one (from the end where negative), step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Keys(pub(crate) u8, pub(crate) i8, pub(crate) u8);

/// One command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Row {
    /// In capitals.
    pub(crate) name: &'static str,
    /// What the guard does with it.
    pub(crate) class: Class,
    /// What it is answered while it is not carried out.
    pub(crate) fallback: Fallback,
    /// What it answers where both versions of the protocol are known to differ in the head alone.
    pub(crate) shape: Option<Shape>,
    /// Where its keys are.
    pub(crate) keys: Keys,
    /// What it could undo.
    pub(crate) undoes: Undoes,
}

/// A command that is not in the table.
pub(crate) static UNKNOWN: Row = bare("", Class::Meaning);

/// The old value carries meaning.
static SET_WITH_GET: Row = undoing(Undoes::Keys, meaning("SET", ONE));
static BLOCKING: Row = bare("XREAD", Class::Pinned);

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
    Row {
        name,
        class,
        fallback: Fallback::None,
        shape: None,
        keys: NO_KEYS,
        undoes: Undoes::Nothing,
    }
}

use Class::{Invalidation, Local, Pinned, Read, Refused};
use Fallback::{Empty, EmptyMap, EmptySet, Nil, Nils, NoKey, NoType, Scan, Zero};
use Shape::{List, Map, Plain, Set};

/// In the order of the alphabet.
#[rustfmt::skip]
static TABLE: &[Row] = &[
    bare("ACL", Refused),
    meaning("APPEND", ONE),
    bare("ASKING", Local),
    bare("AUTH", Local),
    bare("BGREWRITEAOF", Refused),
    bare("BGSAVE", Refused),
    bare("BLMOVE", Pinned),
    bare("BLMPOP", Pinned),
    bare("BLPOP", Pinned),
    bare("BRPOP", Pinned),
    bare("BRPOPLPUSH", Pinned),
    bare("BZMPOP", Pinned),
    bare("BZPOPMAX", Pinned),
    bare("BZPOPMIN", Pinned),
    bare("CLIENT", Local),
    bare("CLUSTER", Class::Meaning),
    bare("COMMAND", Local),
    bare("COMMANDLOG", Class::Meaning),
    bare("CONFIG", Class::Meaning),
    row("DBSIZE", Read, Zero, Plain, NO_KEYS),
    bare("DEBUG", Refused),
    meaning("DECR", ONE),
    meaning("DECRBY", ONE),
    row("DEL", Invalidation, Zero, Plain, ALL),
    bare("DISCARD", Pinned),
    bare("ECHO", Local),
    bare("EXEC", Pinned),
    row("EXISTS", Read, Zero, Plain, ALL),
    repair("EXPIRE", Zero, ONE),
    repair("EXPIREAT", Zero, ONE),
    bare("FAILOVER", Refused),
    row("FLUSHALL", Invalidation, Fallback::Ok, Plain, NO_KEYS),
    row("FLUSHDB", Invalidation, Fallback::Ok, Plain, NO_KEYS),
    bare("FUNCTION", Class::Meaning),
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
    bare("HOST:", Class::Foreign),
    // An array inside an array: only the inner one holds strings, and neither holds nulls.
    read("HSCAN", Scan, Plain),
    undoing(Undoes::Fields, repair("HSET", Zero, ONE)),
    undoing(Undoes::Fields, repair("HSETNX", Zero, ONE)),
    read("HVALS", Empty, List),
    meaning("INCR", ONE),
    meaning("INCRBY", ONE),
    bare("INFO", Class::Meaning),
    row("KEYS", Read, Empty, List, NO_KEYS),
    bare("LATENCY", Class::Meaning),
    read("LLEN", Zero, Plain),
    meaning("LPUSH", ONE),
    read("LRANGE", Empty, List),
    bare("MEMORY", Class::Meaning),
    row("MGET", Read, Nils, List, ALL),
    bare("MIGRATE", Refused),
    bare("MODULE", Class::Meaning),
    bare("MONITOR", Refused),
    undoing(Undoes::Keys, repair("MSET", Nil, Keys(1, -1, 2))),
    undoing(Undoes::Keys, meaning("MSETNX", Keys(1, -1, 2))),
    bare("MULTI", Pinned),
    repair("PERSIST", Zero, ONE),
    repair("PEXPIRE", Zero, ONE),
    repair("PEXPIREAT", Zero, ONE),
    bare("PFDEBUG", Refused),
    bare("PFSELFTEST", Refused),
    bare("PING", Local),
    bare("POST", Class::Foreign),
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
    bare("REPLICAOF", Refused),
    bare("RESET", Local),
    undoing(Undoes::Keys, meaning("RESTORE", ONE)),
    bare("RESTORE-ASKING", Refused),
    bare("ROLE", Class::Meaning),
    meaning("RPUSH", ONE),
    meaning("SADD", ONE),
    bare("SAVE", Refused),
    row("SCAN", Read, Scan, Plain, NO_KEYS),
    read("SCARD", Zero, Plain),
    bare("SCRIPT", Class::Meaning),
    bare("SELECT", Local),
    undoing(Undoes::Keys, repair("SET", Nil, ONE)),
    undoing(Undoes::Keys, repair("SETEX", Nil, ONE)),
    undoing(Undoes::Keys, repair("SETNX", Zero, ONE)),
    bare("SHUTDOWN", Refused),
    bare("SLAVEOF", Refused),
    bare("SLOWLOG", Class::Meaning),
    read("SMEMBERS", EmptySet, Set),
    meaning("SREM", ONE),
    read("SSCAN", Scan, Plain),
    bare("SSUBSCRIBE", Pinned),
    read("STRLEN", Zero, Plain),
    bare("SUBSCRIBE", Pinned),
    bare("SUNSUBSCRIBE", Pinned),
    bare("SWAPDB", Refused),
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

/// Every command there is a row for, in the order of the alphabet.
pub(crate) fn all() -> &'static [Row] {
    TABLE
}

/// The row of a command, by the name a client wrote.
#[must_use]
pub(crate) fn named(name: &[u8]) -> &'static Row {
    let mut upper = [0u8; 16];
    let Some(upper) = upper.get_mut(..name.len()) else { return &UNKNOWN };
    for (to, from) in upper.iter_mut().zip(name) {
        *to = from.to_ascii_uppercase();
    }
    let upper = &*upper;
    TABLE.binary_search_by(|row| row.name.as_bytes().cmp(upper)).map_or(&UNKNOWN, |at| &TABLE[at])
}

/// The arguments of a command where it was read, its name the first of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Args<'a> {
    buf: &'a [u8],
    spans: &'a [Span],
}

impl<'a> Args<'a> {
    /// The arguments in `buf` at `spans`.
    pub(crate) fn new(buf: &'a [u8], spans: &'a [Span]) -> Args<'a> {
        Args { buf, spans }
    }

    /// How many, with the name.
    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }

    /// An argument; empty beyond the last.
    pub(crate) fn get(&self, at: usize) -> &'a [u8] {
        self.spans.get(at).and_then(|&(from, to)| self.buf.get(from..to)).unwrap_or_default()
    }

    /// All from one on.
    pub(crate) fn from(&self, at: usize) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let buf = self.buf;
        let spans = self.spans.get(at..).unwrap_or_default();
        spans.iter().map(move |&(from, to)| buf.get(from..to).unwrap_or_default())
    }

    /// Whether an argument is this word, however it is written.
    pub(crate) fn is(&self, at: usize, word: &str) -> bool {
        self.get(at).eq_ignore_ascii_case(word.as_bytes())
    }

    fn has(&self, from: usize, word: &str) -> bool {
        self.from(from).any(|arg| arg.eq_ignore_ascii_case(word.as_bytes()))
    }
}

/// The row of a command with these arguments: options can change the class.
pub(crate) fn row_of(args: &Args<'_>) -> &'static Row {
    let row = named(args.get(0));
    match row.name {
        "SET" if args.len() > 3 && args.has(3, "GET") => &SET_WITH_GET,
        "" if (args.is(0, "XREAD") || args.is(0, "XREADGROUP")) && args.has(1, "BLOCK") => {
            &BLOCKING
        }
        // Those with forms are there without a shape.
        name if !name.is_empty() && row.class == Class::Meaning && row.shape.is_none() => {
            forms::of(row, args)
        }
        _ => row,
    }
}

impl Row {
    /// The keys among the arguments.
    pub(crate) fn keys_of<'a>(&self, args: &Args<'a>) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let Keys(first, last, step) = self.keys;
        let end = if last < 0 {
            (args.len() + 1).saturating_sub(usize::from(last.unsigned_abs()))
        } else {
            usize::from(last.unsigned_abs()) + 1
        };
        let from = if step == 0 { end } else { usize::from(first) };
        let count = end.min(args.len()).saturating_sub(from);
        args.from(from).take(count).step_by(usize::from(step).max(1))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A line as it is read, and where its words are.
    pub(super) fn spans(line: &str) -> Vec<Span> {
        let start = |word: &str| word.as_ptr().addr() - line.as_ptr().addr();
        line.split(' ').map(|word| (start(word), start(word) + word.len())).collect()
    }

    pub(super) fn class(line: &str) -> Class {
        row_of(&Args::new(line.as_bytes(), &spans(line))).class
    }

    #[test]
    fn the_table_is_in_order_so_that_it_can_be_searched() {
        for two in TABLE.windows(2) {
            assert!(two[0].name < two[1].name, "{} before {}", two[0].name, two[1].name);
        }
        for row in TABLE {
            assert_eq!(named(row.name.to_lowercase().as_bytes()), row);
        }
    }

    #[test]
    fn options_change_the_class() {
        assert_eq!(class("SET k v EX 5 NX"), Class::Repair);
        assert_eq!(class("set k v get"), Class::Meaning);
        assert_eq!(class("SET k GET"), Class::Repair, "a value of that name");
        assert_eq!(class("XREAD BLOCK 0 STREAMS s 0"), Class::Pinned);
        assert_eq!(class("XREAD STREAMS s 0"), Class::Meaning);
        assert_eq!(class("script debug sync"), Class::Refused);
        assert_eq!(class("SCRIPT FLUSH"), Class::Meaning);
        assert_eq!(class("FT.SEARCHWITHAVERYLONGNAME x"), Class::Meaning);
    }

    #[test]
    fn what_changes_the_store_for_everybody_does_not_pass() {
        let names = "ACL BGREWRITEAOF BGSAVE DEBUG FAILOVER MIGRATE MONITOR PFDEBUG PFSELFTEST PSYNC \
                     REPLCONF REPLICAOF RESTORE-ASKING SAVE SHUTDOWN SLAVEOF SWAPDB SYNC";
        for name in names.split(' ') {
            assert_eq!(class(name), Class::Refused, "{name}");
            assert_eq!(class(&format!("{} a b", name.to_lowercase())), Class::Refused, "{name}");
        }
        let all: Vec<_> = TABLE.iter().filter(|row| row.class == Class::Refused).collect();
        assert_eq!(all.len(), names.split(' ').count(), "every one of them is named here");
        for passes in ["RESTORE k 0 x", "DUMP k", "LASTSAVE", "OBJECT FREQ k", "TIME", "COPY a b"] {
            assert_eq!(class(passes), Class::Meaning, "{passes}");
        }
    }

    #[test]
    fn keys_are_where_the_table_says() {
        let keys = |line: &str| {
            let spans = spans(line);
            let args = Args::new(line.as_bytes(), &spans);
            let keys: Vec<String> = row_of(&args)
                .keys_of(&args)
                .map(|k| String::from_utf8_lossy(k).into_owned())
                .collect();
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
