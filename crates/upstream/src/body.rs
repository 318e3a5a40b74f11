//! Request bodies that can be sent again.
//!
//! Invariant: what was kept is what was sent, byte for byte. A body over the limit is streamed to
//! the attempt that reads it, unbroken, and is then no longer there for another.

use bytes::Bytes;
use hedgerow_clock::Clock;
use hedgerow_policy::Moment;
use hedgerow_policy::hedge::Replay;
use http_body::{Body as HttpBody, Frame, SizeHint};
use std::error::Error as StdError;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};

type BoxError = Box<dyn StdError + Send + Sync>;
type Source = Pin<Box<dyn HttpBody<Data = Bytes, Error = BoxError> + Send>>;

/// A request body: none, bytes at hand, or a stream.
pub struct Body(Kind);

enum Kind {
    Bytes(Bytes),
    Stream(Source),
}

impl Body {
    /// No body.
    #[must_use]
    pub fn empty() -> Body {
        Body(Kind::Bytes(Bytes::new()))
    }

    /// A body that arrives while the request is already under way.
    pub fn stream<B>(body: B) -> Body
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Body(Kind::Stream(Box::pin(Erased(Box::pin(body)))))
    }

    /// How long it is, if that is known.
    #[must_use]
    pub fn exact_len(&self) -> Option<u64> {
        match &self.0 {
            Kind::Bytes(bytes) => Some(bytes.len() as u64),
            Kind::Stream(source) => source.size_hint().exact(),
        }
    }
}

impl<T: Into<Bytes>> From<T> for Body {
    fn from(bytes: T) -> Body {
        Body(Kind::Bytes(bytes.into()))
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Kind::Bytes(bytes) => write!(f, "Body({} bytes)", bytes.len()),
            Kind::Stream(_) => f.write_str("Body(stream)"),
        }
    }
}

/// A body with its error in a box.
struct Erased<B>(Pin<Box<B>>);

impl<B> HttpBody for Erased<B>
where
    B: HttpBody<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.0.as_mut().poll_frame(cx).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

/// The body of one key, from which each attempt gets a [`Reader`].
#[derive(Clone)]
pub(crate) enum Replayed {
    Bytes { bytes: Bytes, replay: Replay },
    Stream(Arc<Mutex<Tee>>),
}

pub(crate) struct Tee {
    source: Option<Source>,
    kept: Vec<Bytes>,
    size: u64,
    keep_limit: usize,
    limit: u64,
    hint: SizeHint,
    replay: Replay,
    readers: u32,
    clock: Clock,
    /// When an attempt last took a piece of it.
    taken: Option<Moment>,
}

/// What ended a request body too early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the request body is over the limit")]
    TooLarge,
    #[error("the request body can not be sent again")]
    Gone,
    #[error("the request body could not be read: {0}")]
    Unread(BoxError),
}

impl Replayed {
    /// Keeps up to `keep_limit` bytes for further attempts; refuses what is over `limit`.
    pub(crate) fn new(
        body: Body,
        keep_limit: usize,
        limit: u64,
        clock: Clock,
    ) -> Result<Replayed, BodyError> {
        if body.exact_len().is_some_and(|length| length > limit) {
            return Err(BodyError::TooLarge);
        }
        match body.0 {
            Kind::Bytes(bytes) => {
                let replay = if bytes.len() > keep_limit { Replay::Lost } else { Replay::Whole };
                Ok(Replayed::Bytes { bytes, replay })
            }
            Kind::Stream(source) => {
                let hint = source.size_hint();
                let lost = hint.lower() > keep_limit as u64;
                let tee = Tee {
                    source: Some(source),
                    kept: Vec::new(),
                    size: 0,
                    keep_limit,
                    limit,
                    hint,
                    replay: if lost { Replay::Lost } else { Replay::Arriving },
                    readers: 0,
                    clock,
                    taken: None,
                };
                Ok(Replayed::Stream(Arc::new(Mutex::new(tee))))
            }
        }
    }

    /// How much of it a further attempt could be sent.
    pub(crate) fn replay(&self) -> Replay {
        match self {
            Replayed::Bytes { replay, .. } => *replay,
            Replayed::Stream(tee) => lock(tee).replay,
        }
    }

    /// When an attempt last took a piece of a body that is still arriving.
    pub(crate) fn taken(&self) -> Option<Moment> {
        match self {
            Replayed::Bytes { .. } => None,
            Replayed::Stream(tee) => lock(tee).taken,
        }
    }

    /// From the beginning, for the next attempt.
    pub(crate) fn reader(&self) -> Reader {
        match self {
            Replayed::Bytes { bytes, .. } => Reader::Bytes(Some(bytes.clone())),
            Replayed::Stream(tee) => {
                let mut shared = lock(tee);
                shared.readers += 1;
                let first = shared.readers == 1;
                Reader::Stream { tee: tee.clone(), next: 0, first, here: Arc::default() }
            }
        }
    }
}

fn lock(tee: &Mutex<Tee>) -> MutexGuard<'_, Tee> {
    tee.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tee {
    /// The piece after the first `next` pieces; the reader that is ahead of the others reads on.
    fn poll(
        &mut self,
        next: usize,
        first: bool,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, BoxError>>> {
        if let Some(kept) = self.kept.get(next) {
            return Poll::Ready(Some(Ok(kept.clone())));
        }
        if self.replay == Replay::Lost && !first {
            return Poll::Ready(Some(Err(BodyError::Gone.into())));
        }
        let Some(source) = &mut self.source else { return Poll::Ready(None) };
        loop {
            let frame = std::task::ready!(source.as_mut().poll_frame(cx));
            match frame {
                None => {
                    self.source = None;
                    if self.replay == Replay::Arriving {
                        self.replay = Replay::Whole;
                    }
                    return Poll::Ready(None);
                }
                Some(Err(error)) => {
                    self.source = None;
                    self.lose();
                    return Poll::Ready(Some(Err(BodyError::Unread(error).into())));
                }
                // Trailers of a request end with this hop.
                Some(Ok(frame)) => {
                    let Ok(bytes) = frame.into_data() else { continue };
                    self.size += bytes.len() as u64;
                    if self.size > self.limit {
                        self.source = None;
                        self.lose();
                        return Poll::Ready(Some(Err(BodyError::TooLarge.into())));
                    }
                    if self.size > self.keep_limit as u64 {
                        self.lose();
                    } else if self.replay == Replay::Arriving {
                        self.kept.push(bytes.clone());
                        if self.hint.exact() == Some(self.size) {
                            // A sender that knows the length does not ask again.
                            self.source = None;
                            self.replay = Replay::Whole;
                        }
                    }
                    return Poll::Ready(Some(Ok(bytes)));
                }
            }
        }
    }

    fn lose(&mut self) {
        self.replay = Replay::Lost;
        self.kept = Vec::new();
    }
}

/// The body as one attempt sends it.
pub(crate) enum Reader {
    Bytes(Option<Bytes>),
    Stream { tee: Arc<Mutex<Tee>>, next: usize, first: bool, here: Arc<()> },
}

/// Whether an attempt has a stream of its request before it.
pub(crate) struct Reading(Weak<()>);

impl Reading {
    pub(crate) fn goes_on(&self) -> bool {
        self.0.strong_count() > 0
    }
}

impl Reader {
    /// `None` where all of the body is at hand.
    pub(crate) fn reading(&self) -> Option<Reading> {
        match self {
            Reader::Bytes(_) => None,
            Reader::Stream { here, .. } => Some(Reading(Arc::downgrade(here))),
        }
    }
}

impl HttpBody for Reader {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.get_mut() {
            Reader::Bytes(bytes) => {
                let bytes = bytes.take().filter(|bytes| !bytes.is_empty());
                Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
            }
            Reader::Stream { tee, next, first, .. } => {
                let mut tee = lock(tee);
                let piece = std::task::ready!(tee.poll(*next, *first, cx));
                tee.taken = Some(tee.clock.now());
                *next += 1;
                Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Reader::Bytes(bytes) => bytes.as_ref().is_none_or(Bytes::is_empty),
            Reader::Stream { tee, .. } => lock(tee).hint.exact() == Some(0),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Reader::Bytes(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            // What was said at the start holds for every attempt: the length is sent in the head.
            Reader::Stream { tee, .. } => lock(tee).hint,
        }
    }
}
