//! Where a reply ends, without reading it.
//!
//! Promise: each byte is looked at once, however many reads bring it. Between two calls the bytes
//! already given stay at the front of the buffer, unless they were [discarded](Scanner::discard).

use super::{Error, Limits, MAX_DEPTH, number};
use bytes::{Buf, BytesMut};

/// What a whole reply is, as far as a forwarder needs to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `+OK`.
    Status,
    /// `-ERR …`, or an error of version 3 in a bulk string.
    Error,
    /// `:7`.
    Integer,
    /// A bulk string.
    Bulk,
    /// Nothing: a bulk string or an array that is none, or the null of version 3.
    Null,
    /// An array, a map or a set without elements.
    Empty,
    /// An array, a map or a set with elements.
    Aggregate,
    /// A double, a boolean, a big number, a verbatim string.
    Other,
    /// A message that answers nothing (version 3).
    Push,
}

/// The end of a reply was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Whole {
    /// Bytes of it that are in the buffer: all, less what was discarded before.
    pub length: usize,
    /// What it is.
    pub kind: Kind,
}

/// Finds the end of the reply at the front of a buffer that grows.
#[derive(Debug, Clone)]
pub struct Scanner {
    limits: Limits,
    /// Where the next unread element begins.
    at: usize,
    /// As far as a line end was looked for behind `at`.
    searched: usize,
    /// Bytes of a bulk string's content and line end that are still to pass behind `at`.
    skip: usize,
    /// What the reply is, once its first line was read.
    kind: Option<Kind>,
    /// Elements still to come in each open aggregate.
    open: [u64; MAX_DEPTH],
    depth: usize,
}

impl Scanner {
    /// A scanner at the beginning of a reply.
    #[must_use]
    pub fn new(limits: Limits) -> Scanner {
        Scanner { limits, at: 0, searched: 0, skip: 0, kind: None, open: [0; MAX_DEPTH], depth: 0 }
    }

    /// Looks at what is new in `buf`. Once the reply is whole, the scanner is at the beginning of
    /// the next one, which begins `length` bytes further on.
    ///
    /// # Errors
    /// When the bytes are not the protocol; the stream is of no use any more.
    pub fn scan(&mut self, buf: &[u8]) -> Result<Option<Whole>, Error> {
        loop {
            if self.skip > 0 && !self.pass(buf)? {
                return Ok(None);
            }
            if self.skip == 0 && self.kind.is_some() && self.closed() {
                let whole = Whole { length: self.at, kind: self.kind.unwrap_or(Kind::Other) };
                (self.at, self.searched, self.kind) = (0, 0, None);
                return Ok(Some(whole));
            }
            let Some(line) = self.line(buf)? else { return Ok(None) };
            self.element(line)?;
        }
    }

    /// Gives up the bytes that were looked at: nobody waits for this reply. What [`Whole::length`]
    /// says afterwards counts only what came later.
    pub fn discard(&mut self, buf: &mut BytesMut) {
        // The last byte before `at` is never needed again; inside a bulk string neither is the
        // content that has come.
        let content = self.skip.saturating_sub(2).min(buf.len().saturating_sub(self.at));
        buf.advance((self.at + content).min(buf.len()));
        self.skip -= content;
        self.searched = self.searched.saturating_sub(self.at);
        self.at = 0;
    }

    /// Whether a reply has been begun.
    #[must_use]
    pub fn midway(&self) -> bool {
        self.kind.is_some()
    }

    /// Passes over a bulk string's content; true once it and its line end are behind.
    fn pass(&mut self, buf: &[u8]) -> Result<bool, Error> {
        let end = self.at + self.skip;
        let Some(last) = buf.get(end - 2..end) else { return Ok(false) };
        if last != b"\r\n" {
            return Err(Error::LineEnd);
        }
        self.at = end;
        self.skip = 0;
        self.searched = 0;
        Ok(true)
    }

    /// Closes the aggregates that are complete; true when none is open any more.
    fn closed(&mut self) -> bool {
        while self.depth > 0 && self.open[self.depth - 1] == 0 {
            self.depth -= 1;
        }
        self.depth == 0
    }

    /// The next line without its end, if it is all there. `at` moves behind it.
    fn line<'a>(&mut self, buf: &'a [u8]) -> Result<Option<&'a [u8]>, Error> {
        let rest = buf.get(self.at..).unwrap_or_default();
        let Some(end) = rest[self.searched.min(rest.len())..].iter().position(|&b| b == b'\n')
        else {
            self.searched = rest.len();
            return if rest.len() > self.limits.line { Err(Error::LineTooLong) } else { Ok(None) };
        };
        let end = self.searched + end;
        if end > self.limits.line {
            return Err(Error::LineTooLong);
        }
        let line = rest[..end].strip_suffix(b"\r").ok_or(Error::LineEnd)?;
        self.at += end + 1;
        self.searched = 0;
        Ok(Some(line))
    }

    /// Takes note of an element from its first line.
    fn element(&mut self, line: &[u8]) -> Result<(), Error> {
        let Some((&first, rest)) = line.split_first() else { return Err(Error::LineEnd) };
        if self.depth > 0 {
            self.open[self.depth - 1] -= 1;
        }
        let kind = match first {
            b'+' => Kind::Status,
            b'-' => Kind::Error,
            b':' => Kind::Integer,
            b',' | b'#' | b'(' => Kind::Other,
            b'_' => Kind::Null,
            b'$' | b'!' | b'=' => match self.bulk(rest)? {
                false => Kind::Null,
                true if first == b'$' => Kind::Bulk,
                true if first == b'!' => Kind::Error,
                true => Kind::Other,
            },
            b'*' | b'~' | b'%' | b'>' | b'|' => match self.aggregate(first, rest)? {
                None => Kind::Null,
                Some(_) if first == b'>' => Kind::Push,
                Some(0) => Kind::Empty,
                Some(_) => Kind::Aggregate,
            },
            other => return Err(Error::UnknownType(other)),
        };
        self.kind.get_or_insert(kind);
        Ok(())
    }

    /// False for the bulk string that is none.
    fn bulk(&mut self, length: &[u8]) -> Result<bool, Error> {
        match number(length) {
            Some(-1) => Ok(false),
            Some(length) => {
                let length = usize::try_from(length).map_err(|_| Error::BulkLength)?;
                if length > self.limits.bulk {
                    return Err(Error::BulkLength);
                }
                self.skip = length + 2;
                Ok(true)
            }
            None => Err(Error::BulkLength),
        }
    }

    fn aggregate(&mut self, first: u8, count: &[u8]) -> Result<Option<u64>, Error> {
        let count = number(count).ok_or(Error::Count)?;
        if count == -1 {
            return Ok(None);
        }
        let count = u64::try_from(count).map_err(|_| Error::Count)?;
        if count > self.limits.elements as u64 {
            return Err(Error::Count);
        }
        let elements = match first {
            b'%' => count * 2,
            // Attributes stand in front of the value they are about, and with it are one element.
            b'|' => count * 2 + 1,
            _ => count,
        };
        if self.depth == MAX_DEPTH {
            return Err(Error::TooDeep);
        }
        self.open[self.depth] = elements;
        self.depth += 1;
        Ok(Some(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &str) -> Result<Option<Whole>, Error> {
        Scanner::new(Limits::STORE).scan(text.as_bytes())
    }

    #[test]
    fn each_type_ends_where_it_ends() {
        let cases = [
            ("+OK\r\n", Kind::Status),
            ("-ERR x\r\n", Kind::Error),
            ("!5\r\nERR x\r\n", Kind::Error),
            (":-12\r\n", Kind::Integer),
            ("$0\r\n\r\n", Kind::Bulk),
            ("$4\r\na\r\nb\r\n", Kind::Bulk),
            ("$-1\r\n", Kind::Null),
            ("*-1\r\n", Kind::Null),
            ("_\r\n", Kind::Null),
            ("*0\r\n", Kind::Empty),
            ("%0\r\n", Kind::Empty),
            ("*2\r\n$1\r\na\r\n*1\r\n:1\r\n", Kind::Aggregate),
            ("*1\r\n*1\r\n*0\r\n", Kind::Aggregate),
            ("%1\r\n+a\r\n~1\r\n#t\r\n", Kind::Aggregate),
            ("|1\r\n+ttl\r\n:5\r\n$1\r\na\r\n", Kind::Aggregate),
            (",3.25\r\n", Kind::Other),
            ("=7\r\ntxt:abc\r\n", Kind::Other),
            (">2\r\n+invalidate\r\n_\r\n", Kind::Push),
        ];
        for (text, kind) in cases {
            assert_eq!(whole(text), Ok(Some(Whole { length: text.len(), kind })), "{text:?}");
            for cut in 0..text.len() {
                assert_eq!(whole(&text[..cut]), Ok(None), "{text:?} up to {cut}");
            }
        }
    }

    #[test]
    fn what_is_not_the_protocol_is_an_error_as_soon_as_it_shows() {
        let deep = "*1\r\n".repeat(MAX_DEPTH + 1);
        let cases = [
            ("x", None),
            ("x\r\n", Some(Error::UnknownType(b'x'))),
            ("\r\n", Some(Error::LineEnd)),
            ("+OK\n", Some(Error::LineEnd)),
            ("$-2\r\n", Some(Error::BulkLength)),
            ("$536870913\r\n", Some(Error::BulkLength)),
            ("$1x\r\n", Some(Error::BulkLength)),
            ("$1\r\nabc", Some(Error::LineEnd)),
            ("*1048577\r\n", Some(Error::Count)),
            ("*?\r\n", Some(Error::Count)),
            (&deep, Some(Error::TooDeep)),
        ];
        for (text, error) in cases {
            assert_eq!(whole(text), error.map_or(Ok(None), Err), "{text:?}");
        }
        assert_eq!(whole(&"+".repeat((64 << 10) + 2)), Err(Error::LineTooLong));
    }

    #[test]
    fn a_reply_nobody_waits_for_needs_no_memory() {
        let mut scanner = Scanner::new(Limits::STORE);
        let mut buf = BytesMut::new();
        let mut found = None;
        let mut bytes = b"*2\r\n$1000\r\n".to_vec();
        bytes.extend([b'v'; 1000]);
        bytes.extend(b"\r\n:5\r\n");
        let end = bytes.len();
        bytes.extend(b"+next\r\n");
        for (index, byte) in bytes.iter().enumerate() {
            buf.extend_from_slice(&[*byte]);
            if index < end
                && let Some(whole) = scanner.scan(&buf).unwrap()
            {
                assert_eq!(whole.kind, Kind::Aggregate);
                buf.advance(whole.length);
                found = Some(index + 1);
            } else if index < end {
                scanner.discard(&mut buf);
                assert!(buf.len() < 16, "{} bytes kept", buf.len());
            }
        }
        assert_eq!(found, Some(end));
        assert_eq!(buf, "+next\r\n");
    }
}
