//! An operator cancels a request: to its client it looks as if the connection had been lost.

use crate::client::Client;
use crate::http2::{get, speak};
use crate::plane::Plane;
use hedgerow_gateway::admin::{self, Admin};
use std::sync::Arc;

/// Cancels the requests of a trace, through the admin listener.
async fn cancel(plane: &Plane, trace: &str) {
    let settings = admin::Settings { listen: ([127, 0, 0, 1], 0).into(), ..Default::default() };
    let control = Arc::new(admin::Plane::new(Some(plane.pool.clone())));
    let admin = Admin::start(settings, plane.recorder.clone(), control, plane.clock).unwrap();
    let mut operator = Client::connect(admin.local_addr(), plane.clock).await;
    let head = "HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    operator.send(format!("POST /admin/requests/{trace}/cancel {head}")).await;
    let answer = operator.rest().await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

fn ask(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: a\r\nx-trace-id: T\r\n\r\n")
}

#[tokio::test]
async fn a_request_with_a_worker() {
    let mut plane = Plane::start().await;
    let mut client = plane.client().await;
    client.send(ask("/hold")).await;
    plane.arrival().await;
    cancel(&plane, "T").await;
    assert_eq!(client.rest().await, "");
    let requests = plane.requests().await;
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0]["status"], 499);
    assert_eq!(requests[0]["error_class"], "client_closed");
    assert_eq!(requests[0]["error_message"], "an operator cancelled the request");
}

#[tokio::test]
async fn a_request_in_the_queue_gives_up_its_place() {
    let mut plane = Plane::start().await;
    let mut first = plane.client().await;
    first.get("/hold").await;
    plane.arrival().await;
    let mut second = plane.client().await;
    second.send(ask("/")).await;
    plane.until("the wait", || plane.pool.snapshot().queue_depth == 1).await;
    cancel(&plane, "T").await;
    assert_eq!(second.rest().await, "");
    assert_eq!(plane.pool.snapshot().queue_depth, 0);
    plane.stage.gate.add_permits(1);
    first.up_to("held").await;
    assert_eq!(plane.served(), 1);
}

#[tokio::test]
async fn a_body_that_is_still_coming() {
    let plane = Plane::start().await;
    let mut client = plane.client().await;
    let head = "x-trace-id: T\r\ncontent-length: 9\r\nexpect: 100-continue\r\n";
    client.send(format!("POST / HTTP/1.1\r\nhost: a\r\n{head}\r\n")).await;
    client.up_to("100 Continue\r\n\r\n").await;
    cancel(&plane, "T").await;
    assert_eq!(client.rest().await, "");
    assert_eq!(plane.served(), 0);
}

#[tokio::test]
async fn a_stream_is_aborted() {
    for path in ["/sse", "/text"] {
        let plane = Plane::start().await;
        let mut client = plane.client().await;
        client.send(ask(path)).await;
        client.up_to("one\n").await;
        cancel(&plane, "T").await;
        assert!(!client.rest().await.contains("0\r\n\r\n"));
    }
    let plane = Plane::start().await;
    let mut sender = speak(plane.client().await.tcp).await;
    let mut request = get("/hold");
    request.headers_mut().insert("x-trace-id", "T".parse().unwrap());
    let held = tokio::spawn(sender.send_request(request));
    plane.until("the request", || plane.served() == 1).await;
    cancel(&plane, "T").await;
    let error = held.await.unwrap().unwrap_err();
    assert!(format!("{error:?}").contains("Reset"), "{error:?}");
}
