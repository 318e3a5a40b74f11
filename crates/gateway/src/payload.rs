//! The body of an answer on its way to the client.
//!
//! Invariant: the record of a request is finished exactly once: when the last byte was handed to
//! the HTTP library, or as `client_closed` when the library drops the body before that. The next
//! piece is fetched only when the library asks, so a slow client slows its worker down and nothing
//! piles up here.

use crate::pulse::Busy;
use crate::record::{Active, Outcome, Recorder};
use crate::stream::{Flow, Step};
use bytes::Bytes;
use hedgerow_policy::Failure;
use http_body::{Frame, SizeHint};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

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
    pub(crate) recorder: Recorder,
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
        self.recorder.stream_error(&self.active, &failure);
        self.outcome.failure = Some(failure);
    }
}

/// A response body.
pub(crate) struct Payload(State);

enum State {
    /// Nothing more to send; a tail that is still there is finished on drop.
    Done(Option<Box<Tail>>),
    Full(Bytes, Box<Tail>),
    Flow(Pin<Box<dyn Future<Output = Step> + Send>>, Option<u64>),
}

impl Payload {
    /// No body.
    pub(crate) fn empty(tail: Tail) -> Payload {
        Payload(State::Done(Some(Box::new(tail))))
    }

    /// A body that is all there.
    pub(crate) fn full(bytes: Bytes, tail: Tail) -> Payload {
        if bytes.is_empty() {
            return Payload::empty(tail);
        }
        Payload(State::Full(bytes, Box::new(tail)))
    }

    /// A body in pieces.
    pub(crate) fn flow(flow: Flow) -> Payload {
        let length = flow.length();
        Payload(State::Flow(Box::pin(flow.next()), length))
    }
}

impl http_body::Body for Payload {
    type Data = Bytes;
    type Error = Aborted;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Aborted>>> {
        let state = &mut self.get_mut().0;
        if let State::Flow(next, length) = state {
            return match ready!(next.as_mut().poll(cx)) {
                Step::Data(bytes, flow) => {
                    *length = length.map(|left| left.saturating_sub(bytes.len() as u64));
                    *next = Box::pin(flow.next());
                    Poll::Ready(Some(Ok(Frame::data(bytes))))
                }
                Step::End => {
                    *state = State::Done(None);
                    Poll::Ready(None)
                }
                Step::Abort => {
                    *state = State::Done(None);
                    Poll::Ready(Some(Err(Aborted)))
                }
            };
        }
        match std::mem::replace(state, State::Done(None)) {
            State::Full(bytes, tail) => {
                tail.active.add_bytes_out(bytes.len() as u64);
                tail.finish();
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            State::Done(tail) => {
                if let Some(tail) = tail {
                    tail.finish();
                }
                Poll::Ready(None)
            }
            State::Flow(..) => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, State::Done(_))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
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
        if let State::Done(tail) = &mut self.0
            && let Some(tail) = tail.take()
        {
            tail.finish();
        }
    }
}
