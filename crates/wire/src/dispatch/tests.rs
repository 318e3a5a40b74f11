use super::*;
use crate::stream::{SseFields, StreamKind};

fn read(json: &str) -> Result<Step, Error> {
    decode(&Bytes::copy_from_slice(json.as_bytes()), "t")
}

#[test]
fn a_question_is_the_request_with_event_and_state_in_front() {
    let mut out = BytesMut::new();
    assert!(write_request(&mut out, br#"{"id":"t","path":"/"}"#, Event::Next, br#"{"n":1}"#));
    let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
    let expected = serde_json::json!({
        "mode": "stream", "strategy": "dispatch", "event": "next", "state": {"n": 1},
        "id": "t", "path": "/",
    });
    assert_eq!(json, expected);
    out.clear();
    assert!(write_request(&mut out, br#"{"id":"t"}"#, Event::Open, b""));
    let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert_eq!((&json["event"], &json["state"]), (&"open".into(), &serde_json::json!({})));
    assert!(!write_request(&mut out, b"[]", Event::Close, b""));
}

#[test]
fn a_step_is_head_state_and_chunks() {
    let step = read(
        r#"{"id":"t","handled":true,"done":false,"stream_type":"sse","headers":{"X-A":["1","2"]},
            "state":{"n": [1, 2]},"chunks":[{"event":"e","id":7,"data":"a","retry":5},{"data":"b"},
            {"data_base64":"/w=="},{}]}"#,
    )
    .unwrap();
    assert!(step.handled && !step.done);
    assert_eq!(step.start.kind, StreamKind::Sse);
    assert_eq!(step.start.content_type, "text/event-stream");
    let lines: Vec<_> = step.start.headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    assert_eq!(lines, [("x-a", "1"), ("x-a", "2")]);
    assert_eq!(step.state.as_deref(), Some(&br#"{"n": [1, 2]}"#[..]));
    let fields = SseFields { id: Some("7".into()), event: Some("e".into()), retry: Some(5) };
    let data: Vec<&[u8]> = step.chunks.iter().map(|chunk| &chunk.data[..]).collect();
    assert_eq!(data, [&b"a"[..], b"b", b"\xff", b""]);
    assert_eq!(step.chunks[0].sse, Some(fields));
    assert!(step.chunks[1..].iter().all(|chunk| chunk.sse.is_none()));
}

#[test]
fn what_is_not_said_is_not_handled_not_done_and_keeps_the_state() {
    for json in [
        "{}",
        r#"{"chunks":null,"state":null,"handled":"yes"}"#,
        r#"{"chunks":[],"headers":[],"done":0}"#,
    ] {
        let step = read(json).unwrap();
        assert!(!step.handled && !step.done && step.chunks.is_empty(), "{json}");
        assert_eq!((step.state, step.start.kind), (None, StreamKind::Text), "{json}");
    }
}

#[test]
fn what_is_no_step_is_refused() {
    for json in [
        "[]",
        r#"{"id":"other","handled":true}"#,
        r#"{"handled":true,"chunks":"x"}"#,
        r#"{"handled":true,"chunks":[1]}"#,
        r#"{"handled":true,"chunks":[{"data":{}}]}"#,
        r#"{"handled":true,"chunks":[{"data_base64":"?"}]}"#,
        r#"{"handled":true,"stream_type":"ws"}"#,
        r#"{"handled":true,"headers":{"a b":"c"}}"#,
        r#"{"handled":true,"status":42}"#,
    ] {
        assert!(read(json).is_err(), "{json}");
    }
}
