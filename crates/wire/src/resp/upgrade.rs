//! A reply of version 2 as version 3 writes it, for shapes that are known.
//!
//! Promise: only the head changes, or a null; strings and numbers are the same in both versions and
//! are not touched. One connection to the store then serves clients of both.

use super::Kind;
use bytes::{BufMut, Bytes, BytesMut};

/// What a command answers, apart from errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shape {
    /// A status, a number, a string, or null.
    Plain,
    /// An array of strings, numbers and nulls.
    List,
    /// Pairs: a flat array in version 2, a map in version 3.
    Map,
    /// A set: an array in version 2.
    Set,
}

/// The same reply in version 3. `kind` is what the scanner said of `reply`.
#[must_use]
pub fn upgrade(reply: Bytes, kind: Kind, shape: Shape) -> Bytes {
    match (kind, shape) {
        (Kind::Null, _) => Bytes::from_static(b"_\r\n"),
        (Kind::Empty | Kind::Aggregate, Shape::Map) => map(&reply),
        (Kind::Empty | Kind::Aggregate, Shape::Set) => {
            let mut out = BytesMut::from(&reply[..]);
            out[0] = b'~';
            out.freeze()
        }
        (Kind::Aggregate, Shape::List) => nulls(reply),
        _ => reply,
    }
}

fn map(reply: &Bytes) -> Bytes {
    let Some((count, head)) = head(reply) else { return reply.clone() };
    let mut out = BytesMut::with_capacity(reply.len());
    super::reply::map(&mut out, super::Protocol::Resp3, count / 2);
    out.put_slice(&reply[head..]);
    out.freeze()
}

/// The count in the first line, and where it ends.
fn head(reply: &[u8]) -> Option<(usize, usize)> {
    let end = reply.iter().position(|&b| b == b'\n')?;
    let count = super::number(reply.get(1..end)?.strip_suffix(b"\r")?)?;
    Some((usize::try_from(count).ok()?, end + 1))
}

/// The nulls inside a flat list. A string that looks like one is passed over by its length.
fn nulls(reply: Bytes) -> Bytes {
    const NULL: &[u8] = b"$-1\r\n";
    let Some((_, mut at)) = head(&reply) else { return reply };
    if !reply.windows(NULL.len()).any(|w| w == NULL) {
        return reply;
    }
    let mut out = BytesMut::with_capacity(reply.len());
    out.put_slice(&reply[..at]);
    while at < reply.len() {
        let rest = &reply[at..];
        let line = rest.iter().position(|&b| b == b'\n').map_or(rest.len(), |end| end + 1);
        if &rest[..line] == NULL {
            out.put_slice(b"_\r\n");
            at += line;
            continue;
        }
        let content = if rest[0] == b'$' { head(rest).map_or(0, |(n, _)| n + 2) } else { 0 };
        let whole = (line + content).min(rest.len());
        out.put_slice(&rest[..whole]);
        at += whole;
    }
    out.freeze()
}

#[cfg(test)]
mod tests {
    use super::super::{Limits, decode};
    use super::*;

    fn upgraded(text: &str, shape: Shape) -> String {
        let frame = decode(&mut BytesMut::from(text), Limits::STORE).unwrap().unwrap();
        String::from_utf8(upgrade(frame.bytes, frame.kind, shape).to_vec()).unwrap()
    }

    #[test]
    fn heads_and_nulls_change_and_nothing_else() {
        let cases = [
            ("$-1\r\n", Shape::Plain, "_\r\n"),
            ("*-1\r\n", Shape::List, "_\r\n"),
            ("$5\r\n$-1\r\n\r\n", Shape::Plain, "$5\r\n$-1\r\n\r\n"),
            (
                "*3\r\n$-1\r\n$5\r\n$-1\r\n\r\n:-1\r\n",
                Shape::List,
                "*3\r\n_\r\n$5\r\n$-1\r\n\r\n:-1\r\n",
            ),
            ("*2\r\n$1\r\na\r\n$1\r\nb\r\n", Shape::Map, "%1\r\n$1\r\na\r\n$1\r\nb\r\n"),
            ("*0\r\n", Shape::Map, "%0\r\n"),
            ("*1\r\n$1\r\na\r\n", Shape::Set, "~1\r\n$1\r\na\r\n"),
            ("-WRONGTYPE x\r\n", Shape::Map, "-WRONGTYPE x\r\n"),
        ];
        for (text, shape, expected) in cases {
            assert_eq!(upgraded(text, shape), expected, "{text:?} {shape:?}");
        }
    }
}
