//! What a client sends: an array of bulk strings, or a line.
//!
//! Promise: the parser goes on where it stopped; arguments are places in the buffer, so that a
//! command which is only forwarded is not copied.

use super::{Error, Limits, number, reply};
use bytes::BytesMut;

/// Where an argument is in the buffer: from, to.
pub type Span = (usize, usize);

/// One step of a parser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parsed {
    /// The command is not all there.
    Partial,
    /// An empty line or an empty array, of so many bytes: nothing to do.
    Nothing(usize),
    /// A whole command of so many bytes; its arguments are [`Parser::args`].
    Command(usize),
    /// A command written as a line of so many bytes, here as an array of bulk strings. Parse that.
    Inline(usize, BytesMut),
}

/// Reads the command at the front of a buffer that grows. The arguments of one command are kept
/// until the next step.
#[derive(Debug, Default, Clone)]
pub struct Parser {
    args: Vec<Span>,
    /// Arguments still to come, once the count was read.
    missing: Option<usize>,
    at: usize,
    /// No use to look before so many bytes are there.
    need: usize,
    done: bool,
}

impl Parser {
    /// A parser at the beginning of a command.
    #[must_use]
    pub fn new() -> Parser {
        Parser::default()
    }

    /// The arguments of the command that was parsed last.
    #[must_use]
    pub fn args(&self) -> &[Span] {
        &self.args
    }

    /// Bytes it keeps for arguments: those of the largest command so far.
    #[must_use]
    pub fn held(&self) -> usize {
        self.args.capacity() * size_of::<Span>()
    }

    /// Looks at what is new in `buf`, which begins with the command.
    ///
    /// # Errors
    /// When the bytes are not the protocol: tell the client, and close.
    pub fn parse(&mut self, buf: &[u8], limits: Limits) -> Result<Parsed, Error> {
        if self.done {
            self.args.clear();
            (self.missing, self.at, self.need, self.done) = (None, 0, 0, false);
        }
        if buf.len() < self.need.max(1) {
            return Ok(Parsed::Partial);
        }
        let missing = match self.missing {
            Some(missing) => missing,
            None if buf[0] != b'*' => return inline(buf, limits),
            None => {
                let Some(count) = self.length(buf, limits, Error::Count)? else {
                    return Ok(Parsed::Partial);
                };
                if count > limits.elements as i64 {
                    return Err(Error::Count);
                }
                let Ok(count @ 1..) = usize::try_from(count) else {
                    self.done = true;
                    return Ok(Parsed::Nothing(self.at));
                };
                count
            }
        };
        self.missing = Some(missing);
        for left in (1..=missing).rev() {
            self.missing = Some(left);
            if !self.argument(buf, limits)? {
                return Ok(Parsed::Partial);
            }
        }
        self.done = true;
        Ok(Parsed::Command(self.at))
    }

    /// Takes one argument; false while it is not all there.
    fn argument(&mut self, buf: &[u8], limits: Limits) -> Result<bool, Error> {
        match buf.get(self.at) {
            None => {
                self.need = self.at + 1;
                return Ok(false);
            }
            Some(b'$') => {}
            Some(&other) => return Err(Error::NotBulk(other)),
        }
        let start = self.at;
        let Some(length) = self.length(buf, limits, Error::BulkLength)? else { return Ok(false) };
        let length = usize::try_from(length).map_err(|_| Error::BulkLength)?;
        if length > limits.bulk {
            return Err(Error::BulkLength);
        }
        let (from, to) = (self.at, self.at + length);
        let Some(end) = buf.get(to..to + 2) else {
            // The length is read again once all of it is there: that is cheaper than a state.
            self.at = start;
            self.need = to + 2;
            return Ok(false);
        };
        if end != b"\r\n" {
            return Err(Error::LineEnd);
        }
        self.args.push((from, to));
        self.at = to + 2;
        Ok(true)
    }

    /// The number behind a type byte, if its line is all there. `at` moves behind the line.
    fn length(&mut self, buf: &[u8], limits: Limits, error: Error) -> Result<Option<i64>, Error> {
        let rest = &buf[self.at + 1..];
        // Twenty digits and a sign are more than any length has.
        let Some(end) = rest.iter().take(24).position(|&b| b == b'\r') else {
            return if rest.len() >= 24.min(limits.line) { Err(error) } else { Ok(None) };
        };
        match rest.get(end + 1) {
            None => return Ok(None),
            Some(b'\n') => {}
            Some(_) => return Err(Error::LineEnd),
        }
        self.at += end + 3;
        number(&rest[..end]).map(Some).ok_or(error)
    }
}

fn inline(buf: &[u8], limits: Limits) -> Result<Parsed, Error> {
    let seen = &buf[..buf.len().min(limits.line + 1)];
    let Some(end) = seen.iter().position(|&b| b == b'\n') else {
        return if seen.len() > limits.line {
            Err(Error::LineTooLong)
        } else {
            Ok(Parsed::Partial)
        };
    };
    let line = buf[..end].strip_suffix(b"\r").unwrap_or(&buf[..end]);
    let args = words(line)?;
    if args.is_empty() {
        return Ok(Parsed::Nothing(end + 1));
    }
    if args.len() > limits.elements {
        return Err(Error::Count);
    }
    let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    let mut array = BytesMut::with_capacity(line.len() + 16 * args.len());
    reply::command(&mut array, &args);
    Ok(Parsed::Inline(end + 1, array))
}

/// The words of a line as `redis-cli` splits them: quotes, and escapes inside double ones.
fn words(line: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
    let mut words = Vec::new();
    let mut rest = line.trim_ascii_start();
    while !rest.is_empty() {
        let mut word = Vec::new();
        rest = match rest[0] {
            b'"' => double_quoted(&rest[1..], &mut word)?,
            b'\'' => single_quoted(&rest[1..], &mut word)?,
            _ => bare(rest, &mut word)?,
        };
        words.push(word);
        rest = rest.trim_ascii_start();
    }
    Ok(words)
}

/// A word without quotes; they may begin in the middle of it.
fn bare<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Result<&'a [u8], Error> {
    while let Some((&byte, behind)) = rest.split_first() {
        match byte {
            b'"' => return double_quoted(behind, word),
            b'\'' => return single_quoted(behind, word),
            byte if byte.is_ascii_whitespace() => break,
            byte => word.push(byte),
        }
        rest = behind;
    }
    Ok(rest)
}

fn single_quoted<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Result<&'a [u8], Error> {
    loop {
        match rest {
            [b'\\', b'\'', behind @ ..] => {
                word.push(b'\'');
                rest = behind;
            }
            [b'\'', behind @ ..] => return closed(behind),
            [byte, behind @ ..] => {
                word.push(*byte);
                rest = behind;
            }
            [] => return Err(Error::Quotes),
        }
    }
}

fn double_quoted<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Result<&'a [u8], Error> {
    loop {
        match rest {
            [b'\\', b'x', high, low, behind @ ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                let digit = |d: &u8| (*d as char).to_digit(16).unwrap_or(0) as u8;
                word.push(digit(high) << 4 | digit(low));
                rest = behind;
            }
            [b'\\', byte, behind @ ..] => {
                word.push(match byte {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                rest = behind;
            }
            [b'"', behind @ ..] => return closed(behind),
            [byte, behind @ ..] => {
                word.push(*byte);
                rest = behind;
            }
            [] => return Err(Error::Quotes),
        }
    }
}

/// Behind a closing quote comes a space or the end.
fn closed(rest: &[u8]) -> Result<&[u8], Error> {
    match rest.first() {
        Some(byte) if !byte.is_ascii_whitespace() => Err(Error::Quotes),
        _ => Ok(rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(parser: &Parser, buf: &[u8]) -> Vec<String> {
        let text = |&(from, to): &Span| String::from_utf8_lossy(&buf[from..to]).into_owned();
        parser.args().iter().map(text).collect()
    }

    #[test]
    fn a_pipeline_is_read_command_by_command_however_it_is_cut() {
        let bytes = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*0\r\n*1\r\n$4\r\nPING\r\n\r\n";
        let (mut parser, mut buf, mut seen) = (Parser::new(), Vec::new(), Vec::new());
        for &byte in bytes {
            buf.push(byte);
            match parser.parse(&buf, Limits::STORE).unwrap() {
                Parsed::Partial => {}
                Parsed::Nothing(length) => assert_eq!(length, buf.drain(..).count()),
                Parsed::Command(length) => {
                    seen.push(args(&parser, &buf).join(" "));
                    assert_eq!(length, buf.drain(..).count());
                }
                Parsed::Inline(..) => panic!("no line was sent"),
            }
        }
        assert_eq!(seen, ["GET k", "PING"]);
        assert!(buf.is_empty());
    }

    #[test]
    fn a_line_is_split_as_a_shell_would() {
        let cases = [
            ("PING\r\n", Ok("PING")),
            ("  set  a  \"b c\"\n", Ok("set|a|b c")),
            ("set a '\\'b\\n'\r\n", Ok("set|a|'b\\n")),
            ("set a \"\\x41\\n\\\"\"\r\n", Ok("set|a|A\n\"")),
            ("set a \"b\"c\r\n", Err(Error::Quotes)),
            ("set a \"b\r\n", Err(Error::Quotes)),
        ];
        for (line, expected) in cases {
            let mut parser = Parser::new();
            match (parser.parse(line.as_bytes(), Limits::STORE), expected) {
                (Ok(Parsed::Inline(length, array)), Ok(expected)) => {
                    assert_eq!(length, line.len());
                    let parsed = parser.parse(&array, Limits::STORE);
                    assert_eq!(parsed, Ok(Parsed::Command(array.len())));
                    assert_eq!(args(&parser, &array).join("|"), expected);
                }
                (got, expected) => assert_eq!(got.err(), expected.err(), "{line:?}"),
            }
        }
        assert_eq!(Parser::new().parse(b"\r\n", Limits::STORE), Ok(Parsed::Nothing(2)));
    }

    #[test]
    fn limits_hold_before_the_bytes_are_there() {
        let refused = |bytes: &[u8], limits| Parser::new().parse(bytes, limits);
        assert_eq!(refused(b"*1048577\r\n", Limits::STORE), Err(Error::Count));
        assert_eq!(refused(b"*11\r\n", Limits::STRANGER), Err(Error::Count));
        assert_eq!(refused(b"*1\r\n$16385\r\n", Limits::STRANGER), Err(Error::BulkLength));
        assert_eq!(refused(b"*1\r\n$-1\r\n", Limits::STORE), Err(Error::BulkLength));
        assert_eq!(refused(b"*1\r\n:1\r\n", Limits::STORE), Err(Error::NotBulk(b':')));
        assert_eq!(refused(b"*1\r\n$1\r\nabc", Limits::STORE), Err(Error::LineEnd));
        assert_eq!(refused(&[b'1'; 70_000], Limits::STORE), Err(Error::LineTooLong));
        assert_eq!(refused(&[b'*'; 30], Limits::STORE), Err(Error::Count));
        assert_eq!(refused(b"*-1\r\n", Limits::STORE), Ok(Parsed::Nothing(5)));
    }
}
