//! What holds for every input: encoding and decoding undo each other, and how bytes were cut into
//! reads changes nothing.

use std::collections::BTreeMap;

use bytes::{BufMut as _, Bytes, BytesMut};
use hedgerow_wire::answer::{self, Answer};
use hedgerow_wire::request::{self, Body, ReceivedBody, Request, Sent};
use hedgerow_wire::stream::{self, Event, SseFields};
use hedgerow_wire::{Capabilities, frame, reply};
use proptest::collection::vec;
use proptest::prelude::*;

#[path = "../../../fuzz/checks.rs"]
mod checks;

fn capabilities() -> impl Strategy<Value = Capabilities> {
    any::<(bool, bool, bool, bool)>().prop_map(|(keep_alive, raw_body, cancel, lean)| {
        Capabilities { keep_alive, raw_body, cancel, lean }
    })
}

/// A header list as a gateway may receive it: names are tokens, values are any bytes.
fn headers() -> impl Strategy<Value = Vec<(String, Vec<u8>)>> {
    vec(("[a-cA-C]{1,2}|[Cc]ookie", vec(any::<u8>(), 0..20)), 0..8)
}

/// Bytes that are text about half of the time.
fn body() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![vec(any::<u8>(), 0..200), ".{0,200}".prop_map(String::into_bytes)]
}

const PLAIN: Request<'static> = Request {
    id: "t",
    request_id: "r",
    deadline_unix_ms: Some(1),
    method: "POST",
    path: "/",
    query: "",
    scheme: "http",
    host: "h",
    port: 80,
    protocol_version: "1.1",
    remote_addr: "::1",
    headers: &[],
    body: Body::Inline(b""),
};

fn there_and_back(request: &Request<'_>, set: Capabilities) -> (request::Received, Sent) {
    let mut out = BytesMut::new();
    let sent = request.encode(&mut out, set).unwrap();
    (request::decode(&frame::decode(&mut out).unwrap().unwrap()).unwrap(), sent)
}

/// Pieces of the Redis protocol, mostly in the right places.
fn resp_piece() -> impl Strategy<Value = Vec<u8>> {
    let bulk = vec(any::<u8>(), 0..20).prop_map(|bytes| {
        let mut out = BytesMut::new();
        hedgerow_wire::resp::reply::bulk(&mut out, &bytes);
        out.to_vec()
    });
    let head =
        ("[*%~>|$]", -1_i64..5).prop_map(|(first, n)| format!("{first}{n}\r\n").into_bytes());
    let line = "[-+:,#_!=a-z\"']{1}[a-z0-9 \"'\\\\]{0,6}\r\n".prop_map(String::into_bytes);
    prop_oneof![4 => bulk, 4 => head, 2 => line, 1 => vec(any::<u8>(), 0..3)]
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_read_or_refused(data in vec(any::<u8>(), 0..300)) {
        checks::frame(&data);
        checks::ready(&data);
        checks::request(&data);
        checks::answer(&data);
        checks::stream(&data);
        checks::set_cookie(&data);
        checks::sse(&data);
        checks::resp(&data);
    }

    #[test]
    fn frames_survive_any_cut(
        payloads in vec(vec(any::<u8>(), 1..100), 0..5),
        cuts in vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let mut bytes = BytesMut::new();
        for payload in &payloads {
            frame::encode_with(&mut bytes, |out| out.put_slice(payload)).unwrap();
        }
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.sort_unstable();
        cuts.push(bytes.len());
        let (mut buffer, mut from, mut read) = (BytesMut::new(), 0, Vec::new());
        for cut in cuts {
            buffer.extend_from_slice(&bytes[from..cut]);
            from = cut;
            while let Some(payload) = frame::decode(&mut buffer).unwrap() {
                read.push(payload.to_vec());
            }
        }
        prop_assert_eq!(read, payloads);
        prop_assert!(buffer.is_empty());
    }

    #[test]
    fn a_request_arrives_as_it_was_sent(
        id in ".{0,20}",
        path in "/.{0,20}",
        list in headers(),
        body in body(),
        set in capabilities(),
    ) {
        let headers: Vec<(&str, &[u8])> =
            list.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
        let request =
            Request { id: &id, path: &path, headers: &headers, body: Body::Inline(&body), ..PLAIN };
        let (read, sent) = there_and_back(&request, set);
        prop_assert_eq!(&read.id, &id);
        prop_assert_eq!(&read.path, &path);
        prop_assert_eq!(&read.request_id, "r");
        prop_assert_eq!(read.attributes.contains_key("request_id"), !set.lean);
        if set.lean && read.header_list.is_empty() {
            prop_assert_eq!(read.headers.len(), list.len(), "none is repeated");
        } else {
            prop_assert_eq!(read.header_list.len(), list.len());
        }
        for ((name, value), (sent_name, sent_value)) in read.header_list.iter().zip(&list) {
            prop_assert_eq!(name, &sent_name.to_lowercase());
            let latin1: Vec<u8> = value.chars().map(|c| c as u32 as u8).collect();
            prop_assert!(value.as_bytes() == sent_value || &latin1 == sent_value);
        }
        match sent {
            Sent::Whole => prop_assert_eq!(read.body, ReceivedBody::Inline(body.into())),
            Sent::RawFollows(length) => {
                prop_assert!(set.raw_body);
                prop_assert_eq!(length, body.len() as u64);
                prop_assert_eq!(read.body, ReceivedBody::Raw(length));
            }
        }
    }

    #[test]
    fn commands_and_replies_survive_any_cut(pieces in vec(resp_piece(), 0..12)) {
        checks::resp(&pieces.concat());
    }

    #[test]
    fn a_query_means_what_the_form_encoding_says(pairs in vec((".{0,8}", ".{0,8}"), 0..6)) {
        let encode =
            |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
        let query: Vec<String> =
            pairs.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
        let (read, _) =
            there_and_back(&Request { query: &query.join("&"), ..PLAIN }, Capabilities::NONE);
        prop_assert_eq!(read.query, pairs.into_iter().collect::<BTreeMap<_, _>>());
    }

    #[test]
    fn any_query_makes_a_map(query in "[a-c&=%+0-9;é]{0,60}") {
        let (read, _) = there_and_back(&Request { query: &query, ..PLAIN }, Capabilities::NONE);
        prop_assert!(read.query.len() <= query.split('&').count());
    }

    #[test]
    fn a_response_arrives_as_it_was_sent(
        status in 200_u16..600,
        values in vec("[ -~äöü]{0,20}", 0..5),
        body in ".{0,200}",
    ) {
        let headers: Vec<(&str, &str)> =
            values.iter().map(|value| ("x-a", value.as_str())).collect();
        let body_text = reply::Body::Text(&body);
        let response = reply::Response {
            id: "t", status, headers: &headers, body: body_text, capabilities: None,
        };
        let mut out = BytesMut::new();
        reply::response(&mut out, &response).unwrap();
        let read = answer::decode(&frame::decode(&mut out).unwrap().unwrap(), "t").unwrap();
        let Answer::Response(read) = read else { panic!("no response: {read:?}") };
        prop_assert_eq!(read.status, status);
        prop_assert_eq!(read.body, answer::Body::Inline(Bytes::from(body)));
        let read: Vec<&str> = read.headers.iter().map(|(_, value)| value.as_str()).collect();
        let sent: Vec<&str> = values.iter().map(|value| value.trim_matches(' ')).collect();
        prop_assert_eq!(read, sent);
    }

    #[test]
    fn a_chunk_arrives_as_it_was_sent(
        data in body(),
        id in proptest::option::of(".{1,9}"),
        event in proptest::option::of(".{1,9}"),
        retry in proptest::option::of(1..u64::MAX),
    ) {
        let fields = SseFields { id, event, retry };
        let mut out = BytesMut::new();
        reply::chunk(&mut out, "t", &data, Some(&fields)).unwrap();
        let read = stream::decode(&frame::decode(&mut out).unwrap().unwrap(), "t").unwrap();
        let Event::Chunk(read) = read else { panic!("no chunk: {read:?}") };
        prop_assert_eq!(read.data, data);
        prop_assert_eq!(read.sse.unwrap_or_default(), fields);
    }
}
