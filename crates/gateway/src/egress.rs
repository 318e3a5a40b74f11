//! The egress port: applications call upstreams through it by changing a base URL.
//!
//! Invariant: what the upstream answered passes through, a final 500 included; what it did not
//! answer leaves as every failure here does. Bodies stream both ways. A client that leaves ends its
//! call. Every call is recorded as a request is: one access line, one event, one step of a counter.
//! The port answers on loopback alone: whoever reaches it can reach every upstream.

mod marks;
mod recorded;

pub(crate) use marks::mark;

use crate::batch::{self, Form, Results};
use crate::calls::Calls;
use crate::connection::{self, Answers, Spoken};
use crate::ids::Ids;
use crate::live::Via;
use crate::pulse::{Bounds, Busy, Pulse};
use crate::record::{Active, Outcome, Recorder, Stage, Start};
use crate::sequence::{Sequence, Source};
use crate::serve::{Live, Phase, StartError};
use crate::service::{NoAnswer, respond};
use crate::settings::Settings;
use crate::{dots, failure, finish, listener, stream};
use bytes::Bytes;
use hedgerow_clock::Clock;
use hedgerow_policy::Moment;
use hedgerow_policy::failure::{At, Class, Failure};
use hedgerow_upstream::{CallOptions, PlanContext, Report};
use http::header::{ACCEPT, CONTENT_LENGTH, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, Version};
use http_body::{Body as _, Frame};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use recorded::{Metered, Recorded};
use std::future::{Future, poll_fn};
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Where batches are taken.
const BATCH: &str = "/-/batch";
/// What a drain gives calls in flight at the least.
const AT_LEAST: Duration = Duration::from_secs(1);
/// Largest batch, in bytes.
const BATCH_LIMIT: usize = 16 << 20;

type Body = UnsyncBoxBody<Bytes, Failure>;
type Answer = Response<Body>;

/// The running port. Dropping it ends every call.
pub struct Egress {
    local_addr: SocketAddr,
    phase: watch::Sender<Phase>,
    drain: Duration,
}

struct Shared {
    live: Live,
    calls: Calls,
    recorder: Recorder,
    clock: Clock,
}

impl Egress {
    /// Opens the address and serves. Failures look as `settings` say; every call is recorded.
    ///
    /// # Errors
    /// When the address cannot be opened, or the header prefix is none.
    pub fn start(
        listen: SocketAddr,
        settings: &Settings,
        calls: Calls,
        recorder: Recorder,
        clock: Clock,
    ) -> Result<Egress, StartError> {
        let failed = |source| StartError::Listen { addr: listen, source };
        let live = Live::new(Settings { tls: None, ..settings.clone() })?;
        let listener = listener::bind(listen).map_err(failed)?;
        let local_addr = listener.local_addr().map_err(failed)?;
        let (phase, phases) = watch::channel(Phase::Serving);
        let most = live.settings.max_connections.clamp(1, Semaphore::MAX_PERMITS);
        calls.set_egress_limit(most);
        let room = Arc::new(Semaphore::new(most));
        let shared = Arc::new(Shared { live, calls, recorder, clock });
        tokio::spawn(accept(shared, listener, room, phases));
        Ok(Egress { local_addr, phase, drain: settings.drain })
    }

    /// Where it listens.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Accepts nothing more and lets calls in flight finish, until [`Settings::drain`] has passed since
    /// `began`, but for a second at the least: workers that end may still call.
    pub async fn drain(&self, clock: Clock, began: Moment) {
        self.phase.send_replace(Phase::Draining);
        let until = (began + self.drain).max(clock.now() + AT_LEAST);
        let _ = clock.until(until, self.phase.closed()).await;
    }
}

async fn accept(
    shared: Arc<Shared>,
    listener: TcpListener,
    room: Arc<Semaphore>,
    phase: watch::Receiver<Phase>,
) {
    let mut told = phase.clone();
    loop {
        let next = async {
            // Over the bound the kernel's backlog waits. The semaphore is never closed.
            let place = Arc::clone(&room).acquire_owned().await.ok();
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            _ = told.changed() => return,
            next = next => next,
        };
        match accepted {
            Ok((tcp, peer)) => {
                let _ = tcp.set_nodelay(true);
                let (caller, phase) = (Caller::new(&shared, peer.ip()), phase.clone());
                let counted = shared.calls.egress_connection();
                tokio::spawn(async move {
                    connection::serve(caller, tcp, Spoken::Http1, phase).await;
                    drop((counted, place));
                });
            }
            Err(_) => {
                let clock = shared.clock;
                clock.sleep_until(clock.now() + Duration::from_millis(50)).await;
            }
        }
    }
}

/// Answers the calls of one connection.
#[derive(Clone)]
struct Caller(Arc<Connection>);

struct Connection {
    shared: Arc<Shared>,
    peer: IpAddr,
    pulse: Arc<Pulse>,
}

impl Caller {
    fn new(shared: &Arc<Shared>, peer: IpAddr) -> Caller {
        let pulse = Pulse::new(shared.clock, Bounds::of(&shared.live.settings));
        Caller(Arc::new(Connection { shared: Arc::clone(shared), peer, pulse }))
    }
}

impl Answers for Caller {
    type Body = Recorded;

    /// Boxed, and as small as may be: the library would move it around with every call.
    fn call(
        self,
        request: Request<Incoming>,
    ) -> impl Future<Output = Result<Response<Recorded>, NoAnswer>> + Send {
        let busy = self.0.pulse.begin();
        // Before the library reads on: it may come to the end of what the client says.
        if request.body().is_end_stream() {
            busy.pulse().received(request.version() == Version::HTTP_11);
        }
        Box::pin(answer(self.0, request, busy))
    }

    fn pulse(&self) -> &Arc<Pulse> {
        &self.0.pulse
    }

    fn recorder(&self) -> &Recorder {
        &self.0.shared.recorder
    }

    fn remote(&self) -> IpAddr {
        self.0.peer
    }
}

async fn answer(
    connection: Arc<Connection>,
    mut request: Request<Incoming>,
    busy: Busy,
) -> Result<Response<Recorded>, NoAnswer> {
    let (shared, pulse) = (&*connection.shared, &connection.pulse);
    let ids = Ids::of(request.headers());
    let asked = accepted(request.headers());
    let bodiless = request.method() == Method::HEAD;
    let span = shared.recorder.traced(request.headers_mut(), None, &ids.trace, "http");
    let start = Start {
        trace_id: ids.trace.clone(),
        request_id: ids.request.clone(),
        method: request.method().clone(),
        path: request.uri().path().to_owned(),
        remote_addr: connection.peer,
        protocol: "HTTP/1.1",
        received: shared.clock.now(),
        span,
    };
    let active = shared.recorder.begin_via(start, Via::Egress);
    let mut cancelled = active.cancelling();
    let mut report = Report::default();
    let answered = {
        // Pinned where it stands, so that it is not moved into the select.
        let answering = pin!(async {
            if request.uri().path() == BATCH {
                Box::pin(shared.batch(request, &ids, &active, pulse)).await
            } else {
                shared.call(request, &ids, &active, pulse, &mut report).await
            }
        });
        tokio::select! {
            biased;
            answered = answering => answered,
            () = &mut cancelled => Err(stream::cancelled()),
        }
    };
    active.set_stage(Stage::Sending);
    let mut failed = None;
    let answer = match answered {
        Ok(answer) => answer,
        Err(failure) if failure.class == Class::ClientClosed => {
            let status = finish::CLIENT_CLOSED;
            active.finish(Outcome { status, failure: Some(failure), stream: None });
            return Err(NoAnswer);
        }
        Err(failure) => {
            let refused = shared.refused(&failure, &ids, report, &asked);
            failed = Some(failure);
            refused
        }
    };
    let (mut head, body) = answer.into_parts();
    if let Ok(trace) = HeaderValue::from_str(&ids.trace) {
        head.headers.insert(shared.live.names.trace_id.clone(), trace);
    }
    // An upstream's own stays: that is the one its operators know.
    if let Ok(request) = HeaderValue::from_str(&ids.request) {
        head.headers.entry(REQUEST_ID).or_insert(request);
    }
    let announced = head.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    let none = bodiless || matches!(head.status.as_u16(), 204 | 304);
    let left = if none { Some(0) } else { announced.and_then(|length| length.parse().ok()) };
    pulse.answered();
    let outcome = Outcome { status: head.status.as_u16(), failure: failed, stream: None };
    let recorder = shared.recorder.clone();
    let body = Recorded::new(body, left, recorder, (active, outcome, busy), cancelled);
    Ok(Response::from_parts(head, body))
}

impl Shared {
    /// A failure as an answer.
    fn refused(&self, failure: &Failure, ids: &Ids, report: Report, asked: &HeaderMap) -> Answer {
        let Live { names, style, .. } = &self.live;
        let (status, mut headers, body) = failure::respond(failure, ids, names, *style, asked);
        mark(&mut headers, report);
        respond(status, headers, Full::new(body).map_err(|never| match never {}).boxed_unsync())
    }

    async fn call(
        &self,
        request: Request<Incoming>,
        ids: &Ids,
        active: &Active,
        pulse: &Arc<Pulse>,
        report: &mut Report,
    ) -> Result<Answer, Failure> {
        let (mut parts, body) = request.into_parts();
        let askable = parts.version == Version::HTTP_11;
        let (name, rest) = addressed(&parts.uri)?;
        let client = self.calls.current().client().clone();
        if !client.knows(&name) {
            let text = format!("there is no upstream {name:?}");
            return Err(Failure::new(Class::NotFound, At::Client, text));
        }
        parts.uri = rest;
        let body = if body.is_end_stream() {
            hedgerow_upstream::Body::empty()
        } else {
            hedgerow_upstream::Body::stream(self.metered(body, active, pulse, askable))
        };
        let options = CallOptions { trace: ids.trace.clone(), ..CallOptions::default() };
        let called = client.call_with(&name, Request::from_parts(parts, body), options).await;
        let came = match &called {
            Ok(response) => response.report(),
            Err(error) => error.report,
        };
        *report = came;
        active.set_call(name, came);
        let mut response = called.map_err(|error| error.failure)?;
        let (status, mut headers) = (response.status(), std::mem::take(response.headers_mut()));
        mark(&mut headers, came);
        self.live.names.remove_own(&mut headers);
        let body = Begun::look(response).await?;
        Ok(respond(status, headers, body.boxed_unsync()))
    }

    fn metered(
        &self,
        body: Incoming,
        active: &Active,
        pulse: &Arc<Pulse>,
        askable: bool,
    ) -> Metered {
        let silence = self.live.settings.body_timeout;
        Metered::new(body, active.meter(), self.clock, silence, pulse, askable)
    }

    async fn batch(
        &self,
        request: Request<Incoming>,
        ids: &Ids,
        active: &Active,
        pulse: &Arc<Pulse>,
    ) -> Result<Answer, Failure> {
        if request.method() != Method::POST {
            return Err(Failure::new(Class::NotFound, At::Client, "a batch is posted"));
        }
        let form = Form::of(request.headers());
        let askable = request.version() == Version::HTTP_11;
        let body = self.metered(request.into_body(), active, pulse, askable);
        let body = Limited::new(body, BATCH_LIMIT).collect().await;
        let body = body.map_err(|error| {
            let class = if error.is::<http_body_util::LengthLimitError>() {
                Class::RequestTooLarge
            } else if error.is::<std::io::Error>() {
                Class::RequestTimeout
            } else {
                Class::ClientClosed
            };
            Failure::new(class, At::Client, format!("reading a batch: {error}"))
        })?;
        let batch = batch::read(&body.to_bytes(), At::Client)?;
        let context = PlanContext {
            trace: ids.trace.clone(),
            request_id: ids.request.to_string(),
            traceparent: active.traceparent(),
            deadline: Moment::NEVER,
        };
        let results = Results::start(&self.calls.current(), batch, &context, form)?;
        let headers = results.headers();
        Ok(respond(StatusCode::OK, headers, Sequence::new(results).boxed_unsync()))
    }
}

/// What of a request's head matters to a failure.
fn accepted(headers: &HeaderMap) -> HeaderMap {
    headers.get_all(ACCEPT).iter().map(|value| (ACCEPT, value.clone())).collect()
}

/// The upstream's name and the rest of the path, with the query.
fn addressed(uri: &Uri) -> Result<(String, Uri), Failure> {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let path = path.strip_prefix('/').unwrap_or(path);
    let end = path.find(['/', '?']).unwrap_or(path.len());
    let (name, rest) = path.split_at(end);
    let rest = if rest.starts_with('/') { rest.to_owned() } else { format!("/{rest}") };
    let rest = Uri::try_from(rest)
        .map_err(|_| Failure::new(Class::BadRequest, At::Client, "a path that is none"))?;
    dots::check(rest.path())?;
    Ok((name.to_owned(), rest))
}

/// A body of which what had come already was looked at: one that is broken from its first byte on
/// is still a failure with a status, not a connection that ends without an answer.
struct Begun {
    first: Option<Frame<Bytes>>,
    rest: hedgerow_upstream::Response,
}

impl Begun {
    async fn look(mut rest: hedgerow_upstream::Response) -> Result<Begun, Failure> {
        let here = poll_fn(|cx| {
            Poll::Ready(match Pin::new(&mut rest).poll_frame(cx) {
                Poll::Ready(frame) => frame.transpose(),
                Poll::Pending => Ok(None),
            })
        });
        let first = here.await?;
        Ok(Begun { first, rest })
    }
}

impl http_body::Body for Begun {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        match self.first.take() {
            Some(first) => Poll::Ready(Some(Ok(first))),
            None => Pin::new(&mut self.rest).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.rest.is_end_stream()
    }
}

impl Source for Results {
    type Error = Failure;

    async fn next(&mut self) -> Option<Result<Bytes, Failure>> {
        Results::next(self).await.map(Ok)
    }
}
