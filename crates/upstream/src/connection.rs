//! One connection, and the right to use it for one request.
//!
//! Invariant: a [`Lease`] that is dropped before its response was complete costs an HTTP/1 connection
//! its life and an HTTP/2 connection one stream; only [`Lease::finish`] makes a connection free for
//! others. An HTTP/2 connection on which this side has reset many streams takes no new ones: servers
//! count such resets against their clients.

use crate::body::{Reader, Reading};
use crate::dial::{Dial, Io};
use crate::driven::{Driven, Sent};
use crate::origin::{Origin, Scheme};
use crate::pool::{IDLE_TIME, Pool};
use crate::settings::Protocol;
use crate::tls::Tls;
use crate::uploading::Uploading;
use bytes::Bytes;
use hedgerow_policy::Moment;
use http::{Request, Response};
use http_body::{Body as _, Frame};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::task::AbortHandle;

/// Largest response head.
const MAX_HEAD: usize = 256 << 10;
/// Body bytes in flight from the upstream, for one stream and for one connection.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;
/// Streams that are reset here before the connection takes no new ones.
const MAX_RESETS: u32 = 100;
/// Streams of one connection at once.
pub(crate) const MAX_STREAMS: u32 = 100;

/// A connection with requests on it is asked so often whether it still lives: a call may be silent
/// for minutes, a machine that is there answers a ping.
const PING_EVERY: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// The number of a connection; never used twice in this process.
pub(crate) type ConnectionId = u64;

/// An HTTP/1 connection that nobody uses at present. Dropped, it closes.
pub(crate) struct Idle {
    pub(crate) id: ConnectionId,
    pub(crate) since: Moment,
    driven: Driven,
}

/// An HTTP/2 connection, shared by the requests on it.
pub(crate) struct Shared {
    pub(crate) id: ConnectionId,
    sender: http2::SendRequest<Reader>,
    streams: AtomicU32,
    resets: AtomicU32,
    /// Its server has taken leave.
    leaving: AtomicBool,
    /// When a stream ended last, in nanoseconds.
    last: AtomicU64,
    /// Ended with the last lease. Left to itself it would stay until its peer speaks: the library
    /// waits for streams that were reset, and looks at them only when something arrives.
    _task: Task,
}

/// A task that ends with this.
pub(crate) struct Task(pub(crate) AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Idle {
    /// Whether it can be used. Cheap as long as nothing has happened on it.
    pub(crate) fn is_ready(&mut self) -> bool {
        !self.has_news() || self.driven.is_ready()
    }

    pub(crate) fn has_news(&self) -> bool {
        self.driven.has_news()
    }

    /// What happens on it is told there.
    pub(crate) fn tell(&self, pool: &Waker) {
        self.driven.rest(pool);
    }
}

impl Shared {
    /// Whether it may ever take another stream.
    pub(crate) fn is_worn(&self) -> bool {
        let over = self.sender.is_closed() || self.leaving.load(Ordering::Relaxed);
        over || self.resets.load(Ordering::Relaxed) >= MAX_RESETS
    }

    /// Whether it has had no stream since then.
    pub(crate) fn is_idle_since(&self, then: Moment) -> bool {
        let unused = self.streams.load(Ordering::Relaxed) == 0;
        unused && self.last.load(Ordering::Relaxed) <= then.as_nanos()
    }

    /// Streams on it.
    pub(crate) fn streams(&self) -> usize {
        self.streams.load(Ordering::Relaxed) as usize
    }

    fn ended(&self, now: Moment) {
        self.last.store(now.as_nanos(), Ordering::Relaxed);
        self.streams.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn has_room(&self) -> bool {
        self.streams.load(Ordering::Relaxed) < MAX_STREAMS && self.sender.is_ready()
    }
}

/// The right to send one request over a connection.
pub(crate) struct Lease {
    pub(crate) id: ConnectionId,
    /// The connection has served before.
    pub(crate) reused: bool,
    pool: Arc<Pool>,
    way: Option<Way>,
    /// Whether the request's body is still read, where it arrives piece by piece.
    reading: Option<Reading>,
}

enum Way {
    Http1(Driven),
    /// An answer has begun before the request was sent whole.
    Early(Uploading),
    Http2(http2::SendRequest<Reader>, Arc<Shared>),
}

/// Why a request got no response.
pub(crate) struct Unanswered {
    pub(crate) error: hyper::Error,
    /// The request, if not one byte of it was written.
    pub(crate) request: Option<Request<Reader>>,
}

impl Lease {
    pub(crate) fn http1(pool: Arc<Pool>, idle: Idle) -> Lease {
        Lease { id: idle.id, reused: true, pool, way: Some(Way::Http1(idle.driven)), reading: None }
    }

    pub(crate) fn http2(pool: Arc<Pool>, shared: &Arc<Shared>, reused: bool) -> Lease {
        shared.streams.fetch_add(1, Ordering::Relaxed);
        let way = Way::Http2(shared.sender.clone(), shared.clone());
        Lease { id: shared.id, reused, pool, way: Some(way), reading: None }
    }

    pub(crate) fn is_http2(&self) -> bool {
        matches!(self.way, Some(Way::Http2(..)))
    }

    /// Sends the request.
    pub(crate) fn send(&mut self, request: Request<Reader>) -> Sent {
        match &mut self.way {
            Some(Way::Http1(driven)) => {
                self.reading = request.body().reading();
                driven.send(request)
            }
            Some(Way::Http2(sender, _)) => Box::pin(sender.try_send_request(request)),
            Some(Way::Early(_)) | None => Box::pin(std::future::pending()),
        }
    }

    /// The head of the response to what was sent.
    pub(crate) fn poll_head(
        &mut self,
        sent: &mut Sent,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Response<Incoming>, Unanswered>> {
        let came = match &mut self.way {
            Some(Way::Http1(driven)) => driven.poll(cx, |_, cx| sent.as_mut().poll(cx)),
            _ => sent.as_mut().poll(cx),
        };
        if let Poll::Ready(Ok(_)) = came {
            self.send_on();
        }
        came.map_err(|mut refused| {
            let request = refused.take_message();
            Unanswered { request, error: refused.into_error() }
        })
    }

    /// What is left of the request is sent even while nobody asks for more of the answer: a client
    /// may send all of it before it reads.
    fn send_on(&mut self) {
        let Some(reading) = self.reading.take().filter(Reading::goes_on) else { return };
        self.way = match self.way.take() {
            Some(Way::Http1(driven)) => Some(Way::Early(Uploading::start(driven, reading))),
            other => other,
        };
    }

    /// The next frame of that response's body.
    pub(crate) fn poll_frame(
        &mut self,
        body: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut self.way {
            Some(Way::Http1(driven)) => {
                driven.poll(cx, |_, cx| Pin::new(&mut *body).poll_frame(cx))
            }
            Some(Way::Early(uploading)) => uploading.with(|driven| match driven {
                Some(driven) => {
                    let frame = driven.poll(cx, |_, cx| Pin::new(&mut *body).poll_frame(cx));
                    driven.tell_beside();
                    frame
                }
                None => Poll::Ready(None),
            }),
            _ => Pin::new(body).poll_frame(cx),
        }
    }

    /// The server of the connection takes leave: over HTTP/2 it gets no new requests.
    pub(crate) fn retire(&self) {
        if let Some(Way::Http2(_, shared)) = &self.way {
            shared.leaving.store(true, Ordering::Relaxed);
        }
    }

    /// The response is complete: the connection is free for others.
    pub(crate) fn finish(mut self) {
        let way = match self.way.take() {
            Some(Way::Early(uploading)) => uploading.end().map(Way::Http1),
            way => way,
        };
        match way {
            Some(Way::Http1(mut driven)) => {
                let (id, since) = (self.id, self.pool.clock.now());
                if driven.is_ready() {
                    self.pool.give_back(Idle { id, since, driven });
                } else if !driven.is_over() {
                    tokio::spawn(end_of_request(self.pool.clone(), id, driven));
                }
            }
            Some(Way::Http2(_, shared)) => shared.ended(self.pool.clock.now()),
            Some(Way::Early(_)) | None => {}
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(Way::Http2(_, shared)) = self.way.take() {
            shared.ended(self.pool.clock.now());
            shared.resets.fetch_add(1, Ordering::Relaxed);
            self.pool.retire_worn();
        }
    }
}

/// A server may answer before it has read the whole request. What is left is still sent, and then
/// the connection is free; but nobody waits for it longer than for an idle one.
async fn end_of_request(pool: Arc<Pool>, id: ConnectionId, mut driven: Driven) {
    let clock = pool.clock;
    let free = poll_fn(|cx| driven.poll(cx, http1::SendRequest::poll_ready));
    let free = clock.until(clock.now() + IDLE_TIME, free).await;
    if let Some(Ok(())) = free
        && driven.is_ready()
    {
        pool.give_back(Idle { id, since: clock.now(), driven });
    }
}

static NEXT: AtomicU64 = AtomicU64::new(1);

/// A new connection, ready for its first request.
pub(crate) async fn connect(pool: Arc<Pool>) -> io::Result<Lease> {
    let Pool { origin, dial, tls, protocol, .. } = &*pool;
    let (stream, agreed) = open(origin, dial.as_ref(), tls, *protocol).await?;
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    if agreed {
        let shared = http2(id, stream).await?;
        shared.last.store(pool.clock.now().as_nanos(), Ordering::Relaxed);
        let lease = Lease::http2(pool.clone(), &shared, false);
        pool.share(shared);
        return Ok(lease);
    }
    let driven = Driven::handshake(stream, MAX_HEAD).await?;
    Ok(Lease { id, reused: false, pool, way: Some(Way::Http1(driven)), reading: None })
}

async fn open(
    origin: &Origin,
    dial: &dyn Dial,
    tls: &Tls,
    protocol: Protocol,
) -> io::Result<(Box<dyn Io>, bool)> {
    let stream = dial.dial(origin).await?;
    match origin.scheme {
        Scheme::Http => Ok((stream, protocol == Protocol::Http2)),
        Scheme::Https => tls.connect(origin, stream).await,
    }
}

async fn http2(id: ConnectionId, stream: Box<dyn Io>) -> io::Result<Arc<Shared>> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(MAX_HEAD as u32)
        .max_concurrent_reset_streams(MAX_RESETS as usize)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_TIMEOUT);
    let begun = builder.handshake(TokioIo::new(stream)).await;
    let (sender, connection) = begun.map_err(io::Error::other)?;
    let task = Task(tokio::spawn(async move { _ = connection.await }).abort_handle());
    let (streams, resets, last) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU64::new(0));
    let leaving = AtomicBool::new(false);
    Ok(Arc::new(Shared { id, sender, streams, resets, leaving, last, _task: task }))
}
