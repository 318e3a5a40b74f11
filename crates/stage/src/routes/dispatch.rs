//! Streams in steps: what a worker is asked when its gateway has `worker.stream_dispatch`.
//!
//! `/dispatch?n=3` brings a chunk a step, three in all. `as=text` for text in place of events,
//! `ms` makes each step take a while, `empty=K` has K steps that bring nothing before each that
//! brings something (with `hollow=1` an empty text), `fail=N` fails in the step that would bring
//! chunk N, `state=B` carries B bytes from step to step. A `close` is told on standard error.
//! `/conform/dispatch` is the suite's.

use std::io;

use serde_json::{Value, json};

use super::{After, Call};
use crate::clock;
use crate::reply::Reply;

/// One question.
pub(super) struct Asked {
    event: String,
    state: Value,
}

impl Asked {
    /// The question in this frame, where it is one.
    pub(super) fn of(payload: &[u8]) -> Option<Asked> {
        // Looked for before it is parsed: bodies of megabytes go by here.
        let marked = payload.get(..256).unwrap_or(payload);
        let mark = b"\"strategy\":\"dispatch\"";
        if !marked.windows(mark.len()).any(|window| window == mark) {
            return None;
        }
        let mut frame: Value = serde_json::from_slice(payload).ok()?;
        let event = frame["event"].as_str()?.to_owned();
        Some(Asked { event, state: frame["state"].take() })
    }
}

pub(super) fn serve(call: &Call<'_>, reply: &mut Reply<'_>, asked: &Asked) -> io::Result<After> {
    let answer = match call.path.as_str() {
        "/dispatch" => stream(call, reply, asked)?,
        "/conform/dispatch" => Some(conform(asked)),
        _ => Some(json!({ "handled": false })),
    };
    if let Some(mut answer) = answer {
        answer["mode"] = "stream".into();
        answer["strategy"] = "dispatch".into();
        answer["event"] = asked.event.as_str().into();
        answer["id"] = reply.id().into();
        reply.raw(answer.to_string().as_bytes())?;
    }
    Ok(After::Keep)
}

/// `None`: it failed, and has said so.
fn stream(call: &Call<'_>, reply: &mut Reply<'_>, asked: &Asked) -> io::Result<Option<Value>> {
    let (sent, waited) = (whole(&asked.state["sent"]), whole(&asked.state["waited"]));
    if asked.event == "close" {
        eprintln!("closed after {sent}");
        return Ok(Some(json!({ "handled": true, "done": true })));
    }
    clock::sleep_ms(call.number("ms", 0));
    let text = call.text("as") == Some("text");
    let filler = "x".repeat(call.number("state", 0).min(1 << 20) as usize);
    if waited < call.number("empty", 0) {
        let state = json!({ "sent": sent, "waited": waited + 1, "filler": filler });
        let hollow = call.number("hollow", 0) > 0;
        let chunks = if hollow { json!([{ "data": "" }]) } else { json!([]) };
        return Ok(Some(begun(text, false, &state, &chunks)));
    }
    let sent = sent + 1;
    if sent == call.number("fail", 0) {
        let headers = [
            ("x-worker-error-class", "worker_runtime_error"),
            ("x-worker-error", "the step was told to fail"),
        ];
        reply.respond(500, &headers, b"")?;
        return Ok(None);
    }
    let chunk = if text {
        json!({ "data": format!("line {sent}\n") })
    } else {
        json!({ "event": "tick", "id": sent, "data": format!("tick {sent}") })
    };
    let state = json!({ "sent": sent, "waited": 0, "filler": filler });
    Ok(Some(begun(text, sent >= call.number("n", 3), &state, &json!([chunk]))))
}

fn begun(text: bool, done: bool, state: &Value, chunks: &Value) -> Value {
    let kind = if text { "text" } else { "sse" };
    json!({
        "handled": true, "done": done, "stream_type": kind, "headers": { "x-steps": "yes" },
        "state": state, "chunks": chunks,
    })
}

fn conform(asked: &Asked) -> Value {
    let n = whole(&asked.state["n"]) + 1;
    let data = ["one", "two", "three"].get(n as usize - 1).copied().unwrap_or_default();
    json!({
        "handled": true, "done": n >= 3 || asked.event == "close", "stream_type": "sse",
        "state": { "n": n }, "chunks": [{ "event": "count", "id": n, "data": data }],
    })
}

fn whole(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}
