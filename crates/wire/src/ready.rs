//! The line a worker writes when it has booted, or when it could not.
//!
//! Promise: a line longer than [`MAX_LINE`] is an error before it is complete, and what is no
//! readiness line is never taken for one.

use bytes::{Buf, BufMut, BytesMut};
use serde::Deserialize;

use crate::capabilities::Capabilities;
use crate::loose::{self, Value};
use crate::{json, text};

/// The longest line, in bytes (64 KiB).
pub const MAX_LINE: usize = 64 << 10;

/// The longest error text kept, in bytes.
const ERROR_LIMIT: usize = 8 << 10;

/// What the line says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ready {
    /// Booted, with these capabilities.
    Up(Capabilities),
    /// Could not boot. The text is for the log.
    Failed(String),
}

/// Why a line is no readiness line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// [`MAX_LINE`] bytes and no end of the line.
    #[error("a readiness line of over {MAX_LINE} bytes")]
    TooLong,
    /// It is not a JSON object with a boolean `ready`.
    #[error("not a readiness line")]
    NotReadiness,
}

/// Takes the line off the front of `buf`, or `None` while its end is not there.
pub fn decode(buf: &mut BytesMut) -> Result<Option<Ready>, Error> {
    let seen = &buf[..buf.len().min(MAX_LINE + 1)];
    match seen.iter().position(|&byte| byte == b'\n') {
        Some(end) => {
            let ready = parse(&buf[..end])?;
            buf.advance(end + 1);
            Ok(Some(ready))
        }
        None if buf.len() > MAX_LINE => Err(Error::TooLong),
        None => Ok(None),
    }
}

/// Reads one line without its end: what is left when a worker closes the pipe.
pub fn parse(line: &[u8]) -> Result<Ready, Error> {
    #[derive(Deserialize)]
    struct Members<'a> {
        ready: bool,
        #[serde(default, borrow, deserialize_with = "loose::list")]
        capabilities: Value<'a>,
        #[serde(default, borrow)]
        error: Value<'a>,
    }

    if line.len() > MAX_LINE {
        return Err(Error::TooLong);
    }
    // A line is for people as much as for us: a stray byte in an error's text must not hide it.
    let line = text::from_bytes(line);
    let members: Members<'_> = Some(line.trim_ascii())
        .filter(|line| line.starts_with('{'))
        .and_then(|line| serde_json::from_str(line).ok())
        .ok_or(Error::NotReadiness)?;
    Ok(if members.ready {
        Ready::Up(loose::capabilities(&members.capabilities).unwrap_or_default())
    } else {
        let error = members.error.into_text().unwrap_or_default();
        Ready::Failed(text::printable(&error, ERROR_LIMIT))
    })
}

/// Appends the line, with its end.
pub fn encode(out: &mut BytesMut, ready: &Ready) {
    let mut object = json::Object::new(out);
    object.with("ready", |out| match ready {
        Ready::Up(_) => out.put_slice(b"true"),
        Ready::Failed(_) => out.put_slice(b"false"),
    });
    match ready {
        Ready::Up(set) => object.with("capabilities", |out| json::strings(out, set.names())),
        Ready::Failed(error) => object.text("error", &text::printable(error, ERROR_LIMIT)),
    }
    object.end();
    out.put_u8(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode_all(text: &str) -> Result<Option<Ready>, Error> {
        decode(&mut BytesMut::from(text))
    }

    #[test]
    fn a_line_goes_there_and_back() {
        let cases = [
            Ready::Up(Capabilities::ALL),
            Ready::Up(Capabilities::NONE),
            Ready::Failed("no \"app\" file".to_owned()),
        ];
        for ready in cases {
            let mut out = BytesMut::new();
            encode(&mut out, &ready);
            assert_eq!(decode(&mut out), Ok(Some(ready)));
            assert!(out.is_empty());
        }
    }

    #[test]
    fn what_older_and_newer_workers_may_add_is_ignored() {
        let up =
            decode_all("{\"ready\":true,\"capabilities\":[\"raw_body\",7,\"warp\"],\"v\":{}}\n");
        assert_eq!(up, Ok(Some(Ready::Up(Capabilities::NONE.with("raw_body")))));
        assert_eq!(decode_all("{\"ready\":true}\r\n"), Ok(Some(Ready::Up(Capabilities::NONE))));
        assert_eq!(decode_all("{\"ready\":false}\n"), Ok(Some(Ready::Failed(String::new()))));
    }

    #[test]
    fn other_lines_are_errors() {
        for line in ["\n", "PHP Warning: x\n", "[]\n", "{}\n", "{\"ready\":1}\n", "[true]\n"] {
            assert_eq!(decode_all(line), Err(Error::NotReadiness), "{line}");
        }
    }

    #[test]
    fn the_end_of_the_line_is_waited_for_only_so_long() {
        assert_eq!(decode_all("{\"ready\":true"), Ok(None));
        assert_eq!(decode_all(&" ".repeat(MAX_LINE)), Ok(None));
        assert_eq!(decode_all(&" ".repeat(MAX_LINE + 1)), Err(Error::TooLong));
    }

    #[test]
    fn an_error_with_a_stray_byte_is_still_told() {
        let line = b"{\"ready\":false,\"error\":\"caf\xe9\\n\"}";
        assert_eq!(parse(line), Ok(Ready::Failed("café ".to_owned())));
    }
}
