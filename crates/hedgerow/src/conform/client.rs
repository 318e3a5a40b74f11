//! The gateway's part in an exchange, as plain as it gets: one blocking connection.

use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hedgerow_wire::answer::{self, Answer, Body, WorkerError};
use hedgerow_wire::request::{self, Request, Sent};
use hedgerow_wire::stream::{self, Chunk, Event, StreamStart};
use hedgerow_wire::{Capabilities, dispatch, frame};

use super::requirement::Unmet;

/// The id of every request: as long as an id may be, and of every character one may have.
pub(super) const ID: &str = "conform-0123456789.ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz:\
                             0123456789012345678901234567890123456789012345678901234567";

/// What matters about a request here.
#[derive(Clone, Copy)]
pub(super) struct Plain<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) query: &'a str,
    pub(super) headers: &'a [(&'a str, &'a [u8])],
    pub(super) body: &'a [u8],
}

impl<'a> Plain<'a> {
    pub(super) fn get(path: &'a str) -> Self {
        Self { method: "GET", path, query: "", headers: &[("Host", b"localhost")], body: b"" }
    }

    pub(super) fn post(path: &'a str, body: &'a [u8]) -> Self {
        let headers: &[(&str, &[u8])] =
            &[("Host", b"localhost"), ("Content-Type", b"application/octet-stream")];
        Self { method: "POST", path, query: "", headers, body }
    }

    /// The frame, and whether the body is to follow it.
    pub(super) fn encode(&self, set: Capabilities) -> Result<(BytesMut, Sent), Unmet> {
        let request = Request {
            id: ID,
            request_id: "conform",
            deadline_unix_ms: None,
            method: self.method,
            path: self.path,
            query: self.query,
            scheme: "http",
            host: "localhost",
            port: 80,
            protocol_version: "1.1",
            remote_addr: "::1",
            headers: self.headers,
            body: request::Body::Inline(self.body),
        };
        let mut out = BytesMut::new();
        let sent =
            request.encode(&mut out, set).map_err(|error| Unmet::Failed(error.to_string()))?;
        Ok((out, sent))
    }
}

/// A complete answer.
#[derive(Debug)]
pub(super) struct Exchange {
    /// The first frame as it came.
    pub(super) payload: Bytes,
    /// Of a response or of a stream's start; 0 for a plan or a batch.
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Bytes,
    pub(super) worker_error: Option<WorkerError>,
    pub(super) stream: Option<Stream>,
    /// A step of a stream, where one was asked for and it is one.
    pub(super) step: Option<dispatch::Step>,
}

/// What followed a stream's start.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) start: StreamStart,
    pub(super) chunks: Vec<Chunk>,
    /// The error that ended it, if one did.
    pub(super) error: Option<WorkerError>,
}

/// One connection.
pub(super) struct Client {
    stream: UnixStream,
    patience: Duration,
    buffer: BytesMut,
}

impl Client {
    pub(super) fn connect(socket: &Path, patience: Duration) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        Ok(Self { stream, patience, buffer: BytesMut::new() })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Sends the request and its body.
    pub(super) fn send(&mut self, plain: &Plain<'_>, set: Capabilities) -> Result<Sent, Unmet> {
        let (out, sent) = plain.encode(set)?;
        let failed = |error: io::Error| Unmet::Failed(format!("it does not take it: {error}"));
        self.write(&out).map_err(failed)?;
        if matches!(sent, Sent::RawFollows(_)) {
            self.write(plain.body).map_err(failed)?;
        }
        Ok(sent)
    }

    /// Asks for a step of a stream: what a gateway does that offers streams in steps.
    pub(super) fn step(
        &mut self,
        plain: &Plain<'_>,
        event: dispatch::Event,
        state: &[u8],
    ) -> Result<Exchange, Unmet> {
        let (request, _) = plain.encode(Capabilities::NONE)?;
        let payload = request.get(frame::PREFIX..).unwrap_or_default();
        let mut out = BytesMut::new();
        let write = |out: &mut BytesMut| dispatch::write_request(out, payload, event, state);
        let written = frame::encode_with(&mut out, write);
        let written = written.map_err(|error| Unmet::Failed(error.to_string()))?;
        debug_assert!(written, "a request is an object");
        self.write(&out).map_err(|e| Unmet::Failed(format!("it does not take it: {e}")))?;
        self.answer()
    }

    /// Sends the request and reads the whole answer.
    pub(super) fn ask(&mut self, plain: &Plain<'_>, set: Capabilities) -> Result<Exchange, Unmet> {
        let _ = self.send(plain, set)?;
        self.answer()
    }

    /// Reads a whole answer, a stream to its end included.
    pub(super) fn answer(&mut self) -> Result<Exchange, Unmet> {
        let payload = self.frame()?;
        let mut exchange = Exchange {
            payload: payload.clone(),
            status: 0,
            headers: Vec::new(),
            body: Bytes::new(),
            worker_error: None,
            stream: None,
            step: None,
        };
        match answer::decode(&payload, ID).map_err(|error| unreadable(&error, &payload))? {
            Answer::Response(response) => {
                exchange.status = response.status;
                exchange.headers = response.headers;
                exchange.worker_error = response.worker_error;
                exchange.body = match response.body {
                    Body::Inline(bytes) => bytes,
                    Body::Raw(length) => self.raw(length)?,
                };
            }
            Answer::StreamStart(start) => {
                exchange.status = start.status;
                exchange.headers.clone_from(&start.headers);
                exchange.stream = Some(self.stream(start)?);
            }
            Answer::Dispatch(json) => {
                let step = dispatch::decode(&json, ID);
                exchange.step = Some(step.map_err(|error| unreadable(&error, &payload))?);
            }
            Answer::Plan(_) | Answer::Batch(_) => {}
        }
        Ok(exchange)
    }

    fn stream(&mut self, start: StreamStart) -> Result<Stream, Unmet> {
        let mut read = Stream { start, chunks: Vec::new(), error: None };
        loop {
            let payload = self.frame()?;
            match stream::decode(&payload, ID).map_err(|error| unreadable(&error, &payload))? {
                Event::Chunk(chunk) if read.chunks.len() < 10_000 => read.chunks.push(chunk),
                Event::Chunk(_) => return Err(Unmet::seen("a stream without an end")),
                Event::Error(error) => {
                    read.error = Some(error);
                    return Ok(read);
                }
                Event::End => return Ok(read),
            }
        }
    }

    fn frame(&mut self) -> Result<Bytes, Unmet> {
        loop {
            let decoded = frame::decode(&mut self.buffer);
            if let Some(payload) = decoded.map_err(|error| Unmet::Failed(error.to_string()))? {
                return Ok(payload);
            }
            if self.fill()? == 0 {
                return Err(Unmet::Failed(match self.buffer.len() {
                    0 => "it closed the connection without an answer".to_owned(),
                    some => format!("it closed the connection after {some} bytes of a frame"),
                }));
            }
        }
    }

    fn raw(&mut self, length: u64) -> Result<Bytes, Unmet> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        while self.buffer.len() < length {
            if self.fill()? == 0 {
                return Err(Unmet::seen("it closed the connection inside a raw body"));
            }
        }
        Ok(self.buffer.split_to(length).freeze())
    }

    fn fill(&mut self) -> Result<usize, Unmet> {
        let mut chunk = [0; 64 << 10];
        match self.stream.read(&mut chunk) {
            Ok(read) => {
                self.buffer.extend_from_slice(&chunk[..read]);
                Ok(read)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                Err(Unmet::Failed(format!("no answer within {:?}", self.patience)))
            }
            // A close with something unread is a reset on this kind of socket.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the worker closes this connection, with nothing more to read on it.
    pub(super) fn closes(&mut self) -> Result<(), Unmet> {
        if !self.buffer.is_empty() {
            return Err(Unmet::seen("there are bytes after the answer"));
        }
        match self.fill() {
            Ok(0) => Ok(()),
            Ok(_) => Err(Unmet::seen("it sent more instead of closing the connection")),
            Err(_) => Err(Unmet::seen("the connection stays open")),
        }
    }

    /// Says that nothing more will come, as a gateway does that has gone away half-way.
    pub(super) fn finish_writing(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }
}

fn unreadable(error: &answer::Error, payload: &Bytes) -> Unmet {
    let shown: String = String::from_utf8_lossy(payload).chars().take(120).collect();
    Unmet::Failed(format!("{error}, in the frame {shown}"))
}
