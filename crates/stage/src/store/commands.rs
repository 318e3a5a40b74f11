//! What a client may ask about keys.

use super::data::{Data, Entry, Fields, Value};
use bytes::BytesMut;
use hedgerow_wire::resp::Protocol;
use hedgerow_wire::resp::reply;
use std::time::Instant;

/// One command about keys: its arguments, with its name in capitals.
pub(super) struct Asked<'a> {
    pub(super) name: &'a str,
    /// What follows the name.
    pub(super) args: &'a [&'a [u8]],
    pub(super) database: u8,
    pub(super) protocol: Protocol,
}

/// Why a command was not carried out: the error's text.
type Wrong = &'static str;

const SYNTAX: Wrong = "ERR syntax error";
const NUMBER: Wrong = "ERR value is not an integer or out of range";
const TYPE: Wrong = "WRONGTYPE Operation against a key holding the wrong kind of value";
const FULL: Wrong = "OOM command not allowed: the scripted store holds no more keys";

/// Carries a command out and appends its reply.
pub(super) fn execute(data: &mut Data, asked: &Asked<'_>, out: &mut BytesMut) {
    let start = out.len();
    if let Err(wrong) = run(data, asked, out) {
        out.truncate(start);
        reply::error(out, wrong);
    }
}

fn run(data: &mut Data, asked: &Asked<'_>, out: &mut BytesMut) -> Result<(), Wrong> {
    let &Asked { name, args, database, protocol } = asked;
    let key = args.first().copied().unwrap_or_default();
    let at = |index: usize| args.get(index).copied().ok_or(SYNTAX);
    let mut count = |count: usize| reply::integer(out, i64::try_from(count).unwrap_or(i64::MAX));
    match name {
        "GET" => string(out, protocol, text(data, database, key)?),
        "MGET" => {
            reply::array(out, args.len());
            for key in args {
                // What is no string is as good as nothing here.
                string(out, protocol, text(data, database, key).ok().flatten());
            }
        }
        "SET" => return set(data, asked, out),
        "SETEX" | "PSETEX" => {
            let until = lifetime(at(1)?, if name == "SETEX" { 1000 } else { 1 })?;
            put(data, database, key, at(2)?, Some(until))?;
            reply::status(out, "OK");
        }
        "SETNX" => {
            let new = data.entry(database, key).is_none();
            if new {
                put(data, database, key, at(1)?, None)?;
            }
            count(usize::from(new));
        }
        "MSET" if args.len() % 2 == 0 => {
            for pair in args.chunks(2) {
                put(data, database, pair[0], pair[1], None)?;
            }
            reply::status(out, "OK");
        }
        "INCR" | "INCRBY" => {
            let by = if name == "INCR" { 1 } else { number(at(1)?)? };
            let old = text(data, database, key)?.map_or(Ok(0), number)?;
            let new = old.checked_add(by).ok_or(NUMBER)?;
            let until = data.entry(database, key).and_then(|entry| entry.until);
            put(data, database, key, new.to_string().as_bytes(), until)?;
            reply::integer(out, new);
        }
        "DEL" | "UNLINK" => count(args.iter().filter(|key| data.remove(database, key)).count()),
        "EXISTS" | "TOUCH" => {
            count(args.iter().filter(|key| data.entry(database, key).is_some()).count());
        }
        "TYPE" => reply::status(
            out,
            match data.entry(database, key).map(|entry| &entry.value) {
                None => "none",
                Some(Value::Text(_)) => "string",
                Some(Value::Hash(_)) => "hash",
            },
        ),
        "EXPIRE" | "PEXPIRE" => {
            let until = lifetime(at(1)?, if name == "EXPIRE" { 1000 } else { 1 })?;
            let entry = data.entry(database, key);
            count(usize::from(entry.map(|entry| entry.until = Some(until)).is_some()));
        }
        "PERSIST" => {
            let entry = data.entry(database, key);
            count(usize::from(entry.is_some_and(|entry| entry.until.take().is_some())));
        }
        "TTL" | "PTTL" => {
            let left = |until| crate::clock::left(until).map_or(0, |left| left.as_millis());
            let ms = match data.entry(database, key).map(|entry| entry.until) {
                None => -2,
                Some(None) => -1,
                Some(Some(until)) => i64::try_from(left(until)).unwrap_or(i64::MAX),
            };
            reply::integer(out, if name == "TTL" && ms > 0 { (ms + 500) / 1000 } else { ms });
        }
        "HSET" if args.len() % 2 == 1 => {
            let mut fields = hash(data, database, key)?.unwrap_or_default();
            let before = fields.len();
            fields.extend(args[1..].chunks(2).map(|pair| (pair[0].to_vec(), pair[1].to_vec())));
            count(fields.len() - before);
            put_hash(data, database, key, fields)?;
        }
        "HDEL" => {
            let mut fields = hash(data, database, key)?.unwrap_or_default();
            let before = fields.len();
            fields.retain(|name, _| !args[1..].contains(&name.as_slice()));
            count(before - fields.len());
            put_hash(data, database, key, fields)?;
        }
        "HGET" => {
            let fields = hash(data, database, key)?.unwrap_or_default();
            string(out, protocol, fields.get(at(1)?).map(Vec::as_slice));
        }
        "HGETALL" => {
            let fields = hash(data, database, key)?.unwrap_or_default();
            reply::map(out, protocol, fields.len());
            for (name, value) in &fields {
                reply::bulk(out, name);
                reply::bulk(out, value);
            }
        }
        "SCAN" => {
            // All at once, whatever pattern is asked for: nobody may rely on less.
            let names = data.names(database);
            reply::array(out, 2);
            reply::bulk(out, b"0");
            reply::array(out, names.len());
            names.iter().for_each(|name| reply::bulk(out, name));
        }
        "DBSIZE" => count(data.names(database).len()),
        "FLUSHDB" | "FLUSHALL" => {
            data.clear((name == "FLUSHDB").then_some(database));
            reply::status(out, "OK");
        }
        _ => return Err("ERR unknown command: the scripted store does not have it"),
    }
    Ok(())
}

fn set(data: &mut Data, asked: &Asked<'_>, out: &mut BytesMut) -> Result<(), Wrong> {
    let &Asked { args, database, protocol, .. } = asked;
    let [key, value, options @ ..] = args else { return Err(SYNTAX) };
    let (mut until, mut only, mut keep, mut old) = (None, None, false, None);
    let mut options = options.iter();
    while let Some(option) = options.next() {
        match option.to_ascii_uppercase().as_slice() {
            b"NX" => only = Some(false),
            b"XX" => only = Some(true),
            b"KEEPTTL" => keep = true,
            b"GET" => old = Some(text(data, database, key)?.map(<[u8]>::to_vec)),
            b"EX" => until = Some(lifetime(options.next().ok_or(SYNTAX)?, 1000)?),
            b"PX" => until = Some(lifetime(options.next().ok_or(SYNTAX)?, 1)?),
            _ => return Err(SYNTAX),
        }
    }
    let there = data.entry(database, key).map(|entry| entry.until);
    let stored = only.is_none_or(|there_only| there_only == there.is_some());
    if stored {
        let kept = if keep { there.flatten() } else { None };
        put(data, database, key, value, until.or(kept))?;
    }
    match old {
        Some(old) => string(out, protocol, old.as_deref()),
        None if stored => reply::status(out, "OK"),
        None => reply::null(out, protocol),
    }
    Ok(())
}

fn string(out: &mut BytesMut, protocol: Protocol, text: Option<&[u8]>) {
    match text {
        Some(text) => reply::bulk(out, text),
        None => reply::null(out, protocol),
    }
}

fn text<'a>(data: &'a mut Data, database: u8, key: &[u8]) -> Result<Option<&'a [u8]>, Wrong> {
    match data.entry(database, key).map(|entry| &entry.value) {
        None => Ok(None),
        Some(Value::Text(text)) => Ok(Some(text)),
        Some(Value::Hash(_)) => Err(TYPE),
    }
}

fn hash(data: &mut Data, database: u8, key: &[u8]) -> Result<Option<Fields>, Wrong> {
    match data.entry(database, key).map(|entry| &entry.value) {
        None => Ok(None),
        Some(Value::Hash(fields)) => Ok(Some(fields.clone())),
        Some(Value::Text(_)) => Err(TYPE),
    }
}

fn put(
    data: &mut Data,
    database: u8,
    key: &[u8],
    text: &[u8],
    until: Option<Instant>,
) -> Result<(), Wrong> {
    let value = Value::Text(text.to_vec());
    data.store(database, key, Entry { value, until }).then_some(()).ok_or(FULL)
}

fn put_hash(data: &mut Data, database: u8, key: &[u8], fields: Fields) -> Result<(), Wrong> {
    if fields.is_empty() {
        data.remove(database, key);
        return Ok(());
    }
    let until = data.entry(database, key).and_then(|entry| entry.until);
    data.store(database, key, Entry { value: Value::Hash(fields), until }).then_some(()).ok_or(FULL)
}

fn number(text: &[u8]) -> Result<i64, Wrong> {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or(NUMBER)
}

/// A time to live in units of so many milliseconds.
fn lifetime(text: &[u8], unit: u64) -> Result<Instant, Wrong> {
    let units = u64::try_from(number(text)?).map_err(|_| "ERR invalid expire time")?;
    // A year is for ever here.
    Ok(crate::clock::in_ms(units.saturating_mul(unit).min(31_536_000_000)))
}
