//! Plans as workers write them, and what their streams become.

use super::stream::{Stream, early_failure};
use super::*;
use bytes::BytesMut;
use serde_json::json;

fn plan(extra: &serde_json::Value) -> Result<Plan, Error> {
    let mut frame = json!({
        "mode": "stream", "strategy": "upstream_plan", "event": "start", "id": "t",
        "transport": "http", "url": "http://models/v1", "method": "post",
        "request_headers": {"Accept": "x", "a": ["1", 2]}, "body": "{}",
    });
    for (name, value) in extra.as_object().unwrap() {
        frame[name] = value.clone();
    }
    decode(frame.to_string().as_bytes())
}

fn run(plan: &Plan, input: &str) -> String {
    let outs: Vec<String> = [1, 3, input.len().max(1)]
        .into_iter()
        .map(|size| {
            let (mut stream, mut out) = (Stream::new(plan), BytesMut::new());
            let fed = input.as_bytes().chunks(size).try_for_each(|c| stream.feed(c, &mut out));
            if fed.and_then(|()| stream.finish(&mut out)).is_err() {
                stream.fail("upstream_error", "T", &mut out);
            }
            String::from_utf8(out.to_vec()).unwrap()
        })
        .collect();
    assert!(outs.iter().all(|out| *out == outs[0]), "any cut gives the same: {outs:?}");
    outs[0].clone()
}

#[test]
fn a_plan_is_read_with_its_defaults() {
    let plan = plan(&json!({"codec": "ndjson", "meta": [], "response_headers": []})).unwrap();
    assert_eq!(plan.request.target, Target::Url("http://models/v1".into()));
    assert_eq!((plan.request.method.as_str(), &plan.request.body[..]), ("POST", &b"{}"[..]));
    let headers = [("accept", "x"), ("a", "1"), ("a", "2")];
    assert_eq!(plan.request.headers, headers.map(|(a, b)| (a.to_owned(), b.to_owned())));
    assert_eq!(
        (plan.mapper, plan.output, plan.codec),
        (Mapper::Field, Output::Text, Codec::Ndjson)
    );
    assert_eq!((plan.sse_event.as_str(), plan.request.hedge), ("token", HedgeOverride::default()));
}

#[test]
fn an_upstream_by_name_wins_over_a_url_and_hedging_can_be_said_in_the_plan() {
    let hedge =
        json!({"after_ms": 50, "max": 2, "answer": "full", "mode": "observe", "idle_ms": 0});
    let read =
        plan(&json!({"upstream": "models", "path": "/v1/chat?x=1", "hedge": hedge})).unwrap();
    let target = Target::Upstream { name: "models".into(), path: "/v1/chat?x=1".into() };
    assert_eq!(read.request.target, target);
    let h = read.request.hedge;
    assert_eq!((h.after_ms, h.max, h.idle_ms), (Some(50), Some(2), None));
    assert_eq!((h.answer, h.mode), (Some(Answer::Full), Some(Mode::Observe)));
    assert_eq!(plan(&json!({"hedge": false})).unwrap().request.hedge.enabled, Some(false));
}

#[test]
fn what_nobody_can_do_is_named_case_29() {
    assert_eq!(plan(&json!({"transport": "ws"})), Err(Error::Transport("ws".into())));
    assert_eq!(plan(&json!({"codec": "xml"})), Err(Error::Codec("xml".into())));
    assert_eq!(plan(&json!({"mapper": "upside_down"})), Err(Error::Mapper("upside_down".into())));
    let unfit = json!({"codec": "ndjson", "mapper": "sse_passthrough"});
    assert_eq!(plan(&unfit), Err(Error::Mapper("sse_passthrough".into())));
    assert!(matches!(decode(b"[1"), Err(Error::Malformed(_))));
    assert!(matches!(decode(b"{\"url\":7}"), Err(Error::Malformed(_))));
}

#[test]
fn rows_become_text() {
    let meta = json!({"field_path": "message.content", "fallback_field_path": "response"});
    let plan =
        plan(&json!({"codec": "ndjson", "mapper": "ndjson_text_field", "meta": meta})).unwrap();
    let rows = "\u{feff}{\"message\":{\"content\":\"He\"}}\r\n\r\n{\"response\":\"llo\"}\n\
                {\"message\":{\"content\":\"\"}}\n{\"message\":{\"content\":7}}\n{\"done\":true}";
    assert_eq!(run(&plan, rows), "Hello7");
}

#[test]
fn rows_become_events() {
    let meta = json!({"field_path": "choices.0.delta.content", "sse_event": "add"});
    let plan = plan(&json!({"mapper": "ndjson_sse_field", "meta": meta})).unwrap();
    assert_eq!((plan.codec, plan.output), (Codec::Ndjson, Output::Sse));
    let row = |text: &str| json!({"choices": [{"delta": {"content": text}}]}).to_string();
    let out = run(&plan, &format!("{}\n{}\n", row("a\nb"), row("c")));
    let expected = "id: tok-1\nevent: add\ndata: a\ndata: b\n\nid: tok-2\nevent: add\ndata: c\n\n\
                    id: done-3\nevent: done\ndata: done\n\n";
    assert_eq!(out, expected);
}

#[test]
fn events_become_text_and_their_end_mark_nothing() {
    let meta = json!({"field_path": "d"});
    let plan = plan(&json!({"codec": "sse", "mapper": "sse_text_field", "meta": meta})).unwrap();
    let out =
        run(&plan, ": ping\n\ndata: {\"d\":\ndata: \"x\"}\n\nevent: y\ndata: {}\n\ndata: [DONE]");
    assert_eq!(out, "x");
}

#[test]
fn events_pass_through() {
    let plan = plan(&json!({"codec": "sse", "mapper": "sse_passthrough"})).unwrap();
    let events = "id: 1\nevent: a\nretry: 5\ndata: x\ndata: y\n\n:\n\ndata: [DONE]\n\n";
    assert_eq!(run(&plan, events), events);
    assert_eq!(run(&plan, &events.replace('\n', "\r\n")), events);
}

#[test]
fn bytes_pass_through() {
    let plan = plan(&json!({"codec": "raw"})).unwrap();
    assert_eq!((plan.codec, plan.output), (Codec::Raw, Output::Text));
    assert_eq!(run(&plan, "a\r\n\u{feff}b"), "a\r\n\u{feff}b");
    assert!(!Stream::new(&plan).fail("upstream_error", "T", &mut BytesMut::new()), "aborted");
}

#[test]
fn a_row_that_is_no_json_ends_the_stream_as_a_death_does_case_32() {
    let meta = json!({"field_path": "t"});
    let text = plan(&json!({"codec": "ndjson", "meta": meta})).unwrap();
    let rows = "{\"t\":\"a\"}\n{\"t\":\"b\"}\nnonsense\n{\"t\":\"c\"}\n";
    assert_eq!(run(&text, rows), "ab\n[upstream_error T]\n");
    let events =
        plan(&json!({"codec": "ndjson", "mapper": "ndjson_sse_field", "meta": meta})).unwrap();
    let out = run(&events, rows);
    let error = "event: error\ndata: {\"error_class\":\"upstream_error\",\"trace_id\":\"T\"}\n\n";
    let end = format!("{error}id: done-3\nevent: done\ndata: done\n\n");
    assert!(out.starts_with("id: tok-1\n") && out.ends_with(&end), "{out}");
}

#[test]
fn an_early_failure_is_an_error_and_the_end_case_30() {
    let mut out = BytesMut::new();
    early_failure("upstream_error", "T", &mut out);
    let text = String::from_utf8(out.to_vec()).unwrap();
    let events: Vec<&str> = text.lines().filter(|line| line.starts_with("event:")).collect();
    assert_eq!(events, ["event: error", "event: done"]);
}
