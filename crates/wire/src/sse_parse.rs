//! Server-sent events, read from a stream.
//!
//! Promise: the events are the same however the bytes were cut into reads (HTML Living Standard,
//! 9.2.6): lines end with LF, CRLF or CR, a byte order mark at the very start is dropped, a line
//! that begins with a colon is a comment, several `data` lines are joined by LF, an event without
//! data is none. One thing is lenient: the last event counts even if the empty line after it is
//! missing, because servers leave it out. What is over [`MAX_EVENT`] is an error.

use bytes::{Buf, Bytes, BytesMut};

use crate::ndjson::BOM;

/// The most that one event, or one line, may hold, in bytes (1 MiB).
pub const MAX_EVENT: usize = 1 << 20;

/// An event or a line that is longer than [`MAX_EVENT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event of more than {MAX_EVENT} bytes")]
pub struct TooLong;

/// What a stream consists of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// An event.
    Event(Event),
    /// A comment; servers send them to keep a connection open.
    Comment,
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Event {
    /// Its own `id`, if it has one.
    pub id: Option<String>,
    /// Its `event`, if it has one.
    pub event: Option<String>,
    /// Its `retry`, in milliseconds.
    pub retry: Option<u64>,
    /// Its data lines, joined by LF.
    pub data: Bytes,
}

/// Reads the events of one stream.
#[derive(Debug, Clone, Default)]
pub struct Decoder {
    scanned: usize,
    started: bool,
    /// The last line ended with CR: an LF that follows belongs to it.
    after_cr: bool,
    pending: Event,
    data: BytesMut,
    has_data: bool,
}

impl Decoder {
    /// A decoder at the start of a stream.
    #[must_use]
    pub fn new() -> Decoder {
        Decoder::default()
    }

    /// Takes the next event or comment off the front of `buf`; `None` while it is not all there.
    ///
    /// # Errors
    /// When it is too long. The stream is of no further use.
    pub fn decode(&mut self, buf: &mut BytesMut) -> Result<Option<Message>, TooLong> {
        while let Some(line) = self.line(buf)? {
            if let Some(message) = self.take(&line)? {
                return Ok(Some(message));
            }
        }
        Ok(None)
    }

    /// The stream has ended: what is left is the last line, and perhaps the last event.
    ///
    /// # Errors
    /// When it is too long.
    pub fn finish(&mut self, buf: &mut BytesMut) -> Result<Option<Message>, TooLong> {
        if let Some(message) = self.decode(buf)? {
            return Ok(Some(message));
        }
        self.scanned = 0;
        let line = buf.split();
        if !line.is_empty()
            && let Some(message) = self.take(&line)?
        {
            return Ok(Some(message));
        }
        Ok(self.event())
    }

    fn line(&mut self, buf: &mut BytesMut) -> Result<Option<BytesMut>, TooLong> {
        if !self.started {
            if buf.len() < BOM.len() && BOM.starts_with(buf) {
                return Ok(None);
            }
            if buf.starts_with(BOM) {
                buf.advance(BOM.len());
            }
            self.started = true;
        }
        if self.after_cr && !buf.is_empty() {
            if buf[0] == b'\n' {
                buf.advance(1);
            }
            self.after_cr = false;
        }
        let found = buf[self.scanned..].iter().position(|byte| matches!(byte, b'\n' | b'\r'));
        let Some(end) = found.map(|end| self.scanned + end) else {
            self.scanned = buf.len();
            return if buf.len() > MAX_EVENT { Err(TooLong) } else { Ok(None) };
        };
        self.scanned = 0;
        self.after_cr = buf[end] == b'\r';
        let line = buf.split_to(end);
        buf.advance(1);
        Ok(Some(line))
    }

    fn take(&mut self, line: &[u8]) -> Result<Option<Message>, TooLong> {
        if line.is_empty() {
            return Ok(self.event());
        }
        if line[0] == b':' {
            return Ok(Some(Message::Comment));
        }
        let colon = line.iter().position(|&byte| byte == b':').unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &line[..colon] {
            b"data" => {
                if self.data.len() + value.len() > MAX_EVENT {
                    return Err(TooLong);
                }
                if self.has_data {
                    self.data.extend_from_slice(b"\n");
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
            }
            b"id" if !value.contains(&0) => self.pending.id = Some(text(value)),
            b"event" => self.pending.event = Some(text(value)).filter(|name| !name.is_empty()),
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                self.pending.retry = text(value).parse().ok();
            }
            _ => {}
        }
        Ok(None)
    }

    fn event(&mut self) -> Option<Message> {
        let mut event = std::mem::take(&mut self.pending);
        event.data = self.data.split().freeze();
        std::mem::take(&mut self.has_data).then_some(Message::Event(event))
    }
}

fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).into_owned()
}

/// Tells data from comments in the bytes of a stream, without reading the events.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pulse(Inside);

#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum Inside {
    #[default]
    LineStart,
    Comment,
    Field,
}

impl Pulse {
    /// Whether these bytes, which follow those seen before, hold anything but comments and line
    /// ends.
    pub fn has_data(&mut self, bytes: &[u8]) -> bool {
        let mut data = false;
        for &byte in bytes {
            self.0 = match (self.0, byte) {
                (_, b'\n' | b'\r') => Inside::LineStart,
                (Inside::LineStart, b':') => Inside::Comment,
                (Inside::LineStart, _) => Inside::Field,
                (inside, _) => inside,
            };
            data |= self.0 == Inside::Field;
        }
        data
    }
}

#[cfg(test)]
mod tests;
