//! The members that worker frames have between them.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use serde::Deserialize;

use super::{Body, Error};
use crate::capabilities::Capabilities;
use crate::loose::{self, Value};

/// Standard base64, with or without its padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// One frame from a worker. Unknown members are ignored.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct Members<'a> {
    #[serde(borrow)]
    pub(crate) id: Value<'a>,
    #[serde(borrow)]
    pub(crate) mode: Value<'a>,
    #[serde(borrow)]
    pub(crate) strategy: Value<'a>,
    #[serde(borrow)]
    pub(crate) event: Value<'a>,
    #[serde(borrow)]
    pub(crate) status: Value<'a>,
    #[serde(borrow, deserialize_with = "loose::map")]
    pub(crate) headers: Value<'a>,
    #[serde(borrow)]
    pub(crate) content_type: Value<'a>,
    #[serde(borrow)]
    pub(crate) body: Value<'a>,
    #[serde(borrow)]
    pub(crate) body_base64: Value<'a>,
    #[serde(borrow)]
    pub(crate) body_encoding: Value<'a>,
    #[serde(borrow)]
    pub(crate) body_length: Value<'a>,
    #[serde(borrow, deserialize_with = "loose::list")]
    capabilities: Value<'a>,
    #[serde(borrow)]
    pub(crate) stream_type: Value<'a>,
    #[serde(borrow)]
    pub(crate) error_class: Value<'a>,
    #[serde(borrow)]
    pub(crate) exception: Value<'a>,
    #[serde(borrow)]
    pub(crate) error: Value<'a>,
    #[serde(borrow)]
    pub(crate) data: Value<'a>,
    #[serde(borrow)]
    pub(crate) data_base64: Value<'a>,
    #[serde(borrow)]
    pub(crate) sse_id: Value<'a>,
    #[serde(borrow)]
    pub(crate) sse_event: Value<'a>,
    #[serde(borrow)]
    pub(crate) sse_retry: Value<'a>,
    #[serde(borrow)]
    handled: Value<'a>,
    #[serde(borrow)]
    exiting: Value<'a>,
}

impl<'a> Members<'a> {
    pub(crate) fn read(payload: &'a [u8]) -> Result<Self, Error> {
        // Checked once and as a whole: it is faster than string by string, and it also covers the
        // strings of members that are skipped.
        let text = std::str::from_utf8(payload).map_err(|_| Error::exchange("not UTF-8"))?;
        if !text.trim_ascii_start().starts_with('{') {
            return Err(Error::exchange("not a JSON object"));
        }
        serde_json::from_str(text).map_err(|error| Error::json(&error))
    }

    pub(crate) fn capabilities(&self) -> Option<Capabilities> {
        loose::capabilities(&self.capabilities)
    }

    /// The worker says that it exits after this answer.
    pub(crate) fn exiting(&self) -> bool {
        self.exiting == Value::Bool(true)
    }

    /// A dispatch result has no mode and no status, but says whether it was handled.
    pub(crate) fn is_dispatch_result(&self) -> bool {
        self.handled != Value::Absent && self.status == Value::Absent
    }
}

/// An answer echoes the id, or leaves it empty.
pub(crate) fn check_id(id: &Value<'_>, expected: &str) -> Result<(), Error> {
    match id {
        Value::Absent => Ok(()),
        Value::Text(id) if id.is_empty() || id == expected => Ok(()),
        Value::Text(_) => Err(Error::exchange("the answer to another request (wrong id)")),
        _ => Err(Error::exchange("an id that is no text")),
    }
}

/// The body of a response, from whichever of its four spellings was used. `header_encoding` is the
/// value of the header in which some older workers say the encoding.
pub(crate) fn body(
    frame: &mut Members<'_>,
    header_encoding: Option<&str>,
    payload: &Bytes,
) -> Result<Body, Error> {
    if frame.body_length != Value::Absent {
        return match frame.body_length.as_whole() {
            Some(0) => Ok(Body::Inline(Bytes::new())),
            Some(length) => Ok(Body::Raw(length)),
            None => Err(Error::exchange("body_length is no number of bytes")),
        };
    }
    if let Some(encoded) = frame.body_base64.as_str() {
        return base64(encoded).map(Body::Inline);
    }
    let encoding = frame.body_encoding.as_str().or(header_encoding).unwrap_or_default();
    let encoded = match encoding {
        "base64" => true,
        "" | "utf8" | "utf-8" | "text" | "plain" | "identity" => false,
        _ => return Err(Error::exchange("an unknown body_encoding")),
    };
    match std::mem::take(&mut frame.body) {
        Value::Absent => Ok(Body::Inline(Bytes::new())),
        value => {
            let text =
                value.into_text().ok_or_else(|| Error::contract("a body that is no text"))?;
            encoded_body(text, encoded, payload).map(Body::Inline)
        }
    }
}

/// The bytes of one text. Text that stands in the payload as it is meant is not copied.
pub(crate) fn encoded_body(
    text: Cow<'_, str>,
    is_base64: bool,
    payload: &Bytes,
) -> Result<Bytes, Error> {
    match text {
        text if is_base64 => base64(&text),
        // An empty one would keep the whole payload alive for nothing.
        Cow::Borrowed("") => Ok(Bytes::new()),
        Cow::Borrowed(text) => Ok(payload.slice_ref(text.as_bytes())),
        Cow::Owned(text) => Ok(text.into()),
    }
}

fn base64(text: &str) -> Result<Bytes, Error> {
    BASE64.decode(text).map(Bytes::from).map_err(|_| Error::exchange("bad base64"))
}
