//! Reading arguments, and the errors that clients know.
//!
//! Invariant: no argument makes anything here overflow or panic.

use super::Asked;
use bytes::BytesMut;
use hedgerow_policy::Moment;
use hedgerow_wire::resp::reply;
use std::time::Duration;

/// Why a command was not carried out, in the words clients know.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    Syntax,
    Type,
    Integer,
    Overflow,
    HashInteger,
    Arity,
    Expire,
    Unknown,
    Cursor,
}

pub(super) type Done = Result<(), Wrong>;

impl Wrong {
    pub(super) fn write(&self, asked: &Asked<'_>, out: &mut BytesMut) {
        let name = String::from_utf8_lossy(asked.args.first().copied().unwrap_or_default());
        let name: String = name.chars().take(128).collect();
        let lower = name.to_lowercase();
        match self {
            Wrong::Syntax => reply::error(out, "ERR syntax error"),
            Wrong::Type => reply::error(
                out,
                "WRONGTYPE Operation against a key holding the wrong kind of value",
            ),
            Wrong::Integer => reply::error(out, "ERR value is not an integer or out of range"),
            Wrong::Overflow => reply::error(out, "ERR increment or decrement would overflow"),
            Wrong::HashInteger => reply::error(out, "ERR hash value is not an integer"),
            Wrong::Cursor => reply::error(out, "ERR invalid cursor"),
            Wrong::Arity => {
                reply::error(out, &format!("ERR wrong number of arguments for '{lower}' command"));
            }
            Wrong::Expire => {
                reply::error(out, &format!("ERR invalid expire time in '{lower}' command"));
            }
            Wrong::Unknown => reply::error(
                out,
                &format!("ERR unknown command '{name}': the embedded store does not have it"),
            ),
        }
    }
}

/// A whole number as the store reads one: no spaces, no `+`, no leading zeros.
pub(super) fn integer(bytes: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(bytes).ok()?;
    let value: i64 = text.parse().ok()?;
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = digits == "0" && text == "0" || !digits.starts_with('0') && !text.starts_with('+');
    plain.then_some(value)
}

/// The unit of an expiry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unit {
    Seconds,
    Millis,
    /// Since 1970.
    AtSeconds,
    /// Since 1970.
    AtMillis,
}

/// The deadline that a client wrote. `None` where it has passed already.
pub(super) fn deadline(
    asked: &Asked<'_>,
    text: &[u8],
    unit: Unit,
) -> Result<Option<Moment>, Wrong> {
    let value = integer(text).ok_or(Wrong::Integer)?;
    let millis = match unit {
        Unit::Seconds | Unit::AtSeconds => value.checked_mul(1000).ok_or(Wrong::Expire)?,
        Unit::Millis | Unit::AtMillis => value,
    };
    let left = match unit {
        Unit::Seconds | Unit::Millis => {
            asked.unix_ms.checked_add(millis).ok_or(Wrong::Expire)?;
            millis
        }
        Unit::AtSeconds | Unit::AtMillis => millis.saturating_sub(asked.unix_ms),
    };
    Ok(u64::try_from(left).ok().filter(|&left| left > 0).map(|left| {
        // Just below never: a deadline that far is still one.
        let last = Moment::from_nanos(u64::MAX - 1);
        (asked.now + Duration::from_millis(left)).min(last)
    }))
}

/// Milliseconds until a deadline, rounded as TTL wants them: `None` without one.
pub(super) fn left_ms(deadline: Moment, now: Moment) -> Option<i64> {
    if deadline == Moment::NEVER {
        return None;
    }
    let nanos = deadline.since(now).as_nanos();
    i64::try_from(nanos.div_ceil(1_000_000)).ok()
}
