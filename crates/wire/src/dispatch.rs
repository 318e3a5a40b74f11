//! The dispatch strategy: a stream that is asked for one step at a time.
//!
//! Promise: a question is the request's own frame with what the strategy adds, the state as the JSON
//! that came, never read. An answer's head and chunks are held to what a stream's are held to.

use bytes::{BufMut, Bytes, BytesMut};
use serde::Deserialize;

use crate::answer::{self, Error, check_id};
use crate::loose::Value;
use crate::plan::members::Members;
use crate::stream::{self, Chunk, Fields, StreamStart};

/// What a worker is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Whether it takes the request, and how the stream begins.
    Open,
    /// What comes next.
    Next,
    /// Nothing: the stream ended before the worker said that it was done.
    Close,
}

impl Event {
    /// All of them, in the order of a stream's life.
    pub const ALL: [Event; 3] = [Event::Open, Event::Next, Event::Close];

    /// The event as frames spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Event::Open => "open",
            Event::Next => "next",
            Event::Close => "close",
        }
    }
}

/// A worker's answer to one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Whether it takes the request. If not, an ordinary request follows.
    pub handled: bool,
    /// Whether the stream is complete after these chunks.
    pub done: bool,
    /// How the stream begins; counts for the first step alone.
    pub start: StreamStart,
    /// What to hand to the next step; `None`: what was handed to this one.
    pub state: Option<Bytes>,
    /// What goes to the client.
    pub chunks: Vec<Chunk>,
}

/// Appends the frame of a step: the request's own frame, with event and state in front. False if
/// `request` is no frame of a request.
pub fn write_request(out: &mut BytesMut, request: &[u8], event: Event, state: &[u8]) -> bool {
    let Some(members) = request.strip_prefix(b"{") else { return false };
    out.put_slice(b"{\"mode\":\"stream\",\"strategy\":\"dispatch\",\"event\":\"");
    out.put_slice(event.name().as_bytes());
    out.put_slice(b"\",\"state\":");
    out.put_slice(if state.is_empty() { b"{}" } else { state });
    out.put_u8(b',');
    out.put_slice(members);
    true
}

/// Reads the answer to a step of the request of that id.
///
/// # Errors
/// When it is none, or begins a stream as HTTP does not allow.
pub fn decode(payload: &Bytes, expect_id: &str) -> Result<Step, Error> {
    let frame = answer::Members::read(payload)?;
    check_id(&frame.id, expect_id)?;
    let members = Members::read(payload).map_err(Error::exchange)?;
    let chunks = match members.raw("chunks").map(serde_json::value::RawValue::get) {
        None | Some("null") => Vec::new(),
        Some(list) => Members::of(list)
            .map_err(|reason| Error::exchange(format!("chunks: {reason}")))?
            .into_entries()
            .into_iter()
            .map(|(_, raw)| chunk(raw.get(), payload))
            .collect::<Result<_, _>>()?,
    };
    let state = members.raw("state").map(serde_json::value::RawValue::get);
    Ok(Step {
        handled: members.flag("handled").unwrap_or(false),
        done: members.flag("done").unwrap_or(false),
        start: answer::stream_start(frame)?,
        state: state.filter(|state| *state != "null").map(|state| Bytes::from(state.to_owned())),
        chunks,
    })
}

/// One of the chunks of a step. Unknown members are ignored.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Item<'a> {
    #[serde(borrow)]
    event: Value<'a>,
    #[serde(borrow)]
    id: Value<'a>,
    #[serde(borrow)]
    data: Value<'a>,
    #[serde(borrow)]
    data_base64: Value<'a>,
    #[serde(borrow)]
    retry: Value<'a>,
}

fn chunk(raw: &str, payload: &Bytes) -> Result<Chunk, Error> {
    let item: Item<'_> = serde_json::from_str(raw)
        .map_err(|error| Error::exchange(format!("a chunk that is none: {error}")))?;
    let fields = Fields { id: item.id, event: item.event, retry: item.retry };
    stream::piece(item.data, item.data_base64, fields, payload)
}

#[cfg(test)]
mod tests;
