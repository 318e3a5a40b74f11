//! A client of the Redis protocol without opinions.

use hedgerow_wire::resp::{Limits, Scanner, reply};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// A connection that shows replies as they came.
#[derive(Debug)]
pub struct Raw {
    /// The bytes themselves.
    pub stream: TcpStream,
    held: bytes::BytesMut,
}

impl Raw {
    /// Connects.
    ///
    /// # Panics
    /// When nobody listens.
    #[must_use]
    pub fn connect(address: SocketAddr) -> Raw {
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_nodelay(true).expect("an option");
        stream.set_read_timeout(Some(crate::until::PATIENCE)).expect("an option");
        Raw { stream, held: bytes::BytesMut::new() }
    }

    /// Sends one command, words apart by a space.
    ///
    /// # Panics
    /// When the other end does not take it.
    pub fn send(&mut self, line: &str) {
        self.send_all(&[line]);
    }

    /// Sends several in one piece.
    ///
    /// # Panics
    /// When the other end does not take it.
    pub fn send_all(&mut self, lines: &[&str]) {
        let mut out = bytes::BytesMut::new();
        for line in lines {
            let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            reply::command(&mut out, &args);
        }
        self.stream.write_all(&out).expect("it reads");
    }

    /// Sends one command and waits for its reply.
    ///
    /// # Panics
    /// When none comes.
    pub fn ask(&mut self, line: &str) -> String {
        self.send(line);
        self.next().expect("a reply")
    }

    /// Asks one command after the other; the replies are shown with spaces for their line ends.
    ///
    /// # Panics
    /// When a reply is another one.
    pub fn check(&mut self, cases: &[(&str, &str)]) {
        for (line, expected) in cases {
            assert_eq!(self.ask(line).replace("\r\n", " "), *expected, "{line}");
        }
    }
}

/// The replies as they came, but for their last line ends; at its end once the connection is closed.
/// It panics when none comes, or something that is no reply.
impl Iterator for Raw {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let mut scanner = Scanner::new(Limits::STORE);
        loop {
            if let Some(whole) = scanner.scan(&self.held).expect("the protocol") {
                let bytes = self.held.split_to(whole.length);
                return Some(String::from_utf8_lossy(&bytes).trim_end().to_owned());
            }
            let mut piece = [0u8; 64 << 10];
            match self.stream.read(&mut piece) {
                Ok(0) => return None,
                Ok(count) => self.held.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("no reply: {error}"),
            }
        }
    }
}
