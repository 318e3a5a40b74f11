//! Streams of workers: passed on piece by piece, and broken so that it shows.

use crate::client::{header, status};
use crate::plane::Plane;
use hedgerow_policy::queue::QueueConfig;

#[tokio::test]
async fn case_38_head_and_first_chunk_do_not_wait_for_the_rest() {
    for (path, first) in [("/text", "one\n"), ("/sse", "id: tok-1\nevent: token\ndata: one\n")] {
        let plane = Plane::start().await;
        let mut client = plane.client().await;
        client.get(path).await;
        // The worker is at its gate: what comes now was not gathered.
        let head = client.up_to("\r\n\r\n").await;
        assert_eq!(status(&head), 200);
        assert_eq!(header(&head, "transfer-encoding"), Some("chunked"));
        assert_eq!(header(&head, "x-app"), Some("1"));
        assert!(header(&head, "x-vhttpd-trace-id").is_some());
        client.up_to(first).await;
        let sse = path == "/sse";
        assert_eq!(header(&head, "cache-control"), sse.then_some("no-cache"));
        assert_eq!(header(&head, "x-accel-buffering"), sse.then_some("no"));
        plane.stage.gate.add_permits(1);
        client.up_to("\r\n0\r\n\r\n").await;
        // The connection is good for another request.
        client.get("/").await;
        client.up_to("hello").await;
    }
}

#[tokio::test]
async fn case_35_and_36_a_broken_text_stream_is_aborted() {
    for end in ["dies", "fails"] {
        let plane = Plane::start().await;
        let mut client = plane.client().await;
        client.send(format!("GET /text/{end} HTTP/1.1\r\nhost: a\r\nx-trace-id: T\r\n\r\n")).await;
        client.up_to("one\n").await;
        plane.stage.gate.add_permits(1);
        let rest = client.rest().await;
        assert!(rest.contains("two\n"), "what came before is not lost: {rest:?}");
        assert!(!rest.contains("0\r\n\r\n"), "{rest:?}");
        let events = plane.events().await;
        let broken = events.iter().find(|event| event["type"] == "http.stream.error").unwrap();
        assert_eq!(broken["trace_id"], "T");
        let request = events.iter().find(|event| event["type"] == "http.request").unwrap();
        assert_eq!(request["status"], 200);
    }
}

#[tokio::test]
async fn case_35_and_36_a_broken_stream_of_events_says_so() {
    for (end, class) in [("dies", "transport_error"), ("fails", "worker_runtime_error")] {
        let plane = Plane::start().await;
        let mut client = plane.client().await;
        client.send(format!("GET /sse/{end} HTTP/1.1\r\nhost: a\r\nx-trace-id: T\r\n\r\n")).await;
        client.up_to("data: one\n").await;
        plane.stage.gate.add_permits(1);
        let rest = client.up_to("0\r\n\r\n").await;
        let event =
            format!("event: error\ndata: {{\"error_class\":\"{class}\",\"trace_id\":\"T\"}}\n\n");
        assert!(rest.contains("data: two\n") && rest.contains(&event), "{rest}");
        assert!(!rest.contains("secret"));
        let events = plane.events().await;
        let broken = events.iter().find(|event| event["type"] == "http.stream.error").unwrap();
        assert_eq!(broken["error_class"], class);
    }
}

#[tokio::test]
async fn to_http_1_0_an_aborted_stream_does_not_look_complete() {
    let plane = Plane::start().await;
    let mut client = plane.client().await;
    client.send("GET /text/dies HTTP/1.0\r\n\r\n").await;
    client.up_to("one\n").await;
    plane.stage.gate.add_permits(1);
    assert!(client.ends_with_reset().await);
}

#[tokio::test]
async fn a_stream_asked_for_with_head_has_no_body() {
    let plane = Plane::with(|setup| setup.queue = QueueConfig::NONE).await;
    let mut client = plane.client().await;
    // The head comes once the worker is free: the next request finds it so, without a queue.
    plane.stage.gate.add_permits(1);
    client.send("HEAD /sse HTTP/1.1\r\nhost: a\r\n\r\n").await;
    let head = client.up_to("\r\n\r\n").await;
    assert_eq!(header(&head, "content-type"), Some("text/event-stream"));
    client.get("/").await;
    assert!(client.up_to("hello").await.starts_with("HTTP/1.1 200 OK\r\n"));
}

#[tokio::test]
async fn a_client_that_leaves_its_stream_is_recorded_as_that() {
    let plane = Plane::start().await;
    let mut client = plane.client().await;
    client.get("/sse").await;
    client.up_to("data: one\n").await;
    drop(client);
    plane.stage.gate.add_permits(1);
    assert!(plane.gateway.drain().await);
    let events = plane.requests().await;
    assert_eq!(events[0]["status"], 499);
}
