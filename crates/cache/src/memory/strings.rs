//! Commands on strings.

use super::args::{Done, Unit, Wrong, deadline, integer};
use super::{Asked, Change, Data, Entry, Memory};
use bytes::{Bytes, BytesMut};
use hedgerow_policy::Moment;
use hedgerow_wire::resp::reply;

/// The string of an entry.
fn text(entry: Option<&Entry>) -> Result<Option<&Bytes>, Wrong> {
    match entry.map(|entry| &entry.data) {
        None => Ok(None),
        Some(Data::Text(bytes)) => Ok(Some(bytes)),
        Some(Data::Hash(_)) => Err(Wrong::Type),
    }
}

fn write(out: &mut BytesMut, asked: &Asked<'_>, value: Option<&Bytes>) {
    match value {
        Some(value) => reply::bulk(out, value),
        None => reply::null(out, asked.protocol),
    }
}

pub(super) fn get(memory: &Memory, asked: &Asked<'_>, out: &mut BytesMut) -> Done {
    let entry = memory.get(asked.database, asked.args[1], asked.now);
    write(out, asked, text(entry.as_ref())?);
    Ok(())
}

pub(super) fn mget(memory: &Memory, asked: &Asked<'_>, out: &mut BytesMut) -> Done {
    reply::array(out, asked.args.len() - 1);
    for name in &asked.args[1..] {
        let entry = memory.get(asked.database, name, asked.now);
        write(out, asked, text(entry.as_ref()).unwrap_or_default());
    }
    Ok(())
}

pub(super) fn strlen(memory: &Memory, asked: &Asked<'_>, out: &mut BytesMut) -> Done {
    let entry = memory.get(asked.database, asked.args[1], asked.now);
    reply::integer(out, text(entry.as_ref())?.map_or(0, |b| b.len() as i64));
    Ok(())
}

pub(super) fn getset(memory: &Memory, asked: &Asked<'_>, out: &mut BytesMut) -> Done {
    swap(memory, asked, out, |value| Change::Store(Entry::text(value, Moment::NEVER)))
}

pub(super) fn getdel(memory: &Memory, asked: &Asked<'_>, out: &mut BytesMut) -> Done {
    memory.purged.step(memory.hash(asked.database, asked.args[1]));
    swap(memory, asked, out, |_| Change::Remove)
}

/// Answers the old value and does something to it.
fn swap(
    memory: &Memory,
    asked: &Asked<'_>,
    out: &mut BytesMut,
    change: impl FnOnce(&[u8]) -> Change,
) -> Done {
    let value = asked.args.get(2).copied().unwrap_or_default();
    let old = memory.change(asked.database, asked.args[1], asked.now, |entry| {
        match text(entry.as_ref()).map(Option::<&Bytes>::cloned) {
            Ok(old) => (change(value), Ok(old)),
            Err(wrong) => (Change::Keep, Err(wrong)),
        }
    })?;
    write(out, asked, old.as_ref());
    Ok(())
}

pub(super) fn getex(memory: &Memory, asked: &Asked<'_>, out: &mut BytesMut) -> Done {
    let until = match asked.args[2..] {
        [] => None,
        [word] if word.eq_ignore_ascii_case(b"PERSIST") => Some(Some(Moment::NEVER)),
        [word, time] => Some(positive(asked, time, unit(word).ok_or(Wrong::Syntax)?)?),
        _ => return Err(Wrong::Syntax),
    };
    let found = memory.change(asked.database, asked.args[1], asked.now, |entry| {
        let found = text(entry.as_ref()).map(Option::<&Bytes>::cloned);
        let change = match (entry, until) {
            (Some(entry), Some(Some(deadline))) if found.is_ok() => {
                Change::Store(Entry { deadline, ..entry })
            }
            (Some(_), Some(None)) if found.is_ok() => Change::Remove,
            _ => Change::Keep,
        };
        (change, found)
    })?;
    write(out, asked, found.as_ref());
    Ok(())
}

fn unit(word: &[u8]) -> Option<Unit> {
    match word.to_ascii_uppercase().as_slice() {
        b"EX" => Some(Unit::Seconds),
        b"PX" => Some(Unit::Millis),
        b"EXAT" => Some(Unit::AtSeconds),
        b"PXAT" => Some(Unit::AtMillis),
        _ => None,
    }
}

/// A deadline whose number must be above zero, past or not.
fn positive(asked: &Asked<'_>, time: &[u8], unit: Unit) -> Result<Option<Moment>, Wrong> {
    if integer(time).ok_or(Wrong::Integer)? <= 0 {
        return Err(Wrong::Expire);
    }
    deadline(asked, time, unit)
}

#[derive(Default)]
struct SetOptions {
    /// When it ends; `Some(None)`: it has ended already.
    until: Option<Option<Moment>>,
    keep_ttl: bool,
    if_absent: bool,
    if_present: bool,
    get: bool,
}

fn set_options(asked: &Asked<'_>) -> Result<SetOptions, Wrong> {
    let mut options = SetOptions::default();
    let mut rest = &asked.args[3..];
    while let Some((word, behind)) = rest.split_first() {
        rest = behind;
        match word.to_ascii_uppercase().as_slice() {
            b"NX" => options.if_absent = true,
            b"XX" => options.if_present = true,
            b"GET" => options.get = true,
            b"KEEPTTL" => options.keep_ttl = true,
            _ => {
                let unit = unit(word).ok_or(Wrong::Syntax)?;
                let (time, behind) = rest.split_first().ok_or(Wrong::Syntax)?;
                rest = behind;
                if options.until.is_some() {
                    return Err(Wrong::Syntax);
                }
                options.until = Some(positive(asked, time, unit)?);
            }
        }
    }
    let contradiction =
        options.if_absent && options.if_present || options.keep_ttl && options.until.is_some();
    if contradiction { Err(Wrong::Syntax) } else { Ok(options) }
}

pub(super) fn set(memory: &Memory, asked: &Asked<'_>, out: &mut BytesMut) -> Done {
    let options = set_options(asked)?;
    let (stored, old) = memory.change(asked.database, asked.args[1], asked.now, |entry| {
        let old = match text(entry.as_ref()).map(Option::<&Bytes>::cloned) {
            Err(wrong) if options.get => return (Change::Keep, (false, Err(wrong))),
            old => old.unwrap_or_default(),
        };
        if options.if_absent && entry.is_some() || options.if_present && entry.is_none() {
            return (Change::Keep, (false, Ok(old)));
        }
        let kept = || entry.filter(|_| options.keep_ttl).map_or(Moment::NEVER, |e| e.deadline);
        let change = match options.until {
            Some(None) => Change::Remove,
            Some(Some(deadline)) => Change::Store(Entry::text(asked.args[2], deadline)),
            None => Change::Store(Entry::text(asked.args[2], kept())),
        };
        (change, (true, Ok(old)))
    });
    let old = old?;
    match (options.get, stored) {
        (true, _) => write(out, asked, old.as_ref()),
        (false, true) => reply::status(out, "OK"),
        (false, false) => reply::null(out, asked.protocol),
    }
    Ok(())
}

pub(super) fn setex(memory: &Memory, asked: &Asked<'_>, out: &mut BytesMut) -> Done {
    let millis = asked.args[0].eq_ignore_ascii_case(b"PSETEX");
    let unit = if millis { Unit::Millis } else { Unit::Seconds };
    let deadline = positive(asked, asked.args[2], unit)?.unwrap_or(asked.now);
    memory.save(asked.database, asked.args[1], asked.args[3], asked.now, deadline);
    reply::status(out, "OK");
    Ok(())
}

pub(super) fn setnx(memory: &Memory, asked: &Asked<'_>, out: &mut BytesMut) -> Done {
    let stored = memory.change(asked.database, asked.args[1], asked.now, |entry| match entry {
        Some(_) => (Change::Keep, false),
        None => (Change::Store(Entry::text(asked.args[2], Moment::NEVER)), true),
    });
    reply::integer(out, i64::from(stored));
    Ok(())
}

pub(super) fn mset(memory: &Memory, asked: &Asked<'_>, out: &mut BytesMut) -> Done {
    if asked.args.len().is_multiple_of(2) {
        return Err(Wrong::Arity);
    }
    for pair in asked.args[1..].chunks_exact(2) {
        memory.save(asked.database, pair[0], pair[1], asked.now, Moment::NEVER);
    }
    reply::status(out, "OK");
    Ok(())
}

pub(super) fn append(memory: &Memory, asked: &Asked<'_>, out: &mut BytesMut) -> Done {
    let length = memory.change(asked.database, asked.args[1], asked.now, |entry| {
        let old = match text(entry.as_ref()) {
            Ok(old) => old.map(|old| old.to_vec()).unwrap_or_default(),
            Err(wrong) => return (Change::Keep, Err(wrong)),
        };
        let joined = [&old, asked.args[2]].concat();
        let deadline = entry.map_or(Moment::NEVER, |entry| entry.deadline);
        (Change::Store(Entry::text(&joined, deadline)), Ok(joined.len()))
    })?;
    reply::integer(out, length as i64);
    Ok(())
}

pub(super) fn increment(memory: &Memory, asked: &Asked<'_>, out: &mut BytesMut) -> Done {
    let by = match asked.args.get(2) {
        Some(by) => integer(by).ok_or(Wrong::Integer)?,
        None => 1,
    };
    let down = asked.args[0].first().is_some_and(|b| b.eq_ignore_ascii_case(&b'd'));
    let by = if down { by.checked_neg().ok_or(Wrong::Overflow)? } else { by };
    let value = memory.change(asked.database, asked.args[1], asked.now, |entry| {
        let value = text(entry.as_ref())
            .and_then(|old| old.map_or(Ok(0), |old| integer(old).ok_or(Wrong::Integer)))
            .and_then(|old| old.checked_add(by).ok_or(Wrong::Overflow));
        match value {
            Err(wrong) => (Change::Keep, Err(wrong)),
            Ok(value) => {
                let deadline = entry.map_or(Moment::NEVER, |entry| entry.deadline);
                let entry = Entry::text(value.to_string().as_bytes(), deadline);
                (Change::Store(entry), Ok(value))
            }
        }
    })?;
    reply::integer(out, value);
    Ok(())
}
