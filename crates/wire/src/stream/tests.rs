//! Frames that follow a stream's start.

use super::*;

fn read(json: &str) -> Result<Event, Error> {
    decode(&Bytes::copy_from_slice(json.as_bytes()), "t")
}

fn chunk(members: &str) -> Chunk {
    let json = format!(r#"{{"mode":"stream","event":"chunk","id":"t",{members}}}"#);
    match read(&json) {
        Ok(Event::Chunk(chunk)) => chunk,
        other => panic!("{json}: {other:?}"),
    }
}

#[test]
fn chunks() {
    assert_eq!(chunk(r#""data":"a\n""#), Chunk { data: "a\n".into(), sse: None });
    assert_eq!(chunk(r#""data_base64":"/w==""#).data, &b"\xff"[..]);
    assert_eq!(chunk(r#""data":null"#).data, "");
    let fields =
        SseFields { id: Some("7".to_owned()), event: Some("tick".to_owned()), retry: Some(500) };
    let full = chunk(r#""data":"a","sse_id":7,"sse_event":"tick","sse_retry":500"#);
    assert_eq!(full.sse, Some(fields));
    let unset = chunk(r#""data":"a","sse_id":"","sse_event":"","sse_retry":0"#);
    assert_eq!(unset.sse, None);
}

#[test]
fn the_ends_of_a_stream() {
    assert_eq!(read(r#"{"mode":"stream","event":"end","id":"t"}"#), Ok(Event::End));
    let json = r#"{"event":"error","error_class":"worker_runtime_error","error":"a\nb"}"#;
    let Ok(Event::Error(error)) = read(json) else { panic!("no error") };
    assert_eq!(
        (error.class.as_str(), error.message.as_deref()),
        ("worker_runtime_error", Some("a b"))
    );
    let Ok(Event::Error(error)) = read(r#"{"event":"error"}"#) else { panic!("no error") };
    assert_eq!((error.class.as_str(), error.message), ("worker_runtime_error", None));
}

#[test]
fn what_is_no_event_of_this_stream() {
    for json in [
        r#"{"event":"start"}"#,
        r#"{"event":"shrug"}"#,
        r#"{"event":7}"#,
        "{}",
        r#"{"id":"t","status":200,"body":"x"}"#,
        r#"{"mode":"batch","event":"end"}"#,
        r#"{"event":"end","id":"u"}"#,
        r#"{"event":"chunk","data":[]}"#,
        r#"{"event":"chunk","data_base64":"%"}"#,
        "[]",
    ] {
        assert!(read(json).is_err(), "{json}");
    }
}
