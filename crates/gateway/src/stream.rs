//! Answers in pieces: large responses, text streams and streams of events.
//!
//! Invariant: a piece is passed on when it comes, never gathered. A stream that has begun cannot
//! become another status: events end with an `error` event, everything else is aborted, so that no
//! client takes a part for the whole.

use crate::batch::Results;
use crate::calls::Calls;
use crate::failure;
use crate::payload::Tail;
use crate::pieces::Pieces;
use crate::sequence::Source as _;
use bytes::{Bytes, BytesMut};
use hedgerow_policy::failure::{At, Class, Failure};
use hedgerow_upstream::{Piece, PlanStream, Response};
use hedgerow_wire::sse;
use hedgerow_wire::stream::{Chunk, StreamKind};
use hedgerow_worker::StreamItem;
use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Where the pieces come from.
pub(crate) enum Source {
    /// A response of so many more bytes.
    Pieces { left: u64, pieces: mpsc::Receiver<Result<Bytes, Failure>> },
    /// A worker's stream.
    Items { kind: StreamKind, items: mpsc::Receiver<StreamItem> },
    /// A plan's output, with the trailer in which its client is told of a failure, if it can be.
    Plan(Box<PlanStream>, Calls, Option<HeaderName>),
    /// The answer of an upstream, of so many more bytes where it said how many.
    Call(Box<Response>, Option<u64>),
    /// A file.
    File(Pieces),
    /// The results of a batch.
    Results(Box<Results>),
    /// The ending is out, and one trailer follows.
    Trailer(HeaderName, Class),
    /// The ending is out; nothing follows.
    Ended,
}

/// An answer in pieces, and what is left to do once it is over.
pub(crate) struct Flow {
    pub(crate) source: Source,
    pub(crate) trace: Arc<str>,
    pub(crate) tail: Box<Tail>,
}

/// What comes next.
pub(crate) enum Step {
    /// Bytes, and what follows them.
    Data(Bytes, Flow),
    /// All is sent but these trailers.
    Trailers(HeaderMap),
    /// All is sent.
    End,
    /// The response must not look complete.
    Abort,
}

enum Next {
    Data(Bytes),
    Skip,
    End,
    Trailers(HeaderMap),
    Failed(Failure),
    /// It failed, and this is how the client sees it.
    Ending(Failure, Bytes),
}

impl Flow {
    /// How many bytes will come, where that is known.
    pub(crate) fn length(&self) -> Option<u64> {
        match self.source {
            Source::Pieces { left, .. } | Source::Call(_, Some(left)) => Some(left),
            Source::File(ref pieces) => pieces.left(),
            _ => None,
        }
    }

    /// Waits for the next piece, or for an operator to cancel the request.
    pub(crate) async fn next(mut self) -> Step {
        loop {
            let since = self.tail.shared.clock.now();
            let next = tokio::select! {
                biased;
                next = self.source.next() => next,
                () = self.tail.active.cancelled() => return self.abort(cancelled()).await,
                () = self.tail.shared.failing() => Next::Failed(drained()),
            };
            self.tail.active.waited_for_source(since);
            match next {
                Next::Skip => {}
                Next::Data(bytes) => {
                    self.tail.active.add_bytes_out(bytes.len() as u64);
                    return Step::Data(bytes, self);
                }
                Next::End => {
                    self.tail.finish();
                    return Step::End;
                }
                Next::Ending(failure, ending) => {
                    self.source = match self.source {
                        Source::Plan(_, _, Some(name)) => Source::Trailer(name, failure.class),
                        _ => Source::Ended,
                    };
                    self.tail.broken(failure);
                    self.tail.active.add_bytes_out(ending.len() as u64);
                    return Step::Data(ending, self);
                }
                Next::Trailers(trailers) => {
                    self.tail.finish();
                    return Step::Trailers(trailers);
                }
                Next::Failed(failure) => {
                    if !matches!(self.source, Source::Items { kind: StreamKind::Sse, .. }) {
                        return self.abort(failure).await;
                    }
                    let event = error_event(failure.class, &self.trace);
                    self.tail.broken(failure);
                    self.tail.active.add_bytes_out(event.len() as u64);
                    self.source = Source::Ended;
                    return Step::Data(event, self);
                }
            }
        }
    }

    async fn abort(mut self, failure: Failure) -> Step {
        self.tail.broken(failure);
        // The library drops what it has not flushed when a body fails. Giving way once lets it
        // flush the pieces that came before.
        tokio::task::yield_now().await;
        self.tail.finish();
        Step::Abort
    }
}

/// An operator ended the request. There is no class for it: to the client it looks as if the
/// connection had been lost, and that is how it is counted.
pub(crate) fn cancelled() -> Failure {
    Failure::new(Class::ClientClosed, At::Gateway, "an operator cancelled the request")
}

/// A drain ended the request.
pub(crate) fn drained() -> Failure {
    Failure::new(Class::Draining, At::Gateway, "the gateway stopped before the answer was complete")
}

impl Source {
    async fn next(&mut self) -> Next {
        match self {
            Source::Ended => Next::End,
            Source::Trailer(name, class) => {
                let value = HeaderValue::from_static(class.name());
                Next::Trailers([(name.clone(), value)].into_iter().collect())
            }
            Source::Plan(plan, calls, _) => match plan.next().await {
                Some(Piece::Bytes(bytes)) => Next::Data(bytes),
                Some(Piece::Failed { failure, ending }) => {
                    calls.plan_failed();
                    match ending {
                        Some(ending) => Next::Ending(failure, ending),
                        None => Next::Failed(failure),
                    }
                }
                None => Next::End,
            },
            Source::Call(response, left) => match response.next().await {
                Some(Ok(bytes)) => {
                    *left = left.map(|left| left.saturating_sub(bytes.len() as u64));
                    Next::Data(bytes)
                }
                Some(Err(failure)) => Next::Failed(failure),
                None if left.is_none_or(|left| left == 0) => Next::End,
                None => Next::Failed(lost("fewer bytes than were announced")),
            },
            Source::File(pieces) => match pieces.next().await {
                Some(Ok(bytes)) => Next::Data(bytes),
                Some(Err(error)) => {
                    let text = format!("reading a file: {error}");
                    Next::Failed(Failure::new(Class::TransportError, At::Gateway, text))
                }
                None => Next::End,
            },
            Source::Results(results) => match results.next().await {
                Some(bytes) => Next::Data(bytes),
                None => Next::End,
            },
            Source::Pieces { left, pieces } => match pieces.recv().await {
                Some(Ok(bytes)) if bytes.is_empty() => Next::Skip,
                Some(Ok(bytes)) => match left.checked_sub(bytes.len() as u64) {
                    Some(rest) => {
                        *left = rest;
                        Next::Data(bytes)
                    }
                    None => Next::Failed(lost("more bytes than were announced")),
                },
                Some(Err(failure)) => Next::Failed(failure),
                None if *left == 0 => Next::End,
                None => Next::Failed(given_up()),
            },
            Source::Items { kind, items } => match items.recv().await {
                Some(StreamItem::Chunk(chunk)) => shown(*kind, chunk),
                Some(StreamItem::End) => Next::End,
                Some(StreamItem::Failed(failure)) => Next::Failed(failure),
                None => Next::Failed(given_up()),
            },
        }
    }
}

/// The pool closes without a word when it gives up a client; of a worker's fault it always tells.
fn given_up() -> Failure {
    let message = "the client took nothing of the answer for too long";
    Failure::new(Class::ClientClosed, At::Client, message)
}

fn lost(message: &'static str) -> Failure {
    Failure::new(Class::TransportError, At::Worker, message)
}

/// A chunk as the client sees it.
fn shown(kind: StreamKind, chunk: Chunk) -> Next {
    match kind {
        StreamKind::Text if chunk.data.is_empty() => Next::Skip,
        StreamKind::Text => Next::Data(chunk.data),
        StreamKind::Sse => {
            let fields = chunk.sse.unwrap_or_default();
            let mut out = BytesMut::with_capacity(chunk.data.len() + 64);
            let (id, event) = (fields.id.as_deref(), fields.event.as_deref());
            sse::write_event(&mut out, id, event, fields.retry, &chunk.data);
            Next::Data(out.freeze())
        }
    }
}

fn error_event(class: Class, trace: &str) -> Bytes {
    let mut out = BytesMut::new();
    let data = failure::event_data(class, trace);
    sse::write_event(&mut out, None, Some("error"), None, data.as_bytes());
    out.freeze()
}
