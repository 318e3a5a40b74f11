//! Bodies at the egress port, counted, and the record of their request with them.
//!
//! Invariant: the record of a call is finished once: when the last byte of its answer was handed to
//! the HTTP library, when its upstream broke off, or as `client_closed` when the library drops the
//! body before that.

use super::Body;
use crate::live::Cancelling;
use crate::pulse::{Busy, Pulse};
use crate::record::{Active, Meter, Outcome, Recorder};
use crate::stream;
use bytes::Bytes;
use hedgerow_clock::{Clock, Timer};
use hedgerow_policy::{Failure, Moment};
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// The body of a call on its way to the upstream.
pub(super) struct Metered {
    body: Incoming,
    meter: Meter,
    clock: Clock,
    /// How long it may bring nothing while somebody waits for it.
    silence: Duration,
    until: Option<Moment>,
    timer: Timer,
    /// As long as it is read, what comes is its: were the connection taken for idle, its bytes would
    /// be taken for a request.
    receiving: Busy,
    /// The client understands interim answers.
    askable: bool,
}

impl Metered {
    pub(super) fn new(
        body: Incoming,
        meter: Meter,
        clock: Clock,
        silence: Duration,
        pulse: &Arc<Pulse>,
        askable: bool,
    ) -> Metered {
        let (until, timer, receiving) = (None, Timer::default(), pulse.receiving());
        pulse.ask(false);
        Metered { body, meter, clock, silence, until, timer, receiving, askable }
    }
}

impl http_body::Body for Metered {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) else {
            this.receiving.pulse().ask(true);
            let until = *this.until.get_or_insert_with(|| this.clock.now() + this.silence);
            return this.timer.poll(this.clock, Some(until), cx).map(|()| {
                let text = "nothing came for server.body_timeout_ms";
                Some(Err(io::Error::new(io::ErrorKind::TimedOut, text).into()))
            });
        };
        this.until = None;
        this.receiving.pulse().ask(false);
        if frame.is_none() || this.body.is_end_stream() {
            this.receiving.pulse().received(this.askable);
        }
        if let Some(Ok(frame)) = &frame
            && let Some(bytes) = frame.data_ref()
        {
            this.meter.add_bytes_in(bytes.len() as u64);
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of an answer.
pub(super) struct Recorded {
    body: Body,
    /// Bytes still to come, where their number was announced.
    left: Option<u64>,
    recorder: Recorder,
    request: Option<(Active, Outcome, Busy)>,
    cancelled: Cancelling,
}

impl Recorded {
    /// `left` is what was announced; zero where no byte will be asked for.
    pub(super) fn new(
        body: Body,
        left: Option<u64>,
        recorder: Recorder,
        request: (Active, Outcome, Busy),
        cancelled: Cancelling,
    ) -> Recorded {
        let left = if body.is_end_stream() { Some(0) } else { left };
        Recorded { body, left, recorder, request: Some(request), cancelled }
    }

    fn finish(&mut self, failure: Option<Failure>) {
        let Some((active, mut outcome, _busy)) = self.request.take() else { return };
        if let Some(failure) = failure {
            self.recorder.stream_error(&active, &failure);
            outcome.failure = Some(failure);
        }
        active.finish(outcome);
    }
}

impl http_body::Body for Recorded {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        let this = self.get_mut();
        let frame = match Pin::new(&mut this.body).poll_frame(cx) {
            Poll::Ready(frame) => frame,
            // A body that has ended is not asked again, so this is not either once it is ready.
            Poll::Pending if this.request.is_some() => {
                std::task::ready!(Pin::new(&mut this.cancelled).poll(cx));
                Some(Err(stream::cancelled()))
            }
            Poll::Pending => return Poll::Pending,
        };
        match &frame {
            Some(Ok(frame)) => {
                let came = frame.data_ref().map_or(0, Bytes::len) as u64;
                if let Some((active, ..)) = &this.request {
                    active.add_bytes_out(came);
                }
                this.left = this.left.map(|left| left.saturating_sub(came));
                // The library does not ask again once it has all that was announced.
                if this.left == Some(0) || this.body.is_end_stream() {
                    this.finish(None);
                }
            }
            Some(Err(failure)) => this.finish(Some(failure.clone())),
            None => this.finish(None),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        if self.left == Some(0) {
            self.finish(None);
        }
    }
}
