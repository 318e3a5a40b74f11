//! A connection whose pulse is taken: every read and write goes through here.
//!
//! Invariant: the HTTP library reads in small pieces. It doubles its buffer whenever a read fills
//! it, up to the largest head, and would hold that much for every client that sends fast once. And a
//! client that has closed its side before a byte of its answer went may be waiting for that answer,
//! so the library, which takes the end for a client that left, is not told as long as it is owed.

use crate::connection::Transport;
use crate::ended::Ended;
use crate::pulse::Pulse;
use bytes::Bytes;
use hedgerow_upstream::{Coalescing, EndOfTurn, is_little};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf, Take};

/// One byte short of the size with which the library's buffer begins.
const PIECE: u64 = (8 << 10) - 1;

/// A connection whose pulse is taken. Bytes that were read already come first.
pub(crate) struct Watched<T> {
    io: Take<T>,
    pulse: Arc<Pulse>,
    first: Bytes,
    /// The client has closed its side while an answer was owed.
    ended: Option<Box<Ended>>,
    /// The end of an answer is written at its end, where it is little.
    turn: EndOfTurn,
}

impl<T: AsyncRead> Watched<T> {
    pub(crate) fn new(io: T, pulse: Arc<Pulse>, first: Bytes) -> Watched<T> {
        if !first.is_empty() {
            pulse.read();
        }
        Watched { io: io.take(0), pulse, first, ended: None, turn: EndOfTurn::default() }
    }

    pub(crate) fn into_inner(self) -> T {
        self.io.into_inner()
    }

    fn wrote(&mut self, result: &Poll<io::Result<usize>>) {
        self.pulse.wrote(result);
        if result.is_ready() {
            self.pulse.sent();
        }
        if let Some(ended) = &mut self.ended {
            ended.wrote();
        }
    }
}

impl<T: Transport> AsyncRead for Watched<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.first.is_empty() {
            buf.put_slice(&this.first.split_to(this.first.len().min(buf.remaining())));
            // With what is behind them: for a read that brings less than a head the library makes its
            // buffer twice as large.
            this.io.set_limit(PIECE.saturating_sub(buf.filled().len() as u64));
            let more = Pin::new(&mut this.io).poll_read(cx, buf);
            return if let Poll::Ready(Err(_)) = more { more } else { Poll::Ready(Ok(())) };
        }
        if let Some(ended) = &mut this.ended {
            return ended.poll(this.io.get_mut(), &this.pulse, cx).map(Ok);
        }
        this.io.set_limit(PIECE);
        let before = buf.filled().len();
        let result = Pin::new(&mut this.io).poll_read(cx, buf);
        if buf.filled().len() > before {
            this.pulse.read();
            return result;
        }
        // Nothing, and no error: the client has closed its side.
        if !matches!(result, Poll::Ready(Ok(()))) {
            return result;
        }
        if this.turn.is_put_off() {
            // What ends the answer is about to be written. At the end of what the client says the
            // library would let go of it.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if this.pulse.unanswered() || this.pulse.incomplete() {
            let ended = this.ended.insert(Ended::new(this.pulse.clock()));
            return ended.poll(this.io.get_mut(), &this.pulse, cx).map(Ok);
        }
        result
    }
}

impl<T: Transport> AsyncWrite for Watched<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(this.io.get_mut()).poll_write(cx, buf);
        this.wrote(&result);
        result
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        // Not of an answer that may still break: the library would let go of what was not written.
        if this.pulse.owes_nothing() && is_little(bufs) {
            ready!(this.turn.poll(cx));
        } else {
            this.turn.done();
        }
        let result = Pin::new(&mut Coalescing(this.io.get_mut())).poll_write_vectored(cx, bufs);
        this.wrote(&result);
        result
    }

    fn is_write_vectored(&self) -> bool {
        self.io.get_ref().is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let result = Pin::new(this.io.get_mut()).poll_flush(cx);
        this.pulse.wrote(&result);
        if let (Some(ended), true) = (&mut this.ended, result.is_ready()) {
            ended.flushed(&this.pulse);
        }
        result
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.get_mut().io.get_mut()).poll_shutdown(cx)
    }
}
