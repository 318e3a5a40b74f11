//! An upstream plan: what a worker asks to be streamed to its client.
//!
//! Promise: a payload is a [`Plan`] that can be carried out, or an [`Error`] that says whether the
//! plan is no plan, or asks for something that nobody here can do. Members of the wrong type count
//! as absent where a default will do, as everywhere in worker frames.
//!
//! [`stream`] turns the bytes of the upstream's answer into what the client gets.

mod field;
pub(crate) mod members;
pub mod stream;
#[cfg(test)]
mod tests;

pub use field::FieldPath;
use members::Members;
use members::headers;
pub use members::{Answer, HedgeOverride, Mode, Progress};

use bytes::Bytes;

/// What the worker asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The id of the request that it answers.
    pub id: String,
    /// The call to make.
    pub request: PlannedRequest,
    /// How the answer is cut into messages.
    pub codec: Codec,
    /// What becomes of a message.
    pub mapper: Mapper,
    /// What the client gets.
    pub output: Output,
    /// The content type for the client; the output's own where the plan says none.
    pub output_content_type: Option<String>,
    /// Further headers for the client; names in lower case.
    pub response_headers: Vec<(String, String)>,
    /// What the plan is called on admin pages.
    pub name: Option<String>,
    /// Where the text is in a row.
    pub field_path: FieldPath,
    /// Where it is if it is not there.
    pub fallback_field_path: Option<FieldPath>,
    /// The name of each event.
    pub sse_event: String,
    /// A file that stands in for the upstream.
    pub fixture_path: Option<String>,
}

/// One call that a plan or a batch asks for.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PlannedRequest {
    /// Where it goes.
    pub target: Target,
    /// The method, in upper case.
    pub method: String,
    /// The headers; names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
    /// What differs from the upstream's own hedging.
    pub hedge: HedgeOverride,
}

/// Where a call goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A bare URL; it must be on the allow-list.
    Url(String),
    /// An upstream by name, and the path (with query) there.
    Upstream {
        /// Its name.
        name: String,
        /// The path, `/` where none is said.
        path: String,
    },
}

impl Default for Target {
    fn default() -> Target {
        Target::Url(String::new())
    }
}

/// How an answer is cut into messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// A row a message.
    Ndjson,
    /// An event a message.
    Sse,
    /// Bytes as they come.
    Raw,
}

/// What becomes of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mapper {
    /// The text at a path of its JSON.
    Field,
    /// It stays as it is.
    Same,
}

/// What the client gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Text: the pieces one after another.
    Text,
    /// Server-sent events.
    Sse,
}

impl Output {
    /// The content type where the plan says none.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Output::Text => "text/plain; charset=utf-8",
            Output::Sse => "text/event-stream",
        }
    }
}

/// What is wrong with a plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It is none.
    #[error("no plan: {0}")]
    Malformed(String),
    /// `transport`.
    #[error("a plan over the transport {0:?}")]
    Transport(String),
    /// `codec`.
    #[error("a plan with the codec {0:?}")]
    Codec(String),
    /// `mapper`, alone or together with codec and output.
    #[error("a plan with the mapper {0:?}, which does not fit its codec and output")]
    Mapper(String),
}

/// Reads a plan from the frame that an answer handed over as [`crate::answer::Answer::Plan`].
///
/// # Errors
/// See [`Error`].
pub fn decode(payload: &[u8]) -> Result<Plan, Error> {
    let mut members = Members::read(payload).map_err(Error::Malformed)?;
    let transport = members.text("transport").unwrap_or_else(|| "http".to_owned());
    if transport != "http" && transport != "https" {
        return Err(Error::Transport(bounded(transport)));
    }
    let mapper = members.text("mapper");
    let codec = match members.text("codec").as_deref() {
        Some("ndjson") => Codec::Ndjson,
        Some("sse") => Codec::Sse,
        Some("raw") => Codec::Raw,
        Some(other) => return Err(Error::Codec(bounded(other.to_owned()))),
        None => codec_of(mapper.as_deref()),
    };
    let output = members.text("output_stream_type");
    let (mapper, output) = fit(codec, mapper.as_deref(), output.as_deref())?;
    let meta = members.meta();
    let field_path = meta.field_path.as_deref().map_or_else(FieldPath::default, FieldPath::new);
    Ok(Plan {
        id: members.text("id").unwrap_or_default(),
        codec,
        mapper,
        output,
        output_content_type: members.text("output_content_type"),
        response_headers: headers(members.take("response_headers")),
        name: members.text("name"),
        field_path,
        fallback_field_path: meta.fallback.as_deref().map(FieldPath::new),
        sse_event: meta.sse_event.unwrap_or_else(|| "token".to_owned()),
        fixture_path: members.text("fixture_path"),
        request: members.request("request_headers").map_err(Error::Malformed)?,
    })
}

/// A plan that names no codec means the one of its mapper.
fn codec_of(mapper: Option<&str>) -> Codec {
    match mapper {
        Some(name) if name.starts_with("ndjson") => Codec::Ndjson,
        Some(name) if name.starts_with("sse") => Codec::Sse,
        _ => Codec::Raw,
    }
}

fn fit(
    codec: Codec,
    mapper: Option<&str>,
    output: Option<&str>,
) -> Result<(Mapper, Output), Error> {
    let usual = match (codec, output) {
        (Codec::Ndjson, Some("sse")) => "ndjson_sse_field",
        (Codec::Ndjson, _) => "ndjson_text_field",
        (Codec::Sse, Some("text")) => "sse_text_field",
        (Codec::Sse, _) => "sse_passthrough",
        (Codec::Raw, _) => "raw",
    };
    let name = mapper.unwrap_or(usual);
    match (name, codec, output) {
        ("ndjson_text_field", Codec::Ndjson, Some("text") | None)
        | ("sse_text_field", Codec::Sse, Some("text") | None) => Ok((Mapper::Field, Output::Text)),
        ("ndjson_text_field" | "ndjson_sse_field", Codec::Ndjson, _)
        | ("sse_text_field", Codec::Sse, Some("sse")) => Ok((Mapper::Field, Output::Sse)),
        ("sse_passthrough", Codec::Sse, Some("sse") | None) => Ok((Mapper::Same, Output::Sse)),
        ("raw", _, Some("sse")) => Ok((Mapper::Same, Output::Sse)),
        ("raw", _, Some("text") | None) => Ok((Mapper::Same, Output::Text)),
        _ => Err(Error::Mapper(bounded(name.to_owned()))),
    }
}

/// What came from outside and goes to the log is short.
fn bounded(mut text: String) -> String {
    let end = (0..=64.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    text.truncate(end);
    text
}
