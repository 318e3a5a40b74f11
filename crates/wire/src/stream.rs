//! The frames of a stream, after and including its start.
//!
//! Promise: a frame that is no event of the stream that was begun is an error; it is never passed
//! on as data.

use bytes::Bytes;

use crate::answer::{Error, Members, WorkerError, check_id, encoded_body, stream_error};
use crate::capabilities::Capabilities;
use crate::loose::Value;

/// The frame with which a stream begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamStart {
    /// 200 to 599.
    pub status: u16,
    /// What the chunks are.
    pub kind: StreamKind,
    /// The content type; the kind's own where the worker said none.
    pub content_type: String,
    /// The other headers, as in [`crate::answer::Response`].
    pub headers: Vec<(String, String)>,
    /// What the worker can do, if the frame says so.
    pub capabilities: Option<Capabilities>,
}

/// What the chunks of a stream are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamKind {
    /// Server-sent events: each chunk is one event, see [`crate::sse`].
    Sse,
    /// Bytes, passed on as they are.
    Text,
}

/// A frame that follows the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Data.
    Chunk(Chunk),
    /// The stream fails here.
    Error(WorkerError),
    /// The stream is complete.
    End,
}

/// A piece of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// The bytes, whatever encoding they travelled in.
    pub data: Bytes,
    /// The fields of the event, if the chunk has any.
    pub sse: Option<SseFields>,
}

/// The fields of a server-sent event beside its data.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SseFields {
    /// `id`.
    pub id: Option<String>,
    /// `event`.
    pub event: Option<String>,
    /// `retry`, in milliseconds.
    pub retry: Option<u64>,
}

/// Reads one frame of the stream that answers the request of that id.
pub fn decode(payload: &Bytes, expect_id: &str) -> Result<Event, Error> {
    let frame = Members::read(payload)?;
    check_id(&frame.id, expect_id)?;
    if !matches!(frame.mode.as_str(), None | Some("stream" | "")) {
        return Err(Error::exchange("a frame of another mode inside a stream"));
    }
    match frame.event.as_str() {
        Some("chunk") => chunk(frame, payload).map(Event::Chunk),
        Some("error") => Ok(Event::Error(stream_error(frame))),
        Some("end") => Ok(Event::End),
        Some(_) => Err(Error::exchange("an event that does not belong inside a stream")),
        None => Err(Error::exchange("a frame without an event inside a stream")),
    }
}

fn chunk(frame: Members<'_>, payload: &Bytes) -> Result<Chunk, Error> {
    let fields = Fields { id: frame.sse_id, event: frame.sse_event, retry: frame.sse_retry };
    piece(frame.data, frame.data_base64, fields, payload)
}

/// The fields of an event as they came.
pub(crate) struct Fields<'a> {
    pub(crate) id: Value<'a>,
    pub(crate) event: Value<'a>,
    pub(crate) retry: Value<'a>,
}

/// A chunk from its members, wherever they stood in the payload.
pub(crate) fn piece(
    data: Value<'_>,
    data_base64: Value<'_>,
    fields: Fields<'_>,
    payload: &Bytes,
) -> Result<Chunk, Error> {
    let (value, is_base64) = match data_base64 {
        Value::Absent => (data, false),
        encoded => (encoded, true),
    };
    let data = match value {
        Value::Absent => Bytes::new(),
        value => {
            let text = value.into_text().ok_or_else(|| Error::exchange("data that is no text"))?;
            encoded_body(text, is_base64, payload)?
        }
    };
    let text = |value: Value<'_>| {
        value.into_text().filter(|text| !text.is_empty()).map(std::borrow::Cow::into_owned)
    };
    let sse = SseFields {
        id: text(fields.id),
        event: text(fields.event),
        // Older workers send 0 for "none", and no client should be told to reconnect at once.
        retry: fields.retry.as_whole().filter(|&retry| retry > 0),
    };
    Ok(Chunk { data, sse: (sse != SseFields::default()).then_some(sse) })
}

#[cfg(test)]
mod tests;
