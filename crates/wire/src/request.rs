//! The frame a worker receives for one request.
//!
//! Promise: fifteen members are always there (`body` alone gives way to `body_length`; for a worker
//! that is `lean`, `server`, `attributes` and a `header_list` that says no more than `headers` are
//! left out, and nothing that could not be worked out from the rest), empty maps are `{}`, and bytes become text without loss. A body that the frame cannot carry is
//! [`EncodeError::TooLarge`], never a frame that the worker must refuse.

mod receive;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{BufMut, BytesMut};

pub use receive::{Received, ReceivedBody, decode};

use crate::frame::{self, MAX_FRAME};
use crate::{Capabilities, json, pairs};

/// The largest body that goes inside a frame when the worker would also take it raw.
pub const INLINE_BODY: u64 = 64 << 10;

/// One request, borrowed from wherever the gateway holds it.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The trace id; the worker echoes it.
    pub id: &'a str,
    /// The id of this request alone.
    pub request_id: &'a str,
    /// When the gateway stops waiting, in milliseconds since 1970; `None` where nothing limits it.
    pub deadline_unix_ms: Option<u64>,
    /// The method, as received.
    pub method: &'a str,
    /// The path without the query, percent-encoding as received.
    pub path: &'a str,
    /// The query as received, without `?`; empty if there was none.
    pub query: &'a str,
    /// `http` or `https`.
    pub scheme: &'a str,
    /// The host asked for, without the port.
    pub host: &'a str,
    /// The port asked for.
    pub port: u16,
    /// `1.0`, `1.1` or `2`.
    pub protocol_version: &'a str,
    /// The client's address, without the port.
    pub remote_addr: &'a str,
    /// Every header in the order received, names in any case, repeated ones repeated.
    pub headers: &'a [(&'a str, &'a [u8])],
    /// The body.
    pub body: Body<'a>,
}

/// A request's body.
#[derive(Debug, Clone, Copy)]
pub enum Body<'a> {
    /// The whole body. It is put into the frame, or announced as raw, as the worker allows.
    Inline(&'a [u8]),
    /// A body of this many bytes that is somewhere else (a spool file): always sent raw.
    Raw(u64),
}

/// What was written, and what is left to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Sent {
    /// The frame holds the whole request.
    Whole,
    /// The frame announces a raw body: exactly this many bytes have to follow it.
    RawFollows(u64),
}

/// Why a request does not become a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// It does not fit one frame, and the worker takes no raw body. The client's answer is a 413.
    #[error("the request does not fit a frame of {MAX_FRAME} bytes")]
    TooLarge,
    /// [`Body::Raw`] for a worker without the capability; [`plan_body`] would have said so.
    #[error("the worker takes no raw body")]
    RawNotUnderstood,
}

/// How a body of some length will travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyForm {
    /// Inside the frame, as far as its length tells (bytes that are no text may still go raw, and
    /// escapes or base64 may still make it [`EncodeError::TooLarge`]): hold it in memory.
    Inline,
    /// After the frame: it may come from a file.
    Raw,
    /// Not at all: answer 413 before a worker is taken.
    TooLarge,
}

/// How a body of `length` bytes will travel to a worker with these capabilities.
#[must_use]
pub fn plan_body(length: u64, capabilities: Capabilities) -> BodyForm {
    if capabilities.raw_body {
        if length > INLINE_BODY { BodyForm::Raw } else { BodyForm::Inline }
    } else if length > MAX_FRAME as u64 {
        BodyForm::TooLarge
    } else {
        BodyForm::Inline
    }
}

/// A body, once it is decided how it goes into the frame.
enum Form<'a> {
    Text(&'a str),
    Base64(&'a [u8]),
    Raw(u64),
}

/// Where the header list stands: beside the other members, or as text among the attributes.
#[derive(Clone, Copy)]
enum HeaderList {
    Member,
    Text,
}

impl Request<'_> {
    /// Appends the frame. On an error `out` is as long as it was before.
    pub fn encode(
        &self,
        out: &mut BytesMut,
        capabilities: Capabilities,
    ) -> Result<Sent, EncodeError> {
        let form = self.form(capabilities)?;
        let start = out.len();
        let lean = capabilities.lean;
        let fits = frame::encode_with(out, |out| self.write(out, start, &form, lean));
        match (fits, form) {
            (Ok(true), Form::Raw(length)) => Ok(Sent::RawFollows(length)),
            (Ok(true), _) => Ok(Sent::Whole),
            (Ok(false) | Err(_), _) => {
                out.truncate(start);
                Err(EncodeError::TooLarge)
            }
        }
    }

    fn form(&self, capabilities: Capabilities) -> Result<Form<'_>, EncodeError> {
        match self.body {
            Body::Raw(length) if capabilities.raw_body => Ok(Form::Raw(length)),
            Body::Raw(_) => Err(EncodeError::RawNotUnderstood),
            Body::Inline(bytes) => match plan_body(bytes.len() as u64, capabilities) {
                BodyForm::TooLarge => Err(EncodeError::TooLarge),
                BodyForm::Raw => Ok(Form::Raw(bytes.len() as u64)),
                BodyForm::Inline => Ok(match std::str::from_utf8(bytes) {
                    Ok(text) => Form::Text(text),
                    Err(_) if capabilities.raw_body => Form::Raw(bytes.len() as u64),
                    Err(_) => Form::Base64(bytes),
                }),
            },
        }
    }

    /// Appends the payload; `false` if it was seen not to fit before the body was written.
    fn write(&self, out: &mut BytesMut, start: usize, form: &Form<'_>, lean: bool) -> bool {
        let mut object = json::Object::new(out);
        object.text("id", self.id);
        object.text("method", self.method);
        object.text("path", self.path);
        object.with("query", |out| pairs::write_query(out, self.query));
        object.with("headers", |out| self.write_headers(out));
        object.with("cookies", |out| {
            let cookies = self.headers.iter().filter(|(name, _)| is_cookie(name));
            pairs::write_cookies(out, cookies.map(|&(_, value)| value));
        });
        if !lean {
            object.with("server", |out| self.write_server(out));
        } else if !self.query.is_empty() {
            // The one thing in `server` that nothing else says: the query as it was received.
            object.with("url", |out| self.write_url(out));
        }
        object.with("uploaded_files", |out| out.put_slice(b"[]"));
        object.text("scheme", self.scheme);
        object.text("host", self.host);
        object.with("port", |out| self.write_port(out));
        object.text("protocol_version", self.protocol_version);
        object.text("remote_addr", self.remote_addr);
        self.write_additions(&mut object, form, lean);
        let body_fits = match *form {
            Form::Raw(length) => {
                object.number("body_length", length);
                true
            }
            Form::Text(text) => object.with("body", |out| write_text_body(out, start, text)),
            Form::Base64(bytes) => object.with("body", |out| write_base64(out, start, bytes)),
        };
        object.end();
        body_fits
    }

    /// What this version adds to the frame, once at the top and once as attributes: the attributes
    /// are what reaches an application through older workers. An attribute is a string, so the
    /// header list is JSON text there.
    fn write_additions(&self, object: &mut json::Object<'_>, form: &Form<'_>, lean: bool) {
        if !lean || self.repeats_a_header() {
            object.with("header_list", |out| self.write_header_list(out, HeaderList::Member));
        }
        object.text("request_id", self.request_id);
        if let Some(deadline) = self.deadline_unix_ms {
            object.number("deadline_unix_ms", deadline);
        }
        if matches!(form, Form::Base64(_)) {
            object.text("body_encoding", "base64");
        }
        if lean {
            return;
        }
        object.with("attributes", |out| {
            let mut attributes = json::Object::new(out);
            attributes.text("request_id", self.request_id);
            if let Some(deadline) = self.deadline_unix_ms {
                attributes.text("deadline_unix_ms", &deadline.to_string());
            }
            attributes.with("header_list", |out| {
                self.write_header_list(out, HeaderList::Text);
            });
            if matches!(form, Form::Base64(_)) {
                attributes.text("body_encoding", "base64");
            }
            attributes.end();
        });
    }

    /// The header map: lower-case names, one value each. The values of a repeated name are joined
    /// as RFC 9110, 5.3 allows, those of `cookie` as RFC 6265 wants it.
    fn write_headers(&self, out: &mut BytesMut) {
        let mut object = json::Object::new(out);
        for (index, (name, value)) in self.headers.iter().enumerate() {
            let same = |(other, _): &&(&str, &[u8])| other.eq_ignore_ascii_case(name);
            if self.headers[..index].iter().any(|header| same(&header)) {
                continue;
            }
            object.with_lower_key(name, |out| {
                out.put_u8(b'"');
                json::escape_value(out, value);
                for (_, more) in self.headers[index + 1..].iter().filter(same) {
                    out.put_slice(if is_cookie(name) { b"; " } else { b", " });
                    json::escape_value(out, more);
                }
                out.put_u8(b'"');
            });
        }
        object.end();
    }

    /// Whether the header map says less than the header list.
    fn repeats_a_header(&self) -> bool {
        self.headers.iter().enumerate().any(|(index, (name, _))| {
            self.headers[..index].iter().any(|(other, _)| other.eq_ignore_ascii_case(name))
        })
    }

    /// Every header as `[name, value]`, in order.
    fn write_header_list(&self, out: &mut BytesMut, form: HeaderList) {
        // As text, every quote has one more backslash before it, and there are quotes around it.
        let [open, start, middle, next, end, close]: [&[u8]; 6] = match form {
            HeaderList::Member => [b"[", b"[\"", b"\",\"", b"\"],[\"", b"\"]", b"]"],
            HeaderList::Text => [b"\"[", b"[\\\"", b"\\\",\\\"", b"\\\"],[\\\"", b"\\\"]", b"]\""],
        };
        out.put_slice(open);
        for (index, (name, value)) in self.headers.iter().enumerate() {
            out.put_slice(if index == 0 { start } else { next });
            json::escape_lower(out, name);
            out.put_slice(middle);
            match form {
                HeaderList::Member => json::escape_value(out, value),
                HeaderList::Text => json::escape_value_twice(out, value),
            }
        }
        if !self.headers.is_empty() {
            out.put_slice(end);
        }
        out.put_slice(close);
    }

    fn write_server(&self, out: &mut BytesMut) {
        let mut server = json::Object::new(out);
        server.text("host", self.host);
        server.with("port", |out| self.write_port(out));
        server.text("remote_addr", self.remote_addr);
        server.text("method", self.method);
        server.with("url", |out| self.write_url(out));
        server.end();
    }

    fn write_url(&self, out: &mut BytesMut) {
        out.put_u8(b'"');
        json::escape(out, self.path);
        if !self.query.is_empty() {
            out.put_u8(b'?');
            json::escape(out, self.query);
        }
        out.put_u8(b'"');
    }

    fn write_port(&self, out: &mut BytesMut) {
        out.put_u8(b'"');
        json::number(out, u64::from(self.port));
        out.put_u8(b'"');
    }
}

fn is_cookie(name: &str) -> bool {
    name.eq_ignore_ascii_case("cookie")
}

/// What a body may take up once everything else is in `out`, the closing brace and quotes aside.
fn room(out: &BytesMut, start: usize) -> usize {
    (MAX_FRAME + frame::PREFIX + start).saturating_sub(out.len() + 3)
}

/// Escapes can make a text six times as long. It is measured before it is written, so that a body
/// that will not fit does not first take up that memory.
fn write_text_body(out: &mut BytesMut, start: usize, text: &str) -> bool {
    let room = room(out, start);
    let fits = text.len() * 6 <= room || json::escaped_len(text) <= room;
    json::string(out, if fits { text } else { "" });
    fits
}

fn write_base64(out: &mut BytesMut, start: usize, bytes: &[u8]) -> bool {
    let length = bytes.len().div_ceil(3) * 4;
    let fits = length <= room(out, start);
    out.put_u8(b'"');
    if fits {
        let from = out.len();
        out.put_bytes(0, length);
        let written = STANDARD.encode_slice(bytes, &mut out[from..]);
        debug_assert_eq!(written, Ok(length));
    }
    out.put_u8(b'"');
    fits
}

#[cfg(test)]
mod tests;
