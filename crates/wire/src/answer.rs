//! The first frame of a worker's answer.
//!
//! Promise: whatever arrives is an [`Answer`] or one of two faults, and the two are never mixed up.
//! [`Kind::Exchange`]: this is no answer to our question, so the connection is out of step and is
//! never used again. [`Kind::Contract`]: it is one, but HTTP has no such response; the application
//! is at fault, the worker is not.
//!
//! What is lenient, because workers in the field are: a status may be a whole number written as
//! `200`, `200.0` or `"200"`; a header's value may be text, a number, a boolean or a list of them;
//! `null` is as good as absent; an empty map may be `[]`; an `id` may be `""` or absent.

mod head;
mod members;

use bytes::Bytes;

pub use head::{Response, WorkerError};
pub(crate) use head::{stream_error, stream_start};
pub(crate) use members::{Members, check_id, encoded_body};

use crate::capabilities::Capabilities;
use crate::stream::StreamStart;

/// What a worker answers with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// A response, whole or with its body following raw.
    Response(Response),
    /// A stream begins: frames for [`crate::stream::decode`] follow.
    StreamStart(StreamStart),
    /// An upstream plan, as the JSON that arrived.
    Plan(Bytes),
    /// The start of a batch, as the JSON that arrived.
    Batch(Bytes),
    /// The result of a dispatch request, as the JSON that arrived.
    Dispatch(Bytes),
}

/// The body of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// The bytes, whatever encoding they travelled in.
    Inline(Bytes),
    /// This many bytes follow the frame on the connection.
    Raw(u64),
}

/// Who is at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The exchange with the worker broke (`transport_error`).
    Exchange,
    /// The application returned what HTTP does not allow (`app_contract_error`).
    Contract,
}

/// Why a frame is no answer. The text is for the log, never for a client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct Error {
    /// Who is at fault.
    pub kind: Kind,
    /// What was wrong, in one line.
    pub detail: String,
}

impl Error {
    pub(crate) fn exchange(detail: impl Into<String>) -> Self {
        Self { kind: Kind::Exchange, detail: detail.into() }
    }

    pub(crate) fn contract(detail: impl Into<String>) -> Self {
        Self { kind: Kind::Contract, detail: detail.into() }
    }

    pub(crate) fn json(error: &serde_json::Error) -> Self {
        Self::exchange(format!("not the JSON expected: {error}"))
    }
}

/// Reads the first frame of the answer to the request of that id.
pub fn decode(payload: &Bytes, expect_id: &str) -> Result<Answer, Error> {
    let frame = Members::read(payload)?;
    check_id(&frame.id, expect_id)?;
    // The strategy is looked at before the event: a plan's event is `start` too.
    match (frame.strategy.as_str(), frame.mode.as_str(), frame.event.as_str()) {
        (Some("upstream_plan"), ..) => Ok(Answer::Plan(payload.clone())),
        (Some("dispatch"), ..) => Ok(Answer::Dispatch(payload.clone())),
        (_, Some("batch"), _) => Ok(Answer::Batch(payload.clone())),
        (_, Some("stream"), Some("start")) => Ok(Answer::StreamStart(head::stream_start(frame)?)),
        // Failing before the start is a failure like any other: there is still a status to choose.
        (_, Some("stream"), Some("error")) => Ok(Answer::Response(head::early_error(frame))),
        (_, Some("stream"), event) => {
            let event = event.unwrap_or_default();
            Err(Error::exchange(format!("a stream cannot begin with the event {event:?}")))
        }
        _ if frame.is_dispatch_result() => Ok(Answer::Dispatch(payload.clone())),
        _ => head::response(frame, payload).map(Answer::Response),
    }
}

/// The capabilities that a frame of any kind carries; `None` where it says nothing about them.
/// [`Response`] and [`StreamStart`] already hold theirs; this is for the frames that stay JSON.
#[must_use]
pub fn capabilities(payload: &Bytes) -> Option<Capabilities> {
    Members::read(payload).ok().and_then(|frame| frame.capabilities())
}

#[cfg(test)]
mod tests;
