//! Request and response heads: what belongs to one hop, and what an attempt adds.
//!
//! Invariant: headers that belong to a connection (RFC 9110, 7.6.1) never cross it.

use crate::origin::{Origin, Scheme};
use http::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, RETRY_AFTER, TE, TRANSFER_ENCODING,
};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, Version};
use std::time::Duration;

/// Names which attempt of its key a request is, from 1.
pub(crate) const ATTEMPT: HeaderName = HeaderName::from_static("hedgerow-attempt");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const UPGRADE: HeaderName = HeaderName::from_static("upgrade");
/// Says that a request may be sent twice.
pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Longest Retry-After that is believed.
const LONGEST_WAIT: Duration = Duration::from_secs(3_600);

/// The head of a key's request, from which each attempt's is made.
pub(crate) struct Template {
    pub(crate) method: Method,
    path: PathAndQuery,
    headers: HeaderMap,
}

impl Template {
    /// Takes what may cross the hop.
    pub(crate) fn new<B>(request: &mut Request<B>) -> Template {
        let mut headers = std::mem::take(request.headers_mut());
        strip(&mut headers);
        headers.remove(HOST);
        headers.remove(CONTENT_LENGTH); // the body says it
        let path = request.uri().path_and_query().cloned();
        let path = path.unwrap_or(PathAndQuery::from_static("/"));
        Template { method: request.method().clone(), path, headers }
    }

    pub(crate) fn is_keyed(&self) -> bool {
        self.headers.contains_key(IDEMPOTENCY_KEY)
    }

    /// The trace context of whoever makes the call.
    pub(crate) fn traceparent(&self) -> Option<&str> {
        self.headers.get(TRACEPARENT)?.to_str().ok()
    }

    /// With that trace context, if it has none.
    pub(crate) fn trace_under(&mut self, context: &str) {
        if let Ok(value) = HeaderValue::from_str(context) {
            self.headers.entry(TRACEPARENT).or_insert(value);
        }
    }

    /// The request of attempt `number` (from 0) at that endpoint, as `span` of its trace; `None` if
    /// the path is none.
    pub(crate) fn request<B>(
        &self,
        origin: &Origin,
        number: u32,
        http2: bool,
        span: u64,
        body: B,
    ) -> Option<Request<B>> {
        let mut request = Request::new(body);
        let path = self.path_at(origin)?;
        let headers = request.headers_mut();
        *headers = self.headers.clone();
        headers.insert(ATTEMPT, small(number + 1));
        if let Some(trace) = headers.get(TRACEPARENT).and_then(|trace| child(trace, span)) {
            headers.insert(TRACEPARENT, trace);
        }
        let uri: Uri = if http2 {
            let scheme = if origin.scheme == Scheme::Https { "https" } else { "http" };
            let parts = Uri::builder().scheme(scheme).authority(origin.authority());
            parts.path_and_query(path).build().ok()?
        } else {
            headers.insert(HOST, origin.host_header().clone());
            Uri::from(path)
        };
        *request.uri_mut() = uri;
        *request.method_mut() = self.method.clone();
        *request.version_mut() = if http2 { Version::HTTP_2 } else { Version::HTTP_11 };
        Some(request)
    }

    fn path_at(&self, origin: &Origin) -> Option<PathAndQuery> {
        if origin.base.is_empty() && self.path.as_str().starts_with('/') {
            return Some(self.path.clone());
        }
        origin.path(self.path.as_str()).try_into().ok()
    }
}

/// A number that is small as good as always.
fn small(number: u32) -> HeaderValue {
    match number {
        1 => HeaderValue::from_static("1"),
        2 => HeaderValue::from_static("2"),
        _ => HeaderValue::from(number),
    }
}

/// The same trace, a span of its own (W3C Trace Context).
fn child(parent: &HeaderValue, span: u64) -> Option<HeaderValue> {
    let text = parent.to_str().ok()?;
    let valid = text.len() == 55 && text.is_ascii() && text.as_bytes()[35] == b'-';
    HeaderValue::try_from(format!("{}{span:016x}{}", valid.then(|| &text[..36])?, &text[52..])).ok()
}

/// What belongs to the connection whether it says so or not.
static HOP_BY_HOP: [HeaderName; 6] =
    [CONNECTION, KEEP_ALIVE, PROXY_CONNECTION, TE, TRANSFER_ENCODING, UPGRADE];

/// Removes what belongs to the connection. Looking is cheaper than removing what is not there.
pub(crate) fn strip(headers: &mut HeaderMap) -> Stripped {
    let mut here = [false; 6];
    for name in headers.keys() {
        if let Some(at) = HOP_BY_HOP.iter().position(|fixed| fixed == name) {
            here[at] = true;
        }
    }
    if here[0] {
        for name in named(headers) {
            headers.remove(name);
        }
    }
    for (name, _) in HOP_BY_HOP.iter().zip(here).filter(|(_, here)| *here) {
        headers.remove(name);
    }
    Stripped { transfer_encoding: here[4] }
}

/// What was there.
pub(crate) struct Stripped {
    transfer_encoding: bool,
}

/// What `Connection` names beyond what goes anyway.
fn named(headers: &HeaderMap) -> Vec<HeaderName> {
    let values = headers.get_all(CONNECTION).iter();
    let names = values.flat_map(|value| value.as_bytes().split(|&byte| byte == b','));
    let usual = |name: &&[u8]| {
        [&b"keep-alive"[..], b"close"].iter().any(|usual| name.eq_ignore_ascii_case(usual))
    };
    let others = names.map(<[u8]>::trim_ascii).filter(|name| !usual(name));
    others.filter_map(|name| HeaderName::from_bytes(name).ok()).collect()
}

/// The same for a response. Of its length only what says the same to everybody is left: one plain
/// number that the framing did not overrule (RFC 9112, 6.3). Else the body itself says it.
pub(crate) fn strip_response(headers: &mut HeaderMap) {
    let overruled = strip(headers).transfer_encoding;
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    let plain = |value: &HeaderValue| value.as_bytes().iter().all(u8::is_ascii_digit);
    let sure = lengths.next().is_some_and(plain) && lengths.next().is_none();
    if overruled || !sure {
        headers.remove(CONTENT_LENGTH);
    }
}

/// How long a response asks to be left alone. Only seconds: a date would need the wall clock, and
/// no service that limits rates is known to send one.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(LONGEST_WAIT))
}

/// What a response's body is, as far as it matters for what may be held back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Server-sent events: comments in it are no data.
    Events,
    /// Rows, passed on as they come.
    Rows,
    /// Anything else.
    Other,
}

impl Kind {
    pub(crate) fn of(headers: &HeaderMap) -> Kind {
        let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let essence = value.unwrap_or_default().split(';').next().unwrap_or_default().trim();
        let is = |name: &str| essence.eq_ignore_ascii_case(name);
        if is("text/event-stream") {
            Kind::Events
        } else if is("application/x-ndjson") || is("application/ndjson") || is("application/jsonl")
        {
            Kind::Rows
        } else {
            Kind::Other
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_a_connection_stays_there() {
        let mut request = Request::get("http://old/x?y=1")
            .header("connection", HeaderValue::from_bytes(b"close, X-Hop, \xff").unwrap())
            .header("x-hop", "1")
            .header("te", "trailers")
            .header("keep-alive", "1")
            .header("x-end", "2")
            .header("host", "old")
            .body(())
            .unwrap();
        let template = Template::new(&mut request);
        let origin = Origin::parse("http://new:81/base").unwrap();
        let sent = template.request(&origin, 1, false, 1, ()).unwrap();
        assert_eq!(sent.uri(), "/base/x?y=1");
        let names: Vec<&str> = sent.headers().keys().map(HeaderName::as_str).collect();
        assert_eq!(names.len(), 3, "{names:?}");
        assert_eq!(
            (&sent.headers()["host"], &sent.headers()["x-end"]),
            (&"new:81".parse().unwrap(), &"2".parse().unwrap())
        );
        assert_eq!(sent.headers()[ATTEMPT], "2");
        let sent = template.request(&origin, 0, true, 1, ()).unwrap();
        assert_eq!(sent.uri(), "http://new:81/base/x?y=1");
        assert!(!sent.headers().contains_key("host"));
    }

    #[test]
    fn a_length_that_could_be_read_in_two_ways_is_left_to_the_body() {
        let left = |fields: &[(&str, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in fields {
                headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
            }
            strip_response(&mut headers);
            headers.get(CONTENT_LENGTH).map(|value| value.to_str().unwrap().to_owned())
        };
        assert_eq!(left(&[("content-length", "5")]), Some("5".to_owned()));
        assert_eq!(left(&[("content-length", "3"), ("transfer-encoding", "chunked")]), None);
        assert_eq!(left(&[("content-length", "5, 5")]), None);
        assert_eq!(left(&[("content-length", "5"), ("content-length", "5")]), None);
    }

    #[test]
    fn each_attempt_is_a_span_of_the_same_trace() {
        let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let mut request = Request::get("/").header("traceparent", trace).body(()).unwrap();
        let template = Template::new(&mut request);
        let origin = Origin::parse("http://a").unwrap();
        let span = |id| {
            let sent = template.request(&origin, 0, false, id, ()).unwrap();
            sent.headers()[TRACEPARENT].to_str().unwrap().to_owned()
        };
        let (a, b) = (span(3), span(0xa));
        assert_eq!(a, "00-0af7651916cd43dd8448eb211c80319c-0000000000000003-01");
        assert_eq!(b, "00-0af7651916cd43dd8448eb211c80319c-000000000000000a-01");
        let odd = HeaderValue::from_static("nonsense");
        assert_eq!(child(&odd, 1), None);
    }

    #[test]
    fn retry_after_is_believed_within_reason() {
        let wait = |value: &'static str| {
            retry_after(&HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static(value))]))
        };
        assert_eq!(wait("40"), Some(Duration::from_secs(40)));
        assert_eq!(wait("999999999"), Some(LONGEST_WAIT));
        assert_eq!(wait("Fri, 31 Dec 1999 23:59:59 GMT"), None);
    }
}
