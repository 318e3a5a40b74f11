//! A client of HTTP/1 that has closed its side while it is owed an answer.
//!
//! Invariant: a client that only has nothing more to say gets its answer, and one that is gone is
//! noticed. (That it has nothing more to say may be read before it is known that the request is
//! whole: then the end is kept back for a moment too.) TCP does not tell the two apart until bytes
//! are sent: what a closed socket gets, it resets. So after a moment in which most answers come, the
//! client is sent `100 Continue`, which every client of HTTP/1.1 must let pass (RFC 9110, 15.2). A
//! client of HTTP/1.0 cannot be asked; that it is gone shows at the answer.

use crate::connection::Transport;
use crate::pulse::Pulse;
use hedgerow_clock::Clock;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const ASK: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
/// How long an answer has before the client is asked.
const MOMENT: Duration = Duration::from_millis(20);
/// How often a reset is looked for, at the least.
const LOOK: Duration = Duration::from_secs(1);

pub(crate) struct Ended {
    clock: Clock,
    timer: Pin<Box<dyn Future<Output = ()> + Send>>,
    next: Duration,
    asked: bool,
    flushed: bool,
    reader: Option<Waker>,
}

impl Ended {
    pub(crate) fn new(clock: Clock) -> Box<Ended> {
        let timer = sleep(clock, MOMENT);
        let next = MOMENT / 2;
        Box::new(Ended { clock, timer, next, asked: false, flushed: false, reader: None })
    }

    /// Ready once the library may know of the end: the client is gone, or has its answer.
    pub(crate) fn poll<T: Transport>(
        &mut self,
        io: &mut T,
        pulse: &Pulse,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        while pulse.owes() || pulse.incomplete() {
            if self.timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            // All that came was passed on before the end was read. Who still waits for more after a
            // moment will get no more; who does not may not have come to the last of it.
            if pulse.incomplete() && pulse.asks() {
                return Poll::Ready(());
            }
            if !self.asked && pulse.askable() {
                self.asked = true;
                if ask(io, cx).is_err() {
                    return Poll::Ready(());
                }
            }
            // A look at the socket itself: with TLS a read would not come that far.
            if !matches!(io.tcp().take_error(), Ok(None)) {
                return Poll::Ready(());
            }
            self.timer = sleep(self.clock, self.next);
            self.next = (self.next * 2).min(LOOK);
        }
        if self.flushed {
            return Poll::Ready(());
        }
        // The library closes at the end, whatever of the answer it still holds.
        self.reader = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Bytes have gone.
    pub(crate) fn wrote(&mut self) {
        self.flushed = false;
    }

    /// The library holds nothing more to be sent.
    pub(crate) fn flushed(&mut self, pulse: &Pulse) {
        if !pulse.owes() && !pulse.incomplete() {
            self.flushed = true;
            if let Some(reader) = self.reader.take() {
                reader.wake();
            }
        }
    }
}

fn ask<T: Transport>(io: &mut T, cx: &mut Context<'_>) -> std::io::Result<()> {
    match Pin::new(&mut *io).poll_write(cx, ASK) {
        // Half a head could not be taken back.
        Poll::Ready(Ok(length)) if length < ASK.len() => Err(std::io::ErrorKind::WriteZero.into()),
        Poll::Ready(Ok(_)) => match Pin::new(io).poll_flush(cx) {
            Poll::Ready(flushed) => flushed,
            Poll::Pending => Ok(()),
        },
        Poll::Ready(Err(error)) => Err(error),
        // What blocks is the answer before this one, and it notices by itself.
        Poll::Pending => Ok(()),
    }
}

fn sleep(clock: Clock, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    let until = clock.now() + time;
    Box::pin(async move { clock.sleep_until(until).await })
}
