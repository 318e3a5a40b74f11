//! Request bodies: read in full before a worker is taken, within bounds.

use crate::client::{header, status};
use crate::plane::Plane;
use hedgerow_gateway::route::{Folder, Route, Target};
use hedgerow_policy::queue::QueueConfig;
use hedgerow_wire::Capabilities;
use std::time::Duration;

fn post(path: &str, headers: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nhost: a\r\n{headers}\r\n")
}

#[tokio::test]
async fn case_44_every_byte_value_goes_there_and_back() {
    for capabilities in [None, Some(Capabilities::ALL)] {
        let plane = Plane::with(|setup| setup.capabilities = capabilities).await;
        let all: Vec<u8> = (0..=255).collect();
        for _ in 0..2 {
            let mut bytes =
                post("/echo", "content-length: 256\r\nconnection: close\r\n").into_bytes();
            bytes.extend_from_slice(&all);
            let answer = plane.raw(bytes).await;
            assert_eq!(status(&answer), 200);
        }
        let seen = plane.stage.seen.lock().unwrap();
        assert!(seen.iter().all(|(_, body, _)| *body == all));
    }
}

#[tokio::test]
async fn chunks_are_put_together() {
    let plane = Plane::start().await;
    let chunked = "transfer-encoding: chunked\r\nconnection: close\r\n";
    let request = post("/echo", chunked) + "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\ntrailer: 1\r\n\r\n";
    let answer = plane.raw(request).await;
    assert!(answer.ends_with("\r\n\r\nabcde"), "{answer}");
    assert!(!plane.stage.seen.lock().unwrap()[0].0.headers.contains_key("trailer"));
}

#[tokio::test]
async fn case_49_too_large_is_said_before_the_body_is_asked_for() {
    let plane = Plane::with(|setup| setup.settings.body_limit = 10).await;
    let mut client = plane.client().await;
    client.send(post("/", "content-length: 11\r\nexpect: 100-continue\r\n")).await;
    let answer = client.rest().await;
    assert!(answer.starts_with("HTTP/1.1 413 Payload Too Large\r\n"), "{answer}");
    assert_eq!(header(&answer, "connection"), Some("close"));
    assert_eq!(header(&answer, "x-vhttpd-error-class"), Some("request_too_large"));

    let mut client = plane.client().await;
    let head = "content-length: 10\r\nexpect: 100-continue\r\nconnection: close\r\n";
    client.send(post("/echo", head)).await;
    assert_eq!(client.up_to("\r\n\r\n").await, "HTTP/1.1 100 Continue\r\n\r\n");
    client.send("0123456789").await;
    assert!(client.rest().await.ends_with("0123456789"));

    let chunked = post("/", "transfer-encoding: chunked\r\nconnection: close\r\n");
    let eleven = plane.raw(format!("{chunked}b\r\n0123456789a\r\n0\r\n\r\n")).await;
    assert_eq!(status(&eleven), 413);
    let ten = plane.raw(format!("{chunked}a\r\n0123456789\r\n0\r\n\r\n")).await;
    assert_eq!(status(&ten), 200, "{ten}");
    assert_eq!(plane.served(), 2);
}

#[tokio::test]
async fn an_answer_before_the_body_is_not_lost_to_a_reset() {
    let plane = Plane::with(|setup| setup.settings.body_limit = 10).await;
    let mut request = post("/", "content-length: 4000000\r\n").into_bytes();
    request.resize(4_000_000, b'x');
    let answer = plane.raw(request).await;
    assert_eq!(status(&answer), 413, "{answer}");
}

#[tokio::test]
async fn a_slow_body_is_given_up_and_holds_no_worker() {
    let plane = Plane::with(|setup| {
        setup.settings.body_timeout = Duration::from_millis(100);
        setup.queue = QueueConfig::NONE;
    })
    .await;
    let mut slow = plane.client().await;
    slow.send(post("/", "content-length: 10\r\n") + "01234").await;
    let other = plane.get("/").await;
    assert_eq!(status(&other), 200, "the only worker is free while a body comes");
    let answer = slow.rest().await;
    assert_eq!(status(&answer), 408);
    assert_eq!(header(&answer, "x-vhttpd-error-class"), Some("request_timeout"));
    assert_eq!(header(&answer, "connection"), Some("close"));
    assert_eq!(plane.served(), 1);
}

#[tokio::test]
async fn a_client_that_leaves_within_its_body_is_recorded_as_that() {
    let plane = Plane::start().await;
    let mut client = plane.client().await;
    client.send(post("/", "content-length: 10\r\nexpect: 100-continue\r\n")).await;
    client.up_to("100 Continue\r\n\r\n").await;
    client.send("01234").await;
    drop(client);
    // The log is closed by looking at it, so the end of the request is awaited first.
    assert!(plane.gateway.drain().await);
    let events = plane.requests().await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0]["status"], 499);
    assert_eq!(events[0]["error_class"], "client_closed");
    assert_eq!(plane.served(), 0);
}

#[tokio::test]
async fn past_the_memory_bodies_go_to_disk_and_arrive_all_the_same() {
    for capabilities in [None, Some(Capabilities::ALL)] {
        let spool = crate::plane::scratch();
        let dir = spool.clone();
        let plane = Plane::with(|setup| {
            setup.settings.body_memory = 100_000;
            setup.settings.spool_dir = Some(dir);
            setup.capabilities = capabilities;
        })
        .await;
        // What the worker can do is known from its first answer.
        plane.get("/").await;
        for length in [50_000, 100_000, 100_001, 300_000] {
            let body: Vec<u8> = (0..length).map(|n| (n % 251) as u8).collect();
            let head = format!("content-length: {length}\r\nconnection: close\r\n");
            let mut request = post("/", &head).into_bytes();
            request.extend_from_slice(&body);
            assert_eq!(status(&plane.raw(request).await), 200);
            let seen = plane.stage.seen.lock().unwrap();
            assert!(seen.last().unwrap().1 == body, "{length}");
        }
        assert_eq!(std::fs::read_dir(&spool).unwrap().count(), 0);
        std::fs::remove_dir_all(&spool).unwrap();
    }
}

#[tokio::test]
async fn a_body_that_no_frame_holds_needs_a_worker_that_takes_it_raw() {
    for (capabilities, expected) in [(None, 413), (Some(Capabilities::ALL), 200)] {
        let plane = Plane::with(|setup| {
            setup.settings.body_limit = 64 << 20;
            setup.capabilities = capabilities;
        })
        .await;
        plane.get("/").await;
        let length = 17 << 20;
        let head = format!("content-length: {length}\r\nconnection: close\r\n");
        let mut request = post("/", &head).into_bytes();
        request.resize(request.len() + length, b'x');
        assert_eq!(status(&plane.raw(request).await), expected);
    }
}

#[tokio::test]
async fn a_route_has_bounds_of_its_own() {
    let route = Route {
        path: "/up/".into(),
        prefix: true,
        hosts: Vec::new(),
        methods: Vec::new(),
        to: Target::Worker,
        request_timeout: None,
        body_timeout: None,
        body_limit: Some(3),
        read_timeout: None,
        queue_timeout: None,
        stream_idle_timeout: None,
    };
    let nowhere = Folder::new("/nowhere".into(), "/files");
    let elsewhere =
        Route { path: "/files".into(), to: Target::Static(nowhere.into()), ..route.clone() };
    let plane = Plane::with(|setup| setup.settings.routes = vec![route, elsewhere]).await;
    let ask = |path: &str| post(path, "content-length: 4\r\nconnection: close\r\n") + "abcd";
    assert_eq!(status(&plane.raw(ask("/up/x")).await), 413);
    assert_eq!(status(&plane.raw(ask("/down")).await), 200);
    let unserved = plane.get("/files").await;
    assert_eq!(status(&unserved), 404);
    assert_eq!(header(&unserved, "x-vhttpd-error-class"), Some("not_found"));
}
