//! Case 47: what was begun is finished, what is idle is closed, and nothing new is taken.

use crate::client::{header, status};
use crate::plane::Plane;
use std::time::Duration;
use tokio::net::TcpStream;

#[tokio::test]
async fn case_47_requests_finish_and_idle_connections_close() {
    let mut plane = Plane::start().await;
    let mut busy = plane.client().await;
    busy.get("/hold").await;
    assert_eq!(plane.arrival().await, "/hold");
    let mut idle = plane.client().await;
    let mut used = plane.client().await;
    used.get("/").await;
    plane.until("the wait", || plane.pool.snapshot().queue_depth == 1).await;
    let gateway = plane.gateway.clone();
    let draining = tokio::spawn(async move { gateway.drain().await });
    assert_eq!(idle.rest().await, "");
    assert!(TcpStream::connect(plane.addr).await.is_err(), "the address is closed");
    plane.stage.gate.add_permits(1);
    let answer = busy.rest().await;
    assert_eq!(status(&answer), 200);
    assert!(answer.contains("connection: close\r\n") && answer.ends_with("held"), "{answer}");
    assert!(used.rest().await.ends_with("hello"), "a request in the queue is one in flight");
    assert!(draining.await.unwrap(), "nothing had to be ended");
}

#[tokio::test]
async fn past_its_time_a_drain_ends_what_is_left() {
    let mut plane = Plane::with(|setup| {
        setup.settings.drain = Duration::from_millis(50);
        setup.workers = 2;
    })
    .await;
    let mut busy = plane.client().await;
    busy.get("/hold").await;
    plane.arrival().await;
    let mut stream = plane.client().await;
    stream.get("/sse").await;
    stream.up_to("data: one\n").await;
    let mut upload = plane.client().await;
    upload
        .send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\nexpect: 100-continue\r\n\r\n")
        .await;
    upload.up_to("100 Continue\r\n\r\n").await;
    assert!(!plane.gateway.drain().await);
    for client in [&mut busy, &mut upload] {
        let answer = client.rest().await;
        assert_eq!(status(&answer), 503);
        assert_eq!(header(&answer, "x-vhttpd-error-class"), Some("draining"));
        assert_eq!(header(&answer, "retry-after"), Some("1"));
    }
    let rest = stream.rest().await;
    assert!(rest.contains("event: error\ndata: {\"error_class\":\"draining\""), "{rest}");
    let requests = plane.requests().await;
    assert_eq!(requests.len(), 3);
    assert!(requests.iter().all(|request| request["error_class"] == "draining"), "{requests:?}");
}

#[tokio::test]
async fn a_stream_may_finish_within_the_drain() {
    let plane = Plane::start().await;
    let mut client = plane.client().await;
    client.get("/sse").await;
    client.up_to("data: one\n").await;
    let gateway = plane.gateway.clone();
    let draining = tokio::spawn(async move { gateway.drain().await });
    plane.until("the drain", || std::net::TcpStream::connect(plane.addr).is_err()).await;
    plane.stage.gate.add_permits(1);
    assert!(client.rest().await.ends_with("0\r\n\r\n"));
    assert!(draining.await.unwrap());
}

#[tokio::test]
async fn what_the_kernel_had_taken_in_is_served() {
    let plane = Plane::start().await;
    // Connected without giving way, so that nothing is accepted before the drain begins.
    let mut early = std::net::TcpStream::connect(plane.addr).unwrap();
    std::io::Write::write_all(&mut early, b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    let idle = std::net::TcpStream::connect(plane.addr).unwrap();
    assert!(plane.gateway.drain().await);
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut early, &mut answer).unwrap();
    assert_eq!(status(&answer), 200);
    assert!(answer.contains("connection: close\r\n"), "{answer}");
    drop(idle);
}
