//! Case 41: what is written down, of every request, once.

use crate::curl::curl;
use crate::server::{Ended, Server};
use hedgerow_testkit::until::until;
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeSet;

/// The lines and the events of requests to this path.
fn of<'e>(ended: &'e Ended, path: &str) -> (Vec<&'e Value>, Vec<&'e Value>) {
    let lines = ended.access.iter().filter(|line| line["path"] == path).collect();
    let is = |e: &&Value| e["type"] == "http.request" && e["path"] == path;
    (lines, ended.events.iter().filter(is).collect())
}

/// One line and one event, which say the same.
fn once(ended: &Ended, path: &str, status: u16, class: Option<&str>) -> Value {
    let (lines, events) = of(ended, path);
    assert_eq!((lines.len(), events.len()), (1, 1), "{path}: {lines:?} {events:?}");
    for written in [lines[0], events[0]] {
        assert_eq!(written["status"], status, "{path}: {written}");
        assert_eq!(written.get("error_class").and_then(Value::as_str), class, "{path}: {written}");
    }
    for field in ["trace_id", "request_id", "method", "bytes_in", "bytes_out", "duration_ms"] {
        assert_eq!(lines[0][field], events[0][field], "{path}: {field}");
    }
    lines[0].clone()
}

#[test]
fn every_kind_of_ending_is_one_line_and_one_event() {
    let server = Server::start(
        "worker.read_timeout_ms = 300\nworker.queue_capacity = 5\nworker.queue_timeout_ms = 5000",
    );
    assert_eq!(server.get("/hello").status(), 200);
    assert_eq!(server.get("/stream/text?n=3").text().len(), 21);
    let mut client = server.connect();
    client.send("HEAD /binary HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!(client.head_response().status(), 200);
    assert_eq!(server.get("/status?code=204").status(), 204);
    assert_eq!(server.get("/error").status(), 500);
    assert_eq!(server.get("/hang").status(), 504);
    assert_eq!(server.get("/stream/sse?n=2").status(), 200);
    server.begin("/stream/die").rest();
    let too_large = "POST /sha1 HTTP/1.1\r\nhost: a\r\ncontent-length: 99999999\r\n\r\n";
    client.send(too_large);
    assert_eq!(client.response().status(), 413);
    let mut leaver = server.begin("/stream/endless");
    leaver.up_to(b"line 1\n");
    drop(leaver);
    server.request_event("/stream/endless");
    let ended = server.stop();

    assert_eq!(once(&ended, "/hello", 200, None)["bytes_out"], 6);
    assert_eq!(once(&ended, "/stream/text", 200, None)["bytes_out"], 21);
    once(&ended, "/binary", 200, None);
    once(&ended, "/status", 204, None);
    once(&ended, "/error", 500, Some("worker_runtime_error"));
    once(&ended, "/hang", 504, Some("timeout"));
    once(&ended, "/stream/sse", 200, None);
    once(&ended, "/stream/die", 200, Some("transport_error"));
    once(&ended, "/sha1", 413, Some("request_too_large"));
    once(&ended, "/stream/endless", 499, Some("client_closed"));
    assert_eq!(ended.access.len(), 10);
}

#[test]
fn a_download_is_written_down_as_complete() {
    let server = Server::start("");
    let download = 20 << 20;
    assert_eq!(server.get(&format!("/bytes?n={download}")).body.len(), download);
    assert_eq!(once(&server.stop(), "/bytes", 200, None)["bytes_out"], download);
}

#[test]
fn a_download_is_written_down_as_complete_over_http_2_too() {
    let server = Server::start("");
    let url = format!("http://{}/bytes?n={}", server.addr, 20 << 20);
    let got = curl(&["--http2-prior-knowledge", &url]);
    assert_eq!((got.code, got.status, got.body.len()), (0, 200, 20 << 20));
    let line = once(&server.stop(), "/bytes", 200, None);
    assert_eq!((&line["bytes_out"], &line["protocol"]), (&(20 << 20).into(), &"HTTP/2.0".into()));
}

#[test]
fn a_client_that_leaves_a_download_is_a_499() {
    let server = Server::start("");
    let mut client = server.begin("/bytes?n=67108864");
    client.up_to(b"\r\n\r\n");
    drop(client);
    server.request_event("/bytes");
    let line = once(&server.stop(), "/bytes", 499, Some("client_closed"));
    assert!(line["bytes_out"].as_u64().unwrap() < 67_108_864, "{line}");
}

#[test]
fn case_41_every_failure_line_is_whole_under_64_parallel_writers() {
    let server = Server::start(
        "worker.pool_size = 4\nworker.queue_capacity = 200\nworker.queue_timeout_ms = 20000\nserver.request_timeout_ms = 20000\nworker.read_timeout_ms = 20000",
    );
    let ask = |writer: usize| {
        let mut client = server.connect();
        for round in 0..8 {
            let target = [
                "/error?message=w%22%0A%C3%A4%00",
                "/hello",
                "/status?code=500",
                "/fault/badstatus",
            ][round % 4];
            client.send(format!(
                "GET {target} HTTP/1.1\r\nhost: a\r\nx-trace-id: {writer}.{round}\r\nx-request-id: r{writer}.{round}\r\n\r\n"
            ));
            let response = client.response();
            let id = format!("{writer}.{round}");
            assert_eq!(response.header("x-vhttpd-trace-id"), Some(id.as_str()));
        }
    };
    std::thread::scope(|scope| {
        for writer in 0..64 {
            scope.spawn(move || ask(writer));
        }
    });
    let ended = server.stop();
    let of_requests = ended.events.iter().filter(|event| event["type"] == "http.request");
    let traces: BTreeSet<_> =
        of_requests.clone().map(|event| event["trace_id"].as_str().unwrap()).collect();
    assert_eq!((traces.len(), of_requests.clone().count(), ended.access.len()), (512, 512, 512));
    let mut failures = 0;
    for event in of_requests.filter(|event| event.get("error_class").is_some()) {
        failures += 1;
        for text in ["trace_id", "request_id", "method", "path", "error_class", "error_message"] {
            assert!(event[text].as_str().is_some_and(|t| !t.is_empty()), "{text}: {event}");
        }
        for number in ["status", "duration_ms"] {
            assert!(event[number].is_number(), "{number}: {event}");
        }
        assert!(!event["path"].as_str().unwrap().contains('?'), "{event}");
    }
    assert_eq!(failures, 64 * 4);
    let said = ended.events.iter().find(|e| e["path"] == "/error").unwrap();
    assert_eq!(said["error_message"], "w\" ä ", "control characters are none of a log's");
}

#[test]
fn what_an_application_says_is_masked_where_the_log_is_to_be_redacted() {
    let server = Server::start("log.redact = true");
    server.get("/error?message=card-4711");
    server.get("/noise");
    let ended = server.stop();
    let all: String = ended.events.iter().map(Value::to_string).collect();
    assert!(!all.contains("card-4711") && !all.contains("a line on stdout"), "{all}");
    let event = ended.events.iter().find(|event| event["path"] == "/error").unwrap();
    assert_eq!(event["error_message"], "[redacted]");
}

#[test]
fn what_a_worker_prints_is_an_event_and_a_line_of_stderr() {
    let server = Server::start("");
    assert_eq!(server.get("/noise").text(), "quiet");
    for (stream, line) in [("stdout", "a line on stdout"), ("stderr", "a line on stderr")] {
        let event = server.event("worker.output", |event| event["stream"] == stream);
        assert_eq!(event["line"], line, "{event}");
        until("the line", || server.stderr().contains(&format!("[worker 0] {line}")).then_some(()));
    }
}

#[test]
fn an_event_log_that_was_moved_away_is_let_go_on_a_reload() {
    let server = Server::start("");
    server.get("/hello");
    server.request_event("/hello");
    let (log, old) =
        (server.scratch.path().join("events.ndjson"), server.scratch.path().join("old"));
    std::fs::rename(&log, &old).unwrap();
    server.signal(Signal::HUP);
    server.event("reload.done", |_| true);
    assert!(std::fs::read_to_string(old).unwrap().contains("/hello"));
    assert!(!std::fs::read_to_string(log).unwrap().contains("/hello"));
}

#[test]
fn the_head_of_an_answer_in_pieces_is_written_down_as_complete() {
    let server = Server::start("worker.queue_capacity = 5\nworker.queue_timeout_ms = 5000");
    let mut client = server.connect();
    for target in ["/bytes?n=9000000", "/stream/text?n=2", "/stream/sse?n=2"] {
        client.send(format!("HEAD {target} HTTP/1.1\r\nhost: a\r\n\r\n"));
        assert_eq!(client.head_response().status(), 200, "{target}");
    }
    client.get("/hello");
    assert_eq!(client.response().text(), "hello\n");
    let ended = server.stop();
    for path in ["/bytes", "/stream/text", "/stream/sse", "/hello"] {
        once(&ended, path, 200, None);
    }
}
