//! Whether a connection is alive: who owes whom something, and since when.
//!
//! Invariant: a connection waits for one of three things, each with its bound: for the first byte
//! of a request (`keep_alive`), for the rest of a head (`header_timeout`), for the client to take a
//! byte of an answer (`keep_alive`). While a request is being answered only the last one counts.
//! The HTTP library's own head timeout counts from the end of the request before, so it would end
//! idle connections early; this is why the clock is kept here.

use hedgerow_policy::Moment;
use hedgerow_worker::Clock;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

const NONE: u64 = u64::MAX;

/// What a connection waited for too long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    /// A request to begin.
    Idle,
    /// The rest of a head.
    Head,
    /// The client to take what it asked for.
    Taking,
}

/// The bounds of the waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) keep_alive: Duration,
    pub(crate) header_timeout: Duration,
}

/// The state of one connection. Changed by its own tasks only, so relaxed atomics are enough.
#[derive(Debug)]
pub(crate) struct Pulse {
    clock: Clock,
    bounds: Bounds,
    /// In HTTP/2 a byte says nothing about whether a request has begun.
    multiplexed: bool,
    answering: AtomicU32,
    idle_since: AtomicU64,
    head_since: AtomicU64,
    blocked_since: AtomicU64,
    unread: AtomicBool,
    unframed: AtomicBool,
}

impl Pulse {
    pub(crate) fn new(clock: Clock, bounds: Bounds, multiplexed: bool) -> Arc<Pulse> {
        Arc::new(Pulse {
            clock,
            bounds,
            multiplexed,
            answering: AtomicU32::new(0),
            idle_since: AtomicU64::new(clock.now().as_nanos()),
            head_since: AtomicU64::new(NONE),
            blocked_since: AtomicU64::new(NONE),
            unread: AtomicBool::new(false),
            unframed: AtomicBool::new(false),
        })
    }

    /// A head is complete; the answer is owed until the guard is dropped.
    pub(crate) fn begin(self: &Arc<Pulse>) -> Busy {
        self.answering.fetch_add(1, Relaxed);
        self.head_since.store(NONE, Relaxed);
        Busy(Arc::clone(self))
    }

    /// A request was answered without its body having been read.
    pub(crate) fn leave_unread(&self) {
        self.unread.store(true, Relaxed);
    }

    /// Whether one was.
    pub(crate) fn left_unread(&self) -> bool {
        self.unread.load(Relaxed)
    }

    /// An answer is being sent whose end is the end of the connection (HTTP/1.0).
    pub(crate) fn send_unframed(&self) {
        self.unframed.store(true, Relaxed);
    }

    /// Whether one is.
    pub(crate) fn sends_unframed(&self) -> bool {
        self.unframed.load(Relaxed)
    }

    /// When the present wait has lasted too long, and what it is for.
    pub(crate) fn due(&self) -> (Moment, Wait) {
        let after = |since: u64, bound| Moment::from_nanos(since) + bound;
        let blocked = self.blocked_since.load(Relaxed);
        let taking = (after(blocked, self.bounds.keep_alive), Wait::Taking);
        if self.answering.load(Relaxed) > 0 {
            return taking;
        }
        let waiting = match self.head_since.load(Relaxed) {
            NONE => (after(self.idle_since.load(Relaxed), self.bounds.keep_alive), Wait::Idle),
            since => (after(since, self.bounds.header_timeout), Wait::Head),
        };
        if taking.0 < waiting.0 { taking } else { waiting }
    }

    fn read(&self) {
        let waiting = !self.multiplexed && self.answering.load(Relaxed) == 0;
        if waiting && self.head_since.load(Relaxed) == NONE {
            self.head_since.store(self.clock.now().as_nanos(), Relaxed);
        }
    }

    fn wrote<T>(&self, result: &Poll<io::Result<T>>) {
        let blocked = self.blocked_since.load(Relaxed);
        match result {
            Poll::Ready(_) if blocked != NONE => self.blocked_since.store(NONE, Relaxed),
            Poll::Pending if blocked == NONE => {
                self.blocked_since.store(self.clock.now().as_nanos(), Relaxed);
            }
            _ => {}
        }
    }
}

/// An answer that is owed.
#[derive(Debug)]
pub(crate) struct Busy(Arc<Pulse>);

impl Busy {
    pub(crate) fn pulse(&self) -> &Pulse {
        &self.0
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.idle_since.store(self.0.clock.now().as_nanos(), Relaxed);
        self.0.answering.fetch_sub(1, Relaxed);
    }
}

/// A connection whose pulse is taken. Bytes that were read to find out what is spoken come first.
pub(crate) struct Watched<T> {
    io: T,
    pulse: Arc<Pulse>,
    first: [u8; FIRST],
    first_from: u8,
    first_to: u8,
}

/// The most bytes that are looked at before the connection is given to the HTTP library: the
/// preface of HTTP/2.
pub(crate) const FIRST: usize = 24;

impl<T> Watched<T> {
    pub(crate) fn new(io: T, pulse: Arc<Pulse>, first: &[u8]) -> Watched<T> {
        let length = first.len().min(FIRST);
        let mut held = [0; FIRST];
        held[..length].copy_from_slice(&first[..length]);
        if length > 0 {
            pulse.read();
        }
        Watched { io, pulse, first: held, first_from: 0, first_to: length as u8 }
    }

    pub(crate) fn into_inner(self) -> T {
        self.io
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Watched<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.first_from < this.first_to {
            let held = &this.first[usize::from(this.first_from)..usize::from(this.first_to)];
            let count = held.len().min(buf.remaining());
            buf.put_slice(&held[..count]);
            this.first_from += count as u8;
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        let result = Pin::new(&mut this.io).poll_read(cx, buf);
        if buf.filled().len() > before {
            this.pulse.read();
        }
        result
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Watched<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.io).poll_write(cx, buf);
        this.pulse.wrote(&result);
        result
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.io).poll_write_vectored(cx, bufs);
        this.pulse.wrote(&result);
        result
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.io).poll_flush(cx);
        this.pulse.wrote(&result);
        result
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pulse(multiplexed: bool) -> (Clock, Arc<Pulse>) {
        let clock = Clock::start();
        let bounds =
            Bounds { keep_alive: Duration::from_secs(75), header_timeout: Duration::from_secs(10) };
        (clock, Pulse::new(clock, bounds, multiplexed))
    }

    #[tokio::test(start_paused = true)]
    async fn the_bound_is_that_of_the_wait() {
        let (clock, pulse) = pulse(false);
        let at = |seconds: u64| Moment::from_millis(seconds * 1_000);
        assert_eq!(pulse.due(), (at(75), Wait::Idle));
        clock.sleep_until(at(50)).await;
        let begun = clock.now();
        pulse.read();
        assert_eq!(pulse.due(), (begun + Duration::from_secs(10), Wait::Head));
        let busy = pulse.begin();
        assert_eq!(pulse.due().0, Moment::NEVER);
        pulse.read();
        assert_eq!(pulse.due().0, Moment::NEVER, "a pipelined byte is no head in the making yet");
        clock.sleep_until(at(200)).await;
        pulse.wrote(&Poll::<io::Result<()>>::Pending);
        assert_eq!(pulse.due().1, Wait::Taking);
        pulse.wrote(&Poll::Ready(Ok(())));
        assert_eq!(pulse.due().0, Moment::NEVER);
        let ended = clock.now();
        drop(busy);
        assert_eq!(pulse.due(), (ended + Duration::from_secs(75), Wait::Idle));
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_of_http2_are_no_head() {
        let (_, pulse) = pulse(true);
        pulse.read();
        assert_eq!(pulse.due().1, Wait::Idle);
    }
}
