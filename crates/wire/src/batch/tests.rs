//! Batches as workers write them, and results as workers read them.

use super::*;
use crate::plan::Target;
use serde_json::{Value, json};

#[test]
fn keys_keep_their_order_and_the_state_its_bytes() {
    let frame = r#"{"mode":"batch","event":"start","id":"t","deadline_ms":5000,"then":"resume",
        "state":{"b":1,  "a":[2]},"requests":{
        "z":{"upstream":"m","path":"/z","method":"GET"},
        "a":{"url":"http://x/y","headers":{"Idempotency-Key":"k"},"body":{"q":1}},
        "m":{"upstream":"m","hedge":{"after_ms":9}}}}"#;
    let batch = decode(frame.as_bytes()).unwrap();
    let keys: Vec<&str> = batch.requests.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["z", "a", "m"]);
    assert_eq!((batch.then, batch.deadline_ms), (Then::Resume, Some(5000)));
    assert_eq!(batch.state, r#"{"b":1,  "a":[2]}"#);
    let post = &batch.requests[1].1;
    assert_eq!((post.method.as_str(), &post.body[..]), ("POST", &b"{\"q\":1}"[..]));
    assert_eq!(post.headers, [("idempotency-key".to_owned(), "k".to_owned())]);
    assert_eq!(batch.requests[2].1.hedge.after_ms, Some(9));
    let target = Target::Upstream { name: "m".into(), path: "/".into() };
    assert_eq!(batch.requests[2].1.target, target);
}

#[test]
fn a_list_of_requests_has_its_indices_as_keys() {
    let batch = decode(br#"{"requests":[{"url":"http://a/"},{"url":"http://b/"}]}"#).unwrap();
    let keys: Vec<&str> = batch.requests.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["0", "1"]);
    assert_eq!((batch.then, &batch.state[..]), (Then::Respond, &b"null"[..]));
    assert_eq!(decode(br#"{"requests":[]}"#).unwrap().requests.len(), 0);
}

#[test]
fn a_deadline_that_is_none_is_refused_and_not_forgotten() {
    let with = |deadline: &str| {
        decode(format!(r#"{{"requests":{{}},"deadline_ms":{deadline}}}"#).as_bytes())
    };
    for bad in ["0", "-5", "1e300", "0.5", "\"soon\"", "true", "[5]"] {
        let error = with(bad).expect_err(bad).to_string();
        assert!(error.contains(&format!("deadline_ms is {bad}")), "{error}");
    }
    for (good, ms) in [("null", None), ("5", Some(5)), ("2e3", Some(2000)), ("\"7\"", Some(7))] {
        assert_eq!(with(good).expect(good).deadline_ms, ms, "{good}");
    }
}

#[test]
fn what_is_no_batch_is_refused() {
    for bad in ["", "[]", "7", r#"{"requests":7}"#, r#"{"requests":{"a":{}}}"#, "{}"] {
        assert!(decode(bad.as_bytes()).is_err(), "{bad}");
    }
    assert!(decode(br#"{"requests":{},"then":"dance"}"#).is_err());
}

fn result() -> KeyResult {
    KeyResult {
        status: 200,
        headers: vec![
            ("content-type".into(), "text/plain".into()),
            ("set-cookie".into(), "a=1".into()),
            ("set-cookie".into(), "b=2".into()),
        ],
        body: Bytes::from_static(b"hi"),
        attempts: 2,
        hedged: true,
        winner: Some("hedge"),
        duration_ms: 160,
        ..KeyResult::default()
    }
}

#[test]
fn results_are_json_in_order() {
    let binary = KeyResult { body: Bytes::from_static(b"\xff\0"), ..result() };
    let failed =
        KeyResult { status: 504, error_class: Some("upstream_timeout"), ..KeyResult::default() };
    let mut out = BytesMut::new();
    write_results(&mut out, [("b", &result()), ("a", &binary), ("\"", &failed)]);
    let text = String::from_utf8(out.to_vec()).unwrap();
    assert!(text.find("\"b\"") < text.find("\"a\""), "{text}");
    let read: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        read["b"],
        json!({"status": 200, "headers": {"content-type": "text/plain", "set-cookie": ["a=1", "b=2"]},
               "body": "hi", "error_class": null, "attempts": 2, "hedged": true, "winner": "hedge",
               "duration_ms": 160})
    );
    assert_eq!(read["a"]["body"], "/wA=");
    assert_eq!(read["a"]["body_encoding"], "base64");
    assert_eq!(read["\""]["error_class"], "upstream_timeout");
    let mut out = BytesMut::new();
    write_settled(&mut out, "b", &result(), 1, 3);
    let read: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!((&read["key"], &read["done"], &read["total"]), (&json!("b"), &json!(1), &json!(3)));
}

#[test]
fn a_resumed_request_is_the_original_with_state_and_results() {
    let mut out = BytesMut::new();
    let request = br#"{"id":"t","method":"GET","path":"/"}"#;
    assert!(write_resume(&mut out, request, b"{\"n\":1}", [("b", &result())]));
    let read: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!((&read["mode"], &read["event"]), (&json!("batch"), &json!("resume")));
    assert_eq!((&read["id"], &read["state"]["n"]), (&json!("t"), &json!(1)));
    assert_eq!(read["results"]["b"]["status"], 200);
    assert!(!write_resume(&mut BytesMut::new(), b"[]", b"", []));
}
