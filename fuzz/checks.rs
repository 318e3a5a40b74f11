//! What must hold for whatever bytes a decoder is fed, one function a decoder.
//!
//! The fuzz targets and the seeded mutations of `crates/wire/tests/mutations.rs` share these.
#![allow(dead_code, reason = "each fuzz target uses one of them")]

use bytes::{Bytes, BytesMut};
use hedgerow_wire::answer::{self, Answer, Body};
use hedgerow_wire::resp::{self, Limits, Parsed, Parser, Scanner, Value};
use hedgerow_wire::stream::{self, Event};
use hedgerow_wire::{batch, dispatch, ndjson, plan, sse_parse};
use hedgerow_wire::{frame, ready, request, set_cookie};

/// The frames of a byte stream, as far as they are complete, and the error that ended it.
fn frames(reads: &[&[u8]]) -> (Vec<Bytes>, Option<frame::Error>) {
    let (mut buffer, mut frames) = (BytesMut::new(), Vec::new());
    for read in reads {
        buffer.extend_from_slice(read);
        loop {
            match frame::decode(&mut buffer) {
                Ok(Some(payload)) => frames.push(payload),
                Ok(None) => break,
                Err(error) => return (frames, Some(error)),
            }
        }
    }
    (frames, None)
}

/// Frames are the same however the bytes were cut into reads.
pub(crate) fn frame(data: &[u8]) {
    let whole = frames(&[data]);
    for payload in &whole.0 {
        assert!((1..=frame::MAX_FRAME).contains(&payload.len()));
    }
    let bytes: Vec<&[u8]> = data.chunks(1).collect();
    assert_eq!(frames(&bytes), whole);
    let (head, tail) = data.split_at(data.len() / 2);
    assert_eq!(frames(&[head, tail]), whole);
}

/// A readiness line is the same however it was cut into reads; one that is understood is written
/// and read back as itself.
pub(crate) fn ready(data: &[u8]) {
    let mut buffer = BytesMut::from(data);
    let whole = ready::decode(&mut buffer);
    let mut grown = BytesMut::new();
    let first = data.iter().find_map(|&byte| {
        grown.extend_from_slice(&[byte]);
        ready::decode(&mut grown).transpose()
    });
    assert_eq!(first, whole.clone().transpose());
    if let Ok(Some(read)) = whole {
        assert!(buffer.len() < data.len());
        let mut line = BytesMut::new();
        ready::encode(&mut line, &read);
        assert_eq!(ready::decode(&mut line), Ok(Some(read)));
        assert!(line.is_empty());
    }
}

/// A request is read or refused.
pub(crate) fn request(data: &[u8]) {
    if let Ok(read) = request::decode(data) {
        // The same as JSON says it: a decoder that skipped something would differ here.
        let json: serde_json::Value = serde_json::from_slice(data).expect("it was read");
        assert_eq!(json.get("id").and_then(|id| id.as_str()).unwrap_or_default(), read.id);
    }
}

/// What an answer lets through is something that HTTP allows.
pub(crate) fn answer(data: &[u8]) {
    let payload = Bytes::copy_from_slice(data);
    let _ = answer::capabilities(&payload);
    let (status, headers) = match answer::decode(&payload, "t") {
        Ok(Answer::Response(response)) => {
            assert_ne!(response.body, Body::Raw(0));
            (response.status, response.headers)
        }
        Ok(Answer::StreamStart(start)) => (start.status, start.headers),
        Ok(Answer::Plan(json) | Answer::Batch(json) | Answer::Dispatch(json)) => {
            assert_eq!(json, payload);
            return;
        }
        Err(error) => {
            assert!(!error.detail.is_empty());
            return;
        }
    };
    assert!((200..=599).contains(&status));
    for (name, value) in headers {
        assert!(!name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic() && b != b':'));
        assert!(!name.bytes().any(|b| b.is_ascii_uppercase()));
        assert!(!value.bytes().any(|b| matches!(b, b'\r' | b'\n' | 0)));
        assert!(!name.starts_with("x-worker-") && name != "content-length");
    }
}

/// A frame inside a stream is an event or refused, and an error's text is one line.
pub(crate) fn stream(data: &[u8]) {
    if let Ok(Event::Error(error)) = stream::decode(&Bytes::copy_from_slice(data), "t") {
        assert!(!error.class.is_empty());
        assert!(!error.message.unwrap_or_default().contains(['\r', '\n']));
    }
}

/// Cutting cookies apart loses nothing but the commas and spaces between them.
pub(crate) fn set_cookie(data: &[u8]) {
    let Ok(joined) = std::str::from_utf8(data) else { return };
    let kept: usize = set_cookie::split(joined).map(str::len).sum();
    let between = |c: char| c == ',' || c.is_whitespace();
    assert!(kept <= joined.len());
    assert!(kept >= joined.chars().filter(|&c| !between(c)).map(char::len_utf8).sum());
}

/// One call is one event with the data it was given, whatever is in it.
pub(crate) fn sse(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut out = BytesMut::new();
    hedgerow_wire::sse::write_event(&mut out, Some(&text), Some(&text), None, data);
    let body = out.strip_suffix(b"\n\n").expect("an event ends with an empty line");
    assert!(!body.windows(2).any(|two| two == b"\n\n") && !body.contains(&b'\r'));
    let lines: Vec<&[u8]> = body.split(|&byte| byte == b'\n').collect();
    assert!(lines[0].starts_with(b"id: ") && lines[1].starts_with(b"event: "));
    let pieces: Vec<&[u8]> =
        lines[2..].iter().map(|line| line.strip_prefix(b"data: ").expect("data")).collect();
    let normal: Vec<u8> =
        String::from_utf8_lossy(data).replace("\r\n", "\n").replace('\r', "\n").into();
    if std::str::from_utf8(data).is_ok() {
        assert_eq!(pieces.join(&b'\n'), normal);
    }
}

/// Small, so that random bytes reach them.
const RESP: Limits = Limits { bulk: 64, elements: 16, line: 128 };

/// The replies of a byte stream with their kinds, and the error that ended it. With `discard` their
/// bytes are given up as they come.
fn replies(reads: &[&[u8]], discard: bool) -> (Vec<(resp::Kind, usize)>, Option<resp::Error>) {
    let (mut scanner, mut buffer, mut found) = (Scanner::new(RESP), BytesMut::new(), Vec::new());
    let (mut given, mut ended) = (0, 0);
    for read in reads {
        buffer.extend_from_slice(read);
        given += read.len();
        loop {
            match scanner.scan(&buffer) {
                Ok(Some(whole)) => {
                    drop(buffer.split_to(whole.length));
                    let end = given - buffer.len();
                    found.push((whole.kind, end - ended));
                    ended = end;
                }
                Ok(None) => break,
                Err(error) => return (found, Some(error)),
            }
        }
        if discard {
            scanner.discard(&mut buffer);
        }
    }
    (found, None)
}

/// The commands of a byte stream, and the error that ended it.
fn commands(reads: &[&[u8]]) -> (Vec<Vec<Vec<u8>>>, Option<resp::Error>) {
    let (mut parser, mut buffer, mut found) = (Parser::new(), BytesMut::new(), Vec::new());
    for read in reads {
        buffer.extend_from_slice(read);
        loop {
            match parser.parse(&buffer, RESP) {
                Ok(Parsed::Partial) => break,
                Ok(Parsed::Nothing(length)) => drop(buffer.split_to(length)),
                Ok(Parsed::Command(length)) => {
                    let args = parser.args().iter().map(|&(from, to)| buffer[from..to].to_vec());
                    found.push(args.collect());
                    drop(buffer.split_to(length));
                }
                Ok(Parsed::Inline(length, array)) => {
                    drop(buffer.split_to(length));
                    let mut inner = Parser::new();
                    assert_eq!(
                        inner.parse(&array, Limits::STORE),
                        Ok(Parsed::Command(array.len()))
                    );
                    found.push(inner.args().iter().map(|&(a, b)| array[a..b].to_vec()).collect());
                }
                Err(error) => return (found, Some(error)),
            }
        }
    }
    (found, None)
}

/// Replies and commands are the same however the bytes were cut into reads; a whole reply is read.
pub(crate) fn resp(data: &[u8]) {
    let whole = replies(&[data], false);
    let bytes: Vec<&[u8]> = data.chunks(1).collect();
    let (head, tail) = data.split_at(data.len() / 2);
    for discard in [false, true] {
        // An error may show earlier when less is there; what came before it may not differ.
        assert_eq!(replies(&bytes, discard).0, whole.0);
        assert_eq!(replies(&[head, tail], discard).0, whole.0);
    }
    let mut buffer = BytesMut::from(data);
    for (kind, length) in whole.0 {
        let frame = resp::decode(&mut buffer, RESP).expect("it was found").expect("it was whole");
        assert_eq!((frame.kind, frame.bytes.len()), (kind, length));
        let read = Value::read(&frame);
        if kind == resp::Kind::Null {
            assert_eq!(read, Ok(Value::Null));
        }
        for shape in [resp::upgrade::Shape::List, resp::upgrade::Shape::Map] {
            let upgraded = resp::upgrade::upgrade(frame.bytes.clone(), kind, shape);
            assert!(upgraded.len() <= length);
        }
    }
    let whole = commands(&[data]);
    assert_eq!(commands(&bytes).0, whole.0);
    assert_eq!(commands(&[head, tail]).0, whole.0);
    for args in whole.0 {
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let mut written = BytesMut::new();
        resp::reply::command(&mut written, &args);
        assert_eq!(
            Parser::new().parse(&written, Limits::STORE),
            Ok(Parsed::Command(written.len()))
        );
    }
}

/// The rows of a byte stream, or the error that ended it.
fn rows(reads: &[&[u8]]) -> Option<Vec<Bytes>> {
    let (mut decoder, mut buffer, mut rows) = (ndjson::Decoder::new(), BytesMut::new(), Vec::new());
    for read in reads {
        buffer.extend_from_slice(read);
        while let Some(row) = decoder.decode(&mut buffer).ok()? {
            rows.push(row);
        }
    }
    while let Some(row) = decoder.finish(&mut buffer).ok()? {
        rows.push(row);
    }
    Some(rows)
}

/// Rows are the same however the bytes were cut into reads, and none holds a line end or is empty.
pub(crate) fn ndjson(data: &[u8]) {
    let whole = rows(&[data]);
    assert_eq!(rows(&data.chunks(1).collect::<Vec<_>>()), whole);
    for row in whole.into_iter().flatten() {
        assert!(!row.is_empty() && !row.contains(&b'\n'));
    }
}

fn messages(reads: &[&[u8]]) -> Option<Vec<sse_parse::Message>> {
    let (mut decoder, mut buffer) = (sse_parse::Decoder::new(), BytesMut::new());
    let mut found = Vec::new();
    for read in reads {
        buffer.extend_from_slice(read);
        while let Some(message) = decoder.decode(&mut buffer).ok()? {
            found.push(message);
        }
    }
    while let Some(message) = decoder.finish(&mut buffer).ok()? {
        found.push(message);
    }
    Some(found)
}

/// Events are the same however the bytes were cut into reads, and what is written of them is read
/// back as the same event.
pub(crate) fn sse_parse(data: &[u8]) {
    let whole = messages(&[data]);
    assert_eq!(messages(&data.chunks(1).collect::<Vec<_>>()), whole);
    for message in whole.into_iter().flatten() {
        let sse_parse::Message::Event(event) = &message else { continue };
        if event.data.contains(&b'\0') {
            continue;
        }
        let mut out = BytesMut::new();
        let (id, name) = (event.id.as_deref(), event.event.as_deref());
        let clean = |text: Option<&str>| text.is_none_or(|text| !text.contains('\0'));
        if clean(id) && clean(name) {
            hedgerow_wire::sse::write_event(&mut out, id, name, event.retry, &event.data);
            assert_eq!(messages(&[&out]), Some(vec![message]));
        }
    }
}

/// A plan is read or refused, and its stream takes whatever comes.
pub(crate) fn plan(data: &[u8]) {
    let Ok(plan) = plan::decode(data) else { return };
    let out = |size: usize| {
        let (mut stream, mut out) = (plan::stream::Stream::new(&plan), BytesMut::new());
        let fed = data.chunks(size).try_for_each(|chunk| stream.feed(chunk, &mut out));
        if fed.and_then(|()| stream.finish(&mut out)).is_err() {
            stream.fail("upstream_error", "t", &mut out);
        }
        out
    };
    assert_eq!(out(1), out(data.len().max(1)));
}

/// A batch is read or refused; what is read has one entry a key and a state that is JSON.
pub(crate) fn batch(data: &[u8]) {
    let Ok(batch) = batch::decode(data) else { return };
    let mut keys: Vec<&str> = batch.requests.iter().map(|(key, _)| key.as_str()).collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), batch.requests.len());
    assert!(serde_json::from_slice::<serde_json::Value>(&batch.state).is_ok());
    let results: Vec<_> =
        batch.requests.iter().map(|(key, _)| (key.as_str(), batch::KeyResult::default())).collect();
    let mut out = BytesMut::new();
    let results = results.iter().map(|(key, result)| (*key, result));
    assert!(batch::write_resume(&mut out, b"{\"id\":\"t\"}", &batch.state, results));
    assert!(serde_json::from_slice::<serde_json::Value>(&out).is_ok());
}

/// A step is read or refused; what is read is a state that goes on as it came, and a head that HTTP
/// allows.
pub(crate) fn dispatch(data: &[u8]) {
    let payload = Bytes::copy_from_slice(data);
    let Ok(step) = dispatch::decode(&payload, "t") else { return };
    assert!((200..=599).contains(&step.start.status));
    let state = step.state.unwrap_or_default();
    let mut out = BytesMut::new();
    assert!(dispatch::write_request(&mut out, b"{\"id\":\"t\"}", dispatch::Event::Next, &state));
    let asked: serde_json::Value = serde_json::from_slice(&out).expect("one frame");
    assert_eq!((&asked["event"], &asked["id"]), (&"next".into(), &"t".into()));
    if !state.is_empty() {
        let kept: serde_json::Value = serde_json::from_slice(&state).expect("it came as JSON");
        assert_eq!(asked["state"], kept);
    }
}
