//! Plans and batches, built from the query so that a test can ask for any of them.

use std::io;

use serde_json::{Map, Value, json};

use super::{After, Call};
use crate::reply::Reply;

/// The members of a plan that a query parameter of the same name sets.
const PLAN_TEXTS: &[&str] = &[
    "transport",
    "url",
    "upstream",
    "path",
    "method",
    "body",
    "codec",
    "mapper",
    "output_stream_type",
    "output_content_type",
    "name",
    "fixture_path",
];

const PLAN_META: &[&str] = &["field_path", "fallback_field_path", "sse_event"];

/// A plan. Without parameters it streams the NDJSON of `http://127.0.0.1:9/`, where nobody is.
pub(super) fn plan(call: &Call<'_>, reply: &mut Reply<'_>) -> io::Result<After> {
    let mut plan = json!({
        "mode": "stream",
        "strategy": "upstream_plan",
        "event": "start",
        "id": reply.id(),
        "transport": "http",
        "method": "GET",
        "codec": "ndjson",
        "mapper": "ndjson_text_field",
        "output_stream_type": "text",
        "request_headers": {},
        "response_headers": {},
    });
    for &name in PLAN_TEXTS {
        if let Some(value) = call.text(name) {
            plan[name] = value.into();
        }
    }
    if call.text("url").is_none() && call.text("upstream").is_none() {
        plan["url"] = "http://127.0.0.1:9/".into();
    }
    let meta: Map<String, Value> = PLAN_META
        .iter()
        .filter_map(|&name| call.text(name).map(|value| (name.to_owned(), value.into())))
        .collect();
    plan["meta"] = meta.into();
    reply.raw(plan.to_string().as_bytes())?;
    Ok(After::Keep)
}

/// A batch of `?paths=/a,/b` on `?upstream=`, and on its resumption the results.
pub(super) fn batch(call: &Call<'_>, reply: &mut Reply<'_>) -> io::Result<After> {
    let frame: Value = serde_json::from_slice(&call.payload).unwrap_or_default();
    if frame["event"] == "resume" {
        let json = json!({ "state": frame["state"], "results": frame["results"] });
        reply.json(json.to_string().as_bytes())?;
        return Ok(After::Keep);
    }
    let upstream = call.text("upstream").unwrap_or("demo");
    let requests: Map<String, Value> = call
        .text("paths")
        .unwrap_or("/")
        .split(',')
        .map(|path| {
            let request = json!({ "upstream": upstream, "path": path, "method": "GET" });
            (path.trim_start_matches('/').to_owned(), request)
        })
        .collect();
    let batch = json!({
        "mode": "batch",
        "event": "start",
        "id": reply.id(),
        "requests": requests,
        "deadline_ms": call.number("deadline_ms", 5000),
        "then": call.text("then").unwrap_or("resume"),
        "state": { "served": call.memory.served },
    });
    reply.raw(batch.to_string().as_bytes())?;
    Ok(After::Keep)
}
