//! The frames of docs/wire-contract.md, byte by byte: what stands there is what travels.

use bytes::BytesMut;
use hedgerow_wire::answer::{self, Answer, Body as Sends};
use hedgerow_wire::request::{Body, Request, Sent};
use hedgerow_wire::stream::{self, Event};
use hedgerow_wire::{Capabilities, frame};

const DOCUMENT: &str = include_str!("../../../docs/wire-contract.md");

/// The frames of the section, each as its bytes: a line of hexadecimal digits, then the payload,
/// whose line breaks and indentation are the document's alone.
fn frames() -> Vec<Vec<u8>> {
    let (_, section) = DOCUMENT.split_once("\n## An example, byte by byte\n").expect("the section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let blocks = section.split("\n```").skip(1).step_by(2);
    let blocks = blocks.filter_map(|block| block.strip_prefix("frame\n"));
    blocks.flat_map(|block| block.split("\n\n").map(bytes)).collect()
}

fn bytes(text: &str) -> Vec<u8> {
    let mut lines = text.trim_end().lines();
    let length = lines.next().expect("the length").split(' ');
    let mut frame: Vec<u8> =
        length.take(4).map(|byte| u8::from_str_radix(byte, 16).expect("a byte")).collect();
    lines.for_each(|line| frame.extend_from_slice(line.trim_start().as_bytes()));
    frame
}

fn payload(frame: &[u8]) -> bytes::Bytes {
    let mut buffer = BytesMut::from(frame);
    let payload = frame::decode(&mut buffer).expect("a frame").expect("the whole of it");
    assert!(buffer.is_empty(), "the length is right");
    payload
}

#[test]
fn the_documented_frames_are_those_that_travel() {
    let frames = frames();
    assert_eq!(frames.len(), 6, "a request, the same lean, an answer, a stream of three");
    let request = Request {
        id: "t-1",
        request_id: "r-1",
        deadline_unix_ms: Some(1_790_000_000_000),
        method: "GET",
        path: "/hello",
        query: "name=Ada",
        scheme: "http",
        host: "example.org",
        port: 80,
        protocol_version: "1.1",
        remote_addr: "203.0.113.9",
        headers: &[("host", b"example.org"), ("x-request-id", b"r-1"), ("x-trace-id", b"t-1")],
        body: Body::Inline(b""),
    };
    let lean = Capabilities { lean: true, ..Capabilities::NONE };
    for (set, documented) in [Capabilities::NONE, lean].into_iter().zip(&frames) {
        let mut out = BytesMut::new();
        assert_eq!(request.encode(&mut out, set), Ok(Sent::Whole));
        assert_eq!(out, documented[..], "{}", String::from_utf8_lossy(&out));
    }
    let Ok(Answer::Response(response)) = answer::decode(&payload(&frames[2]), "t-1") else {
        panic!("no response")
    };
    assert_eq!((response.status, response.body), (200, Sends::Inline("Hello, Ada\n".into())));
    let start = answer::decode(&payload(&frames[3]), "t-1");
    assert!(matches!(start, Ok(Answer::StreamStart(_))), "{start:?}");
    let Ok(Event::Chunk(chunk)) = stream::decode(&payload(&frames[4]), "t-1") else {
        panic!("no chunk")
    };
    assert_eq!(chunk.data, "Hello");
    assert_eq!(stream::decode(&payload(&frames[5]), "t-1"), Ok(Event::End));
}
