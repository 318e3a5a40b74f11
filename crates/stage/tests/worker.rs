//! The scripted worker as a real process, spoken to over its socket.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use bytes::{Bytes, BytesMut};
use hedgerow_wire::answer::{self, Answer, Body, Kind, Response};
use hedgerow_wire::ready::{self, Ready};
use hedgerow_wire::request::{self, Request, Sent};
use hedgerow_wire::stream::{self, Event};
use hedgerow_wire::{Capabilities, frame};

/// What it announces.
const SPOKEN: Capabilities = Capabilities { lean: false, ..Capabilities::ALL };

struct Worker {
    child: Child,
    ready: Option<Ready>,
    socket: PathBuf,
}

impl Worker {
    /// Starts one whose readiness line comes over its standard output.
    fn start(name: &str, flags: &[&str]) -> Self {
        let socket = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.sock"));
        let mut child = Command::new(env!("CARGO_BIN_EXE_hedgerow-stage"))
            .arg("worker")
            .arg("--socket")
            .arg(&socket)
            .args(flags)
            .env("HEDGEROW_READY_FD", "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ready = ready::parse(line.trim_end().as_bytes()).ok();
        Self { child, ready, socket }
    }

    fn connect(&self) -> Client {
        Client { stream: UnixStream::connect(&self.socket).unwrap(), buffer: BytesMut::new() }
    }

    fn get(&self, target: &str) -> Response {
        let mut client = self.connect();
        let _ = client.send(target, request::Body::Inline(b""), Capabilities::NONE);
        client.response()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.socket);
    }
}

struct Client {
    stream: UnixStream,
    buffer: BytesMut,
}

impl Client {
    fn send(&mut self, target: &str, body: request::Body<'_>, set: Capabilities) -> Sent {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let request = Request {
            id: "t-1",
            request_id: "r-1",
            deadline_unix_ms: None,
            method: "GET",
            path,
            query,
            scheme: "http",
            host: "localhost",
            port: 80,
            protocol_version: "1.1",
            remote_addr: "::1",
            headers: &[("Content-Type", b"text/x-test")],
            body,
        };
        let mut out = BytesMut::new();
        let sent = request.encode(&mut out, set).unwrap();
        self.stream.write_all(&out).unwrap();
        sent
    }

    fn frame(&mut self) -> Option<Bytes> {
        loop {
            if let Some(payload) = frame::decode(&mut self.buffer).unwrap() {
                return Some(payload);
            }
            if !self.fill() {
                return None;
            }
        }
    }

    fn fill(&mut self) -> bool {
        let mut chunk = [0; 65536];
        let read = self.stream.read(&mut chunk).unwrap_or(0);
        self.buffer.extend_from_slice(&chunk[..read]);
        read > 0
    }

    fn answer(&mut self) -> Result<Answer, answer::Error> {
        answer::decode(&self.frame().expect("a frame"), "t-1")
    }

    fn response(&mut self) -> Response {
        match self.answer() {
            Ok(Answer::Response(response)) => response,
            other => panic!("no response: {other:?}"),
        }
    }

    fn body(&mut self, response: &Response) -> Bytes {
        match &response.body {
            Body::Inline(bytes) => bytes.clone(),
            Body::Raw(length) => {
                while self.buffer.len() < *length as usize && self.fill() {}
                self.buffer.split_to(*length as usize).freeze()
            }
        }
    }

    fn is_closed(&mut self) -> bool {
        self.buffer.is_empty() && !self.fill()
    }

    fn events(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(payload) = self.frame() {
            events.push(stream::decode(&payload, "t-1").unwrap());
            if !matches!(events.last(), Some(Event::Chunk(_))) {
                break;
            }
        }
        events
    }
}

fn header<'r>(response: &'r Response, name: &str) -> Vec<&'r str> {
    response.headers.iter().filter(|(n, _)| n == name).map(|(_, v)| v.as_str()).collect()
}

#[test]
fn says_that_it_is_ready_and_answers() {
    let worker = Worker::start("ready", &[]);
    assert_eq!(worker.ready, Some(Ready::Up(SPOKEN)));
    let hello = worker.get("/hello");
    assert_eq!((hello.status, hello.body), (200, Body::Inline("hello\n".into())));
    assert_eq!(worker.get("/status?code=418&body=tea").body, Body::Inline("tea".into()));
    assert_eq!(worker.get("/nowhere").status, 404);
}

#[test]
fn announces_what_it_is_told_to() {
    let worker = Worker::start("only", &["--only-capability", "raw_body"]);
    assert_eq!(worker.ready, Some(Ready::Up(Capabilities::NONE.with("raw_body"))));
    let mut client = worker.connect();
    let _ = client.send("/hello", request::Body::Inline(b""), Capabilities::NONE);
    client.response();
    assert!(client.is_closed(), "without keep_alive the connection ends");
}

#[test]
fn fails_to_boot_when_told_to() {
    let mut worker = Worker::start("fail", &["--boot", "fail"]);
    assert!(matches!(worker.ready, Some(Ready::Failed(_))));
    assert_eq!(worker.child.wait().unwrap().code(), Some(1));
    let mut worker = Worker::start("exit", &["--boot=exit"]);
    assert_eq!(worker.ready, None);
    assert_eq!(worker.child.wait().unwrap().code(), Some(1));
    let mut worker = Worker::start("usage", &["--frobnicate"]);
    assert_eq!(worker.child.wait().unwrap().code(), Some(2));
}

#[test]
fn fails_to_boot_while_a_file_says_so() {
    let flag = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("boot-fails");
    let flags = ["--boot-fail-file", flag.to_str().unwrap()];
    std::fs::write(&flag, "").unwrap();
    assert!(matches!(Worker::start("file-1", &flags).ready, Some(Ready::Failed(_))));
    std::fs::remove_file(&flag).unwrap();
    assert!(matches!(Worker::start("file-2", &flags).ready, Some(Ready::Up(_))));
}

#[test]
fn may_say_that_it_is_ready_and_not_listen() {
    let worker = Worker::start("never-listen", &["--boot", "never-listen"]);
    assert_eq!(worker.ready, Some(Ready::Up(SPOKEN)));
    assert!(UnixStream::connect(&worker.socket).is_err());
}

#[test]
fn the_flags_may_come_from_the_environment_and_noise_is_only_noise() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_hedgerow-stage"))
        .args(["worker", "--socket", "unused", "--print", "2"])
        .env("HEDGEROW_STAGE_ARGS", "--boot exit")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut printed = String::new();
    child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
    assert_eq!(printed, "stdout line 1\nstdout line 2\n");
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn one_request_at_a_time() {
    let worker = Worker::start("one", &[]);
    let mut slow = worker.connect();
    let _ = slow.send("/sleep?ms=30", request::Body::Inline(b""), Capabilities::NONE);
    // Asked for while the first is being served, or before: either way both are answered in turn.
    assert_eq!(worker.get("/hello").status, 200);
    assert_eq!(slow.response().status, 200);
}

#[test]
fn every_tenth_of_a_mix_is_slow_and_every_hundredth_fails() {
    let worker = Worker::start("mix", &[]);
    let statuses: Vec<u16> = (0..100).map(|_| worker.get("/mix?ms=0").status).collect();
    assert_eq!(statuses.iter().filter(|&&status| status == 500).count(), 1);
    assert_eq!(statuses[99], 500);
}

#[test]
fn a_kept_connection_does_not_keep_others_out() {
    let worker = Worker::start("kept", &[]);
    let mut kept = worker.connect();
    for _ in 0..3 {
        let _ = kept.send("/hello", request::Body::Inline(b""), SPOKEN);
        assert_eq!(kept.response().status, 200);
    }
    assert_eq!(worker.get("/hello").status, 200);
    let _ = kept.send("/hello", request::Body::Inline(b""), SPOKEN);
    assert_eq!(kept.response().status, 200);
}

#[test]
fn bodies_arrive_as_bytes_case_44() {
    let worker = Worker::start("bodies", &[]);
    let bytes: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    let digest = {
        let mut client = worker.connect();
        let sent = client.send("/sha1", request::Body::Inline(&bytes), Capabilities::NONE);
        assert_eq!(sent, Sent::Whole);
        client.response().body
    };
    let mut client = worker.connect();
    let sent = client.send("/sha1", request::Body::Inline(&bytes), SPOKEN);
    assert_eq!(sent, Sent::RawFollows(300_000));
    client.stream.write_all(&bytes).unwrap();
    assert_eq!(client.response().body, digest);
    let _ = client.send("/echo", request::Body::Raw(300_000), SPOKEN);
    client.stream.write_all(&bytes).unwrap();
    let echo = client.response();
    assert_eq!(client.body(&echo), bytes);
    assert_eq!(header(&echo, "content-type"), ["text/x-test"]);
    let all: Vec<u8> = (0..=255).collect();
    assert_eq!(worker.get("/binary?as=base64").body, Body::Inline(all.into()));
}

#[test]
fn two_cookies_either_way_case_45() {
    let worker = Worker::start("cookies", &[]);
    let expected = ["a=1; Path=/; Expires=Wed, 21 Oct 2099 07:28:00 GMT", "b=2"];
    for target in ["/cookies", "/cookies?joined=1"] {
        assert_eq!(header(&worker.get(target), "set-cookie"), expected);
    }
}

#[test]
fn streams_end_as_they_are_told_to() {
    let worker = Worker::start("streams", &[]);
    let run = |target: &str| {
        let mut client = worker.connect();
        let _ = client.send(target, request::Body::Inline(b""), SPOKEN);
        assert!(matches!(client.answer(), Ok(Answer::StreamStart(_))));
        client.events()
    };
    assert_eq!(run("/stream/text?n=2").len(), 3);
    assert_eq!(run("/stream/sse?n=2").last(), Some(&Event::End));
    assert!(matches!(run("/stream/die?after=2")[..], [Event::Chunk(_), Event::Chunk(_)]));
    assert!(matches!(run("/stream/error?after=1")[..], [Event::Chunk(_), Event::Error(_)]));
}

#[test]
fn a_stream_that_nobody_wants_ends() {
    let worker = Worker::start("cancel", &[]);
    let mut client = worker.connect();
    let _ = client.send("/stream/endless?ms=1", request::Body::Inline(b""), SPOKEN);
    assert!(matches!(client.answer(), Ok(Answer::StreamStart(_))));
    client.frame().expect("a first chunk");
    client.stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(client.events().last(), Some(&Event::End));
    assert_eq!(worker.get("/hello").status, 200);
}

#[test]
fn every_fault_is_the_one_that_was_asked_for() {
    let worker = Worker::start("faults", &[]);
    let fault = |target: &str| {
        let mut client = worker.connect();
        let _ = client.send(target, request::Body::Inline(b""), Capabilities::NONE);
        loop {
            match frame::decode(&mut client.buffer) {
                Ok(Some(payload)) => return answer::decode(&payload, "t-1").map_err(Ok),
                Err(error) => return Err(Err(error)),
                Ok(None) if client.fill() => {}
                Ok(None) => return Err(Err(frame::Error::TooLong(0))), // closed
            }
        }
    };
    for what in ["close", "half", "zero", "oversize", "garbage", "reset"] {
        assert!(matches!(fault(&format!("/fault/{what}")), Err(Err(_))), "{what}");
    }
    for what in ["notjson", "array", "number", "nostatus", "wrongid"] {
        match fault(&format!("/fault/{what}")) {
            Err(Ok(error)) => assert_eq!(error.kind, Kind::Exchange, "{what}"),
            other => panic!("{what}: {other:?}"),
        }
    }
    for status in ["99", "600", "101", "abc"] {
        match fault(&format!("/fault/badstatus?status={status}")) {
            Err(Ok(error)) => assert_eq!(error.kind, Kind::Contract, "{status}"),
            other => panic!("{status}: {other:?}"),
        }
    }
    assert!(fault("/fault/exact").is_ok());
    assert!(fault("/fault/late?ms=1").is_ok());
    assert!(fault("/headers?case=crlf").is_err());
    assert!(fault("/headers?case=name").is_err());
}

#[test]
fn reports_errors_as_a_worker_does() {
    let worker = Worker::start("errors", &[]);
    let reported = worker.get("/error?class=app_contract_error&exception=TypeError&message=oh");
    let error = reported.worker_error.unwrap();
    assert_eq!(error.class, "app_contract_error");
    assert_eq!(error.exception.as_deref(), Some("TypeError"));
    assert_eq!(error.message.as_deref(), Some("oh"));
    assert!(reported.headers.is_empty());
}

#[test]
fn dies_when_asked_to() {
    let mut worker = Worker::start("dies", &[]);
    let mut client = worker.connect();
    let _ = client.send("/fault/exit", request::Body::Inline(b""), Capabilities::NONE);
    assert!(client.frame().is_none());
    assert_eq!(worker.child.wait().unwrap().code(), Some(3));
}
