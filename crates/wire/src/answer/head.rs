//! The head of a response: status, headers, and what a worker reports in them.

use bytes::Bytes;
use std::collections::HashSet;

use super::members::{self, Members};
use super::{Body, Error};
use crate::capabilities::Capabilities;
use crate::loose::{self, Value};
use crate::stream::{StreamKind, StreamStart};
use crate::{set_cookie, text};

/// A response. Names are lower-case, values are checked: both are what HTTP allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// 200 to 599.
    pub status: u16,
    /// The headers, one entry a line; without those that belong to the connection.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Body,
    /// The `content-length` that the worker declared. It is not among the headers, since the body
    /// decides; only the answer to a HEAD request has no body to decide it.
    pub declared_length: Option<u64>,
    /// What the worker can do, if the frame says so.
    pub capabilities: Option<Capabilities>,
    /// The failure that the worker reports, if it reports one.
    pub worker_error: Option<WorkerError>,
}

/// A failure that a worker reports instead of an application's response.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkerError {
    /// The failure class it names.
    pub class: String,
    /// The name of the exception's class; never more than a name.
    pub exception: Option<String>,
    /// The message, for the log; without control characters, bounded.
    pub message: Option<String>,
    /// The worker exits after this answer (`"exiting": true`, beside a reported failure): a fatal
    /// error, or an application that called exit.
    pub exiting: bool,
}

/// The longest message kept, in bytes.
const MESSAGE_LIMIT: usize = 8 << 10;
/// The longest class or exception name kept, in bytes.
const NAME_LIMIT: usize = 256;

pub(super) fn response(mut frame: Members<'_>, payload: &Bytes) -> Result<Response, Error> {
    if frame.status == Value::Absent {
        return Err(Error::exchange("an answer without a status"));
    }
    let head = Head::read(&mut frame);
    let body = members::body(&mut frame, head.body_encoding.as_deref(), payload)?;
    Ok(Response {
        status: head.status?,
        headers: head.headers?,
        body,
        declared_length: head.declared_length,
        capabilities: frame.capabilities(),
        worker_error: head.worker_error,
    })
}

/// A stream's first frame. Its status is 200 where it says none.
pub(crate) fn stream_start(mut frame: Members<'_>) -> Result<StreamStart, Error> {
    if frame.status == Value::Absent {
        frame.status = Value::Whole(200);
    }
    let kind = match frame.stream_type.as_str() {
        Some("sse") => StreamKind::Sse,
        Some("text" | "") | None => StreamKind::Text,
        Some(_) => return Err(Error::exchange("a stream_type that is neither sse nor text")),
    };
    let fallback = match kind {
        StreamKind::Sse => "text/event-stream",
        StreamKind::Text => "text/plain; charset=utf-8",
    };
    let head = Head::read(&mut frame);
    let mut headers = head.headers?;
    let declared = headers.iter().position(|(name, _)| name == "content-type");
    Ok(StreamStart {
        status: head.status?,
        kind,
        content_type: match declared {
            Some(index) => headers.remove(index).1,
            None => fallback.to_owned(),
        },
        headers,
        capabilities: frame.capabilities(),
    })
}

/// An error frame in place of a start.
pub(super) fn early_error(frame: Members<'_>) -> Response {
    let capabilities = frame.capabilities();
    Response {
        status: 500,
        headers: Vec::new(),
        body: Body::Inline(Bytes::new()),
        declared_length: None,
        capabilities,
        worker_error: Some(stream_error(frame)),
    }
}

/// What an error frame of a stream reports.
pub(crate) fn stream_error(frame: Members<'_>) -> WorkerError {
    let exiting = frame.exiting();
    let named = some(frame.error_class.into_text().map(|class| name(&class)));
    WorkerError {
        class: named.unwrap_or_else(|| "worker_runtime_error".to_owned()),
        exception: some(frame.exception.into_text().map(|class| name(&class))),
        message: some(frame.error.into_text().map(|text| message(&text))),
        exiting,
    }
}

fn some(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

/// The name of a class or an exception: what cannot stand in one ends it, so that a message that
/// was put here by mistake goes no further.
fn name(text: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_\\.:$-".contains(c);
    text.chars().take_while(|&c| allowed(c)).take(NAME_LIMIT).collect()
}

fn message(text: &str) -> String {
    text::printable(text, MESSAGE_LIMIT)
}

/// A head in the making. Status and headers are results of their own: what a worker reports about a
/// failure, and that the exchange was sound, matter before either.
struct Head {
    status: Result<u16, Error>,
    headers: Result<Vec<(String, String)>, Error>,
    declared_length: Option<u64>,
    body_encoding: Option<String>,
    worker_error: Option<WorkerError>,
}

impl Head {
    fn read(frame: &mut Members<'_>) -> Self {
        let mut head = Self {
            status: status(&frame.status),
            headers: Ok(Vec::new()),
            declared_length: None,
            body_encoding: None,
            worker_error: None,
        };
        let mut reported = WorkerError { exiting: frame.exiting(), ..WorkerError::default() };
        let mut reports = false;
        let mut collected = Collected::default();
        match std::mem::take(&mut frame.headers) {
            Value::Absent => {}
            Value::List(empty) if empty.is_empty() => {}
            Value::Map(entries) => {
                for (raw, value) in entries {
                    let mut lower = raw.into_owned();
                    lower.make_ascii_lowercase();
                    match lower.as_str() {
                        "x-worker-error-class" if is_sent(&value) => {
                            reports = true;
                            reported.class = name(&first_text(value));
                        }
                        "x-worker-exception" => {
                            reported.exception = some(Some(name(&first_text(value))));
                        }
                        "x-worker-error" => {
                            reported.message = some(Some(message(&first_text(value))));
                        }
                        "x-vhttpd-body-encoding" => {
                            head.body_encoding = Some(first_text(value).to_ascii_lowercase());
                        }
                        "content-length" => {
                            head.declared_length = first_text(value).trim().parse().ok();
                        }
                        "connection" => collected.list(value),
                        "transfer-encoding" | "keep-alive" | "upgrade" | "te" | "trailer"
                        | "proxy-connection" => {}
                        other if other.starts_with("x-worker-") => {}
                        _ => collected.add(lower, value),
                    }
                }
            }
            _ => collected.refuse("headers that are no map, or too many of them"),
        }
        collected.content_type(std::mem::take(&mut frame.content_type));
        if reports {
            // The client gets the gateway's own envelope: of this head nothing else matters. A
            // worker that reports a failure without naming it has failed all the same.
            if reported.class.is_empty() {
                reported.class = "worker_runtime_error".to_owned();
            }
            head.worker_error = Some(reported);
        } else {
            head.headers = collected.finish();
        }
        head
    }
}

fn status(value: &Value<'_>) -> Result<u16, Error> {
    match value.as_whole() {
        Some(status @ 200..=599) => Ok(status as u16),
        Some(status) => Err(Error::contract(format!("a response cannot have the status {status}"))),
        None => Err(Error::contract("a status that is no whole number")),
    }
}

/// Whether a header stands for any line at all: one of null, or of no values, is left out.
fn is_sent(value: &Value<'_>) -> bool {
    match value {
        Value::Absent => false,
        Value::List(values) => values.iter().any(|value| *value != Value::Absent),
        _ => true,
    }
}

fn first_text(value: Value<'_>) -> String {
    let first = match value {
        Value::List(values) => values.into_iter().next().unwrap_or_default(),
        one => one,
    };
    first.into_text().unwrap_or_default().into_owned()
}

/// The headers that go on to the client, and the first reason why they cannot.
#[derive(Default)]
struct Collected {
    lines: Vec<(String, String)>,
    /// What `connection` names: it belongs to the connection too (RFC 9110, 7.6.1).
    listed: HashSet<String>,
    refused: Option<Error>,
}

impl Collected {
    fn add(&mut self, name: String, value: Value<'_>) {
        if !text::is_token(name.as_bytes()) {
            return self.refuse(&format!("HTTP allows no header named {name:?}"));
        }
        match value {
            Value::List(values) => {
                for value in values {
                    self.line(name.clone(), value);
                }
            }
            Value::Text(joined) if name == "set-cookie" => {
                for cookie in set_cookie::split(&joined) {
                    self.line(name.clone(), Value::Text(cookie.into()));
                }
            }
            one => self.line(name, one),
        }
    }

    fn line(&mut self, name: String, value: Value<'_>) {
        if value == Value::Absent {
            return; // a header of null is a header left out
        }
        match value.into_text() {
            Some(value) if text::is_field_value(&value) => {
                if self.lines.len() == loose::MAX_ENTRIES {
                    return self.refuse("too many header lines");
                }
                self.lines.push((name, value.trim_ascii().to_owned()));
            }
            Some(_) => self.refuse(&format!("HTTP does not allow the value of header {name:?}")),
            None => self.refuse(&format!("the value of header {name:?} is no text")),
        }
    }

    fn list(&mut self, value: Value<'_>) {
        let values = match value {
            Value::List(values) => values,
            one => vec![one],
        };
        for names in values.into_iter().filter_map(Value::into_text) {
            self.listed.extend(names.split(',').map(|name| name.trim().to_ascii_lowercase()));
        }
    }

    /// The member beside the headers, used where they do not say it.
    fn content_type(&mut self, value: Value<'_>) {
        let missing = !self.lines.iter().any(|(name, _)| name == "content-type");
        if missing && value.as_str().is_some_and(|text| !text.is_empty()) {
            self.line("content-type".to_owned(), value);
        }
    }

    fn refuse(&mut self, detail: &str) {
        self.refused.get_or_insert_with(|| Error::contract(text::printable(detail, 300)));
    }

    fn finish(mut self) -> Result<Vec<(String, String)>, Error> {
        if !self.listed.is_empty() {
            // Without its type a body is guessed at, which no connection needs.
            let kept = |name: &str| name == "content-type" || !self.listed.contains(name);
            self.lines.retain(|(name, _)| kept(name));
        }
        self.refused.map_or(Ok(self.lines), Err)
    }
}
