//! The cases of the failure model, one frame each.

use super::*;
use crate::stream::StreamKind;

fn read(json: &str) -> Result<Answer, Error> {
    decode(&Bytes::copy_from_slice(json.as_bytes()), "t")
}

fn response(json: &str) -> Response {
    match read(json) {
        Ok(Answer::Response(response)) => response,
        other => panic!("{json}: {other:?}"),
    }
}

fn kind(json: &str) -> Option<Kind> {
    read(json).err().map(|error| error.kind)
}

fn with_headers(headers: &str) -> String {
    format!(r#"{{"id":"t","status":200,"headers":{headers}}}"#)
}

fn lines(headers: &str) -> Vec<(String, String)> {
    response(&with_headers(headers)).headers
}

fn line(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

#[test]
fn a_plain_response() {
    let json = r#"{"id":"t","status":200,"headers":{"Content-Type":"text/html"},"body":"hi"}"#;
    let expected = Response {
        status: 200,
        headers: vec![line("content-type", "text/html")],
        body: Body::Inline("hi".into()),
        declared_length: None,
        capabilities: None,
        worker_error: None,
    };
    assert_eq!(response(json), expected);
}

#[test]
fn a_body_without_escapes_is_not_copied() {
    let payload = Bytes::from_static(br#"{"id":"t","status":200,"body":"hello"}"#);
    let Ok(Answer::Response(Response { body: Body::Inline(body), .. })) = decode(&payload, "t")
    else {
        panic!("no response")
    };
    assert!(payload.as_ptr_range().contains(&body.as_ptr()));
}

#[test]
fn what_is_no_json_object_breaks_the_exchange_case_7() {
    for json in ["", " ", "<h1>", "[]", "[{\"status\":200}]", "7", "\"x\"", "null", "{", "{}x"] {
        assert_eq!(kind(json), Some(Kind::Exchange), "{json}");
    }
    let bad = Bytes::from_static(b"{\"status\":200,\"body\":\"\xff\"}");
    assert_eq!(decode(&bad, "t").unwrap_err().kind, Kind::Exchange);
    let skipped = Bytes::from_static(b"{\"status\":200,\"unknown\":\"\xff\"}");
    assert_eq!(decode(&skipped, "t").unwrap_err().kind, Kind::Exchange);
    let half_a_pair = r#"{"status":200,"body":"\ud800"}"#;
    assert_eq!(kind(half_a_pair), Some(Kind::Exchange));
}

#[test]
fn no_status_breaks_the_exchange_case_8() {
    assert_eq!(kind(r#"{"id":"t","body":""}"#), Some(Kind::Exchange));
    assert_eq!(kind(r#"{"id":"t","status":null}"#), Some(Kind::Exchange));
    assert_eq!(kind("{}"), Some(Kind::Exchange));
}

#[test]
fn a_status_that_http_does_not_have_is_the_applications_fault_case_17() {
    for status in [
        "99",
        "600",
        "101",
        "\"abc\"",
        "0",
        "-1",
        "199",
        "200.5",
        "true",
        "[200]",
        "{}",
        "\"\"",
        "1e400000",
        "99999999999999999999",
    ] {
        let json = format!(r#"{{"id":"t","status":{status}}}"#);
        let expected = if status == "1e400000" { Kind::Exchange } else { Kind::Contract };
        assert_eq!(kind(&json), Some(expected), "{status}");
    }
    for status in ["200", "200.0", "2e2", "\"200\""] {
        assert_eq!(response(&format!(r#"{{"status":{status}}}"#)).status, 200, "{status}");
    }
    assert_eq!(response(r#"{"status":599}"#).status, 599);
}

#[test]
fn the_id_is_echoed_or_empty() {
    for id in ["\"t\"", "\"\"", "null"] {
        assert_eq!(response(&format!(r#"{{"id":{id},"status":204}}"#)).status, 204, "{id}");
    }
    for id in ["\"u\"", "7", "[]", "\"t \""] {
        let json = format!(r#"{{"id":{id},"status":200}}"#);
        assert_eq!(kind(&json), Some(Kind::Exchange), "{id}");
    }
}

#[test]
fn header_values_of_every_kind() {
    assert_eq!(lines("[]"), []);
    assert_eq!(lines("{}"), []);
    assert_eq!(lines("null"), []);
    assert_eq!(
        lines(r#"{"X-A":"1","x-b":["2","3"],"x-c":4,"x-d":true,"x-e":null,"x-f":[],"x-g":"  s "}"#),
        [
            line("x-a", "1"),
            line("x-b", "2"),
            line("x-b", "3"),
            line("x-c", "4"),
            line("x-d", "true"),
            line("x-g", "s"),
        ]
    );
}

#[test]
fn headers_that_http_does_not_allow_are_the_applications_fault() {
    for headers in [
        r#"{"x-a":"a\r\nx-evil: 1"}"#,
        r#"{"x-a":"a\u0000"}"#,
        r#"{"x-a":["fine","a\nb"]}"#,
        r#"{"x a":"1"}"#,
        r#"{"":"1"}"#,
        r#"{"x-a:":"1"}"#,
        r#"{"x-ä":"1"}"#,
        r#"{"x-a":{"b":1}}"#,
        r#"{"x-a":[["b"]]}"#,
        r#"["x-a: 1"]"#,
        r#""x-a: 1""#,
        "7",
    ] {
        assert_eq!(kind(&with_headers(headers)), Some(Kind::Contract), "{headers}");
    }
    let many: Vec<String> = (0..2000).map(|n| format!("\"x-{n}\":\"\"")).collect();
    assert_eq!(kind(&with_headers(&format!("{{{}}}", many.join(",")))), Some(Kind::Contract));
}

#[test]
fn a_broken_exchange_is_told_before_a_broken_contract() {
    let json = r#"{"id":"t","status":99,"body":"%","body_encoding":"base64"}"#;
    assert_eq!(kind(json), Some(Kind::Exchange));
}

#[test]
fn what_the_connection_header_names_is_dropped() {
    let headers = r#"{"Connection":["close, X-Private","x-other"],"x-private":"1","X-Other":"2",
        "content-type":"a/b","x-a":"1"}"#;
    assert_eq!(lines(headers), [line("content-type", "a/b"), line("x-a", "1")]);
    let named = r#"{"connection":"content-type","content-type":"a/b"}"#;
    assert_eq!(lines(named), [line("content-type", "a/b")]);
}

#[test]
fn what_belongs_to_the_connection_is_dropped() {
    let headers = r#"{"Connection":"close","transfer-encoding":"chunked","Keep-Alive":"5","te":"x",
        "upgrade":"h2c","trailer":"x","proxy-connection":"x","content-length":"12","x-a":"1"}"#;
    let response = response(&with_headers(headers));
    assert_eq!(response.headers, [line("x-a", "1")]);
    assert_eq!(response.declared_length, Some(12));
}

#[test]
fn the_content_type_beside_the_headers_is_a_fallback() {
    let fallback = r#"{"status":200,"content_type":"text/css"}"#;
    assert_eq!(response(fallback).headers, [line("content-type", "text/css")]);
    let both = r#"{"status":200,"content_type":"a/b","headers":{"Content-Type":"text/css"}}"#;
    assert_eq!(response(both).headers, [line("content-type", "text/css")]);
}

#[test]
fn every_spelling_of_a_body() {
    let body = |members: &str| response(&format!(r#"{{"status":200,{members}}}"#)).body;
    let hi = Body::Inline("hi\n".into());
    assert_eq!(body(r#""body":"hi\n""#), hi);
    assert_eq!(body(r#""body":"aGkK","body_encoding":"base64""#), hi);
    assert_eq!(body(r#""body_base64":"aGkK""#), hi);
    assert_eq!(body(r#""body":"aGkK","headers":{"X-Vhttpd-Body-Encoding":"base64"}"#), hi);
    assert_eq!(body(r#""body":"aGk","body_encoding":"base64""#), Body::Inline("hi".into()));
    assert_eq!(body(r#""body":null"#), Body::Inline(Bytes::new()));
    assert_eq!(body(r#""body":42"#), Body::Inline("42".into()));
    assert_eq!(body(r#""body_length":70000"#), Body::Raw(70_000));
    assert_eq!(body(r#""body_length":0"#), Body::Inline(Bytes::new()));
}

#[test]
fn the_encoding_header_is_removed() {
    let json = with_headers(r#"{"x-vhttpd-body-encoding":"base64","x-a":"1"}"#);
    assert_eq!(response(&json).headers, [line("x-a", "1")]);
}

#[test]
fn bodies_that_cannot_be_read() {
    let kind = |members: &str| kind(&format!(r#"{{"status":200,{members}}}"#));
    assert_eq!(kind(r#""body":"%%","body_encoding":"base64""#), Some(Kind::Exchange));
    assert_eq!(kind(r#""body_base64":"%""#), Some(Kind::Exchange));
    assert_eq!(kind(r#""body":"x","body_encoding":"rot13""#), Some(Kind::Exchange));
    assert_eq!(kind(r#""body_length":"many""#), Some(Kind::Exchange));
    assert_eq!(kind(r#""body_length":-1"#), Some(Kind::Exchange));
    assert_eq!(kind(r#""body":["a"]"#), Some(Kind::Contract));
    assert_eq!(kind(r#""body":{}"#), Some(Kind::Contract));
}

#[test]
fn cookies_get_a_line_each_case_45() {
    let a = "a=1; Path=/; Expires=Wed, 21 Oct 2099 07:28:00 GMT";
    let expected = [line("set-cookie", a), line("set-cookie", "b=2")];
    assert_eq!(lines(&format!(r#"{{"Set-Cookie":["{a}","b=2"]}}"#)), expected);
    assert_eq!(lines(&format!(r#"{{"set-cookie":"{a}, b=2"}}"#)), expected);
    // A list is a worker's own division: what is in one entry stays together.
    assert_eq!(lines(r#"{"set-cookie":["a=1, b=2"]}"#), [line("set-cookie", "a=1, b=2")]);
}

#[test]
fn what_a_worker_reports_is_taken_out_of_the_headers_cases_10_and_11() {
    let json = r#"{"status":500,"body":"trace","headers":{"X-Worker-Error-Class":"worker_runtime_error",
        "x-worker-exception":"App\\Boom","x-worker-error":"boom\r\nx-evil: 1","x-worker-pid":"7"}}"#;
    let response = response(json);
    assert_eq!(response.headers, []);
    let expected = WorkerError {
        class: "worker_runtime_error".to_owned(),
        exception: Some("App\\Boom".to_owned()),
        message: Some("boom  x-evil: 1".to_owned()),
        exiting: false,
    };
    assert_eq!(response.worker_error, Some(expected));
}

#[test]
fn a_worker_may_say_that_it_exits_after_its_report() {
    let json = r#"{"status":500,"exiting":true,"headers":{"x-worker-error-class":"a"}}"#;
    assert!(response(json).worker_error.unwrap().exiting);
    let json = r#"{"status":500,"exiting":"yes","headers":{"x-worker-error-class":"a"}}"#;
    assert!(!response(json).worker_error.unwrap().exiting);
}

#[test]
fn a_500_of_the_applications_own_is_no_report_case_40() {
    let own = response(r#"{"status":500,"headers":{"x-worker-pid":"7","x-a":"1"},"body":"own"}"#);
    assert_eq!(own.worker_error, None);
    assert_eq!(own.headers, [line("x-a", "1")]);
}

#[test]
fn a_worker_that_sends_the_header_has_failed_whatever_it_says_in_it() {
    for value in ["\"\"", "\" \"", "\"ä\"", "{}", "[\"\"]", "true"] {
        let json = with_headers(&format!(r#"{{"x-worker-error-class":{value}}}"#));
        let error = response(&json).worker_error.unwrap_or_else(|| panic!("{value}"));
        let expected = if value == "true" { "true" } else { "worker_runtime_error" };
        assert_eq!(error.class, expected, "{value}");
    }
    for value in ["null", "[]", "[null]"] {
        let json = with_headers(&format!(r#"{{"x-worker-error-class":{value}}}"#));
        assert_eq!(response(&json).worker_error, None, "{value}");
    }
}

#[test]
fn a_message_put_where_a_name_belongs_goes_no_further() {
    let json = r#"{"status":500,"headers":{"x-worker-error-class":"a b","x-worker-exception":"E: /srv/x"}}"#;
    let error = response(json).worker_error.unwrap();
    assert_eq!((error.class.as_str(), error.exception.as_deref()), ("a", Some("E:")));
}

#[test]
fn capabilities_may_come_with_any_answer() {
    let with =
        |value: &str| response(&format!(r#"{{"status":200,"capabilities":{value}}}"#)).capabilities;
    assert_eq!(with(r#"["keep_alive","warp"]"#), Some(Capabilities::NONE.with("keep_alive")));
    assert_eq!(with("[]"), Some(Capabilities::NONE));
    assert_eq!(with("null"), None);
    assert_eq!(with("7"), None);
    let plan = Bytes::from_static(br#"{"strategy":"upstream_plan","capabilities":["raw_body"]}"#);
    assert_eq!(capabilities(&plan), Some(Capabilities::NONE.with("raw_body")));
}

#[test]
fn a_body_that_is_a_truth_is_its_word() {
    for word in ["true", "false"] {
        let Ok(Answer::Response(response)) = read(&format!("{{\"status\":200,\"body\":{word}}}"))
        else {
            panic!("{word}")
        };
        assert_eq!(response.body, Body::Inline(word.into()));
    }
}

#[test]
fn plans_batches_and_dispatch_results_stay_json() {
    let plan = r#"{"mode":"stream","strategy":"upstream_plan","event":"start","id":"t"}"#;
    assert_eq!(read(plan), Ok(Answer::Plan(plan.into())));
    let batch = r#"{"mode":"batch","event":"start","id":"t","requests":{}}"#;
    assert_eq!(read(batch), Ok(Answer::Batch(batch.into())));
    let dispatch = r#"{"handled":true,"done":false,"chunks":[]}"#;
    assert_eq!(read(dispatch), Ok(Answer::Dispatch(dispatch.into())));
    assert_eq!(kind(&plan.replace("\"t\"", "\"u\"")), Some(Kind::Exchange));
}

#[test]
fn a_stream_starts() {
    let json = r#"{"mode":"stream","event":"start","id":"t","stream_type":"sse","headers":[]}"#;
    let Ok(Answer::StreamStart(start)) = read(json) else { panic!("no start") };
    assert_eq!((start.status, start.kind), (200, StreamKind::Sse));
    assert_eq!(start.content_type, "text/event-stream");
    let json = r#"{"mode":"stream","strategy":"","event":"start","id":"t","status":201,
        "stream_type":"text","content_type":"text/csv","headers":{"x-a":"1"}}"#;
    let Ok(Answer::StreamStart(start)) = read(json) else { panic!("no start") };
    assert_eq!((start.status, start.kind), (201, StreamKind::Text));
    assert_eq!(start.content_type, "text/csv");
    assert_eq!(start.headers, [line("x-a", "1")]);
}

#[test]
fn a_stream_that_cannot_start() {
    let start = |members: &str| kind(&format!(r#"{{"mode":"stream",{members}}}"#));
    assert_eq!(start(r#""event":"start","stream_type":"ws""#), Some(Kind::Exchange));
    assert_eq!(start(r#""event":"start","status":99"#), Some(Kind::Contract));
    assert_eq!(start(r#""event":"chunk","data":"x""#), Some(Kind::Exchange));
    assert_eq!(start(r#""event":"end""#), Some(Kind::Exchange));
    assert_eq!(start(r#""status":200"#), Some(Kind::Exchange));
}

#[test]
fn failing_before_the_start_is_a_failure_like_any_other_case_37() {
    let json = r#"{"mode":"stream","event":"error","id":"t","error_class":"app_contract_error","error":"no"}"#;
    let response = response(json);
    assert_eq!(response.status, 500);
    assert_eq!(response.worker_error.unwrap().class, "app_contract_error");
}

#[test]
fn a_detail_is_one_line() {
    let error = read(&with_headers(r#"{"x\r\ny":"1"}"#)).unwrap_err();
    assert!(!error.detail.contains(['\r', '\n']), "{error}");
}

#[test]
fn deep_nesting_is_no_danger() {
    for deep in ["[".repeat(1_000_000), "{\"a\":".repeat(300_000)] {
        assert_eq!(kind(&format!("{{\"status\":{deep}")), Some(Kind::Exchange));
        assert_eq!(kind(&format!("{{\"other\":{deep}")), Some(Kind::Exchange));
    }
}
