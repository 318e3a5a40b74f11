//! The commands of the embedded store.

use super::args::{Done, Wrong};
use super::{Asked, Memory, hashes, keys, strings};
use bytes::BytesMut;
use std::sync::PoisonError;

type Run = fn(&Memory, &Asked<'_>, &mut BytesMut) -> Done;

/// In the order of the alphabet: name, arguments with the name (at least, where negative), what it
/// does.
const TABLE: &[(&str, i32, Run)] = &[
    ("APPEND", 3, strings::append),
    ("DBSIZE", 1, keys::dbsize),
    ("DECR", 2, strings::increment),
    ("DECRBY", 3, strings::increment),
    ("DEL", -2, keys::del),
    ("EXISTS", -2, keys::exists),
    ("EXPIRE", -3, keys::expire),
    ("EXPIREAT", -3, keys::expire),
    ("FLUSHALL", -1, keys::flush),
    ("FLUSHDB", -1, keys::flush),
    ("GET", 2, strings::get),
    ("GETDEL", 2, strings::getdel),
    ("GETEX", -2, strings::getex),
    ("GETSET", 3, strings::getset),
    ("HDEL", -3, hashes::hdel),
    ("HEXISTS", 3, hashes::hexists),
    ("HGET", 3, hashes::hget),
    ("HGETALL", 2, hashes::hgetall),
    ("HINCRBY", 4, hashes::hincrby),
    ("HKEYS", 2, hashes::hkeys),
    ("HLEN", 2, hashes::hlen),
    ("HMGET", -3, hashes::hmget),
    ("HMSET", -4, hashes::hset),
    ("HSCAN", -3, hashes::hscan),
    ("HSET", -4, hashes::hset),
    ("HSETNX", 4, hashes::hsetnx),
    ("HSTRLEN", 3, hashes::hstrlen),
    ("HVALS", 2, hashes::hvals),
    ("INCR", 2, strings::increment),
    ("INCRBY", 3, strings::increment),
    ("KEYS", 2, keys::keys),
    ("MGET", -2, strings::mget),
    ("MSET", -3, strings::mset),
    ("PERSIST", 2, keys::persist),
    ("PEXPIRE", -3, keys::expire),
    ("PEXPIREAT", -3, keys::expire),
    ("PSETEX", 4, strings::setex),
    ("PTTL", 2, keys::ttl),
    ("SCAN", -2, keys::scan),
    ("SET", -3, strings::set),
    ("SETEX", 4, strings::setex),
    ("SETNX", 3, strings::setnx),
    ("STRLEN", 2, strings::strlen),
    ("TOUCH", -2, keys::exists),
    ("TTL", 2, keys::ttl),
    ("TYPE", 2, keys::kind),
    ("UNLINK", -2, keys::del),
];

/// Carries out one command and appends its reply.
pub fn execute(memory: &Memory, asked: &Asked<'_>, out: &mut BytesMut) {
    let _with_others = memory.whole.read().unwrap_or_else(PoisonError::into_inner);
    execute_alone(memory, asked, out);
}

/// The same, for who holds the store alone.
pub(crate) fn execute_alone(memory: &Memory, asked: &Asked<'_>, out: &mut BytesMut) {
    let start = out.len();
    if let Err(wrong) = run(memory, asked, out) {
        out.truncate(start);
        wrong.write(asked, out);
    }
}

/// Whether a command of that name and number of arguments could be carried out.
pub(crate) fn known(asked: &Asked<'_>, out: &mut BytesMut) -> bool {
    match find(asked) {
        Ok(_) => true,
        Err(wrong) => {
            wrong.write(asked, out);
            false
        }
    }
}

/// The names of all commands.
#[cfg(test)]
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|(name, ..)| *name)
}

fn run(memory: &Memory, asked: &Asked<'_>, out: &mut BytesMut) -> Done {
    find(asked)?(memory, asked, out)
}

fn find(asked: &Asked<'_>) -> Result<Run, Wrong> {
    let name = asked.args.first().ok_or(Wrong::Unknown)?;
    let mut upper = [0u8; 16];
    let upper = upper.get_mut(..name.len()).ok_or(Wrong::Unknown)?;
    upper.copy_from_slice(name);
    upper.make_ascii_uppercase();
    let at = TABLE
        .binary_search_by(|(name, ..)| name.as_bytes().cmp(upper))
        .map_err(|_| Wrong::Unknown)?;
    let (_, arity, run) = TABLE[at];
    let count = asked.args.len();
    let least = arity.unsigned_abs() as usize;
    let fits = if arity < 0 { count >= least } else { count == least };
    if fits { Ok(run) } else { Err(Wrong::Arity) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order_so_that_it_can_be_searched() {
        for two in TABLE.windows(2) {
            assert!(two[0].0 < two[1].0, "{} before {}", two[0].0, two[1].0);
        }
    }
}
