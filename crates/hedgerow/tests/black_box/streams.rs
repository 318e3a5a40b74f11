//! Cases 35 to 38: streams, whole and broken.

use crate::curl::curl;
use crate::envelope::assert_failure;
use crate::server::Server;

#[test]
fn case_38_a_first_chunk_is_seen_while_the_worker_still_works_on_the_second() {
    let server = Server::start("worker.pool_size = 2");
    server.wait_workers(2);
    for path in ["/stream/text?n=2&ms=15000", "/stream/sse?n=2&ms=15000"] {
        let mut client = server.begin(path);
        let head = String::from_utf8(client.up_to(b"\r\n\r\n")).unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        client.up_to(if path.contains("sse") { b"tick 1\n" } else { b"line 1\n" });
        server.wait_phase("streaming", 1);
        drop(client);
        server.wait_phase("streaming", 0);
    }
}

#[test]
fn whole_streams_end_in_order() {
    let server = Server::start("");
    let text = server.get("/stream/text?n=3");
    assert_eq!((text.status(), text.text()), (200, "line 1\nline 2\nline 3\n"));
    assert!(text.complete);
    let sse = server.get("/stream/sse?n=2");
    assert_eq!(sse.header("content-type"), Some("text/event-stream"));
    assert_eq!(
        sse.text(),
        "id: 1\nevent: tick\ndata: tick 1\n\nid: 2\nevent: tick\ndata: tick 2\n\n"
    );
    assert!(sse.complete);
    assert_eq!(server.stats()["http_streams_total"], 2);
    let ended = server.stop();
    let kinds: Vec<_> = ended.access.iter().map(|line| line["stream"].clone()).collect();
    assert_eq!(kinds, ["text", "sse"]);
}

#[test]
fn case_35_a_text_stream_that_dies_is_aborted_without_its_last_chunk() {
    let server = Server::start("");
    let mut client = server.begin("/stream/die?after=1");
    let all = String::from_utf8(client.rest()).unwrap();
    assert!(all.starts_with("HTTP/1.1 200 OK\r\n") && all.contains("line 1\n"), "{all}");
    assert!(!all.ends_with("0\r\n\r\n"), "{all}");
    let event = server.event("http.stream.error", |e| e["path"] == "/stream/die");
    assert_eq!(event["error_class"], "transport_error", "{event}");
    let event = server.request_event("/stream/die");
    assert_eq!((&event["status"], &event["stream_failed"]), (&200.into(), &true.into()), "{event}");
}

#[test]
fn case_35_over_http_2_the_stream_is_reset() {
    let server = Server::start("");
    // A pause, since a reset overtakes what has not been sent yet.
    let url = format!("http://{}/stream/die?after=2&ms=300", server.addr);
    let got = curl(&["--http2-prior-knowledge", &url]);
    assert_eq!(got.code, 92, "curl's word for a stream that was reset: {got:?}");
    assert!(got.status == 200 && got.text().starts_with("line 1\n"), "{got:?}");
    server.wait_workers(1);
    let url = format!("http://{}/stream/text?n=1", server.addr);
    let whole = curl(&["--http2-prior-knowledge", &url]);
    assert_eq!((whole.code, whole.status, whole.text()), (0, 200, "line 1\n"), "{whole:?}");
}

#[test]
fn case_35_a_stream_of_events_ends_with_an_error_event() {
    let server = Server::start("");
    let mut client = server.connect();
    client.send("GET /stream/die?after=1&as=sse HTTP/1.1\r\nhost: a\r\nx-trace-id: T35\r\n\r\n");
    let response = client.response();
    assert_eq!(response.status(), 200);
    let end = "event: error\ndata: {\"error_class\":\"transport_error\",\"trace_id\":\"T35\"}\n\n";
    assert!(response.text().starts_with("id: 1\nevent: tick\n"), "{response:?}");
    assert!(response.text().ends_with(end), "{response:?}");
    assert_eq!(response.text().matches("event: error").count(), 1);
}

#[test]
fn case_36_an_error_frame_is_an_event_of_the_log_and_the_status_stays() {
    let server = Server::start("");
    let mut client = server.begin("/stream/error?as=sse");
    let response = client.response();
    assert_eq!(response.status(), 200);
    assert!(response.text().contains("event: error\n"), "{response:?}");
    assert!(!response.text().contains("told to fail"), "a worker's words are for the log");
    let event = server.event("http.stream.error", |e| e["path"] == "/stream/error");
    assert_eq!(event["error_class"], "worker_runtime_error", "{event}");
    assert_eq!(event["error_message"], "the stream was told to fail", "{event}");
    let mut text = server.begin("/stream/error");
    assert!(!text.rest().ends_with(b"0\r\n\r\n"));
    let ended = server.stop();
    let statuses: Vec<_> = ended.access.iter().map(|line| line["status"].clone()).collect();
    assert_eq!(statuses, [200, 200]);
}

#[test]
fn case_37_an_exception_before_the_start_is_a_500() {
    let server = Server::start("");
    let response = server.get("/error?exception=App%5CBoom");
    assert_failure(&response, 500, "worker_runtime_error");
    assert_eq!(response.header("x-worker-exception"), Some("App\\Boom"));
}

#[test]
fn an_idle_stream_is_ended_by_its_own_clock() {
    let server = Server::start("worker.stream_idle_timeout_ms = 200\nworker.read_timeout_ms = 100");
    let response = server.get("/stream/sse?n=2&ms=20000");
    assert!(response.text().contains("tick 1"), "{response:?}");
    assert!(response.text().contains("\"error_class\":\"timeout\""), "{response:?}");
    // Slower than the read timeout, quicker than the idle one: a stream may take its time.
    server.wait_workers(1);
    let patient = server.get("/stream/text?n=3&ms=120");
    assert!(patient.complete && patient.text().ends_with("line 3\n"), "{patient:?}");
}
