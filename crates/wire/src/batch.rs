//! A batch: calls to run side by side, and what becomes of their results.
//!
//! Promise: keys stay in the order in which they were written, results are written as what they are
//! (text as text, anything else as base64), and the state of a batch is passed on as the JSON that
//! came, never read.

use base64::Engine as _;
use bytes::{BufMut, Bytes, BytesMut};

use crate::json::{self, Object};
use crate::plan::PlannedRequest;
use crate::plan::members::Members;

/// Calls to run side by side.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// The id of the request that it answers.
    pub id: String,
    /// The calls, each under its key, in the order in which they were written.
    pub requests: Vec<(String, PlannedRequest)>,
    /// When to answer without those that are not done.
    pub deadline_ms: Option<u64>,
    /// Who gets the results.
    pub then: Then,
    /// What a worker gets back with the results: JSON, `null` where it said nothing.
    pub state: Bytes,
}

/// Who gets the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// A worker, together with the original request.
    Resume,
    /// The client.
    Respond,
}

/// A payload that is no batch. For the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no batch: {0}")]
pub struct Error(String);

/// Reads a batch, of a worker or of a client of the egress port.
///
/// # Errors
/// When it is none.
pub fn decode(payload: &[u8]) -> Result<Batch, Error> {
    let members = Members::read(payload).map_err(Error)?;
    let then = match members.text("then").as_deref() {
        Some("resume") => Then::Resume,
        Some("respond") | None => Then::Respond,
        Some(_) => return Err(Error("then is neither resume nor respond".to_owned())),
    };
    let requests = members.raw("requests").ok_or_else(|| Error("no requests".to_owned()))?;
    let requests = Members::of(requests.get()).map_err(Error)?;
    let mut calls: Vec<(String, PlannedRequest)> = Vec::new();
    for (key, raw) in requests.into_entries() {
        let call = Members::of(raw.get()).and_then(|mut members| members.request("headers"));
        let call = call.map_err(|reason| Error(format!("request {key:?}: {reason}")))?;
        // As everywhere in JSON here: the last of a repeated name.
        match calls.iter_mut().find(|(known, _)| *known == key) {
            Some(known) => known.1 = call,
            None => calls.push((key.into_owned(), call)),
        }
    }
    let state = members.raw("state").map_or("null", |raw| raw.get());
    Ok(Batch {
        id: members.text("id").unwrap_or_default(),
        requests: calls,
        deadline_ms: deadline(&members)?,
        then,
        state: Bytes::from(state.to_owned()),
    })
}

/// A deadline that is none would be no deadline, which nobody meant who wrote one.
fn deadline(members: &Members<'_>) -> Result<Option<u64>, Error> {
    match (
        members.raw("deadline_ms").map(serde_json::value::RawValue::get),
        members.whole("deadline_ms"),
    ) {
        (None | Some("null"), _) => Ok(None),
        (_, Some(ms)) if ms > 0 => Ok(Some(ms)),
        (Some(given), _) => {
            let given: String = given.chars().take(40).collect();
            Err(Error(format!("deadline_ms is {given}: expected whole milliseconds above 0")))
        }
    }
}

/// What became of one key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeyResult {
    /// The status, or the one that stands for the failure.
    pub status: u16,
    /// The headers, one entry a line.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
    /// The class of the failure; `None`: it is an answer.
    pub error_class: Option<&'static str>,
    /// Attempts started for it.
    pub attempts: u32,
    /// Whether a twin was started.
    pub hedged: bool,
    /// Whose answer it is.
    pub winner: Option<&'static str>,
    /// How long it took.
    pub duration_ms: u64,
}

/// Appends the results as one object, in order.
pub fn write_results<'a>(
    out: &mut BytesMut,
    results: impl IntoIterator<Item = (&'a str, &'a KeyResult)>,
) {
    out.put_u8(b'{');
    for (index, (key, result)) in results.into_iter().enumerate() {
        if index > 0 {
            out.put_u8(b',');
        }
        json::string(out, key);
        out.put_u8(b':');
        let mut object = Object::new(out);
        write_members(&mut object, result);
        object.end();
    }
    out.put_u8(b'}');
}

/// Appends one result as it settles: the result with its key, and how far the batch is.
pub fn write_settled(out: &mut BytesMut, key: &str, result: &KeyResult, done: u64, total: u64) {
    let mut object = Object::new(out);
    object.text("key", key);
    object.number("done", done);
    object.number("total", total);
    write_members(&mut object, result);
    object.end();
}

/// Appends the frame with which a worker is called again: the request's own frame, as it was first
/// sent, with the batch's state and results. False if `request` is no frame of a request.
pub fn write_resume<'a>(
    out: &mut BytesMut,
    request: &[u8],
    state: &[u8],
    results: impl IntoIterator<Item = (&'a str, &'a KeyResult)>,
) -> bool {
    let Some(members) = request.strip_prefix(b"{") else { return false };
    out.put_slice(b"{\"mode\":\"batch\",\"event\":\"resume\",\"state\":");
    out.put_slice(if state.is_empty() { b"null" } else { state });
    out.put_slice(b",\"results\":");
    write_results(out, results);
    out.put_u8(b',');
    out.put_slice(members);
    true
}

fn write_members(object: &mut Object<'_>, result: &KeyResult) {
    object.number("status", u64::from(result.status));
    object.with("headers", |out| write_headers(out, &result.headers));
    match std::str::from_utf8(&result.body) {
        Ok(text) => object.text("body", text),
        Err(_) => {
            let text = base64::engine::general_purpose::STANDARD.encode(&result.body);
            object.text("body", &text);
            object.text("body_encoding", "base64");
        }
    }
    match result.error_class {
        Some(class) => object.text("error_class", class),
        None => object.with("error_class", |out| out.put_slice(b"null")),
    }
    object.number("attempts", u64::from(result.attempts));
    let hedged: &[u8] = if result.hedged { b"true" } else { b"false" };
    object.with("hedged", |out| out.put_slice(hedged));
    match result.winner {
        Some(role) => object.text("winner", role),
        None => object.with("winner", |out| out.put_slice(b"null")),
    }
    object.number("duration_ms", result.duration_ms);
}

/// A name that occurs once has a text, one that occurs several times a list.
fn write_headers(out: &mut BytesMut, headers: &[(String, String)]) {
    let mut object = Object::new(out);
    for (index, (name, value)) in headers.iter().enumerate() {
        if headers[..index].iter().any(|(known, _)| known == name) {
            continue;
        }
        let more: Vec<&str> = headers[index..]
            .iter()
            .filter(|(other, _)| other == name)
            .map(|(_, value)| value.as_str())
            .collect();
        object.with_lower_key(name, |out| match more.as_slice() {
            [_] => json::string(out, value),
            lines => json::strings(out, lines.iter().copied()),
        });
    }
    object.end();
}

#[cfg(test)]
mod tests;
