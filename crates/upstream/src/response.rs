//! The response of a call, streaming.

use crate::attempt::Answered;
use crate::flight::Flight;
use crate::report::Report;
use bytes::Bytes;
use hedgerow_policy::Failure;
use hedgerow_policy::hedge::AttemptId;
use http::response::Parts;
use http::{HeaderMap, StatusCode};
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};

/// A response: head, report, and a body that is read as it is asked for. It also is an
/// [`http_body::Body`]. Dropped before its end, the upstream is told to stop.
pub struct Response {
    head: Parts,
    report: Report,
    attempt: AttemptId,
    answered: Box<Answered>,
    flight: Box<Flight>,
    held_back: bool,
    ended: bool,
}

impl Response {
    pub(crate) fn new(
        flight: Box<Flight>,
        attempt: AttemptId,
        mut answered: Box<Answered>,
        report: Report,
    ) -> Response {
        let head = answered.head.take();
        let head = head.unwrap_or_else(|| http::Response::new(()).into_parts().0);
        Response { head, report, attempt, answered, flight, held_back: false, ended: false }
    }

    /// The status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.head.status
    }

    /// The headers, without those that belong to the connection.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        &self.head.headers
    }

    /// The same, to be changed or taken.
    pub fn headers_mut(&mut self) -> &mut HeaderMap {
        &mut self.head.headers
    }

    /// How the call came about.
    #[must_use]
    pub fn report(&self) -> Report {
        self.report
    }

    /// The next piece of the body; `None` at its end. Trailers are passed over.
    pub async fn next(&mut self) -> Option<Result<Bytes, Failure>> {
        loop {
            let frame = std::future::poll_fn(|cx| Pin::new(&mut *self).poll_frame(cx)).await?;
            match frame.map(Frame::into_data) {
                Ok(Ok(bytes)) => return Some(Ok(bytes)),
                Ok(Err(_trailers)) => {}
                Err(failure) => return Some(Err(failure)),
            }
        }
    }

    /// The whole body, if it is at most `limit` bytes.
    ///
    /// # Errors
    /// What ended it early, or that it is too long.
    pub async fn bytes(&mut self, limit: usize) -> Result<Bytes, Failure> {
        let mut whole = bytes::BytesMut::new();
        let mut first = None;
        while let Some(piece) = self.next().await {
            let piece = piece?;
            if whole.len() + first.as_ref().map_or(0, Bytes::len) + piece.len() > limit {
                use hedgerow_policy::failure::{At, Class};
                let text = format!("a response body of more than {limit} bytes");
                return Err(Failure::new(Class::UpstreamError, At::Upstream, text));
            }
            match first.take() {
                None if whole.is_empty() => first = Some(piece),
                Some(earlier) => {
                    whole.extend_from_slice(&earlier);
                    whole.extend_from_slice(&piece);
                }
                None => whole.extend_from_slice(&piece),
            }
        }
        Ok(first.unwrap_or_else(|| whole.freeze()))
    }
}

impl std::fmt::Debug for Response {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Response").field("head", &self.head).field("report", &self.report).finish()
    }
}

impl Body for Response {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        let this = self.get_mut();
        if this.ended {
            return Poll::Ready(None);
        }
        let Response { attempt, answered, flight, held_back, .. } = this;
        let frame = std::task::ready!(flight.poll_frame(*attempt, answered, held_back, cx));
        if !matches!(frame, Some(Ok(_))) {
            this.ended = true;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.ended || self.answered.is_over() && self.answered.held.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}
