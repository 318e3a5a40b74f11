//! The worker's side: a request frame, read into owned values.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;

use crate::answer::Error;

/// A request as a worker sees it. Members that are not there are empty, unknown ones are ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// The trace id, to be echoed.
    pub id: String,
    /// The id of this request alone.
    pub request_id: String,
    /// When the gateway stops waiting, in milliseconds since 1970.
    pub deadline_unix_ms: Option<u64>,
    /// The method.
    pub method: String,
    /// The path without the query.
    pub path: String,
    /// The decoded query.
    pub query: BTreeMap<String, String>,
    /// The headers: lower-case names, repeated ones joined.
    pub headers: BTreeMap<String, String>,
    /// Every header in the order received.
    pub header_list: Vec<(String, String)>,
    /// The cookies.
    pub cookies: BTreeMap<String, String>,
    /// What older workers hand to the application.
    pub attributes: BTreeMap<String, String>,
    /// `host port remote_addr method url`.
    pub server: BTreeMap<String, String>,
    /// `http` or `https`.
    pub scheme: String,
    /// The host asked for.
    pub host: String,
    /// The port asked for, as text.
    pub port: String,
    /// `1.0`, `1.1` or `2`.
    pub protocol_version: String,
    /// The client's address.
    pub remote_addr: String,
    /// The body, or what to read for it.
    pub body: ReceivedBody,
}

/// The body of a received request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReceivedBody {
    /// It was inside the frame.
    Inline(Bytes),
    /// This many bytes follow the frame.
    Raw(u64),
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Members {
    id: String,
    request_id: String,
    deadline_unix_ms: Option<u64>,
    method: String,
    path: String,
    query: BTreeMap<String, String>,
    headers: BTreeMap<String, String>,
    header_list: Vec<(String, String)>,
    cookies: BTreeMap<String, String>,
    attributes: BTreeMap<String, String>,
    server: BTreeMap<String, String>,
    scheme: String,
    host: String,
    port: String,
    protocol_version: String,
    remote_addr: String,
    body: String,
    body_encoding: String,
    body_length: Option<u64>,
}

/// Reads the payload of a request frame.
pub fn decode(payload: &[u8]) -> Result<Received, Error> {
    let text = std::str::from_utf8(payload).map_err(|_| Error::exchange("not UTF-8"))?;
    if !text.trim_ascii_start().starts_with('{') {
        return Err(Error::exchange("not a JSON object"));
    }
    let m: Members = serde_json::from_str(text).map_err(|error| Error::json(&error))?;
    let body = match (m.body_length, m.body_encoding.as_str()) {
        (Some(length), _) => ReceivedBody::Raw(length),
        (None, "base64") => ReceivedBody::Inline(
            STANDARD.decode(&m.body).map_err(|_| Error::exchange("bad base64 body"))?.into(),
        ),
        (None, _) => ReceivedBody::Inline(m.body.into()),
    };
    Ok(Received {
        id: m.id,
        request_id: m.request_id,
        deadline_unix_ms: m.deadline_unix_ms,
        method: m.method,
        path: m.path,
        query: m.query,
        headers: m.headers,
        header_list: m.header_list,
        cookies: m.cookies,
        attributes: m.attributes,
        server: m.server,
        scheme: m.scheme,
        host: m.host,
        port: m.port,
        protocol_version: m.protocol_version,
        remote_addr: m.remote_addr,
        body,
    })
}
