//! The Redis protocol, versions 2 and 3, from both sides.
//!
//! Promise: nothing is set aside for a length that was only claimed, nesting and counts are capped,
//! and how bytes were cut into reads changes nothing: [`Scanner`] and [`Parser`] go on where they
//! stopped, so that a large value that trickles in is looked at once.
//!
//! Most replies are only forwarded, so the unit is the [`Frame`]: the bytes of one whole reply and
//! what kind it is, without a tree. [`Value`] is the tree, for the few replies that are read.
//!
//! [`command`] (what a client sends) · [`scan`] (where a reply ends) · [`value`] (what it says) ·
//! [`reply`] (writing one) · [`upgrade`] (from version 2 to 3, for shapes that are known).

pub mod command;
pub mod reply;
pub mod scan;
pub mod upgrade;
pub mod value;

pub use command::{Parsed, Parser};
pub use reply::Protocol;
pub use scan::{Kind, Scanner, Whole};
pub use value::Value;

use bytes::{Bytes, BytesMut};

/// The deepest nesting that is read. The store's own replies stay below ten.
pub const MAX_DEPTH: usize = 32;

/// What is read at most. A stream that goes beyond is out of step, or an attack: close it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one bulk string.
    pub bulk: usize,
    /// Elements of one aggregate, arguments of one command.
    pub elements: usize,
    /// Bytes of one line: a length, a status, an error, an inline command.
    pub line: usize,
}

impl Limits {
    /// What a store may answer, and what a client may send once it is known.
    pub const STORE: Limits = Limits { bulk: 512 << 20, elements: 1 << 20, line: 64 << 10 };
    /// What a client may send before it has given the password.
    pub const STRANGER: Limits = Limits { bulk: 16 << 10, elements: 10, line: 16 << 10 };
}

impl Default for Limits {
    fn default() -> Limits {
        Limits::STORE
    }
}

/// Why bytes are not the protocol. The text is what Redis says after `Protocol error: `.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A line of over [`Limits::line`] bytes.
    #[error("too big inline request")]
    LineTooLong,
    /// An argument of over [`Limits::bulk`] bytes, or a length that is none.
    #[error("invalid bulk length")]
    BulkLength,
    /// Over [`Limits::elements`] elements, or a count that is none.
    #[error("invalid multibulk length")]
    Count,
    /// Aggregates inside each other beyond [`MAX_DEPTH`].
    #[error("nested too deep")]
    TooDeep,
    /// The two bytes behind a bulk string, or behind a length, are not a line end.
    #[error("missing line end")]
    LineEnd,
    /// An argument of a command that is no bulk string.
    #[error("expected '$', got '{}'", *.0 as char)]
    NotBulk(u8),
    /// A reply begins with a byte that no type has.
    #[error("unknown reply type '{}'", .0.escape_ascii())]
    UnknownType(u8),
    /// An inline command whose quotes do not match.
    #[error("unbalanced quotes in request")]
    Quotes,
}

/// One whole reply, as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Its bytes, from the type to the last line end.
    pub bytes: Bytes,
    /// What it is.
    pub kind: Kind,
}

/// Takes one whole reply off the front of `buf`, or `None` while it is not all there.
///
/// Scans from the start each time: for a stream of large replies keep a [`Scanner`]. On an error
/// `buf` is left as it was: there is no next reply to find in it.
pub fn decode(buf: &mut BytesMut, limits: Limits) -> Result<Option<Frame>, Error> {
    let Some(whole) = Scanner::new(limits).scan(buf)? else { return Ok(None) };
    Ok(Some(Frame { bytes: buf.split_to(whole.length).freeze(), kind: whole.kind }))
}

/// The number in a line, or `None` if it is none. No `+`, as the store writes none.
fn number(digits: &[u8]) -> Option<i64> {
    let (negative, digits) = match digits {
        [b'-', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    // As strict as the store: bytes that it would refuse are not to reach it on a connection that
    // others share.
    let zeros = digits[..] != *b"0" && digits.first() == Some(&b'0') || negative && digits == b"0";
    if digits.is_empty() || digits.len() > 19 || zeros {
        return None;
    }
    let mut value: i64 = 0;
    for &digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        // Downwards: the smallest number has no positive twin.
        value = value.checked_mul(10)?.checked_sub(i64::from(digit))?;
    }
    if negative { Some(value) } else { value.checked_neg() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_to_both_ends() {
        assert_eq!(number(b"0"), Some(0));
        assert_eq!(number(b"-1"), Some(-1));
        assert_eq!(number(b"9223372036854775807"), Some(i64::MAX));
        assert_eq!(number(b"-9223372036854775808"), Some(i64::MIN));
        for bad in
            [&b""[..], b"-", b"+1", b"1 ", b"9223372036854775808", b"00", b"01", b"-0", b"-01"]
        {
            assert_eq!(number(bad), None, "{}", bad.escape_ascii());
        }
    }

    #[test]
    fn replies_come_off_the_front_one_by_one() {
        let mut buf = BytesMut::from("+OK\r\n$-1\r\n:7\r\n$3\r\na\r\n");
        let mut kinds = Vec::new();
        while let Some(frame) = decode(&mut buf, Limits::STORE).unwrap() {
            kinds.push((frame.kind, frame.bytes));
        }
        let expected: [(Kind, &str); 3] =
            [(Kind::Status, "+OK\r\n"), (Kind::Null, "$-1\r\n"), (Kind::Integer, ":7\r\n")];
        assert_eq!(kinds.len(), expected.len());
        for ((kind, bytes), (expected, text)) in kinds.iter().zip(expected) {
            assert_eq!((*kind, &bytes[..]), (expected, text.as_bytes()));
        }
        assert_eq!(buf, "$3\r\na\r\n", "what is not whole stays");
    }
}
