//! Commands on hashes.
//!
//! Invariant: a hash without fields is not there.

use super::args::{Done, Wrong, integer};
use super::{Asked, Change, Data, Entry, Fields, Memory, lock};
use bytes::{Bytes, BytesMut};
use hedgerow_policy::Moment;
use hedgerow_wire::resp::reply;
use std::sync::{Arc, Mutex};

/// What a field costs beside its name and value.
const FIELD_OVERHEAD: usize = 64;

type Shared = Arc<Mutex<Fields>>;

fn hash(entry: Option<&Entry>) -> Result<Option<&Shared>, Wrong> {
    match entry.map(|entry| &entry.data) {
        None => Ok(None),
        Some(Data::Hash(fields)) => Ok(Some(fields)),
        Some(Data::Text(_)) => Err(Wrong::Type),
    }
}

/// Reads the hash of the first key, an empty one where there is none.
fn read<T>(
    memory: &Memory,
    asked: &Asked<'_>,
    read: impl FnOnce(&Fields) -> T,
) -> Result<T, Wrong> {
    let entry = memory.get(asked.database, asked.args[1], asked.now);
    Ok(match hash(entry.as_ref())? {
        Some(fields) => read(&lock(fields)),
        None => read(&Fields::new()),
    })
}

/// Changes the hash of the first key, made where there is none, in one step.
fn edit<T>(
    memory: &Memory,
    asked: &Asked<'_>,
    edit: impl FnOnce(&mut Fields) -> Result<T, Wrong>,
) -> Result<T, Wrong> {
    memory.change(asked.database, asked.args[1], asked.now, |entry| {
        let fields = match hash(entry.as_ref()) {
            Ok(fields) => fields.cloned().unwrap_or_default(),
            Err(wrong) => return (Change::Keep, Err(wrong)),
        };
        let mut locked = lock(&fields);
        let result = edit(&mut locked);
        let change = if result.is_err() {
            Change::Keep
        } else if locked.is_empty() {
            Change::Remove
        } else {
            let cost = |(f, v): (&Bytes, &Bytes)| f.len() + v.len() + FIELD_OVERHEAD;
            let size = locked.iter().map(cost).sum();
            let deadline = entry.map_or(Moment::NEVER, |entry| entry.deadline);
            Change::Store(Entry { data: Data::Hash(fields.clone()), deadline, size })
        };
        drop(locked);
        (change, result)
    })
}

pub(super) fn hset(memory: &Memory, asked: &Asked<'_>, out: &mut BytesMut) -> Done {
    if !asked.args.len().is_multiple_of(2) {
        return Err(Wrong::Arity);
    }
    let added = edit(memory, asked, |fields| {
        let pairs = asked.args[2..].chunks_exact(2);
        Ok(pairs.filter(|pair| insert(fields, pair[0], pair[1])).count())
    })?;
    if asked.args[0].eq_ignore_ascii_case(b"HMSET") {
        reply::status(out, "OK");
    } else {
        reply::integer(out, added as i64);
    }
    Ok(())
}

/// True if the field is new.
fn insert(fields: &mut Fields, field: &[u8], value: &[u8]) -> bool {
    let value = Bytes::copy_from_slice(value);
    match fields.get_mut(field) {
        Some(old) => {
            *old = value;
            false
        }
        None => fields.insert(Bytes::copy_from_slice(field), value).is_none(),
    }
}

pub(super) fn hsetnx(memory: &Memory, asked: &Asked<'_>, out: &mut BytesMut) -> Done {
    let stored = edit(memory, asked, |fields| {
        Ok(!fields.contains_key(asked.args[2]) && insert(fields, asked.args[2], asked.args[3]))
    })?;
    reply::integer(out, i64::from(stored));
    Ok(())
}

pub(super) fn hdel(memory: &Memory, asked: &Asked<'_>, out: &mut BytesMut) -> Done {
    let removed = edit(memory, asked, |fields| {
        Ok(asked.args[2..].iter().filter(|field| fields.remove(**field).is_some()).count())
    })?;
    reply::integer(out, removed as i64);
    Ok(())
}

pub(super) fn hincrby(memory: &Memory, asked: &Asked<'_>, out: &mut BytesMut) -> Done {
    let by = integer(asked.args[3]).ok_or(Wrong::Integer)?;
    let value = edit(memory, asked, |fields| {
        let old = match fields.get(asked.args[2]) {
            Some(old) => integer(old).ok_or(Wrong::HashInteger)?,
            None => 0,
        };
        let value = old.checked_add(by).ok_or(Wrong::Overflow)?;
        insert(fields, asked.args[2], value.to_string().as_bytes());
        Ok(value)
    })?;
    reply::integer(out, value);
    Ok(())
}

pub(super) fn hget(memory: &Memory, asked: &Asked<'_>, out: &mut BytesMut) -> Done {
    let value = read(memory, asked, |fields| fields.get(asked.args[2]).cloned())?;
    match value {
        Some(value) => reply::bulk(out, &value),
        None => reply::null(out, asked.protocol),
    }
    Ok(())
}

pub(super) fn hmget(memory: &Memory, asked: &Asked<'_>, out: &mut BytesMut) -> Done {
    read(memory, asked, |fields| {
        reply::array(out, asked.args.len() - 2);
        for field in &asked.args[2..] {
            match fields.get(*field) {
                Some(value) => reply::bulk(out, value),
                None => reply::null(out, asked.protocol),
            }
        }
    })
}

pub(super) fn hgetall(memory: &Memory, asked: &Asked<'_>, out: &mut BytesMut) -> Done {
    read(memory, asked, |fields| {
        reply::map(out, asked.protocol, fields.len());
        for (field, value) in fields {
            reply::bulk(out, field);
            reply::bulk(out, value);
        }
    })
}

pub(super) fn hkeys(memory: &Memory, asked: &Asked<'_>, out: &mut BytesMut) -> Done {
    read(memory, asked, |fields| {
        reply::array(out, fields.len());
        fields.keys().for_each(|field| reply::bulk(out, field));
    })
}

pub(super) fn hvals(memory: &Memory, asked: &Asked<'_>, out: &mut BytesMut) -> Done {
    read(memory, asked, |fields| {
        reply::array(out, fields.len());
        fields.values().for_each(|value| reply::bulk(out, value));
    })
}

pub(super) fn hlen(memory: &Memory, asked: &Asked<'_>, out: &mut BytesMut) -> Done {
    let length = read(memory, asked, Fields::len)?;
    reply::integer(out, length as i64);
    Ok(())
}

pub(super) fn hexists(memory: &Memory, asked: &Asked<'_>, out: &mut BytesMut) -> Done {
    let there = read(memory, asked, |fields| fields.contains_key(asked.args[2]))?;
    reply::integer(out, i64::from(there));
    Ok(())
}

pub(super) fn hstrlen(memory: &Memory, asked: &Asked<'_>, out: &mut BytesMut) -> Done {
    let length = read(memory, asked, |fields| fields.get(asked.args[2]).map_or(0, Bytes::len))?;
    reply::integer(out, length as i64);
    Ok(())
}

/// All at once: a hash here is small, and cursor 0 says that it is done.
pub(super) fn hscan(memory: &Memory, asked: &Asked<'_>, out: &mut BytesMut) -> Done {
    let scan = super::keys::scan_options(asked, 3)?;
    read(memory, asked, |fields| {
        let found: Vec<_> = fields.iter().filter(|(field, _)| scan.matches(field)).collect();
        reply::array(out, 2);
        reply::bulk(out, b"0");
        reply::array(out, found.len() * 2);
        for (field, value) in found {
            reply::bulk(out, field);
            reply::bulk(out, value);
        }
    })
}
