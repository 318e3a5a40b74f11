//! HTTP/1.1 as far as an actor needs it: one request after another on a connection.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::routes;
use super::seen::Seen;

/// The most that a request head, and a request body, may hold.
const HEAD_LIMIT: usize = 64 << 10;
const BODY_LIMIT: usize = 64 << 20;

/// One request.
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) query: BTreeMap<String, String>,
    /// Names in lower case.
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: Vec<u8>,
}

impl Request {
    /// A query parameter as a number.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.query.get(name).and_then(|value| value.parse().ok())
    }

    /// A query parameter.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str)
    }

    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

/// The connection has served its last request.
#[derive(Debug)]
pub(super) struct Gone;

impl From<io::Error> for Gone {
    fn from(_: io::Error) -> Gone {
        Gone
    }
}

/// The client's side of a connection.
pub(super) struct Client {
    stream: TcpStream,
    read: Vec<u8>,
    pub(super) peer: SocketAddr,
}

/// Serves a connection to its end.
pub(super) fn converse(
    stream: TcpStream,
    peer: SocketAddr,
    name: &str,
    seen: &Seen,
) -> Result<(), Gone> {
    stream.set_nodelay(true)?;
    let mut client = Client { stream, read: Vec::new(), peer };
    seen.connected();
    let ended = (|| {
        loop {
            let request = client.request()?;
            routes::serve(&mut client, &request, name, seen)?;
        }
    })();
    seen.disconnected();
    ended
}

impl Client {
    fn fill(&mut self) -> Result<(), Gone> {
        let mut piece = [0; 16 << 10];
        match self.stream.read(&mut piece)? {
            0 => Err(Gone),
            length => {
                self.read.extend_from_slice(&piece[..length]);
                Ok(())
            }
        }
    }

    fn request(&mut self) -> Result<Request, Gone> {
        let end = loop {
            if let Some(at) = find(&self.read, b"\r\n\r\n") {
                break at + 4;
            }
            if self.read.len() > HEAD_LIMIT {
                return Err(Gone);
            }
            self.fill()?;
        };
        let head: Vec<u8> = self.read.drain(..end).collect();
        let head = String::from_utf8_lossy(&head).into_owned();
        let mut lines = head.split("\r\n");
        let mut first = lines.next().unwrap_or_default().split(' ');
        let (Some(method), Some(target)) = (first.next(), first.next()) else { return Err(Gone) };
        let headers: BTreeMap<String, String> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut request = Request {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.split('&').filter_map(pair).collect(),
            headers,
            body: Vec::new(),
        };
        if request.header("expect").eq_ignore_ascii_case("100-continue") {
            self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        request.body = if request.header("transfer-encoding").eq_ignore_ascii_case("chunked") {
            self.chunked()?
        } else {
            let length = request.header("content-length").parse().unwrap_or(0);
            self.exactly(length)?
        };
        Ok(request)
    }

    fn exactly(&mut self, length: usize) -> Result<Vec<u8>, Gone> {
        if length > BODY_LIMIT {
            return Err(Gone);
        }
        while self.read.len() < length {
            self.fill()?;
        }
        Ok(self.read.drain(..length).collect())
    }

    fn chunked(&mut self) -> Result<Vec<u8>, Gone> {
        let mut body = Vec::new();
        loop {
            let size = self.line()?;
            let size = size.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(size, 16).map_err(|_| Gone)?;
            if size == 0 {
                while !self.line()?.is_empty() {}
                return Ok(body);
            }
            if body.len() + size > BODY_LIMIT {
                return Err(Gone);
            }
            body.extend(self.exactly(size)?);
            self.exactly(2)?;
        }
    }

    fn line(&mut self) -> Result<String, Gone> {
        loop {
            if let Some(at) = find(&self.read, b"\r\n") {
                let line: Vec<u8> = self.read.drain(..at + 2).collect();
                return Ok(String::from_utf8_lossy(&line[..at]).into_owned());
            }
            if self.read.len() > HEAD_LIMIT {
                return Err(Gone);
            }
            self.fill()?;
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        self.stream.write_all(bytes).map_err(Gone::from)
    }

    /// Lets so much time pass, or all of it; ends early when the client closes.
    pub(super) fn wait(&mut self, ms: Option<u64>) -> Result<(), Gone> {
        if ms == Some(0) {
            return Ok(());
        }
        self.stream.set_read_timeout(ms.map(Duration::from_millis))?;
        let looked = self.stream.peek(&mut [0]);
        self.stream.set_read_timeout(None)?;
        match looked {
            Ok(0) => Err(Gone),
            // The next request is there already: nothing shows a close any more, so just wait.
            Ok(_) => {
                crate::clock::sleep_ms(ms.unwrap_or(u64::MAX / 1_000_000));
                Ok(())
            }
            Err(error) if is_timeout(&error) => Ok(()),
            Err(_) => Err(Gone),
        }
    }

    /// Ends the connection so that its client sees it broken, wherever it is.
    pub(super) fn reset(&mut self) -> Gone {
        // Unread bytes turn a close into a reset; without any, the close alone breaks the answer.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
        Gone
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

fn pair(text: &str) -> Option<(String, String)> {
    if text.is_empty() {
        return None;
    }
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    Some((decoded(name), decoded(value)))
}

fn decoded(text: &str) -> String {
    let (mut bytes, mut out) = (text.bytes(), Vec::with_capacity(text.len()));
    while let Some(byte) = bytes.next() {
        match byte {
            b'+' => out.push(b' '),
            b'%' => {
                let hex = [bytes.next().unwrap_or(b'0'), bytes.next().unwrap_or(b'0')];
                let hex = std::str::from_utf8(&hex).ok();
                out.push(hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()).unwrap_or(b'?'));
            }
            byte => out.push(byte),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
