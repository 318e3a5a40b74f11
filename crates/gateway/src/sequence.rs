//! What is produced piece by piece, as a body.
//!
//! Invariant: the next piece is asked for when the library asks for it, and nothing is asked for
//! after the end or a failure.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Produces pieces.
pub(crate) trait Source: Send + 'static {
    /// Why a piece could not be had.
    type Error: Send;

    /// The next piece; `None` at the end.
    fn next(&mut self) -> impl Future<Output = Option<Result<Bytes, Self::Error>>> + Send;

    /// How many bytes are still to come, where that is known.
    fn left(&self) -> Option<u64> {
        None
    }
}

type Asked<S> = (S, Option<Result<Bytes, <S as Source>::Error>>);

/// The body made of a source's pieces.
pub(crate) struct Sequence<S: Source> {
    next: Option<Pin<Box<dyn Future<Output = Asked<S>> + Send>>>,
    left: Option<u64>,
}

impl<S: Source> Sequence<S> {
    pub(crate) fn new(source: S) -> Sequence<S> {
        Sequence { left: source.left(), next: Some(Box::pin(ask(source))) }
    }
}

async fn ask<S: Source>(mut source: S) -> Asked<S> {
    let piece = source.next().await;
    (source, piece)
}

impl<S: Source> Body for Sequence<S> {
    type Data = Bytes;
    type Error = S::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, S::Error>>> {
        let Some(asked) = &mut self.next else { return Poll::Ready(None) };
        let (source, piece) = ready!(asked.as_mut().poll(cx));
        self.left = source.left();
        self.next = None;
        if matches!(piece, Some(Ok(_))) {
            self.next = Some(Box::pin(ask(source)));
        }
        Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
