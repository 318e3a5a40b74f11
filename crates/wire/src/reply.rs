//! The worker's side: writing the frames that answer a request.
//!
//! Promise: what is written here reads back as what it was, through [`crate::answer`] and
//! [`crate::stream`].

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{BufMut, BytesMut};

use crate::capabilities::Capabilities;
use crate::frame::{self, Error};
use crate::json;
use crate::stream::{SseFields, StreamKind};

/// A response to write.
#[derive(Debug, Clone, Copy)]
pub struct Response<'a> {
    /// The id of the request.
    pub id: &'a str,
    /// The status.
    pub status: u16,
    /// The headers; a repeated name becomes a list of values.
    pub headers: &'a [(&'a str, &'a str)],
    /// The body.
    pub body: Body<'a>,
    /// What to announce, if anything.
    pub capabilities: Option<Capabilities>,
}

/// The body of a response to write.
#[derive(Debug, Clone, Copy)]
pub enum Body<'a> {
    /// Text, inside the frame.
    Text(&'a str),
    /// Bytes, as base64 inside the frame.
    Base64(&'a [u8]),
    /// So many bytes, which the caller writes after the frame.
    Raw(u64),
}

/// Appends a response frame.
pub fn response(out: &mut BytesMut, response: &Response<'_>) -> Result<(), Error> {
    frame::encode_with(out, |out| {
        let mut object = json::Object::new(out);
        object.text("id", response.id);
        object.number("status", u64::from(response.status));
        object.with("headers", |out| headers(out, response.headers));
        announce(&mut object, response.capabilities);
        match response.body {
            Body::Text(text) => object.text("body", text),
            Body::Base64(bytes) => {
                object.text("body", &STANDARD.encode(bytes));
                object.text("body_encoding", "base64");
            }
            Body::Raw(length) => object.number("body_length", length),
        }
        object.end();
    })
}

/// Appends the frame with which a stream begins.
pub fn stream_start(
    out: &mut BytesMut,
    id: &str,
    status: u16,
    kind: StreamKind,
    content_type: &str,
    header_list: &[(&str, &str)],
    capabilities: Option<Capabilities>,
) -> Result<(), Error> {
    frame::encode_with(out, |out| {
        let mut object = event(out, id, "start");
        object.number("status", u64::from(status));
        let name = match kind {
            StreamKind::Sse => "sse",
            StreamKind::Text => "text",
        };
        object.text("stream_type", name);
        object.text("content_type", content_type);
        object.with("headers", |out| headers(out, header_list));
        announce(&mut object, capabilities);
        object.end();
    })
}

/// Appends one piece of a stream; bytes that are no text go as base64.
pub fn chunk(
    out: &mut BytesMut,
    id: &str,
    data: &[u8],
    sse: Option<&SseFields>,
) -> Result<(), Error> {
    frame::encode_with(out, |out| {
        let mut object = event(out, id, "chunk");
        match std::str::from_utf8(data) {
            Ok(text) => object.text("data", text),
            Err(_) => object.text("data_base64", &STANDARD.encode(data)),
        }
        if let Some(fields) = sse {
            for (name, value) in [("sse_id", &fields.id), ("sse_event", &fields.event)] {
                if let Some(value) = value {
                    object.text(name, value);
                }
            }
            if let Some(retry) = fields.retry {
                object.number("sse_retry", retry);
            }
        }
        object.end();
    })
}

/// Appends the frame with which a stream fails.
pub fn stream_error(out: &mut BytesMut, id: &str, class: &str, message: &str) -> Result<(), Error> {
    frame::encode_with(out, |out| {
        let mut object = event(out, id, "error");
        object.text("error_class", class);
        object.text("error", message);
        object.end();
    })
}

/// Appends the frame with which a stream is complete.
pub fn stream_end(out: &mut BytesMut, id: &str) -> Result<(), Error> {
    frame::encode_with(out, |out| event(out, id, "end").end())
}

/// Appends a frame of ready-made JSON: plans, batches, and whatever a test wants to get wrong.
pub fn raw(out: &mut BytesMut, payload: &[u8]) -> Result<(), Error> {
    frame::encode_with(out, |out| out.put_slice(payload))
}

fn event<'o>(out: &'o mut BytesMut, id: &str, name: &str) -> json::Object<'o> {
    let mut object = json::Object::new(out);
    object.text("mode", "stream");
    object.text("event", name);
    object.text("id", id);
    object
}

fn announce(object: &mut json::Object<'_>, capabilities: Option<Capabilities>) {
    if let Some(set) = capabilities {
        object.with("capabilities", |out| json::strings(out, set.names()));
    }
}

fn headers(out: &mut BytesMut, list: &[(&str, &str)]) {
    let mut object = json::Object::new(out);
    for (index, (name, value)) in list.iter().enumerate() {
        let same = |(other, _): &&(&str, &str)| other.eq_ignore_ascii_case(name);
        if list[..index].iter().any(|header| same(&header)) {
            continue;
        }
        if list[index + 1..].iter().any(|header| same(&header)) {
            let values = list[index..].iter().filter(same).map(|&(_, value)| value);
            object.with_lower_key(name, |out| json::strings(out, values));
        } else {
            object.with_lower_key(name, |out| json::string(out, value));
        }
    }
    object.end();
}

#[cfg(test)]
mod tests;
