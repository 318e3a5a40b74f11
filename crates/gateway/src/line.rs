//! One JSON object on one line.
//!
//! Invariant: whatever strings go in, what comes out is one valid JSON object, one line, and not
//! longer than its limit. What did not fit is marked by `"truncated":true`. Control characters,
//! and those that change how a terminal or a reader lays out a line, are escaped.

use crate::facts::{Fields, Key};
use crate::wall::Stamp;
use std::cell::RefCell;
use std::io::Write as _;
use std::net::IpAddr;
use std::time::Duration;

/// Room kept free for what closes a line.
const TAIL: usize = 24;

/// Writes one object. Fields appear in the order in which they are given.
pub(crate) struct Line<'b> {
    out: &'b mut Vec<u8>,
    start: usize,
    limit: usize,
    truncated: bool,
}

impl<'b> Line<'b> {
    /// An event: `type` and `ts` come first.
    pub(crate) fn event(out: &'b mut Vec<u8>, limit: usize, kind: &str, at: Stamp) -> Line<'b> {
        let mut line = Line::open(out, limit);
        line.str(&"type", kind);
        line.stamp(at);
        line
    }

    /// An object that begins with `ts`.
    pub(crate) fn stamped(out: &'b mut Vec<u8>, limit: usize, at: Stamp) -> Line<'b> {
        let mut line = Line::open(out, limit);
        line.stamp(at);
        line
    }

    fn open(out: &'b mut Vec<u8>, limit: usize) -> Line<'b> {
        let start = out.len();
        out.push(b'{');
        // Shorter than this no event could say anything.
        Line { out, start, limit: limit.max(512), truncated: false }
    }

    fn stamp(&mut self, at: Stamp) {
        if self.key("ts", 26) {
            self.out.push(b'"');
            at.write(self.out);
            self.out.push(b'"');
        }
    }

    /// Bytes that may still be written before the tail.
    fn room(&self) -> usize {
        self.limit.saturating_sub(self.out.len() - self.start + TAIL)
    }

    /// Writes a key if it and `value` more bytes fit.
    fn key(&mut self, key: &str, value: usize) -> bool {
        if self.room() < key.len() + 4 + value {
            self.truncated = true;
            return false;
        }
        if self.out.len() > self.start + 1 {
            self.out.push(b',');
        }
        self.out.push(b'"');
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
        true
    }

    fn bounded(&mut self, key: &str, value: &str, most: usize) {
        if !self.key(key, 2) {
            return;
        }
        self.out.push(b'"');
        let room = self.room().saturating_sub(1).min(most);
        if !escape(self.out, value, room) {
            self.truncated = true;
        }
        self.out.push(b'"');
    }

    /// A list of objects. One that does not fit is left out, with those after it.
    pub(crate) fn list<T>(
        &mut self,
        key: &str,
        items: impl IntoIterator<Item = T>,
        fields: impl Fn(&mut Line<'_>, T),
    ) {
        if !self.key(key, 2) {
            return;
        }
        self.out.push(b'[');
        let first = self.out.len();
        for item in items {
            let before = self.out.len();
            if before > first {
                self.out.push(b',');
            }
            let (start, limit) = (self.out.len(), self.room().saturating_sub(2));
            self.out.push(b'{');
            let mut object = Line { out: &mut *self.out, start, limit, truncated: false };
            fields(&mut object, item);
            if object.truncated || object.room() == 0 {
                self.out.truncate(before);
                self.truncated = true;
                break;
            }
            self.out.push(b'}');
        }
        self.out.push(b']');
    }

    /// Closes the object and the line.
    pub(crate) fn end(self) {
        if self.truncated {
            self.out.extend_from_slice(b",\"truncated\":true");
        }
        self.out.extend_from_slice(b"}\n");
    }
}

impl Fields for Line<'_> {
    /// At most an eighth of the line, so that no one field crowds out those after it.
    fn str(&mut self, key: Key, value: &str) {
        self.bounded(key, value, self.limit / 8);
    }

    fn message(&mut self, key: Key, value: &str) {
        self.bounded(key, value, self.limit);
    }

    fn addr(&mut self, key: Key, value: IpAddr) {
        if self.key(key, 66) {
            self.out.push(b'"');
            addr(self.out, value);
            self.out.push(b'"');
        }
    }

    fn num(&mut self, key: Key, value: impl Into<u64>) {
        if self.key(key, 20) {
            number(self.out, value.into());
        }
    }

    fn millis(&mut self, key: Key, value: Duration) {
        if self.key(key, 24) {
            millis(self.out, value);
        }
    }

    fn flag(&mut self, key: Key, value: bool) {
        if self.key(key, 5) {
            self.out.extend_from_slice(if value { b"true" } else { b"false" });
        }
    }
}

/// Runs `write` with an empty buffer of this thread, so that a line costs no allocation.
pub(crate) fn with_buffer<T>(write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    thread_local! {
        static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    // Taken out and put back, so that a `write` that comes here again finds an empty one.
    let mut buffer = BUFFER.try_with(RefCell::take).unwrap_or_default();
    buffer.clear();
    let result = write(&mut buffer);
    let _ = BUFFER.try_with(|home| home.replace(buffer));
    result
}

/// Appends an address.
pub(crate) fn addr(out: &mut Vec<u8>, value: IpAddr) {
    let IpAddr::V4(v4) = value else {
        // Writing to memory cannot fail.
        let _ = write!(out, "{value}");
        return;
    };
    for (at, octet) in v4.octets().into_iter().enumerate() {
        if at > 0 {
            out.push(b'.');
        }
        number(out, octet.into());
    }
}

/// Appends a whole number in decimal.
pub(crate) fn number(out: &mut Vec<u8>, value: u64) {
    if let Ok(digit @ 0..10) = u8::try_from(value) {
        out.push(b'0' + digit);
        return;
    }
    let mut text = [0u8; 20];
    let mut at = text.len();
    let mut rest = value;
    loop {
        at -= 1;
        text[at] = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&text[at..]);
}

/// Appends milliseconds with up to three decimals: `300`, `0.412`, `12.5`.
pub(crate) fn millis(out: &mut Vec<u8>, value: Duration) {
    let micros = u64::try_from(value.as_micros()).unwrap_or(u64::MAX);
    number(out, micros / 1_000);
    let part = micros % 1_000;
    if part == 0 {
        return;
    }
    let digits =
        [part / 100, part / 10 % 10, part % 10].map(|d| b'0' + u8::try_from(d).unwrap_or(0));
    let shown = if digits[2] != b'0' {
        3
    } else if digits[1] != b'0' {
        2
    } else {
        1
    };
    out.push(b'.');
    out.extend_from_slice(&digits[..shown]);
}

/// Appends the inside of a JSON string, at most `room` bytes. False when something was left out.
fn escape(out: &mut Vec<u8>, value: &str, room: usize) -> bool {
    // Nearly every string is short and plain, and then this loop is all there is to it. It does not
    // stop early: without a branch in it many bytes are looked at in one step.
    let plain = |b: u8| (b' '..=b'~').contains(&b) & (b != b'"') & (b != b'\\');
    if value.len() <= room && value.bytes().fold(true, |all, b| all & plain(b)) {
        out.extend_from_slice(value.as_bytes());
        return true;
    }
    let end = out.len() + room;
    let mut plain = 0;
    for (at, c) in value.char_indices() {
        let escaped = must_escape(c);
        let width = if escaped { escaped_width(c) } else { c.len_utf8() };
        if out.len() + (at - plain) + width > end {
            out.extend_from_slice(&value.as_bytes()[plain..at]);
            return false;
        }
        if escaped {
            out.extend_from_slice(&value.as_bytes()[plain..at]);
            push_escaped(out, c);
            plain = at + c.len_utf8();
        }
    }
    out.extend_from_slice(&value.as_bytes()[plain..]);
    true
}

/// Quotes and backslashes; control characters; line separators and direction marks, which let a
/// message look like something else than it is.
pub(crate) const fn must_escape(c: char) -> bool {
    matches!(c,
        '"' | '\\' | '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}'
        | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

const fn escaped_width(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' => 2,
        _ => 6,
    }
}

fn push_escaped(out: &mut Vec<u8>, c: char) {
    let short = match c {
        '"' => b"\\\"",
        '\\' => b"\\\\",
        '\n' => b"\\n",
        '\r' => b"\\r",
        '\t' => b"\\t",
        // Every character that `must_escape` names lies in the basic plane: one unit is enough.
        other => {
            const HEX: &[u8; 16] = b"0123456789abcdef";
            let code = other as usize & 0xffff;
            out.extend_from_slice(b"\\u");
            for shift in [12, 8, 4, 0] {
                out.push(HEX[code >> shift & 15]);
            }
            return;
        }
    };
    out.extend_from_slice(short);
}

#[cfg(test)]
mod tests;
