//! Watching: a row of the history each second, and the streams of whoever looks on.
//!
//! Invariant: what a second shows is made once, however many look on, and only if somebody does. A
//! stream holds two frames at most; one whose reader takes none for [`PATIENCE`] is cut off, and no
//! more than [`STREAMS`] are open, so that pages never crowd out whoever asks by hand.

use super::crowd::Place;
use super::{State, frame};
use bytes::Bytes;
use hyper::body::{Body, Frame};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// Streams at once: a small part of the listener's connections.
pub(super) const STREAMS: usize = 32;
/// How long a frame may wait for its reader.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a stream lives: shorter than its connection may. The page opens another.
const LIFE: Duration = Duration::from_secs(240);

/// Who looks on.
pub(crate) struct Watch {
    /// The newest second; an empty one is the end.
    frames: watch::Sender<Bytes>,
    open: AtomicUsize,
    cut_off: AtomicU64,
}

/// The numbers of the metrics page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watched {
    pub(crate) open: usize,
    pub(crate) limit: usize,
    pub(crate) cut_off: u64,
}

impl Watch {
    pub(super) fn new() -> Watch {
        let frames = watch::Sender::new(Bytes::new());
        Watch { frames, open: AtomicUsize::new(0), cut_off: AtomicU64::new(0) }
    }

    /// Ends every stream in good order, once its reader has what is on its way.
    pub(super) fn end(&self) {
        self.frames.send_replace(Bytes::new());
    }

    pub(crate) fn numbers(&self) -> Watched {
        let (open, cut_off) = (self.open.load(Relaxed), self.cut_off.load(Relaxed));
        Watched { open, limit: STREAMS, cut_off }
    }
}

/// Takes a row each second, for as long as it is polled. After a time in which nothing ran there is
/// one row, not one for each second that was missed.
pub(super) async fn sample(state: Arc<State>) {
    let clock = state.clock;
    let mut next = clock.now();
    loop {
        frame::add_row(&state);
        if state.watch.frames.receiver_count() > 0 {
            state.watch.frames.send_replace(frame::event(&state));
        }
        next = (next + crate::history::STEP).max(clock.now());
        clock.sleep_until(next).await;
    }
}

/// Opens a stream over the connection of `place`; `None` where there are too many.
pub(super) fn open(state: &Arc<State>, place: Arc<Place>) -> Option<Frames> {
    let seat = Seat::take(state)?;
    let mut frames = state.watch.frames.subscribe();
    let (to, from) = mpsc::channel(1);
    let clock = state.clock;
    tokio::spawn(async move {
        let until = clock.now() + LIFE;
        while let Some(Ok(())) = clock.until(until, frames.changed()).await {
            // A reader that is behind gets the newest, not each.
            let frame = frames.borrow_and_update().clone();
            if frame.is_empty() {
                break;
            }
            match clock.until(clock.now() + PATIENCE, to.send(frame)).await {
                Some(Ok(())) => place.asked(clock.now()),
                Some(Err(_)) => break,
                None => {
                    seat.0.watch.cut_off.fetch_add(1, Relaxed);
                    place.give_up();
                    break;
                }
            }
        }
    });
    Some(Frames(from))
}

/// One of the streams there may be.
struct Seat(Arc<State>);

impl Seat {
    fn take(state: &Arc<State>) -> Option<Seat> {
        let more = |open: usize| (open < STREAMS).then_some(open + 1);
        state.watch.open.fetch_update(Relaxed, Relaxed, more).ok()?;
        Some(Seat(Arc::clone(state)))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.watch.open.fetch_sub(1, Relaxed);
    }
}

/// The body of a stream.
pub(super) struct Frames(mpsc::Receiver<Bytes>);

impl Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}
