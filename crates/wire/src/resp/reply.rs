//! Writing replies, in either version of the protocol.
//!
//! Promise: one call writes one whole element, whatever the text holds: line ends inside a status or
//! an error become spaces.

use bytes::{BufMut, BytesMut};

/// Which version a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Protocol {
    /// What every client speaks.
    #[default]
    Resp2,
    /// After `HELLO 3`.
    Resp3,
}

/// `+text`.
pub fn status(out: &mut BytesMut, text: &str) {
    line(out, b'+', text);
}

/// `-text`; the text begins with its code (`ERR`, `WRONGTYPE`, …).
pub fn error(out: &mut BytesMut, text: &str) {
    line(out, b'-', text);
}

/// `:value`.
pub fn integer(out: &mut BytesMut, value: i64) {
    out.put_u8(b':');
    if value < 0 {
        out.put_u8(b'-');
    }
    digits(out, value.unsigned_abs());
    out.put_slice(b"\r\n");
}

/// A bulk string.
pub fn bulk(out: &mut BytesMut, bytes: &[u8]) {
    header(out, b'$', bytes.len());
    out.put_slice(bytes);
    out.put_slice(b"\r\n");
}

/// Nothing, where a bulk string would be.
pub fn null(out: &mut BytesMut, protocol: Protocol) {
    out.put_slice(match protocol {
        Protocol::Resp2 => b"$-1\r\n",
        Protocol::Resp3 => b"_\r\n",
    });
}

/// Nothing, where an array would be.
pub fn null_array(out: &mut BytesMut, protocol: Protocol) {
    out.put_slice(match protocol {
        Protocol::Resp2 => b"*-1\r\n",
        Protocol::Resp3 => b"_\r\n",
    });
}

/// The head of an array of `count` elements, which follow.
pub fn array(out: &mut BytesMut, count: usize) {
    header(out, b'*', count);
}

/// The head of a map of `pairs` pairs, which follow; version 2 has them in one flat array.
pub fn map(out: &mut BytesMut, protocol: Protocol, pairs: usize) {
    match protocol {
        Protocol::Resp2 => header(out, b'*', pairs * 2),
        Protocol::Resp3 => header(out, b'%', pairs),
    }
}

/// The head of a set of `count` elements, which follow; version 2 has an array.
pub fn set(out: &mut BytesMut, protocol: Protocol, count: usize) {
    match protocol {
        Protocol::Resp2 => header(out, b'*', count),
        Protocol::Resp3 => header(out, b'~', count),
    }
}

/// A text for people; version 2 has a bulk string.
pub fn text(out: &mut BytesMut, protocol: Protocol, text: &str) {
    match protocol {
        Protocol::Resp2 => bulk(out, text.as_bytes()),
        Protocol::Resp3 => {
            header(out, b'=', text.len() + 4);
            out.put_slice(b"txt:");
            out.put_slice(text.as_bytes());
            out.put_slice(b"\r\n");
        }
    }
}

/// A command: an array of bulk strings.
pub fn command(out: &mut BytesMut, args: &[&[u8]]) {
    array(out, args.len());
    for arg in args {
        bulk(out, arg);
    }
}

fn line(out: &mut BytesMut, first: u8, text: &str) {
    out.put_u8(first);
    if text.bytes().any(|b| matches!(b, b'\r' | b'\n')) {
        out.extend(text.bytes().map(|b| if matches!(b, b'\r' | b'\n') { b' ' } else { b }));
    } else {
        out.put_slice(text.as_bytes());
    }
    out.put_slice(b"\r\n");
}

fn header(out: &mut BytesMut, first: u8, count: usize) {
    out.put_u8(first);
    digits(out, count as u64);
    out.put_slice(b"\r\n");
}

fn digits(out: &mut BytesMut, mut value: u64) {
    let mut text = [0u8; 20];
    let mut from = text.len();
    loop {
        from -= 1;
        text[from] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.put_slice(&text[from..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut BytesMut)) -> String {
        let mut out = BytesMut::new();
        write(&mut out);
        String::from_utf8(out.to_vec()).unwrap()
    }

    #[test]
    fn elements_in_both_versions() {
        use Protocol::{Resp2, Resp3};
        assert_eq!(written(|o| status(o, "OK")), "+OK\r\n");
        assert_eq!(written(|o| error(o, "ERR a\r\nb")), "-ERR a  b\r\n");
        assert_eq!(written(|o| integer(o, i64::MIN)), ":-9223372036854775808\r\n");
        assert_eq!(written(|o| integer(o, 0)), ":0\r\n");
        assert_eq!(written(|o| bulk(o, b"a\r\n")), "$3\r\na\r\n\r\n");
        assert_eq!(written(|o| null(o, Resp2)), "$-1\r\n");
        assert_eq!(written(|o| null_array(o, Resp2)), "*-1\r\n");
        assert_eq!(written(|o| null_array(o, Resp3)), "_\r\n");
        assert_eq!(written(|o| map(o, Resp2, 3)), "*6\r\n");
        assert_eq!(written(|o| map(o, Resp3, 3)), "%3\r\n");
        assert_eq!(written(|o| set(o, Resp3, 1)), "~1\r\n");
        assert_eq!(written(|o| text(o, Resp3, "a")), "=5\r\ntxt:a\r\n");
        assert_eq!(written(|o| command(o, &[b"GET", b"k"])), "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
    }
}
