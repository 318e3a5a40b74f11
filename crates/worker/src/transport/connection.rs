//! One connection to a worker: connect, write a request, read frames.
//!
//! Invariant: a connection is used for one exchange at a time, and one whose exchange did not end
//! exactly at the end of an answer is closed, never kept.

use crate::job::Body;
use crate::worker::Worker;
use bytes::{Bytes, BytesMut};
use hedgerow_clock::Clock;
use hedgerow_policy::failure::{At, Phase};
use hedgerow_policy::{Class, Deadline, Failure, Moment};
use hedgerow_wire::frame;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// Bytes of a body written, and of an answer read, at once.
pub(super) const PIECE: usize = 64 << 10;

pub(super) struct Connection {
    stream: Option<UnixStream>,
    pub(super) held: BytesMut,
    clock: Clock,
}

/// The exchange broke at the worker's side.
pub(super) fn broken(what: &str, error: &io::Error) -> Failure {
    Failure::new(Class::TransportError, At::Worker, format!("{what}: {error}"))
}

fn closed() -> Failure {
    let text = "the worker closed the connection before its answer was complete";
    Failure::new(Class::TransportError, At::Worker, text)
}

/// A bound was reached.
pub(super) fn timed_out(deadline: Deadline) -> Failure {
    let text = match deadline.phase {
        Phase::Connect => "the worker's socket did not accept in time",
        Phase::Read => "the worker did not answer within the read timeout",
        Phase::Request => "no answer within the request timeout",
        Phase::Queue => "waited in the queue and no worker came in time",
    };
    Failure::new(Class::Timeout, At::Worker, text).in_phase(deadline.phase)
}

/// A stream said nothing for too long.
pub(super) fn silent(deadline: Deadline) -> Failure {
    let text = "the stream was silent for longer than the stream idle timeout";
    Failure::new(Class::Timeout, At::Worker, text).in_phase(deadline.phase)
}

impl Connection {
    /// The kept connection if it is still open, else a new one. A failure here is unsent: not a
    /// byte of the request has been written.
    pub(super) async fn open(
        worker: &Worker,
        clock: Clock,
        bound: Deadline,
    ) -> Result<Connection, Failure> {
        if let Some(stream) = worker.take_kept()
            && still_open(&stream)
        {
            return Ok(Connection { stream: Some(stream), held: BytesMut::new(), clock });
        }
        let limit = bound.within(clock.now(), worker.settings.connect_timeout, Phase::Connect);
        match clock.until(limit.at, UnixStream::connect(&worker.socket)).await {
            Some(Ok(stream)) => {
                Ok(Connection { stream: Some(stream), held: BytesMut::new(), clock })
            }
            Some(Err(error)) => Err(broken("connect to the worker's socket", &error).unsent()),
            None => Err(timed_out(limit).unsent()),
        }
    }

    /// Writes the frame, and the raw body after it where `raw`. Each piece must be taken within
    /// `patience`.
    pub(super) async fn send(
        &mut self,
        frame: &[u8],
        raw: bool,
        body: Body,
        patience: Duration,
    ) -> Result<(), Failure> {
        self.write(frame, patience).await?;
        if !raw {
            return Ok(());
        }
        match body {
            Body::Memory(bytes) => {
                for piece in bytes.chunks(PIECE) {
                    self.write(piece, patience).await?;
                }
            }
            Body::File(file, length) => {
                let mut file = tokio::fs::File::from_std(file).take(length);
                let mut piece = BytesMut::with_capacity(PIECE);
                let mut left = length;
                while left > 0 {
                    piece.clear();
                    let read = file.read_buf(&mut piece).await;
                    match read {
                        Ok(n) if n > 0 => left -= n as u64,
                        Ok(_) => return Err(spool("it is shorter than it was")),
                        Err(error) => return Err(spool(&error.to_string())),
                    }
                    self.write(&piece, patience).await?;
                }
            }
        }
        Ok(())
    }

    async fn write(&mut self, piece: &[u8], patience: Duration) -> Result<(), Failure> {
        let now = self.clock.now();
        let limit = Deadline::NEVER.within(now, patience, Phase::Read);
        let clock = self.clock;
        let write = async { self.stream()?.write_all(piece).await };
        match clock.until(limit.at, write).await {
            Some(Ok(())) => Ok(()),
            Some(Err(error)) => Err(broken("write to the worker", &error)),
            None => Err(timed_out(limit)),
        }
    }

    /// The next frame's payload. Cancel-safe: what was read stays held.
    pub(super) async fn frame(&mut self) -> Result<Bytes, Failure> {
        loop {
            match frame::decode(&mut self.held) {
                Ok(Some(payload)) => return Ok(payload),
                Ok(None) => {}
                Err(error) => {
                    let text = format!("the worker sent {error}");
                    return Err(Failure::new(Class::TransportError, At::Worker, text));
                }
            }
            self.fill().await?;
        }
    }

    /// Up to `most` raw bytes, at least one. Cancel-safe.
    pub(super) async fn piece(&mut self, most: u64) -> Result<Bytes, Failure> {
        if self.held.is_empty() {
            self.fill().await?;
        }
        let take = usize::try_from(most).unwrap_or(usize::MAX).min(self.held.len());
        Ok(self.held.split_to(take).freeze())
    }

    async fn fill(&mut self) -> Result<(), Failure> {
        // Little for a small answer, more once an answer shows that it is large. A length that is
        // only claimed reserves nothing.
        let room = if self.held.len() >= 4096 { PIECE } else { 4096 };
        if self.held.capacity() - self.held.len() < room / 2 {
            self.held.reserve(room);
        }
        let read = match self.stream.as_mut() {
            Some(stream) => stream.read_buf(&mut self.held).await,
            None => Ok(0),
        };
        match read {
            Ok(0) => Err(closed()),
            Ok(_) => Ok(()),
            Err(error) => Err(broken("read from the worker", &error)),
        }
    }

    /// Tells the worker that nobody listens any more, without closing.
    pub(super) async fn half_close(&mut self) {
        if let Ok(stream) = self.stream() {
            let _ = stream.shutdown().await;
        }
    }

    /// Whether the worker has sent more than its answer.
    pub(super) fn has_more(&self) -> bool {
        !self.held.is_empty()
    }

    /// Leaves the connection with the worker for its next exchange. Nothing is read from it, or
    /// written to it, through this value any more.
    pub(super) fn give_back(&mut self, worker: &Worker) {
        if let Some(stream) = self.stream.take() {
            worker.keep(stream);
        }
    }

    fn stream(&mut self) -> io::Result<&mut UnixStream> {
        self.stream.as_mut().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    pub(super) fn now(&self) -> Moment {
        self.clock.now()
    }
}

fn spool(reason: &str) -> Failure {
    let text = format!("the spooled request body could not be read: {reason}");
    Failure::new(Class::TransportError, At::Gateway, text)
}

/// A kept connection that the worker has closed, or on which it said something unasked, is no use.
fn still_open(stream: &UnixStream) -> bool {
    let mut one = [0u8; 1];
    matches!(stream.try_read(&mut one), Err(e) if e.kind() == io::ErrorKind::WouldBlock)
}
