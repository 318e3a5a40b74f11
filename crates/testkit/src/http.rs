//! An HTTP/1.1 client that sends bytes, not requests: what a library would refuse to send, or would
//! send whole, is what tests want to see arrive.

use crate::until::PATIENCE;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// A connection.
pub struct Client {
    tcp: TcpStream,
    got: Vec<u8>,
}

/// An answer.
pub struct Response {
    /// The status line and the header lines.
    pub head: String,
    /// The bytes of the body, without the framing of chunks.
    pub body: Vec<u8>,
    /// Whether the body came to the end its framing announced.
    pub complete: bool,
}

impl Client {
    /// Connects. Waiting for the other side ends, with a panic, after [`PATIENCE`].
    ///
    /// # Panics
    /// When nobody listens.
    #[must_use]
    pub fn connect(addr: SocketAddr) -> Client {
        let tcp = TcpStream::connect(addr).expect("somebody listens");
        tcp.set_nodelay(true).expect("an option of TCP");
        tcp.set_read_timeout(Some(PATIENCE)).expect("a bound on reading");
        tcp.set_write_timeout(Some(PATIENCE)).expect("a bound on writing");
        Client { tcp, got: Vec::new() }
    }

    /// Sends these bytes. The other side may have refused already, which is no error here: what it
    /// said is what a test looks at.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.tcp.write_all(bytes.as_ref());
    }

    /// Sends a request without a body.
    pub fn get(&mut self, target: &str) {
        self.send(format!("GET {target} HTTP/1.1\r\nhost: a.example\r\n\r\n"));
    }

    /// Sends a request with a body.
    pub fn post(&mut self, target: &str, body: &[u8]) {
        let length = body.len();
        self.send(format!(
            "POST {target} HTTP/1.1\r\nhost: a.example\r\ncontent-length: {length}\r\n\r\n"
        ));
        self.send(body);
    }

    /// Half-closes: nothing more will be sent.
    pub fn finish(&self) {
        let _ = self.tcp.shutdown(std::net::Shutdown::Write);
    }

    /// The next answer.
    ///
    /// # Panics
    /// When none comes, or one that is none.
    pub fn response(&mut self) -> Response {
        self.answer(true)
    }

    /// The next answer; none where the connection ended, orderly or not, before the whole of a head.
    ///
    /// # Panics
    /// When what comes is no answer, or nothing does.
    pub fn maybe_response(&mut self) -> Option<Response> {
        let head = self.find(b"\r\n\r\n")?;
        Some(self.behind(head, true))
    }

    /// The next answer, to a request that asked for the head alone.
    ///
    /// # Panics
    /// When none comes, or one that is none.
    pub fn head_response(&mut self) -> Response {
        self.answer(false)
    }

    fn answer(&mut self, with_body: bool) -> Response {
        let head = self.up_to(b"\r\n\r\n");
        self.behind(head, with_body)
    }

    /// The answer that begins with this head.
    fn behind(&mut self, head: Vec<u8>, with_body: bool) -> Response {
        let head = String::from_utf8(head).expect("a head is text");
        let mut response = Response { head, body: Vec::new(), complete: true };
        let status = response.status();
        if !with_body || status == 204 || status == 304 || status < 200 {
            return response;
        }
        if response.header("transfer-encoding") == Some("chunked") {
            response.complete = self.chunks(&mut response.body).is_some();
        } else if let Some(length) = response.header("content-length") {
            let length: usize = length.parse().expect("a length");
            while self.got.len() < length && self.more() {}
            response.complete = self.got.len() >= length;
            let there = length.min(self.got.len());
            response.body = self.got.drain(..there).collect();
        } else {
            response.body = self.rest();
        }
        response
    }

    /// All chunks; none where the connection ended among them.
    fn chunks(&mut self, body: &mut Vec<u8>) -> Option<()> {
        loop {
            let line = String::from_utf8(self.find(b"\r\n")?).ok()?;
            let length = usize::from_str_radix(line.trim_end(), 16).expect("a chunk's size");
            if length == 0 {
                // Trailers, then an empty line.
                while self.find(b"\r\n")? != b"\r\n" {}
                return Some(());
            }
            while self.got.len() < length + 2 {
                if !self.more() {
                    let there = length.min(self.got.len());
                    body.extend(self.got.drain(..there));
                    return None;
                }
            }
            body.extend(self.got.drain(..length));
            assert_eq!(self.got.drain(..2).collect::<Vec<u8>>(), b"\r\n", "behind a chunk");
        }
    }

    /// Everything up to and with `end`.
    ///
    /// # Panics
    /// When the connection ends before it.
    pub fn up_to(&mut self, end: &[u8]) -> Vec<u8> {
        self.find(end).unwrap_or_else(|| {
            let got = String::from_utf8_lossy(&self.got);
            panic!("the connection ended at {got:?}")
        })
    }

    fn find(&mut self, end: &[u8]) -> Option<Vec<u8>> {
        let mut from = 0;
        loop {
            let rest = &self.got[from..];
            if let Some(at) = rest.windows(end.len()).position(|window| window == end) {
                let length = from + at + end.len();
                return Some(self.got.drain(..length).collect());
            }
            from = self.got.len().saturating_sub(end.len() - 1);
            if !self.more() {
                return None;
            }
        }
    }

    /// Everything until the connection ends, orderly or not.
    pub fn rest(&mut self) -> Vec<u8> {
        while self.more() {}
        std::mem::take(&mut self.got)
    }

    /// One more read. False at the end of the connection.
    fn more(&mut self) -> bool {
        let mut buffer = [0; 64 << 10];
        let count = loop {
            match self.tcp.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    panic!("the other side neither sends nor closes")
                }
                read => break read.unwrap_or(0),
            }
        };
        self.got.extend_from_slice(&buffer[..count]);
        count > 0
    }
}

impl Response {
    /// The status.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn status(&self) -> u16 {
        let code = self.head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
        code.and_then(|code| code.parse().ok()).expect("a status")
    }

    /// The first header of this name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// Every header of this name.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.head.lines().skip(1).filter_map(move |line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// The body as text.
    ///
    /// # Panics
    /// When it is none.
    #[must_use]
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("a body of text")
    }
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = &self.body[..self.body.len().min(2000)];
        let (head, text) = (&self.head, String::from_utf8_lossy(start));
        let length = self.body.len();
        write!(f, "{head}{text}\n({length} bytes, complete: {})", self.complete)
    }
}
