//! A request head as a worker gets it.
//!
//! Invariant: what belongs to the connection, and what only the gateway may say, does not reach a
//! worker; everything else does, as it was received. The body's form depends on what the granted
//! worker understands, so the frame is written when the worker is known.

use crate::ids::Ids;
use crate::names::Names;
use crate::origin::Origin;
use crate::smuggling::{Authority, parse_authority};
use bytes::BytesMut;
use hedgerow_policy::failure::{At, Class, Failure};
use hedgerow_wire::capabilities::Capabilities;
use hedgerow_wire::frame::{self, MAX_FRAME};
use hedgerow_wire::request::{Body as WireBody, EncodeError, Request, Sent};
use hedgerow_worker::job::{self, Body};
use http::header::{HOST, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Uri, Version};
use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What was asked, by whom.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) ids: Ids,
    pub(crate) method: Method,
    pub(crate) headers: HeaderMap,
    pub(crate) version: Version,
    uri: Uri,
    origin: Origin,
    /// Whom the request is addressed to, as received.
    authority: String,
    /// Where it arrived: the answer to HTTP/1.0, which need not say whom it is addressed to.
    local: SocketAddr,
    names: Arc<Names>,
    /// Zero: none. A request that is resumed gets another.
    deadline_unix_ms: AtomicU64,
}

/// What a head is made of.
pub(crate) struct Parts {
    pub(crate) ids: Ids,
    pub(crate) head: http::request::Parts,
    pub(crate) origin: Origin,
    pub(crate) authority: String,
    pub(crate) local: SocketAddr,
    pub(crate) names: Arc<Names>,
    pub(crate) deadline_unix_ms: Option<u64>,
}

impl Head {
    pub(crate) fn new(parts: Parts) -> Head {
        let Parts { ids, head, origin, authority, local, names, deadline_unix_ms } = parts;
        Head {
            ids,
            method: head.method,
            headers: head.headers,
            version: head.version,
            uri: head.uri,
            origin,
            authority,
            local,
            names,
            deadline_unix_ms: AtomicU64::new(deadline_unix_ms.unwrap_or(0)),
        }
    }

    /// The request has until then, from now on.
    pub(crate) fn set_deadline(&self, unix_ms: u64) {
        self.deadline_unix_ms.store(unix_ms, Relaxed);
    }

    /// A frame made of this one: `write` appends it, given this one's payload; false is an error.
    pub(crate) fn encode_within(
        &self,
        body: &Body,
        capabilities: Capabilities,
        out: &mut BytesMut,
        write: impl FnOnce(&mut BytesMut, &[u8]) -> bool,
    ) -> Result<Sent, EncodeError> {
        let mut original = BytesMut::new();
        let sent = job::Head::encode(self, body, capabilities, &mut original)?;
        let payload = original.get(frame::PREFIX..).unwrap_or_default();
        let written = frame::encode_with(out, |out| write(out, payload));
        if written.unwrap_or(false) { Ok(sent) } else { Err(EncodeError::TooLarge) }
    }

    /// Host and port the application should believe it was asked for.
    fn addressed(&self) -> (std::borrow::Cow<'_, str>, u16) {
        let text = self.origin.authority.as_deref().unwrap_or(&self.authority);
        match parse_authority(text) {
            Some(Authority { host, port, .. }) => {
                let default = if self.origin.scheme == "https" { 443 } else { 80 };
                (host.into(), port.unwrap_or(default))
            }
            None => (self.local.ip().to_string().into(), self.local.port()),
        }
    }

    /// The headers that go on: each as received, `host` as it was decided.
    fn forwarded(&self) -> Vec<(&str, &[u8])> {
        let mut headers = Vec::with_capacity(self.headers.len() + 1);
        let named = self.headers.contains_key(http::header::HOST);
        if !named && !self.authority.is_empty() {
            headers.push(("host", self.authority.as_bytes()));
        }
        for (name, value) in &self.headers {
            let name = name.as_str();
            if is_hop_by_hop(name) || self.names.reserved(name) || self.is_listed(name) {
                continue;
            }
            let value = if name == "host" { self.authority.as_bytes() } else { value.as_bytes() };
            headers.push((name, value));
        }
        headers
    }

    /// The request as an upstream gets it: who asked, for which host and over which scheme is what
    /// this gateway knows, whatever the client says.
    pub(crate) fn request<B>(&self, body: B) -> Result<http::Request<B>, Failure> {
        let mut headers = HeaderMap::with_capacity(self.headers.len() + 4);
        for (name, value) in &self.headers {
            let text = name.as_str();
            let passes = !is_hop_by_hop(text) && !self.names.reserved(text);
            if passes && !is_for_proxies(text) && !self.is_listed(text) && name != HOST {
                headers.append(name, value.clone());
            }
        }
        let remote = self.origin.remote.to_string();
        let (host, scheme) = (self.origin.authority.as_deref(), self.origin.scheme);
        let told = [
            ("x-forwarded-for", remote.as_str()),
            ("x-forwarded-host", host.unwrap_or(&self.authority)),
            ("x-forwarded-proto", scheme),
            ("x-request-id", &*self.ids.request),
        ];
        for (name, value) in told {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
        let path = self.uri.path_and_query().map_or("/", |path| path.as_str());
        let built = http::Request::builder().method(self.method.clone()).uri(path).body(body);
        let mut request = built.map_err(|error| {
            Failure::new(Class::BadRequest, At::Client, format!("a path that is none: {error}"))
        })?;
        *request.headers_mut() = headers;
        Ok(request)
    }

    /// The path as it was received, and the query with its question mark.
    pub(crate) fn target(&self) -> (&str, &str) {
        let path = self.uri.path();
        let whole = self.uri.path_and_query().map_or(path, |whole| whole.as_str());
        (path, whole.strip_prefix(path).unwrap_or_default())
    }

    /// Whether `Connection` lists this header as its own. Some that every recipient needs cannot
    /// be taken away like that, though a client may try.
    fn is_listed(&self, name: &str) -> bool {
        let mut lists = self.headers.get_all(http::header::CONNECTION).iter().peekable();
        if lists.peek().is_none() || is_for_all(name) {
            return false;
        }
        lists
            .filter_map(|list| list.to_str().ok())
            .any(|list| list.split(',').any(|option| option.trim().eq_ignore_ascii_case(name)))
    }
}

fn is_for_all(name: &str) -> bool {
    matches!(name, "host" | "content-length" | "content-type" | "authorization" | "cookie")
        || is_for_proxies(name)
}

/// What proxies say of who is behind them.
fn is_for_proxies(name: &str) -> bool {
    name.starts_with("x-forwarded-") || name == "forwarded"
}

/// What belongs to one connection (RFC 9110, 7.6.1), and `expect`, which was answered here.
pub(crate) fn is_hop_by_hop(name: &str) -> bool {
    matches!(
        name,
        "connection"
            | "keep-alive"
            | "proxy-connection"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
            | "http2-settings"
            | "expect"
    )
}

/// The version as frames spell it.
fn version_name(version: Version) -> &'static str {
    match version {
        Version::HTTP_2 => "2",
        Version::HTTP_10 => "1.0",
        _ => "1.1",
    }
}

impl job::Head for Head {
    fn encode(
        &self,
        body: &Body,
        capabilities: Capabilities,
        out: &mut BytesMut,
    ) -> Result<Sent, EncodeError> {
        let headers = self.forwarded();
        let (host, port) = self.addressed();
        let remote = self.origin.remote.to_string();
        let spooled;
        let body = match body {
            Body::Memory(bytes) => WireBody::Inline(bytes),
            Body::File(_, length) if capabilities.raw_body => WireBody::Raw(*length),
            Body::File(file, length) => {
                spooled = read_back(file, *length)?;
                WireBody::Inline(&spooled)
            }
        };
        let request = Request {
            id: &self.ids.trace,
            request_id: &self.ids.request,
            deadline_unix_ms: Some(self.deadline_unix_ms.load(Relaxed)).filter(|ms| *ms > 0),
            method: self.method.as_str(),
            path: self.uri.path(),
            query: self.uri.query().unwrap_or(""),
            scheme: self.origin.scheme,
            host: &host,
            port,
            protocol_version: version_name(self.version),
            remote_addr: &remote,
            headers: &headers,
            body,
        };
        request.encode(out, capabilities)
    }

    fn id(&self) -> &str {
        &self.ids.trace
    }
}

/// A spooled body for a worker that takes it inside the frame only. It was just written, so this
/// reads from the page cache.
fn read_back(file: &File, length: u64) -> Result<Vec<u8>, EncodeError> {
    if length > MAX_FRAME as u64 {
        return Err(EncodeError::TooLarge);
    }
    let mut bytes = vec![0; usize::try_from(length).map_err(|_| EncodeError::TooLarge)?];
    file.read_exact_at(&mut bytes, 0).map_err(|_| EncodeError::RawNotUnderstood)?;
    Ok(bytes)
}
