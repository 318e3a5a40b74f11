//! What a worker writes, read as the gateway reads it.

use bytes::Bytes;

use super::*;
use crate::answer::{self, Answer};
use crate::stream::{self, Event};

fn frames(mut out: BytesMut) -> Vec<Bytes> {
    let mut frames = Vec::new();
    while let Some(payload) = frame::decode(&mut out).unwrap() {
        frames.push(payload);
    }
    assert!(out.is_empty());
    frames
}

#[test]
fn a_response_comes_back() {
    let mut out = BytesMut::new();
    let headers = [("X-A", "1"), ("set-cookie", "a=1"), ("Set-Cookie", "b=2")];
    let bodies = [
        (Body::Text("hi \"there\""), answer::Body::Inline("hi \"there\"".into())),
        (Body::Base64(b"\xff"), answer::Body::Inline(Bytes::from_static(b"\xff"))),
        (Body::Raw(7), answer::Body::Raw(7)),
    ];
    for (body, _) in &bodies {
        let capabilities = Some(Capabilities::ALL);
        let reply = Response { id: "t", status: 201, headers: &headers, body: *body, capabilities };
        response(&mut out, &reply).unwrap();
    }
    for (payload, (_, body)) in frames(out).iter().zip(bodies) {
        let Ok(Answer::Response(read)) = answer::decode(payload, "t") else { panic!() };
        let lines: Vec<_> = read.headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        assert_eq!(lines, [("x-a", "1"), ("set-cookie", "a=1"), ("set-cookie", "b=2")]);
        assert_eq!((read.status, read.body), (201, body));
        assert_eq!(read.capabilities, Some(Capabilities::ALL));
    }
}

#[test]
fn a_stream_comes_back() {
    let mut out = BytesMut::new();
    let fields = SseFields { id: Some("1".into()), event: None, retry: Some(9) };
    stream_start(&mut out, "t", 200, StreamKind::Sse, "text/event-stream", &[], None).unwrap();
    chunk(&mut out, "t", b"a", Some(&fields)).unwrap();
    chunk(&mut out, "t", b"\xff", None).unwrap();
    stream_error(&mut out, "t", "worker_runtime_error", "boom").unwrap();
    stream_end(&mut out, "t").unwrap();
    let frames = frames(out);
    assert!(matches!(answer::decode(&frames[0], "t"), Ok(Answer::StreamStart(_))));
    let events: Vec<Event> =
        frames[1..].iter().map(|payload| stream::decode(payload, "t").unwrap()).collect();
    let Event::Chunk(first) = &events[0] else { panic!() };
    assert_eq!((&first.data[..], first.sse.as_ref()), (&b"a"[..], Some(&fields)));
    let Event::Chunk(second) = &events[1] else { panic!() };
    assert_eq!(&second.data[..], b"\xff");
    assert!(matches!(&events[2], Event::Error(error) if error.message.as_deref() == Some("boom")));
    assert_eq!(events[3], Event::End);
}
