//! Writing JSON straight into a buffer.
//!
//! The frames we write have a fixed shape and mostly hold text, so there is nothing to gain from a
//! tree or from a serialiser between: a run of bytes that needs no escape is copied as it is.

use std::fmt::Write as _;

use bytes::{BufMut, BytesMut};

/// What a byte becomes inside a string: 0 for itself, `u` for `\u00xx`, else the letter after `\`.
const ESCAPE: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 0x20 {
        table[byte] = b'u';
        byte += 1;
    }
    table[0x08] = b'b';
    table[0x09] = b't';
    table[0x0a] = b'n';
    table[0x0c] = b'f';
    table[0x0d] = b'r';
    table[b'"' as usize] = b'"';
    table[b'\\' as usize] = b'\\';
    table
};

/// An object being written: `{` when made, `}` when ended.
pub(crate) struct Object<'o> {
    out: &'o mut BytesMut,
    empty: bool,
}

impl<'o> Object<'o> {
    pub(crate) fn new(out: &'o mut BytesMut) -> Self {
        out.put_u8(b'{');
        Self { out, empty: true }
    }

    /// The key of a member of ours, in which there is nothing to escape.
    fn key(&mut self, key: &'static str) -> &mut BytesMut {
        debug_assert_eq!(plain_len(key.as_bytes()), key.len());
        self.out.put_slice(if std::mem::take(&mut self.empty) { b"\"" } else { b",\"" });
        self.out.put_slice(key.as_bytes());
        self.out.put_slice(b"\":");
        self.out
    }

    pub(crate) fn text(&mut self, key: &'static str, value: &str) {
        string(self.key(key), value);
    }

    pub(crate) fn number(&mut self, key: &'static str, value: u64) {
        number(self.key(key), value);
    }

    /// A member whose value is whatever `write` appends; it must be one JSON value.
    pub(crate) fn with<R>(
        &mut self,
        key: &'static str,
        write: impl FnOnce(&mut BytesMut) -> R,
    ) -> R {
        write(self.key(key))
    }

    /// A member whose key came from outside.
    pub(crate) fn foreign_text(&mut self, key: &str, value: &str) {
        if !std::mem::take(&mut self.empty) {
            self.out.put_u8(b',');
        }
        string(self.out, key);
        self.out.put_u8(b':');
        string(self.out, value);
    }

    /// The same, under a key in lower case.
    pub(crate) fn with_lower_key<R>(
        &mut self,
        key: &str,
        write: impl FnOnce(&mut BytesMut) -> R,
    ) -> R {
        if !std::mem::take(&mut self.empty) {
            self.out.put_u8(b',');
        }
        self.out.put_u8(b'"');
        escape_lower(self.out, key);
        self.out.put_slice(b"\":");
        write(self.out)
    }

    pub(crate) fn end(self) {
        self.out.put_u8(b'}');
    }
}

/// Appends a list of strings.
pub(crate) fn strings<'a>(out: &mut BytesMut, items: impl IntoIterator<Item = &'a str>) {
    out.put_u8(b'[');
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.put_u8(b',');
        }
        string(out, item);
    }
    out.put_u8(b']');
}

/// Appends a number.
pub(crate) fn number(out: &mut BytesMut, value: u64) {
    // Writing to a BytesMut fails only when it cannot grow any more, long after a frame's limit.
    let _ = write!(out, "{value}");
}

/// Appends a quoted string.
pub(crate) fn string(out: &mut BytesMut, text: &str) {
    out.reserve(text.len() + 2);
    out.put_u8(b'"');
    escape(out, text);
    out.put_u8(b'"');
}

/// Appends what stands between the quotes.
pub(crate) fn escape(out: &mut BytesMut, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut rest = text.as_bytes();
    loop {
        let plain = plain_len(rest);
        out.put_slice(&rest[..plain]);
        let Some(&byte) = rest.get(plain) else { return };
        rest = &rest[plain + 1..];
        match ESCAPE[usize::from(byte)] {
            b'u' => {
                let digits = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
                out.put_slice(&[b'\\', b'u', b'0', b'0', digits[0], digits[1]]);
            }
            letter => out.put_slice(&[b'\\', letter]),
        }
    }
}

/// How many bytes from the start on need no escape.
fn plain_len(bytes: &[u8]) -> usize {
    let (words, tail) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let found = first_to_escape(u64::from_le_bytes(*word));
        if found != 0 {
            return index * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    let plain = tail.iter().take_while(|&&byte| ESCAPE[usize::from(byte)] == 0).count();
    words.len() * 8 + plain
}

/// Whether these bytes are ASCII, and none needs an escape: as nearly every header value.
fn is_plain_ascii(bytes: &[u8]) -> bool {
    let plain = |word: [u8; 8]| {
        let word = u64::from_le_bytes(word);
        first_to_escape(word) | (word & (ONES << 7)) == 0
    };
    match bytes.last_chunk::<8>() {
        // The last word overlaps the one before, which costs less than byte by byte.
        Some(&last) => bytes.as_chunks::<8>().0.iter().all(|&word| plain(word)) && plain(last),
        None => bytes.iter().all(|&byte| byte < 0x80 && ESCAPE[usize::from(byte)] == 0),
    }
}

/// A one in each byte.
const ONES: u64 = u64::MAX / 255;

/// Eight bytes at once: the lowest bit set is in the first byte that needs an escape. (A borrow can
/// run from that byte into the ones behind it, so only the lowest bit means anything.)
fn first_to_escape(word: u64) -> u64 {
    let below = |word: u64, limit: u8| word.wrapping_sub(ONES * u64::from(limit)) & !word;
    let equal = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    (below(word, 0x20) | equal(b'"') | equal(b'\\')) & (ONES << 7)
}

/// Appends the bytes of a header value as what stands between the quotes.
pub(crate) fn escape_value(out: &mut BytesMut, value: &[u8]) {
    if is_plain_ascii(value) {
        out.put_slice(value);
    } else {
        escape(out, &crate::text::from_bytes(value));
    }
}

/// The same inside JSON text that is itself a string.
pub(crate) fn escape_value_twice(out: &mut BytesMut, value: &[u8]) {
    if is_plain_ascii(value) {
        return out.put_slice(value);
    }
    let mut once = BytesMut::new();
    escape_value(&mut once, value);
    // It is text still: escaping takes whole characters and adds ASCII.
    escape(out, &crate::text::from_bytes(&once));
}

/// The same in lower case (ASCII letters alone).
pub(crate) fn escape_lower(out: &mut BytesMut, text: &str) {
    let from = out.len();
    escape(out, text);
    out[from..].make_ascii_lowercase(); // an escape stays what it is: its letters are lower case
}

/// How many bytes [`escape`] would append.
pub(crate) fn escaped_len(text: &str) -> usize {
    let extra = |byte: u8| match ESCAPE[usize::from(byte)] {
        0 => 0,
        b'u' => 5,
        _ => 1,
    };
    text.len() + text.bytes().map(extra).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_reads_back_as_itself() {
        let text: String =
            (0..0x250).filter_map(char::from_u32).chain("\u{2028}🌿".chars()).collect();
        let mut out = BytesMut::new();
        string(&mut out, &text);
        assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        assert_eq!(out.len() - 2, escaped_len(&text));
    }

    #[test]
    fn values_of_any_length_are_found_to_be_plain_or_not() {
        for length in 0..40 {
            let plain = vec![b'a'; length];
            assert!(is_plain_ascii(&plain));
            for at in 0..length {
                for byte in [b'"', b'\\', 0x1f, 0x80, 0xff] {
                    let mut value = plain.clone();
                    value[at] = byte;
                    assert!(!is_plain_ascii(&value), "{byte} at {at} of {length}");
                }
                for byte in [b' ', b'!', b'#', b'[', b']', 0x7f] {
                    let mut value = plain.clone();
                    value[at] = byte;
                    assert!(is_plain_ascii(&value), "{byte} at {at} of {length}");
                }
            }
        }
    }

    #[test]
    fn objects_have_commas_between_members_only() {
        let mut out = BytesMut::new();
        Object::new(&mut out).end();
        let mut object = Object::new(&mut out);
        object.text("a", "1");
        object.number("b", 2);
        object.with("c", |out| strings(out, ["x", "y"]));
        object.end();
        assert_eq!(out, r#"{}{"a":"1","b":2,"c":["x","y"]}"#);
    }
}
