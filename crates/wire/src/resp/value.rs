//! What a reply says, as a tree.
//!
//! Promise: only whole replies are read, so the end of one is never in doubt; strings share the
//! reply's memory.

use super::{Error, Frame, MAX_DEPTH, number};
use bytes::Bytes;

/// A reply that was read.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Nothing.
    Null,
    /// A status.
    Status(Bytes),
    /// An error, beginning with its code.
    Error(Bytes),
    /// A whole number.
    Integer(i64),
    /// A string; a double or a big number of version 3 as it was written.
    Bulk(Bytes),
    /// A truth of version 3.
    Boolean(bool),
    /// An array, a set or a push.
    Array(Vec<Value>),
    /// A map.
    Map(Vec<(Value, Value)>),
}

impl Value {
    /// Reads a whole reply.
    ///
    /// # Errors
    /// When it is not whole, or not the protocol.
    pub fn read(frame: &Frame) -> Result<Value, Error> {
        let mut at = 0;
        let value = element(&frame.bytes, &mut at, 0)?;
        if at == frame.bytes.len() { Ok(value) } else { Err(Error::LineEnd) }
    }

    /// The string of a string or a status.
    #[must_use]
    pub fn bytes(&self) -> Option<&Bytes> {
        match self {
            Value::Bulk(bytes) | Value::Status(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The number of an integer.
    #[must_use]
    pub fn integer(&self) -> Option<i64> {
        match self {
            Value::Integer(value) => Some(*value),
            _ => None,
        }
    }

    /// The elements of an array; those of a map one after the other.
    #[must_use]
    pub fn into_elements(self) -> Option<Vec<Value>> {
        match self {
            Value::Array(elements) => Some(elements),
            Value::Map(pairs) => Some(pairs.into_iter().flat_map(|(k, v)| [k, v]).collect()),
            _ => None,
        }
    }
}

fn element(bytes: &Bytes, at: &mut usize, depth: usize) -> Result<Value, Error> {
    let rest = bytes.get(*at..).unwrap_or_default();
    let end = rest.windows(2).position(|two| two == b"\r\n").ok_or(Error::LineEnd)?;
    let (&first, line) = rest[..end].split_first().ok_or(Error::LineEnd)?;
    let text = bytes.slice(*at + 1..*at + end);
    *at += end + 2;
    match first {
        b'+' => Ok(Value::Status(text)),
        b'-' => Ok(Value::Error(text)),
        b':' => Ok(Value::Integer(number(line).ok_or(Error::Count)?)),
        b',' | b'(' => Ok(Value::Bulk(text)),
        b'#' => Ok(Value::Boolean(line == b"t")),
        b'_' => Ok(Value::Null),
        b'$' | b'!' | b'=' => {
            let Some(length) = length(line, Error::BulkLength)? else { return Ok(Value::Null) };
            let from = *at;
            let to = from.checked_add(length).ok_or(Error::BulkLength)?;
            if bytes.get(to..to + 2) != Some(b"\r\n") {
                return Err(Error::LineEnd);
            }
            *at = to + 2;
            Ok(match first {
                b'!' => Value::Error(bytes.slice(from..to)),
                // `txt:` stands in front of the text.
                b'=' => Value::Bulk(bytes.slice((from + 4).min(to)..to)),
                _ => Value::Bulk(bytes.slice(from..to)),
            })
        }
        b'*' | b'~' | b'>' | b'%' | b'|' => {
            let Some(count) = length(line, Error::Count)? else { return Ok(Value::Null) };
            if depth == MAX_DEPTH {
                return Err(Error::TooDeep);
            }
            if matches!(first, b'%' | b'|') {
                let mut pairs = Vec::new();
                for _ in 0..count {
                    pairs.push((element(bytes, at, depth + 1)?, element(bytes, at, depth + 1)?));
                }
                // Attributes are about the value behind them and are not kept.
                return if first == b'%' {
                    Ok(Value::Map(pairs))
                } else {
                    element(bytes, at, depth + 1)
                };
            }
            let mut elements = Vec::new();
            for _ in 0..count {
                elements.push(element(bytes, at, depth + 1)?);
            }
            Ok(Value::Array(elements))
        }
        other => Err(Error::UnknownType(other)),
    }
}

fn length(line: &[u8], error: Error) -> Result<Option<usize>, Error> {
    match number(line) {
        Some(-1) => Ok(None),
        Some(length) => usize::try_from(length).map(Some).map_err(|_| error),
        None => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Limits, decode};
    use super::*;
    use bytes::BytesMut;

    fn read(text: &str) -> Value {
        let mut buf = BytesMut::from(text);
        Value::read(&decode(&mut buf, Limits::STORE).unwrap().unwrap()).unwrap()
    }

    #[test]
    fn trees_of_both_versions() {
        let bulk = |text: &'static str| Value::Bulk(Bytes::from_static(text.as_bytes()));
        assert_eq!(
            read("*3\r\n$1\r\na\r\n$-1\r\n*1\r\n:1\r\n"),
            Value::Array(vec![bulk("a"), Value::Null, Value::Array(vec![Value::Integer(1)])])
        );
        assert_eq!(
            read("%1\r\n$1\r\na\r\n#t\r\n"),
            Value::Map(vec![(bulk("a"), Value::Boolean(true))])
        );
        assert_eq!(read("|1\r\n+a\r\n:1\r\n$1\r\nb\r\n"), bulk("b"));
        assert_eq!(read("=5\r\ntxt:a\r\n"), bulk("a"));
        assert_eq!(read("!5\r\nERR x\r\n"), Value::Error(Bytes::from_static(b"ERR x")));
        assert_eq!(read(",1.5\r\n"), bulk("1.5"));
    }
}
