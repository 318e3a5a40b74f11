//! One attempt on the wire: connect, write, wait for the head, read the body.
//!
//! Invariant: dropping an attempt ends it on the wire; nothing of it goes on in the background but
//! the closing itself.

use crate::body::{BodyError, Reader, Replayed};
use crate::client::Taken;
use crate::connection::{ConnectionId, Lease, Unanswered};
use crate::driven::Sent;
use crate::head::{Kind, Template, retry_after};
use crate::pool::Pool;
use crate::unreached::Unreached;
use bytes::Bytes;
use hedgerow_policy::failure::{At, Class, Failure};
use hedgerow_policy::hedge::{AttemptId, Fault, Head, Resend};
use hedgerow_policy::jitter::Jitter;
use hedgerow_wire::sse_parse::Pulse;
use http::response::Parts;
use http::{Request, Response, StatusCode};
use http_body::{Body as _, Frame};
use hyper::body::Incoming;
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// What every attempt of a key sends.
pub(crate) struct Key {
    pub(crate) template: Template,
    pub(crate) body: Replayed,
    pub(crate) jitter: Jitter,
    pub(crate) taken: Taken,
    pub(crate) hold_limit: usize,
}

/// What an attempt reports.
pub(crate) enum Event {
    Connected,
    Head(Head),
    /// Body bytes were added to what is held. `over`: more is held than may be.
    Data {
        data: bool,
        over: bool,
    },
    End,
    Failed(Fault, Failure),
}

pub(crate) struct Attempt {
    pub(crate) id: AttemptId,
    pub(crate) connection: Option<ConnectionId>,
    pub(crate) failure: Option<Failure>,
    pub(crate) bytes: u64,
    /// It was sent once more because a server did nothing with it.
    resent: bool,
    /// What it is in its trace.
    pub(crate) span: u64,
    pool: Arc<Pool>,
    stage: Stage,
}

type Connecting = Pin<Box<dyn Future<Output = io::Result<Lease>> + Send>>;

enum Stage {
    /// A request that was taken back unsent goes over the new connection as it is.
    Connecting(Connecting, Option<Request<Reader>>),
    Connected(Lease, Option<Request<Reader>>),
    Waiting(Lease, Sent),
    Answered(Box<Answered>),
    Ended,
}

impl Attempt {
    /// Starts over a connection that none of `used` is.
    pub(crate) fn start(
        id: AttemptId,
        pool: &Arc<Pool>,
        used: &[ConnectionId],
        span: u64,
    ) -> Attempt {
        let stage = match pool.take(used) {
            Some(lease) => Stage::Connected(lease, None),
            None => Stage::Connecting(Box::pin(pool.clone().connect()), None),
        };
        let (connection, failure) = (None, None);
        let (pool, bytes, resent) = (pool.clone(), 0, false);
        Attempt { id, connection, failure, bytes, resent, span, pool, stage }
    }

    /// Ends it on the wire.
    pub(crate) fn cancel(&mut self) {
        self.stage = Stage::Ended;
    }

    /// Its response, to be passed on.
    pub(crate) fn take_answer(&mut self) -> Option<Box<Answered>> {
        match std::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::Answered(answered) => Some(answered),
            _ => None,
        }
    }

    /// The next thing it has to report. `may_resend`: see `Race::may_resend`.
    pub(crate) fn poll(
        &mut self,
        key: &mut Key,
        may_resend: Resend,
        cx: &mut Context<'_>,
    ) -> Poll<Event> {
        loop {
            match &mut self.stage {
                Stage::Connecting(connecting, _) => match ready!(connecting.as_mut().poll(cx)) {
                    Ok(lease) => {
                        let taken_back = self.taken_back();
                        self.stage = Stage::Connected(lease, taken_back);
                    }
                    Err(error) => return self.failed(Fault::Unsent, could_not_connect(&error)),
                },
                Stage::Connected(..) => return self.send(key),
                Stage::Waiting(lease, sent) => {
                    let answer = ready!(lease.poll_head(sent, cx));
                    let Some(lease) = self.leased() else { return Poll::Pending };
                    match answer {
                        // Nobody asked for another protocol (RFC 9110, 15.2.2).
                        Ok(response) if response.status().is_informational() => {
                            lease.retire();
                            let text = "the upstream changes to a protocol that was not asked for";
                            let failure = Failure::new(Class::UpstreamError, At::Upstream, text);
                            return self.failed(Fault::Broken, failure);
                        }
                        Ok(response) => return Poll::Ready(self.answered(lease, response, key)),
                        Err(unanswered) => {
                            if let Some(event) = self.unanswered(lease, unanswered, may_resend) {
                                return Poll::Ready(event);
                            }
                        }
                    }
                }
                Stage::Answered(answered) => {
                    let frame = ready!(answered.poll_live(cx));
                    return Poll::Ready(self.frame(frame, key.hold_limit));
                }
                Stage::Ended => return Poll::Pending,
            }
        }
    }

    /// The connection on which an answer was waited for.
    fn leased(&mut self) -> Option<Lease> {
        match std::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::Waiting(lease, _) => Some(lease),
            _ => None,
        }
    }

    fn taken_back(&mut self) -> Option<Request<Reader>> {
        match &mut self.stage {
            Stage::Connecting(_, request) | Stage::Connected(_, request) => request.take(),
            _ => None,
        }
    }

    fn send(&mut self, key: &mut Key) -> Poll<Event> {
        let taken_back = self.taken_back();
        let Stage::Connected(mut lease, _) = std::mem::replace(&mut self.stage, Stage::Ended)
        else {
            return Poll::Pending;
        };
        self.connection = Some(lease.id);
        let (origin, http2) = (&self.pool.origin, lease.is_http2());
        let built = taken_back.or_else(|| {
            let body = key.body.reader();
            key.template.request(origin, self.id.0, http2, self.span, body)
        });
        let Some(request) = built else {
            lease.finish();
            let failure = Failure::new(Class::BadRequest, At::Client, "a path that is none");
            return self.failed(Fault::Broken, failure);
        };
        let sent = lease.send(request);
        self.stage = Stage::Waiting(lease, sent);
        Poll::Ready(Event::Connected)
    }

    fn answered(&mut self, lease: Lease, response: Response<Incoming>, key: &Key) -> Event {
        let (mut head, body) = response.into_parts();
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            // What follows is no HTTP, and nobody asked for it: `Upgrade` never crosses the hop.
            drop(lease);
            let text = "it switched protocols, which nobody had asked for";
            let failure = Failure::new(Class::UpstreamError, At::Upstream, text);
            self.stage = Stage::Ended;
            self.failure = Some(failure.clone());
            return Event::Failed(Fault::Broken, failure);
        }
        crate::head::strip_response(&mut head.headers);
        let kind = Kind::of(&head.headers);
        let event = Event::Head(Head {
            status: head.status.as_u16(),
            // Beside a success it means nothing.
            retry_after: if head.status.is_success() { None } else { retry_after(&head.headers) },
            streams: match key.taken {
                Taken::ByKind => kind != Kind::Other,
                Taken::AsItComes => true,
                Taken::Whole => false,
            },
        });
        let mut answered = Box::new(Answered {
            head: Some(head),
            live: Some((body, lease)),
            kind,
            pulse: Pulse::default(),
            held: VecDeque::new(),
            held_bytes: 0,
        });
        answered.finish_if_whole();
        self.stage = Stage::Answered(answered);
        event
    }

    /// What follows from a request without a response; `None`: it is sent once more.
    fn unanswered(&mut self, lease: Lease, refused: Unanswered, resend: Resend) -> Option<Event> {
        // A kept HTTP/1 connection that ends is a server's way to give it up; a reset stream is not.
        let resendable = resend == Resend::IfGivenUp && !lease.is_http2();
        let unsent = refused.request.is_some();
        let given_up = lease.reused && (unsent || resendable);
        let unprocessed = is_unprocessed(&refused.error);
        if unsent || unprocessed {
            lease.retire();
        }
        drop(lease);
        let failure = broke(&refused.error, "before the response");
        // Once: a server that goes on to refuse is one that fails.
        let again = unprocessed && resend >= Resend::IfUnprocessed && !self.resent;
        self.resent |= again;
        if given_up || again {
            // The server had given up the connection: its choice, and no failure of the attempt.
            let connecting = Box::pin(self.pool.clone().connect());
            self.stage = Stage::Connecting(connecting, refused.request);
            return None;
        }
        self.stage = Stage::Ended;
        let fault = if unsent || unprocessed { Fault::Unsent } else { Fault::Broken };
        self.failure = Some(failure.clone());
        Some(Event::Failed(fault, failure))
    }

    fn frame(&mut self, frame: Option<Result<Frame<Bytes>, Failure>>, hold_limit: usize) -> Event {
        let Stage::Answered(answered) = &mut self.stage else { return Event::End };
        match frame {
            None => Event::End,
            Some(Ok(frame)) => {
                let (mut data, mut size) = (false, 0);
                if let Some(bytes) = frame.data_ref() {
                    data = answered.is_data(bytes);
                    size = bytes.len();
                }
                self.bytes += size as u64;
                answered.held_bytes += size;
                answered.held.push_back(frame);
                Event::Data { data, over: answered.held_bytes > hold_limit }
            }
            Some(Err(failure)) => {
                self.stage = Stage::Ended;
                self.failure = Some(failure.clone());
                Event::Failed(Fault::Broken, failure)
            }
        }
    }

    fn failed(&mut self, fault: Fault, failure: Failure) -> Poll<Event> {
        self.stage = Stage::Ended;
        self.failure = Some(failure.clone());
        Poll::Ready(Event::Failed(fault, failure))
    }
}

/// A response: its head, what is held of its body, and what still arrives.
pub(crate) struct Answered {
    pub(crate) head: Option<Parts>,
    live: Option<(Incoming, Lease)>,
    kind: Kind,
    pulse: Pulse,
    pub(crate) held: VecDeque<Frame<Bytes>>,
    held_bytes: usize,
}

impl Answered {
    fn is_data(&mut self, bytes: &[u8]) -> bool {
        match self.kind {
            Kind::Events => self.pulse.has_data(bytes),
            Kind::Rows => bytes.iter().any(|byte| !byte.is_ascii_whitespace()),
            Kind::Other => !bytes.is_empty(),
        }
    }

    /// The next frame from the wire. With the last of them the connection is given back: whoever
    /// passes a body of known length on does not ask again.
    pub(crate) fn poll_live(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        let Some((body, lease)) = &mut self.live else { return Poll::Ready(None) };
        match ready!(lease.poll_frame(body, cx)) {
            None => {
                self.finish();
                Poll::Ready(None)
            }
            Some(Ok(frame)) => {
                // Nothing follows trailers.
                if frame.is_trailers() {
                    self.finish();
                } else {
                    self.finish_if_whole();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Some(Err(error)) => {
                self.live = None;
                Poll::Ready(Some(Err(broke(&error, "in the response's body"))))
            }
        }
    }

    fn finish_if_whole(&mut self) {
        if self.live.as_ref().is_some_and(|(body, _)| body.is_end_stream()) {
            self.finish();
        }
    }

    fn finish(&mut self) {
        if let Some((_, lease)) = self.live.take() {
            lease.finish();
        }
    }

    /// Nothing more will arrive; what is held may not have been taken yet.
    pub(crate) fn is_over(&self) -> bool {
        self.live.is_none()
    }

    /// Ends it on the wire; what is held stays.
    pub(crate) fn cut(&mut self) {
        self.live = None;
    }
}

/// Whether the server says that it did nothing with the request (RFC 9113, 8.7): its stream was
/// refused, or is behind the last one that a GOAWAY speaks for.
fn is_unprocessed(error: &hyper::Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if let Some(error) = cause.downcast_ref::<h2::Error>() {
            let refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
            return error.is_remote() && (refused || error.is_go_away());
        }
        source = cause.source();
    }
    false
}

fn could_not_connect(error: &io::Error) -> Failure {
    let class = match error.kind() {
        io::ErrorKind::PermissionDenied => Class::UpstreamForbidden,
        _ => Class::UpstreamError,
    };
    let failure = Failure::new(class, At::Upstream, format!("connecting: {error}"));
    failure.because(Unreached::cause_of(error)).unsent()
}

fn broke(error: &hyper::Error, place: &str) -> Failure {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    let mut text = format!("{place}: {error}");
    while let Some(cause) = source {
        match cause.downcast_ref() {
            Some(BodyError::TooLarge) => {
                let text = "the request body is over the upstream's limit";
                return Failure::new(Class::RequestTooLarge, At::Client, text);
            }
            Some(BodyError::Unread(cause)) => {
                let cut = cause.downcast_ref::<hyper::Error>();
                let left = cut.is_some_and(hyper::Error::is_incomplete_message);
                let slow = cause.downcast_ref::<io::Error>().map(io::Error::kind);
                let class = match slow {
                    Some(io::ErrorKind::TimedOut) => Class::RequestTimeout,
                    _ if left => Class::ClientClosed,
                    _ => Class::BadRequest,
                };
                let text = format!("the request body: {cause}");
                return Failure::new(class, At::Client, text);
            }
            _ => {}
        }
        source = cause.source();
        if let Some(cause) = source {
            text = format!("{text}: {cause}");
        }
    }
    Failure::new(Class::UpstreamError, At::Upstream, text)
}
