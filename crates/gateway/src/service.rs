//! One request, from its head to the head of its answer.
//!
//! Invariant: the order is fixed: ids, the record, what is ambiguous, the route, the body, a worker,
//! the exchange. A worker is taken only for a request that is there in full, and a failure at any
//! step leaves through `failure` and nowhere else. The request's deadline counts from the complete
//! request to the head of the answer.

use crate::answer::{Reply, ReplyBody};
use crate::body::Reader;
use crate::connection::{Answers, Response};
use crate::failure;
use crate::head::{Head, Parts};
use crate::ids::Ids;
use crate::origin::Origin;
use crate::payload::{Payload, Tail};
use crate::pulse::{Bounds, Busy, Pulse};
use crate::record::{Active, Outcome, Recorder, Stage, Start};
use crate::route::{self, PoolTimes, Target};
use crate::serve::{Live, Shared};
use crate::stream::{self, Flow};
use crate::{dots, egress, finish, plan, smuggling, wall};
use bytes::Bytes;
use hedgerow_policy::Deadline;
use hedgerow_policy::failure::{At, Class, Failure, Phase};
use hedgerow_upstream::Report;
use hedgerow_worker::Body;
use http::header::{CONNECTION, CONTENT_LENGTH, COOKIE, HeaderName, HeaderValue, TE};
use http::{HeaderMap, Method, StatusCode, Version};
use http_body::Body as _;
use hyper::body::Incoming;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// Headers of one request. Over HTTP/1 the library refuses more by itself.
const MAX_LINES: usize = 100;
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) addr: SocketAddr,
    pub(crate) local: SocketAddr,
    pub(crate) tls: bool,
}

/// Ends a request without an answer: the connection closes, or the stream is reset.
#[derive(Debug)]
pub(crate) struct NoAnswer;

impl std::fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ended without an answer")
    }
}

impl std::error::Error for NoAnswer {}

/// Answers the requests of one connection.
#[derive(Clone)]
pub(crate) struct Service(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) shared: Arc<Shared>,
    peer: Peer,
    pulse: Arc<Pulse>,
}

impl Service {
    pub(crate) fn new(shared: Arc<Shared>, peer: Peer) -> Service {
        let pulse = Pulse::new(shared.clock, Bounds::of(&shared.live().settings));
        Service(Arc::new(Inner { shared, peer, pulse }))
    }
}

impl Answers for Service {
    type Body = Payload;

    /// One request. It has begun, and is recorded, before the future is polled: the library drops
    /// one whose client leaves at once. Boxed: an idle connection should not hold the room for it.
    fn call(
        self,
        request: http::Request<Incoming>,
    ) -> impl Future<Output = Result<Response, NoAnswer>> + Send {
        let begun = self.0.begin(request);
        Box::pin(async move { self.0.answer(begun).await })
    }

    fn pulse(&self) -> &Arc<Pulse> {
        &self.0.pulse
    }

    fn recorder(&self) -> &Recorder {
        &self.0.shared.recorder
    }

    fn remote(&self) -> IpAddr {
        self.0.peer.addr.ip()
    }
}

/// What is carried along from the head of a request to the head of its answer.
pub(crate) struct Turn {
    pub(crate) live: Arc<Live>,
    pub(crate) ids: Ids,
    version: Version,
    /// It is a HEAD request: an answer's body is not for it.
    pub(crate) bodiless: bool,
    pub(crate) active: Active,
    /// How the call came about that answers it, where one does.
    pub(crate) report: Report,
    busy: Busy,
}

/// A request that has begun.
struct Begun {
    turn: Turn,
    parts: http::request::Parts,
    origin: Origin,
    incoming: Incoming,
}

/// A request that is there in full and may go its way.
pub(crate) struct Ready {
    pub(crate) to: Target,
    pub(crate) body: Body,
    authority: String,
    pub(crate) request_timeout: Duration,
    pub(crate) pool: PoolTimes,
}

impl Inner {
    fn begin(&self, request: http::Request<Incoming>) -> Begun {
        let busy = self.pulse.begin();
        let live = self.shared.live();
        let (mut parts, incoming) = request.into_parts();
        let ids = Ids::of(&parts.headers);
        let trusted = &live.settings.trusted_proxies;
        let origin = Origin::of(self.peer.addr.ip(), self.peer.tls, &parts.headers, trusted);
        let (headers, authority) = (&mut parts.headers, parts.uri.authority());
        let span = self.shared.recorder.traced(headers, authority, &ids.trace, origin.scheme);
        let active = self.shared.recorder.begin(Start {
            trace_id: ids.trace.clone(),
            request_id: ids.request.clone(),
            method: parts.method.clone(),
            path: parts.uri.path().to_owned(),
            remote_addr: origin.remote,
            protocol: protocol(parts.version),
            received: self.shared.clock.now(),
            span,
        });
        let bodiless = parts.method == Method::HEAD;
        let report = Report::default();
        let turn = Turn { live, ids, version: parts.version, bodiless, active, report, busy };
        if incoming.is_end_stream() {
            turn.received();
        }
        Begun { turn, parts, origin, incoming }
    }

    async fn answer(&self, begun: Begun) -> Result<Response, NoAnswer> {
        let Begun { turn, parts, origin, mut incoming } = begun;
        let has_body = !incoming.is_end_stream();
        let ready = tokio::select! {
            biased;
            ready = self.receive(&turn, &parts, &origin, &mut incoming) => ready,
            failure = self.ended(&turn) => Err(failure),
        };
        let ready = match ready {
            Ok(ready) => ready,
            Err(failure) => return self.fail(turn, failure, &parts.headers, has_body),
        };
        turn.received();
        let now = self.shared.clock.now();
        let deadline = Deadline::new(now + ready.request_timeout, Phase::Request);
        turn.active.set_deadline(deadline.at);
        let head = Arc::new(Head::new(Parts {
            ids: turn.ids.clone(),
            head: parts,
            origin,
            authority: ready.authority.clone(),
            local: self.peer.local,
            names: Arc::clone(&turn.live.names),
            deadline_unix_ms: Some(wall::now().unix_millis_after(ready.request_timeout)),
        }));
        match &ready.to {
            Target::Worker => self.work(turn, &head, ready, deadline).await,
            Target::Upstream(name) => {
                let name = name.clone();
                self.proxy(turn, &head, &name, ready.body, deadline).await
            }
            Target::Static(folder) => {
                let folder = Arc::clone(folder);
                self.file(turn, &head, folder, deadline).await
            }
        }
    }

    /// Everything before a worker is taken.
    async fn receive(
        &self,
        turn: &Turn,
        parts: &http::request::Parts,
        origin: &Origin,
        incoming: &mut Incoming,
    ) -> Result<Ready, Failure> {
        if turn.version == Version::HTTP_2 && lines(&parts.headers) > MAX_LINES {
            let message = "the head has more than 100 headers";
            return Err(Failure::new(Class::HeadersTooLarge, At::Client, message));
        }
        let addressed = smuggling::check(&parts.method, &parts.uri, parts.version, &parts.headers)?;
        let asked = origin.authority.as_deref().and_then(smuggling::parse_authority);
        let host = asked.map_or(addressed.host, |asked| asked.host);
        let settings = &turn.live.settings;
        let path = parts.uri.path();
        let way = route::find(settings, &parts.method, host, path);
        if way.by_prefix {
            dots::check(path)?;
        }
        if *way.to == Target::Worker {
            // Said before the body comes: nobody would read it.
            self.shared.pool()?;
        }
        let reader = Reader {
            memory: Arc::clone(&self.shared.memory),
            limit: way.body_limit,
            spool_dir: settings.spool_dir.clone(),
        };
        let limit = self.shared.clock.now() + way.body_timeout;
        let came = |bytes| turn.active.add_bytes_in(bytes);
        let read = reader.read(incoming, came, |bytes| turn.active.add_spooled(bytes));
        let body = self.shared.clock.until(limit, read).await.unwrap_or_else(|| {
            let message = "the body did not come in time";
            Err(Failure::new(Class::RequestTimeout, At::Client, message))
        })?;
        let authority = addressed.text.to_owned();
        let (to, request_timeout) = (way.to.clone(), way.request_timeout);
        Ok(Ready { to, body, authority, request_timeout, pool: way.pool })
    }

    pub(crate) fn reply(&self, turn: Turn, reply: Reply) -> Response {
        let Reply { status, mut headers, body, stream } = reply;
        turn.dress(&mut headers);
        let streams = matches!(body, ReplyBody::Flow(_));
        turn.active.set_stage(if streams { Stage::Streaming } else { Stage::Sending });
        if streams && turn.version < Version::HTTP_11 {
            turn.busy.pulse().send_unframed();
        }
        let outcome = Outcome { status: status.as_u16(), failure: None, stream };
        let trace = turn.ids.trace.clone();
        let tail = self.tail(turn, outcome);
        let payload = match body {
            ReplyBody::Full(bytes) => Payload::full(bytes, tail),
            ReplyBody::Flow(source) => Payload::flow(Flow { source, trace, tail: Box::new(tail) }),
        };
        respond(status, headers, payload)
    }

    /// The one way out for failures. Where nobody is left to answer there is no answer.
    pub(crate) fn fail(
        &self,
        turn: Turn,
        failure: Failure,
        asked: &HeaderMap,
        unread: bool,
    ) -> Result<Response, NoAnswer> {
        self.fail_with(turn, failure, asked, unread, None)
    }

    /// The same, for a client that takes a failure as events.
    pub(crate) fn fail_with(
        &self,
        turn: Turn,
        failure: Failure,
        asked: &HeaderMap,
        unread: bool,
        events: Option<Bytes>,
    ) -> Result<Response, NoAnswer> {
        if failure.class == Class::ClientClosed {
            let status = finish::CLIENT_CLOSED;
            turn.active.finish(Outcome { status, failure: Some(failure), stream: None });
            return Err(NoAnswer);
        }
        let (status, mut headers, mut body) =
            failure::respond(&failure, &turn.ids, &turn.live.names, turn.live.style, asked);
        if let Some(events) = events {
            plan::as_events(&mut headers, &mut body, events);
        }
        turn.dress(&mut headers);
        if unread {
            turn.busy.pulse().leave_unread();
        }
        // Where the next request begins is not certain any more.
        if (unread || failure.class == Class::BadRequest) && turn.version < Version::HTTP_2 {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        turn.active.set_stage(Stage::Sending);
        let outcome = Outcome { status: status.as_u16(), failure: Some(failure), stream: None };
        let bodiless = turn.bodiless;
        let tail = self.tail(turn, outcome);
        // What must not be sent must not be offered either: HTTP/2 would send it, and HTTP/1 would
        // drop it unread, which is what a client that left looks like.
        let payload = if bodiless {
            headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
            Payload::empty(tail)
        } else {
            Payload::full(body, tail)
        };
        Ok(respond(status, headers, payload))
    }

    /// Waits until somebody other than the client or the worker ends the request.
    pub(crate) async fn ended(&self, turn: &Turn) -> Failure {
        tokio::select! {
            () = turn.active.cancelled() => stream::cancelled(),
            () = self.shared.failing() => stream::drained(),
        }
    }

    fn tail(&self, turn: Turn, outcome: Outcome) -> Tail {
        let shared = Arc::clone(&self.shared);
        Tail { active: turn.active, shared, outcome, busy: turn.busy }
    }
}

impl Turn {
    /// The request is there in full.
    fn received(&self) {
        if self.version < Version::HTTP_2 {
            self.busy.pulse().received(self.version == Version::HTTP_11);
        }
    }

    /// Whether the client takes trailers: over HTTP/1 it says so, over HTTP/2 it always can.
    pub(crate) fn takes_trailers(&self, asked: &HeaderMap) -> bool {
        let mut lists = asked.get_all(TE).iter().filter_map(|list| list.to_str().ok());
        let mut said =
            || lists.any(|l| l.split(',').any(|t| t.trim().eq_ignore_ascii_case("trailers")));
        self.version == Version::HTTP_2 || (self.version == Version::HTTP_11 && said())
    }

    /// What every answer carries.
    fn dress(&self, headers: &mut HeaderMap) {
        let ids =
            [(REQUEST_ID, &self.ids.request), (self.live.names.trace_id.clone(), &self.ids.trace)];
        for (name, id) in ids {
            if let Ok(value) = HeaderValue::from_str(id) {
                headers.insert(name, value);
            }
        }
        egress::mark(headers, self.report);
    }
}

/// The headers of a request; the crumbs of a cookie are one (RFC 9113, 8.2.3).
fn lines(headers: &HeaderMap) -> usize {
    headers.len() - headers.get_all(COOKIE).iter().count().saturating_sub(1)
}

/// A response of these parts.
pub(crate) fn respond<B>(status: StatusCode, headers: HeaderMap, body: B) -> http::Response<B> {
    let mut response = http::Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_2 => "HTTP/2.0",
        Version::HTTP_10 => "HTTP/1.0",
        _ => "HTTP/1.1",
    }
}
