//! Commands on keys of any kind, and on whole databases.

use super::args::{Done, Unit, Wrong, deadline, integer, left_ms};
use super::{Asked, Change, Data, Entry, Memory, glob};
use bytes::BytesMut;
use hedgerow_policy::Moment;
use hedgerow_wire::resp::reply;

/// Places a SCAN cursor goes through.
const PLACES: u64 = 1 << 16;
/// A SCAN looks at every entry each time, so it is worth while to return a good many.
const LEAST: u64 = 512;

pub(super) fn del(memory: &Memory, asked: &Asked<'_>, out: &mut BytesMut) -> Done {
    let names = asked.args[1..].iter();
    let removed = names.filter(|name| memory.remove(asked.database, name, asked.now)).count();
    reply::integer(out, removed as i64);
    Ok(())
}

/// EXISTS and TOUCH: how many are there.
pub(super) fn exists(memory: &Memory, asked: &Asked<'_>, out: &mut BytesMut) -> Done {
    let names = asked.args[1..].iter();
    let there = names.filter(|name| memory.get(asked.database, name, asked.now).is_some()).count();
    reply::integer(out, there as i64);
    Ok(())
}

pub(super) fn expire(memory: &Memory, asked: &Asked<'_>, out: &mut BytesMut) -> Done {
    let unit = match asked.args[0].to_ascii_uppercase().as_slice() {
        b"EXPIRE" => Unit::Seconds,
        b"PEXPIRE" => Unit::Millis,
        b"EXPIREAT" => Unit::AtSeconds,
        _ => Unit::AtMillis,
    };
    let until = deadline(asked, asked.args[2], unit)?;
    let (mut absent, mut present, mut later, mut sooner) = (false, false, false, false);
    for word in &asked.args[3..] {
        match word.to_ascii_uppercase().as_slice() {
            b"NX" => absent = true,
            b"XX" => present = true,
            b"GT" => later = true,
            b"LT" => sooner = true,
            _ => return Err(Wrong::Syntax),
        }
    }
    if absent && (present || later || sooner) || later && sooner {
        return Err(Wrong::Syntax);
    }
    let done = memory.change(asked.database, asked.args[1], asked.now, |entry| {
        let Some(entry) = entry else { return (Change::Keep, false) };
        let new = until.unwrap_or(Moment::START);
        let without = entry.deadline == Moment::NEVER;
        let refused = absent && !without
            || present && without
            || later && (without || new <= entry.deadline)
            || sooner && new >= entry.deadline;
        match until {
            _ if refused => (Change::Keep, false),
            Some(deadline) => (Change::Store(Entry { deadline, ..entry }), true),
            None => (Change::Remove, true),
        }
    });
    reply::integer(out, i64::from(done));
    Ok(())
}

pub(super) fn persist(memory: &Memory, asked: &Asked<'_>, out: &mut BytesMut) -> Done {
    let done = memory.change(asked.database, asked.args[1], asked.now, |entry| match entry {
        Some(entry) if entry.deadline != Moment::NEVER => {
            (Change::Store(Entry { deadline: Moment::NEVER, ..entry }), true)
        }
        _ => (Change::Keep, false),
    });
    reply::integer(out, i64::from(done));
    Ok(())
}

pub(super) fn ttl(memory: &Memory, asked: &Asked<'_>, out: &mut BytesMut) -> Done {
    let millis = asked.args[0].eq_ignore_ascii_case(b"PTTL");
    let left = memory.get(asked.database, asked.args[1], asked.now).map(|entry| {
        let left = left_ms(entry.deadline, asked.now);
        left.map_or(-1, |left| if millis { left } else { left.saturating_add(500) / 1000 })
    });
    reply::integer(out, left.unwrap_or(-2));
    Ok(())
}

pub(super) fn kind(memory: &Memory, asked: &Asked<'_>, out: &mut BytesMut) -> Done {
    let entry = memory.get(asked.database, asked.args[1], asked.now);
    reply::status(
        out,
        match entry.map(|entry| entry.data) {
            None => "none",
            Some(Data::Text(_)) => "string",
            Some(Data::Hash(_)) => "hash",
        },
    );
    Ok(())
}

pub(super) fn dbsize(memory: &Memory, asked: &Asked<'_>, out: &mut BytesMut) -> Done {
    reply::integer(out, memory.size(asked.database, asked.now) as i64);
    Ok(())
}

pub(super) fn flush(memory: &Memory, asked: &Asked<'_>, out: &mut BytesMut) -> Done {
    match asked.args[1..] {
        [] => {}
        [word] if word.eq_ignore_ascii_case(b"ASYNC") || word.eq_ignore_ascii_case(b"SYNC") => {}
        _ => return Err(Wrong::Syntax),
    }
    let all = asked.args[0].eq_ignore_ascii_case(b"FLUSHALL");
    memory.clear((!all).then_some(asked.database));
    reply::status(out, "OK");
    Ok(())
}

pub(super) fn keys(memory: &Memory, asked: &Asked<'_>, out: &mut BytesMut) -> Done {
    let names = memory.names(asked.database, asked.now);
    let found: Vec<_> = names.filter(|name| glob::matches(asked.args[1], name)).collect();
    reply::array(out, found.len());
    found.iter().for_each(|name| reply::bulk(out, name));
    Ok(())
}

/// What a scan looks for.
#[derive(Default)]
pub(super) struct Scan<'a> {
    pattern: Option<&'a [u8]>,
    kind: Option<&'a [u8]>,
    count: u64,
}

impl Scan<'_> {
    pub(super) fn matches(&self, name: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, name))
    }

    fn is_kind(&self, data: &Data) -> bool {
        self.kind.is_none_or(|kind| match data {
            Data::Text(_) => kind.eq_ignore_ascii_case(b"string"),
            Data::Hash(_) => kind.eq_ignore_ascii_case(b"hash"),
        })
    }
}

pub(super) fn scan_options<'a>(asked: &Asked<'a>, from: usize) -> Result<Scan<'a>, Wrong> {
    let mut scan = Scan { count: 10, ..Scan::default() };
    let mut rest = &asked.args[from..];
    while let [word, value, behind @ ..] = rest {
        match word.to_ascii_uppercase().as_slice() {
            b"MATCH" => scan.pattern = Some(value),
            b"TYPE" => scan.kind = Some(value),
            b"COUNT" => {
                let count = integer(value).ok_or(Wrong::Integer)?;
                scan.count = u64::try_from(count).ok().filter(|&n| n > 0).ok_or(Wrong::Syntax)?;
            }
            _ => return Err(Wrong::Syntax),
        }
        rest = behind;
    }
    if rest.is_empty() { Ok(scan) } else { Err(Wrong::Syntax) }
}

/// The cursor goes through places that keys are hashed to: a key that is there from the first call
/// to the last is returned exactly once, whatever else comes and goes.
pub(super) fn scan(memory: &Memory, asked: &Asked<'_>, out: &mut BytesMut) -> Done {
    let scan = scan_options(asked, 2)?;
    let cursor = std::str::from_utf8(asked.args[1]).ok().and_then(|c| c.parse::<u64>().ok());
    let cursor = cursor.ok_or(Wrong::Cursor)?;
    let keys = memory.entries.len() as u64;
    // No more than 64 calls for a whole scan.
    let wanted = scan.count.max(LEAST).max(keys / 64);
    let step = if keys <= wanted { PLACES } else { (PLACES * wanted / keys).max(1) };
    let end = cursor.saturating_add(step);
    let found: Vec<_> = memory
        .entries
        .iter()
        .filter(|(key, entry)| {
            let place = memory.hash(key.database, &key.name) % PLACES;
            key.database == asked.database
                && asked.now < entry.deadline
                && (cursor..end).contains(&place)
                && scan.is_kind(&entry.data)
                && scan.matches(&key.name)
        })
        .collect();
    reply::array(out, 2);
    let next = if end >= PLACES { 0 } else { end };
    reply::bulk(out, next.to_string().as_bytes());
    reply::array(out, found.len());
    found.iter().for_each(|(key, _)| reply::bulk(out, &key.name));
    Ok(())
}
