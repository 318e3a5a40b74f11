//! One connection from a gateway: reading frames and raw bodies, writing bytes.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

use bytes::{Bytes, BytesMut};
use hedgerow_wire::frame;
use hedgerow_wire::request::{self, Received, ReceivedBody};

/// The most a raw body may hold, since the worker keeps it in memory (1 GiB).
const BODY_LIMIT: u64 = 1 << 30;

/// How a request to `/fault/reset` begins. It is looked for before its frame is complete, since
/// answering it means closing while the gateway still writes.
const RESET: &[u8] = b"\"path\":\"/fault/reset\"";

/// A connection and what was read ahead of it.
pub(crate) struct Connection {
    stream: UnixStream,
    buffer: BytesMut,
}

/// What came next.
pub(crate) enum Next {
    /// A request's frame.
    Head(Box<Head>),
    /// The gateway closed, between frames or inside one.
    Closed,
    /// A request that wants the connection to be reset.
    Reset,
}

/// A request as far as its frame tells.
pub(crate) struct Head {
    /// The frame's payload.
    pub(crate) payload: Bytes,
    /// The request.
    pub(crate) request: Received,
}

impl Connection {
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self { stream, buffer: BytesMut::new() }
    }

    /// Reads one request frame. A frame that is none is an error: the connection is to be closed.
    pub(crate) fn next_request(&mut self) -> io::Result<Next> {
        let payload = loop {
            if let Some(payload) = frame::decode(&mut self.buffer).map_err(invalid)? {
                break payload;
            }
            let start = &self.buffer[..self.buffer.len().min(4096)];
            if start.windows(RESET.len()).any(|window| window == RESET) {
                return Ok(Next::Reset);
            }
            if self.fill()? == 0 {
                return Ok(Next::Closed);
            }
        };
        let request = request::decode(&payload).map_err(invalid)?;
        Ok(Next::Head(Box::new(Head { payload, request })))
    }

    /// The body: what the frame held, or what follows it.
    pub(crate) fn body(&mut self, body: ReceivedBody) -> io::Result<Bytes> {
        let length = match body {
            ReceivedBody::Inline(bytes) => return Ok(bytes),
            ReceivedBody::Raw(length) if length > BODY_LIMIT => {
                return Err(invalid("a raw body beyond what is held in memory"));
            }
            ReceivedBody::Raw(length) => length as usize,
        };
        while self.buffer.len() < length {
            if self.fill()? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(self.buffer.split_to(length).freeze())
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Whether the gateway has closed its side: during a stream that means that nobody wants it.
    pub(crate) fn is_abandoned(&mut self) -> bool {
        let mut byte = [0];
        let read = self.stream.set_nonblocking(true).and_then(|()| self.stream.read(&mut byte));
        let back = self.stream.set_nonblocking(false);
        match read {
            Ok(0) => true,
            Ok(_) => {
                self.buffer.extend_from_slice(&byte);
                false
            }
            Err(error) => error.kind() != io::ErrorKind::WouldBlock || back.is_err(),
        }
    }

    fn fill(&mut self) -> io::Result<usize> {
        let mut chunk = [0; 64 << 10];
        loop {
            match self.stream.read(&mut chunk) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => {
                    let read = read?;
                    self.buffer.extend_from_slice(&chunk[..read]);
                    return Ok(read);
                }
            }
        }
    }
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
