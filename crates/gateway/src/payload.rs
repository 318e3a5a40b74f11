//! The body of an answer on its way to the client.
//!
//! Invariant: the record of a request is finished exactly once: when the last byte was handed to
//! the HTTP library, or as `client_closed` when the library drops the body before that. The next
//! piece is fetched only when the library asks, so a slow client slows its worker down and nothing
//! piles up here.

use crate::pulse::{Busy, Taking};
use crate::record::{Active, Outcome};
use crate::serve::Shared;
use crate::stream::{Flow, Step};
use bytes::Bytes;
use hedgerow_policy::Failure;
use http_body::{Frame, SizeHint};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// What HTTP/2 is given of one answer at once.
const PIECE: usize = 64 << 10;

/// Ends the response without its end: no last chunk, or a reset stream.
#[derive(Debug)]
pub(crate) struct Aborted;

impl std::fmt::Display for Aborted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the response was aborted")
    }
}

impl std::error::Error for Aborted {}

/// What is left to do for a request whose answer is being sent.
pub(crate) struct Tail {
    pub(crate) active: Active,
    pub(crate) shared: Arc<Shared>,
    pub(crate) outcome: Outcome,
    pub(crate) busy: Busy,
}

impl Tail {
    /// All of the answer has gone.
    pub(crate) fn finish(self) {
        self.active.finish(self.outcome);
        drop(self.busy);
    }

    /// The answer that had begun ends here, because of `failure`; the status stays what it was.
    pub(crate) fn broken(&mut self, failure: Failure) {
        self.shared.recorder.stream_error(&self.active, &failure);
        self.outcome.failure = Some(failure);
    }
}

/// A response body.
pub(crate) struct Payload {
    state: State,
    /// Runs while the client leaves a piece standing.
    taking: Option<Taking>,
}

enum State {
    /// Nothing more to send; a tail that is still there is finished on drop.
    Done(Option<Box<Tail>>),
    Full(Bytes, Box<Tail>),
    Flow(Pin<Box<dyn Future<Output = Step> + Send>>, Option<u64>),
}

impl Payload {
    /// No body.
    pub(crate) fn empty(tail: Tail) -> Payload {
        Payload { state: State::Done(Some(Box::new(tail))), taking: None }
    }

    /// A body that is all there.
    pub(crate) fn full(bytes: Bytes, tail: Tail) -> Payload {
        if bytes.is_empty() {
            return Payload::empty(tail);
        }
        let taking = tail.busy.pulse().offer();
        Payload { state: State::Full(bytes, Box::new(tail)), taking }
    }

    /// A body in pieces.
    pub(crate) fn flow(flow: Flow) -> Payload {
        let (length, taking) = (flow.length(), flow.tail.busy.pulse().offer());
        Payload { state: State::Flow(Box::pin(flow.next()), length), taking }
    }

    fn next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Aborted>>> {
        if let State::Flow(next, length) = &mut self.state {
            match ready!(next.as_mut().poll(cx)) {
                // The library does not ask again once it has all that was announced.
                Step::Data(bytes, flow) if flow.length() == Some(0) => {
                    flow.tail.finish();
                    self.state = State::Done(None);
                    return Poll::Ready(Some(Ok(Frame::data(bytes))));
                }
                Step::Data(bytes, flow) => {
                    *length = flow.length();
                    *next = Box::pin(flow.next());
                    return Poll::Ready(Some(Ok(Frame::data(bytes))));
                }
                Step::Trailers(trailers) => {
                    self.state = State::Done(None);
                    return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
                }
                Step::End => self.state = State::Done(None),
                Step::Abort => {
                    self.state = State::Done(None);
                    return Poll::Ready(Some(Err(Aborted)));
                }
            }
        }
        match std::mem::replace(&mut self.state, State::Done(None)) {
            State::Full(mut bytes, tail) => {
                if self.taking.is_some() && bytes.len() > PIECE {
                    // HTTP/2 takes over whatever it is given, whether the client takes it or not.
                    let piece = bytes.split_to(PIECE);
                    tail.active.add_bytes_out(piece.len() as u64);
                    self.state = State::Full(bytes, tail);
                    return Poll::Ready(Some(Ok(Frame::data(piece))));
                }
                tail.active.add_bytes_out(bytes.len() as u64);
                tail.finish();
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            State::Done(Some(tail)) => {
                tail.finish();
                Poll::Ready(None)
            }
            State::Done(None) | State::Flow(..) => Poll::Ready(None),
        }
    }
}

impl http_body::Body for Payload {
    type Data = Bytes;
    type Error = Aborted;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Aborted>>> {
        let this = self.get_mut();
        let next = this.next(cx);
        if let Some(taking) = &this.taking {
            taking.asked(next.is_ready());
        }
        next
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.state, State::Done(_))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.state {
            State::Done(_) => SizeHint::with_exact(0),
            State::Full(bytes, _) => SizeHint::with_exact(bytes.len() as u64),
            State::Flow(_, Some(length)) => SizeHint::with_exact(*length),
            State::Flow(_, None) => SizeHint::default(),
        }
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        // The library does not poll a body that has no bytes; it is complete all the same.
        if let State::Done(tail) = &mut self.state
            && let Some(tail) = tail.take()
        {
            tail.finish();
        }
    }
}
