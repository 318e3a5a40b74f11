//! What a request frame holds, and what does not fit one.

use bytes::Bytes;
use serde_json::{Value, json};

use super::*;

const RAW: Capabilities = Capabilities { raw_body: true, ..Capabilities::NONE };

fn request<'a>(headers: &'a [(&'a str, &'a [u8])], body: Body<'a>) -> Request<'a> {
    Request {
        id: "trace-1",
        request_id: "req-1",
        deadline_unix_ms: Some(1_700_000_000_123),
        method: "GET",
        path: "/users/42",
        query: "trace_id=worker",
        scheme: "https",
        host: "example.org",
        port: 443,
        protocol_version: "1.1",
        remote_addr: "2001:db8::7",
        headers,
        body,
    }
}

fn encode(request: &Request<'_>, set: Capabilities) -> Result<(Value, Sent), EncodeError> {
    let mut out = BytesMut::new();
    let sent = request.encode(&mut out, set)?;
    let payload = frame::decode(&mut out).unwrap().unwrap();
    assert!(out.is_empty(), "one frame and nothing after it");
    Ok((serde_json::from_slice(&payload).unwrap(), sent))
}

/// What a lean worker does to have the whole again.
fn worked_out(mut lean: Value) -> Value {
    let frame = lean.as_object_mut().unwrap();
    let url = frame.remove("url").unwrap_or_else(|| frame["path"].clone());
    let mut server = json!({ "url": url });
    for name in ["host", "port", "remote_addr", "method"] {
        server[name] = frame[name].clone();
    }
    let pairs = frame["headers"].as_object().unwrap().iter();
    let pairs = Value::from_iter(pairs.map(|(name, value)| json!([name, value])));
    let list = frame.entry("header_list").or_insert(pairs).clone();
    let mut attributes = json!({ "header_list": list.to_string() });
    for name in ["request_id", "deadline_unix_ms", "body_encoding"] {
        if let Some(value) = frame.get(name) {
            attributes[name] = value.as_str().map_or(value.to_string(), str::to_owned).into();
        }
    }
    frame.insert("server".to_owned(), server);
    frame.insert("attributes".to_owned(), attributes);
    lean
}

#[test]
fn a_lean_worker_gets_nothing_twice_and_misses_nothing() {
    // In the order in which a map of this test sorts them.
    let plain: &[(&str, &[u8])] = &[("a", b"1"), ("Host", b"example.org"), ("X-Latin", b"gr\xfcn")];
    let repeated: &[(&str, &[u8])] = &[("Cookie", b"a=b"), ("X", b"1"), ("cookie", b"c=d")];
    let lean = Capabilities { lean: true, ..Capabilities::NONE };
    for (headers, query, body) in [
        (plain, "a=%20b", &b""[..]),
        (plain, "", b"text"),
        (repeated, "x", b"\xff\x00"),
        (&[], "", b""),
    ] {
        let request = Request { query, ..request(headers, Body::Inline(body)) };
        let (full, _) = encode(&request, Capabilities::NONE).unwrap();
        let (slim, _) = encode(&request, lean).unwrap();
        assert!(slim.get("server").is_none() && slim.get("attributes").is_none(), "{slim}");
        assert_eq!(slim.get("header_list").is_some(), std::ptr::eq(headers, repeated), "{slim}");
        assert_eq!(slim.get("url").is_some(), !query.is_empty(), "{slim}");
        assert_eq!(worked_out(slim), full);
    }
}

#[test]
fn the_golden_frame_case_43() {
    let headers: &[(&str, &[u8])] = &[
        ("Host", b"example.org"),
        ("Accept", b"text/html"),
        ("Cookie", b"session=abc; theme=dark"),
        ("accept", b"application/json"),
        ("Cookie", b"session=second"),
        ("X-Latin", b"gr\xfcn"),
        ("X-Quoted", b"a \"b\\c\"\t"),
    ];
    let (frame, sent) = encode(&request(headers, Body::Inline(b"hi")), RAW).unwrap();
    assert_eq!(sent, Sent::Whole);
    let list = json!([
        ["host", "example.org"],
        ["accept", "text/html"],
        ["cookie", "session=abc; theme=dark"],
        ["accept", "application/json"],
        ["cookie", "session=second"],
        ["x-latin", "grün"],
        ["x-quoted", "a \"b\\c\"\t"],
    ]);
    let golden = json!({
        "id": "trace-1",
        "method": "GET",
        "path": "/users/42",
        "body": "hi",
        "scheme": "https",
        "host": "example.org",
        "port": "443",
        "protocol_version": "1.1",
        "remote_addr": "2001:db8::7",
        "query": { "trace_id": "worker" },
        "headers": {
            "host": "example.org",
            "accept": "text/html, application/json",
            "cookie": "session=abc; theme=dark; session=second",
            "x-latin": "grün",
            "x-quoted": "a \"b\\c\"\t",
        },
        "cookies": { "session": "abc", "theme": "dark" },
        "attributes": {
            "request_id": "req-1",
            "deadline_unix_ms": "1700000000123",
            "header_list": list.to_string(),
        },
        "server": {
            "host": "example.org",
            "port": "443",
            "remote_addr": "2001:db8::7",
            "method": "GET",
            "url": "/users/42?trace_id=worker",
        },
        "uploaded_files": [],
        "request_id": "req-1",
        "deadline_unix_ms": 1_700_000_000_123_u64,
        "header_list": list,
    });
    assert_eq!(frame, golden);
}

#[test]
fn nothing_is_left_out_of_an_empty_request() {
    let empty = Request {
        id: "",
        request_id: "",
        deadline_unix_ms: None,
        method: "",
        path: "",
        query: "",
        scheme: "",
        host: "",
        port: 80,
        protocol_version: "",
        remote_addr: "",
        headers: &[],
        body: Body::Inline(b""),
    };
    let (frame, _) = encode(&empty, Capabilities::NONE).unwrap();
    for name in [
        "id",
        "method",
        "path",
        "body",
        "scheme",
        "host",
        "port",
        "protocol_version",
        "remote_addr",
        "query",
        "headers",
        "cookies",
        "attributes",
        "server",
        "uploaded_files",
    ] {
        assert!(frame.get(name).is_some(), "{name}");
    }
    assert_eq!(frame["headers"], json!({}));
    assert_eq!(frame.get("deadline_unix_ms"), None);
}

#[test]
fn bytes_travel_as_the_worker_can_take_them_case_44() {
    let bytes: Vec<u8> = (0..=255).collect();
    let request = request(&[], Body::Inline(&bytes));
    let (frame, sent) = encode(&request, Capabilities::NONE).unwrap();
    assert_eq!((sent, &frame["body_encoding"]), (Sent::Whole, &json!("base64")));
    assert_eq!(frame["attributes"]["body_encoding"], "base64");
    assert_eq!(STANDARD.decode(frame["body"].as_str().unwrap()).unwrap(), bytes);
    let (frame, sent) = encode(&request, RAW).unwrap();
    assert_eq!((sent, &frame["body_length"]), (Sent::RawFollows(256), &json!(256)));
    assert_eq!(frame.get("body"), None);
    assert_eq!(frame.get("body_encoding"), None);
}

#[test]
fn a_long_text_goes_raw_where_it_may() {
    let text = vec![b'a'; INLINE_BODY as usize + 1];
    let (_, sent) = encode(&request(&[], Body::Inline(&text)), RAW).unwrap();
    assert_eq!(sent, Sent::RawFollows(INLINE_BODY + 1));
    let (_, sent) = encode(&request(&[], Body::Inline(&text[1..])), RAW).unwrap();
    assert_eq!(sent, Sent::Whole);
    let (_, sent) = encode(&request(&[], Body::Inline(&text)), Capabilities::NONE).unwrap();
    assert_eq!(sent, Sent::Whole);
}

#[test]
fn a_body_from_elsewhere_goes_raw_or_not_at_all() {
    let request = request(&[], Body::Raw(1 << 40));
    assert_eq!(encode(&request, RAW).unwrap().1, Sent::RawFollows(1 << 40));
    assert_eq!(encode(&request, Capabilities::NONE).err(), Some(EncodeError::RawNotUnderstood));
}

#[test]
fn what_does_not_fit_a_frame_is_too_large_and_leaves_no_trace() {
    let mut out = BytesMut::from(&b"kept"[..]);
    let quotes = vec![b'"'; MAX_FRAME / 2];
    let binary = vec![0xff; MAX_FRAME / 4 * 3];
    let plain = vec![b'a'; MAX_FRAME + 1];
    for body in [&quotes, &binary, &plain] {
        let refused = request(&[], Body::Inline(body)).encode(&mut out, Capabilities::NONE);
        assert_eq!(refused, Err(EncodeError::TooLarge));
        assert_eq!(out, "kept");
    }
    let long = vec![b'a'; MAX_FRAME];
    let headers: &[(&str, &[u8])] = &[("x-long", &long)];
    let refused = request(headers, Body::Inline(b"")).encode(&mut out, RAW);
    assert_eq!((refused, &out[..]), (Err(EncodeError::TooLarge), &b"kept"[..]));
}

#[test]
fn a_frame_may_be_filled_to_the_last_byte() {
    let head = encode(&request(&[], Body::Inline(b"")), Capabilities::NONE);
    let head = head.unwrap().0.to_string().len();
    let body = vec![b'a'; MAX_FRAME - head];
    let mut out = BytesMut::new();
    let _ = request(&[], Body::Inline(&body)).encode(&mut out, Capabilities::NONE).unwrap();
    assert_eq!(out.len(), MAX_FRAME + frame::PREFIX);
    let body = vec![b'a'; MAX_FRAME - head + 1];
    let refused = request(&[], Body::Inline(&body)).encode(&mut out, Capabilities::NONE);
    assert_eq!(refused, Err(EncodeError::TooLarge));
}

#[test]
fn the_plan_for_a_body_agrees_with_what_is_done() {
    let over = MAX_FRAME as u64 + 1;
    assert_eq!(plan_body(0, RAW), BodyForm::Inline);
    assert_eq!(plan_body(INLINE_BODY, RAW), BodyForm::Inline);
    assert_eq!(plan_body(INLINE_BODY + 1, RAW), BodyForm::Raw);
    assert_eq!(plan_body(u64::MAX, RAW), BodyForm::Raw);
    assert_eq!(plan_body(over - 1, Capabilities::NONE), BodyForm::Inline);
    assert_eq!(plan_body(over, Capabilities::NONE), BodyForm::TooLarge);
}

#[test]
fn the_worker_reads_what_was_written() {
    let headers: &[(&str, &[u8])] = &[("A", b"1"), ("a", b"2")];
    let mut out = BytesMut::new();
    let _ = request(headers, Body::Inline(b"\xff")).encode(&mut out, Capabilities::NONE).unwrap();
    let read = decode(&frame::decode(&mut out).unwrap().unwrap()).unwrap();
    assert_eq!((read.id.as_str(), read.path.as_str()), ("trace-1", "/users/42"));
    assert_eq!(read.headers["a"], "1, 2");
    assert_eq!(read.header_list.len(), 2);
    assert_eq!(read.deadline_unix_ms, Some(1_700_000_000_123));
    assert_eq!(read.body, ReceivedBody::Inline(Bytes::from_static(b"\xff")));
}

#[test]
fn the_worker_refuses_what_is_no_request() {
    for payload in [&b"[]"[..], b"7", b"", b"{", b"\xff", b"{\"headers\":[1]}"] {
        assert!(decode(payload).is_err(), "{payload:?}");
    }
}
