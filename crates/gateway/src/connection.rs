//! One client connection: HTTP/1 or HTTP/2 by the HTTP library, under our clock.
//!
//! Invariant: every wait on a client is bounded (see `pulse`), every size it can choose is bounded,
//! and a connection ends in a way that cannot be mistaken: an answer that was given before the
//! request was read whole is followed by a lingering close, so that it is not lost to a reset.

use crate::payload::Payload;
use crate::pulse::{Pulse, Wait};
use crate::record::Recorder;
use crate::serve::Phase;
use crate::service::NoAnswer;
use crate::tls;
use crate::watched::Watched;
use bytes::Bytes;
use hedgerow_clock::Clock;
use hedgerow_policy::Moment;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::future::{Future, poll_fn};
use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

/// Largest request head, line and all. (It may have 100 headers: the HTTP library's own bound, which
/// costs nothing.)
const MAX_HEAD: usize = 64 << 10;
/// Streams of one HTTP/2 connection at once.
const MAX_STREAMS: u32 = 128;
/// Streams a client may reset before they were looked at (CVE-2023-44487), and streams reset
/// because of its errors.
const MAX_RESETS: usize = 64;
/// Body bytes in flight, for one stream and for one connection.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;
/// Answer bytes that HTTP/2 takes ahead of the client.
const SEND_BUFFER: usize = 64 << 10;
/// How long a connection that was accepted within a drain may take to begin its one request.
const LAST: Duration = Duration::from_secs(1);
/// How long a close lingers for a client that is still sending.
const LINGER: Duration = Duration::from_secs(2);

/// What is spoken on a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Spoken {
    Http1,
    Http2,
    /// To be seen from its first bytes (RFC 9113, 3.3).
    Either,
}

/// A connection that bytes go over.
pub(crate) trait Transport: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    fn tcp(&self) -> &TcpStream;
}

impl Transport for TcpStream {
    fn tcp(&self) -> &TcpStream {
        self
    }
}

impl Transport for tls::Stream {
    fn tcp(&self) -> &TcpStream {
        tls::tcp(self)
    }
}

/// Who answers the requests of a connection, at either listener.
pub(crate) trait Answers: Clone + Send + Sync + 'static {
    /// The body of its answers.
    type Body: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static;

    /// One request.
    fn call(
        self,
        request: http::Request<Incoming>,
    ) -> impl Future<Output = Result<http::Response<Self::Body>, NoAnswer>> + Send;

    /// The pulse of the connection.
    fn pulse(&self) -> &Arc<Pulse>;

    /// Takes down what was no request.
    fn recorder(&self) -> &Recorder;

    /// Where the client is.
    fn remote(&self) -> IpAddr;
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// How the driving of a connection ended.
enum End {
    /// The HTTP library was done with it.
    Library(hyper::Result<()>),
    /// A wait was too long.
    Waited(Wait),
    /// The drain's time is over.
    Cut,
}

/// Serves a connection to its end.
///
/// Between requests it is either awake, with the HTTP library and its buffers around it, or at
/// rest: then it is little more than a socket, which is what most kept connections are most of the
/// time.
pub(crate) async fn serve<T: Transport, S: Answers>(
    service: S,
    mut io: T,
    mut spoken: Spoken,
    mut phase: watch::Receiver<Phase>,
) {
    let pulse = Arc::clone(service.pulse());
    let mut first = Bytes::new();
    loop {
        if first.is_empty() && spoken != Spoken::Http2 {
            let looked = look(&mut io, spoken == Spoken::Either);
            let clock = pulse.clock();
            let limit = match *phase.borrow() {
                Phase::Serving => pulse.idle_until(),
                _ => pulse.idle_until().min(clock.now() + LAST),
            };
            // What has come is looked at before the phase: it must not be lost to a drain.
            let looked = tokio::select! {
                biased;
                looked = clock.until(limit, looked) => looked,
                _ = phase.changed() => return,
            };
            match looked {
                Some(Ok((found, bytes))) if !bytes.is_empty() => (spoken, first) = (found, bytes),
                _ => return,
            }
        }
        let watched = Watched::new(io, Arc::clone(&pulse), std::mem::take(&mut first));
        if spoken == Spoken::Http2 {
            pulse.multiplex();
            return Box::pin(serve_http2(watched, service, pulse, phase)).await;
        }
        match Box::pin(serve_http1(watched, &service, &pulse, &mut phase)).await {
            Some(rested) => (io, first) = rested,
            None => return,
        }
    }
}

/// Waits for the first bytes, in next to no memory; reads on as long as they could still become
/// the preface of HTTP/2, where that is wanted.
async fn look<T: AsyncRead + Unpin>(io: &mut T, either: bool) -> io::Result<(Spoken, Bytes)> {
    const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let mut first = [0; PREFACE.len()];
    let mut length = io.read(&mut first).await?;
    while either && length > 0 && length < first.len() && first[..length] == PREFACE[..length] {
        match io.read(&mut first[length..]).await? {
            0 => break,
            count => length += count,
        }
    }
    let spoken = if either && first == *PREFACE { Spoken::Http2 } else { Spoken::Http1 };
    Ok((spoken, Bytes::copy_from_slice(&first[..length])))
}

/// Serves requests until the connection ends (`None`) or comes to rest.
async fn serve_http1<T: Transport, S: Answers>(
    io: Watched<T>,
    service: &S,
    pulse: &Pulse,
    phase: &mut watch::Receiver<Phase>,
) -> Option<(T, Bytes)> {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new());
    // The head's clock is `pulse`: see there.
    builder.header_read_timeout(None);
    builder.max_header_size(MAX_HEAD);
    builder.max_buf_size(MAX_HEAD);
    builder.keep_alive(*phase.borrow() == Phase::Serving);
    let answering = service.clone();
    let answer = hyper::service::service_fn(move |request| answering.clone().call(request));
    let mut connection = builder.serve_connection(TokioIo::new(io), answer);
    let graceful = |c: Pin<&mut http1::Connection<_, _>>| c.graceful_shutdown();
    let end = drive(Pin::new(&mut connection), graceful, pulse, phase).await;
    let parts = connection.into_parts();
    let mut io = parts.io.into_inner().into_inner();
    let (recorder, remote, clock) = (service.recorder(), service.remote(), pulse.clock());
    let now = *phase.borrow();
    match end {
        End::Waited(Wait::Rest) => {
            // Empty bytes may still hold on to the buffer they were part of.
            let left = if parts.read_buf.is_empty() { Bytes::new() } else { parts.read_buf };
            return Some((io, left));
        }
        End::Library(Ok(())) => {
            if pulse.left_unread() {
                Box::pin(linger(clock, &mut io, now)).await;
            }
        }
        End::Library(Err(error)) if error.is_parse() => {
            recorder.bad_head(remote, parse_reason(&error));
            Box::pin(linger(clock, &mut io, now)).await;
        }
        // The body of an answer failed. Where its end is the end of the connection, an orderly
        // close would look like the end; so this one is not orderly.
        End::Library(Err(error)) if error.is_user() && pulse.sends_unframed() => reset(&io),
        End::Library(Err(_)) | End::Waited(Wait::Idle) | End::Cut => {}
        End::Waited(Wait::Head) => {
            recorder.bad_head(remote, "header_timeout");
            const LATE: &[u8] =
                b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
            let sent = io.write_all(LATE);
            let _ = clock.until(clock.now() + LINGER, sent).await;
        }
        End::Waited(Wait::Taking) => reset(&io),
    }
    None
}

async fn serve_http2<T: Transport, S: Answers>(
    io: Watched<T>,
    service: S,
    pulse: Arc<Pulse>,
    mut phase: watch::Receiver<Phase>,
) {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEAD as u32)
        .max_pending_accept_reset_streams(MAX_RESETS)
        .max_local_error_reset_streams(MAX_RESETS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .keep_alive_interval(Duration::from_secs(20))
        .keep_alive_timeout(Duration::from_secs(20));
    let answer = hyper::service::service_fn(move |request| service.clone().call(request));
    let mut connection = pin!(builder.serve_connection(TokioIo::new(io), answer));
    let graceful = |c: Pin<&mut http2::Connection<_, _, _>>| c.graceful_shutdown();
    if *phase.borrow() != Phase::Serving {
        graceful(connection.as_mut());
    }
    drive(connection, graceful, &pulse, &mut phase).await;
}

/// Polls a connection until it ends, a wait was too long, or the drain is over. One timer for
/// everything, set again only when the next bound comes sooner than it.
async fn drive<C: Future<Output = hyper::Result<()>>>(
    mut connection: Pin<&mut C>,
    graceful: impl Fn(Pin<&mut C>),
    pulse: &Pulse,
    phase: &mut watch::Receiver<Phase>,
) -> End {
    enum Woken {
        Done(hyper::Result<()>),
        Timer,
        Phase(bool),
    }
    let clock = pulse.clock();
    let mut armed = Moment::NEVER;
    let mut timer = pin!(clock.sleep_until(armed));
    let mut closing = false;
    loop {
        let woken = {
            let mut changed = pin!(phase.changed());
            poll_fn(|cx| {
                if let Poll::Ready(result) = connection.as_mut().poll(cx) {
                    return Poll::Ready(Woken::Done(result));
                }
                if let Poll::Ready(told) = changed.as_mut().poll(cx) {
                    return Poll::Ready(Woken::Phase(told.is_ok()));
                }
                let due = pulse.due();
                if due < armed {
                    armed = due;
                    timer.set(clock.sleep_until(due));
                }
                timer.as_mut().poll(cx).map(|()| Woken::Timer)
            })
            .await
        };
        match woken {
            Woken::Done(result) => return End::Library(result),
            Woken::Timer => match pulse.overdue() {
                None => {
                    armed = pulse.due();
                    timer.set(clock.sleep_until(armed));
                }
                Some(Wait::Idle) if !closing => {
                    // HTTP/2 says goodbye; HTTP/1 closes at once.
                    closing = true;
                    graceful(connection.as_mut());
                    armed = clock.now() + LINGER;
                    timer.set(clock.sleep_until(armed));
                }
                Some(wait) => return End::Waited(wait),
            },
            // Nobody is left to tell the phase: the gateway is gone.
            Woken::Phase(false) => return End::Cut,
            Woken::Phase(true) => match *phase.borrow_and_update() {
                Phase::Serving => {}
                Phase::Draining | Phase::Failing => {
                    closing = true;
                    graceful(connection.as_mut());
                }
                Phase::Over => return End::Cut,
            },
        }
    }
}

fn parse_reason(error: &hyper::Error) -> &'static str {
    if error.is_parse_too_large() { "too_large" } else { "parse" }
}

/// Reads what the client is still sending, for a while, so that the close does not become a reset
/// that takes the answer away from it.
async fn linger<T: Transport>(clock: Clock, io: &mut T, phase: Phase) {
    let patience = if phase == Phase::Serving { LINGER } else { LINGER / 4 };
    let drained = async {
        io.shutdown().await?;
        let mut waste = [0; 4096];
        while io.read(&mut waste).await? > 0 {}
        io::Result::Ok(())
    };
    let _ = clock.until(clock.now() + patience, drained).await;
}

/// Makes the close a reset.
fn reset<T: Transport>(io: &T) {
    let _ = socket2::SockRef::from(io.tcp()).set_linger(Some(Duration::ZERO));
}

/// The body type of the services here.
pub(crate) type Response = http::Response<Payload>;
