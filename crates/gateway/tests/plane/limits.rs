//! Bounds on what a client may do, and on how long anything may take.

use crate::client::{body, header, status};
use crate::plane::Plane;
use hedgerow_gateway::Settings;
use hedgerow_policy::queue::QueueConfig;
use std::time::Duration;
use tokio::io::AsyncWriteExt;

const MS: fn(u64) -> Duration = Duration::from_millis;

#[tokio::test]
async fn heads_that_are_too_large() {
    let plane = Plane::start().await;
    let line = format!("x-long: {}\r\n", "x".repeat(8_000));
    let fits = format!("GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{}\r\n", line.repeat(7));
    assert_eq!(status(&plane.raw(fits).await), 200);
    let large = format!("GET / HTTP/1.1\r\nhost: a\r\n{}\r\n", line.repeat(20));
    assert_eq!(status(&plane.raw(large).await), 431);
    let many = (0..101).map(|n| format!("x-{n}: 1\r\n")).collect::<String>();
    assert_eq!(status(&plane.raw(format!("GET / HTTP/1.1\r\nhost: a\r\n{many}\r\n")).await), 431);
    let target = format!("GET /{} HTTP/1.1\r\nhost: a\r\n\r\n", "x".repeat(70_000));
    assert!([414, 431].contains(&status(&plane.raw(target).await)));
    assert_eq!(plane.served(), 1);
    let refused = plane.events().await;
    let refused = refused.iter().filter(|event| event["type"] == "http.bad_head").count();
    assert_eq!(refused, 3);
}

#[tokio::test]
async fn a_slow_head_is_given_up() {
    let plane = Plane::with(|setup| setup.settings.header_timeout = MS(50)).await;
    let mut client = plane.client().await;
    client.send("GET / HT").await;
    let answer = client.rest().await;
    assert!(answer.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{answer}");
    // The same behind a request on a kept connection.
    let mut client = plane.client().await;
    client.get("/").await;
    client.up_to("hello").await;
    client.send("GET / HT").await;
    assert_eq!(status(&client.rest().await), 408);
    assert_eq!(plane.served(), 1);
}

#[tokio::test]
async fn an_idle_connection_is_kept_longer_than_a_head_may_take_and_then_closed() {
    let plane = Plane::with(|setup| {
        setup.settings.header_timeout = MS(20);
        setup.settings.keep_alive = MS(600);
    })
    .await;
    let mut client = plane.client().await;
    for _ in 0..3 {
        plane.clock.sleep_until(plane.clock.now() + MS(60)).await;
        client.get("/").await;
        assert_eq!(status(&client.up_to("hello").await), 200);
    }
    let before = plane.clock.now();
    assert_eq!(client.rest().await, "");
    assert!(plane.clock.now() - before > MS(300));
    // One that never sent a byte is no different.
    assert_eq!(plane.client().await.rest().await, "");
}

#[tokio::test]
async fn half_a_request_behind_another_survives_the_rest() {
    let mut plane = Plane::with(|setup| setup.settings.keep_alive = MS(200)).await;
    let mut client = plane.client().await;
    client.send("GET /hold HTTP/1.1\r\nhost: a\r\n\r\nGET / HT").await;
    plane.arrival().await;
    plane.stage.gate.add_permits(1);
    client.up_to("held").await;
    // A quarter of the idle time is enough for a connection to come to rest.
    plane.clock.sleep_until(plane.clock.now() + MS(100)).await;
    client.send("TP/1.1\r\nhost: a\r\n\r\n").await;
    client.up_to("hello").await;
}

#[tokio::test]
async fn a_gateway_that_is_dropped_ends_its_connections() {
    let mut plane = Plane::start().await;
    let (mut idle, mut busy) = (plane.client().await, plane.client().await);
    idle.get("/").await;
    idle.up_to("hello").await;
    busy.get("/hold").await;
    plane.arrival().await;
    plane.drop_gateway();
    assert_eq!(idle.rest().await, "");
    assert_eq!(busy.rest().await, "");
}

#[tokio::test]
async fn a_client_that_takes_nothing_is_let_go() {
    let plane = Plane::with(|setup| setup.settings.keep_alive = MS(100)).await;
    let mut client = plane.client().await;
    client.get("/big").await;
    plane.until("the request", || plane.served() == 1).await;
    assert!(plane.gateway.drain().await, "the connection ends before the drain does");
    assert!(client.ends_with_reset().await);
    assert_eq!(plane.requests().await[0]["status"], 499);
}

#[tokio::test]
async fn a_failed_head_is_recorded_as_what_it_is() {
    let plane = Plane::with(|setup| setup.read_timeout = MS(60)).await;
    let mut client = plane.client().await;
    for (path, code, length) in [("/boom", 500, "21"), ("/silent", 504, "15")] {
        client.send(format!("HEAD {path} HTTP/1.1\r\nhost: a\r\n\r\n")).await;
        let answer = client.up_to("\r\n\r\n").await;
        assert_eq!((status(&answer), header(&answer, "content-length")), (code, Some(length)));
    }
    let events = plane.requests().await;
    let seen = events.iter().map(|event| (event["status"].as_u64(), &event["error_class"]));
    let expected = [(Some(500), &"worker_runtime_error".into()), (Some(504), &"timeout".into())];
    assert_eq!(seen.collect::<Vec<_>>(), expected, "{events:?}");
    assert_eq!(events[1]["timeout_phase"], "read", "{events:?}");
}

#[tokio::test]
async fn case_18_and_19_the_timeout_that_ends_a_request_names_its_phase() {
    for (read, request, phase) in [(MS(60), MS(5_000), "read"), (MS(5_000), MS(60), "request")] {
        let plane = Plane::with(|setup| {
            setup.read_timeout = read;
            setup.settings.request_timeout = request;
        })
        .await;
        let answer = plane.get("/silent").await;
        assert_eq!(status(&answer), 504);
        assert_eq!(header(&answer, "x-vhttpd-error-class"), Some("timeout"));
        assert_eq!(body(&answer), "Gateway Timeout");
        let events = plane.requests().await;
        assert_eq!(events[0]["timeout_phase"], phase, "{events:?}");
    }
}

#[tokio::test]
async fn case_22_and_26_the_queue_says_no_through_the_envelope() {
    let mut plane = Plane::with(|setup| setup.queue = QueueConfig::NONE).await;
    let mut first = plane.client().await;
    first.get("/hold").await;
    plane.arrival().await;
    let refused = plane.get("/").await;
    assert_eq!(status(&refused), 503);
    assert_eq!(header(&refused, "x-vhttpd-error-class"), Some("worker_pool_exhausted"));
    assert!(header(&refused, "retry-after").is_some());
    plane.stage.gate.add_permits(1);
    first.up_to("held").await;

    let queue = QueueConfig { capacity: 1, timeout: MS(50) };
    let mut plane = Plane::with(|setup| setup.queue = queue).await;
    let mut first = plane.client().await;
    first.get("/hold").await;
    plane.arrival().await;
    let late = plane.get("/").await;
    assert_eq!(status(&late), 504);
    assert_eq!(header(&late, "x-vhttpd-error-class"), Some("worker_queue_timeout"));
    assert_eq!(header(&late, "retry-after"), None);
}

#[tokio::test]
async fn case_52_a_client_that_leaves_does_not_free_its_worker() {
    let mut plane = Plane::start().await;
    let mut first = plane.client().await;
    first.get("/hold").await;
    plane.arrival().await;
    drop(first);
    let mut second = plane.client().await;
    second.get("/second").await;
    plane.clock.sleep_until(plane.clock.now() + MS(50)).await;
    assert_eq!(plane.served(), 1, "the worker still has the request of the client that left");
    plane.stage.gate.add_permits(1);
    assert_eq!(plane.arrival().await, "/second");
    assert_eq!(status(&second.up_to("hello").await), 200);
    drop(second);
    assert!(plane.gateway.drain().await);
    let events = plane.requests().await;
    assert_eq!(events[0]["status"], 499);
    assert_eq!(events[0]["error_class"], "client_closed");
}

#[tokio::test]
async fn connections_beyond_the_most_wait_until_one_ends() {
    let plane = Plane::with(|setup| setup.settings.max_connections = 1).await;
    let mut first = plane.client().await;
    first.get("/").await;
    first.up_to("hello").await;
    let mut second = plane.client().await;
    second.get("/").await;
    plane.clock.sleep_until(plane.clock.now() + MS(50)).await;
    assert_eq!(plane.served(), 1);
    drop(first);
    second.up_to("hello").await;
}

#[tokio::test]
async fn new_settings_hold_for_new_requests_and_bad_ones_change_nothing() {
    let plane = Plane::start().await;
    let mut client = plane.client().await;
    client.get("/plan").await;
    assert!(client.up_to("\r\n\r\nBad Gateway").await.contains("x-vhttpd-error-class: "));
    let edge =
        Settings { header_prefix: "x-edge".into(), proxy_status: false, ..Settings::default() };
    plane.gateway.reconfigure(edge).unwrap();
    client.get("/plan").await;
    let answer = client.up_to("\r\n\r\nBad Gateway").await;
    assert_eq!(header(&answer, "x-edge-error-class"), Some("unsupported_transport"));
    assert!(header(&answer, "x-edge-trace-id").is_some());
    assert_eq!(header(&answer, "proxy-status"), None);
    let bad = Settings { header_prefix: "not good".into(), ..Settings::default() };
    assert!(plane.gateway.reconfigure(bad).is_err());
    client.get("/plan").await;
    assert!(client.up_to("\r\n\r\nBad Gateway").await.contains("x-edge-error-class"));
}

#[tokio::test]
async fn an_address_in_use_is_an_error() {
    let plane = Plane::start().await;
    let settings = Settings { listen: plane.addr, ..Settings::default() };
    let (pool, recorder) = (plane.pool.clone(), plane.recorder.clone());
    let error = hedgerow_gateway::Gateway::start(settings, pool, recorder, plane.clock).err();
    let text = error.map(|error| error.to_string()).unwrap_or_default();
    assert!(text.starts_with(&format!("cannot listen on {}: ", plane.addr)), "{text}");
}

#[tokio::test]
async fn a_client_that_only_has_nothing_more_to_say_gets_its_answer() {
    for (head, asked) in [("HTTP/1.1", true), ("HTTP/1.0", false)] {
        let mut plane = Plane::start().await;
        for path in ["/", "/big"] {
            let mut client = plane.client().await;
            client.send(format!("GET {path} {head}\r\nhost: a\r\n\r\n")).await;
            client.tcp.shutdown().await.unwrap();
            assert_eq!(plane.arrival().await, path);
            let answer = client.rest().await;
            let answer = answer.strip_prefix("HTTP/1.1 100 Continue\r\n\r\n").unwrap_or(&answer);
            assert_eq!(status(answer), 200, "{answer:.300}");
            assert_eq!(body(answer).len(), if path == "/" { 5 } else { 8 << 20 });
        }
        // Its body is there too, and the answer takes its time.
        let mut client = plane.client().await;
        let length = "content-length: 1\r\n\r\nx";
        client.send(format!("POST /hold {head}\r\nhost: a\r\n{length}")).await;
        client.tcp.shutdown().await.unwrap();
        assert_eq!(plane.arrival().await, "/hold");
        plane.clock.sleep_until(plane.clock.now() + MS(100)).await;
        plane.stage.gate.add_permits(1);
        let answer = client.rest().await;
        assert_eq!(answer.starts_with("HTTP/1.1 100 Continue\r\n\r\n"), asked, "{answer}");
        assert!(answer.contains(" 200 OK\r\n") && answer.ends_with("held"), "{answer}");
        let events = plane.requests().await;
        assert!(events.iter().all(|event| event["status"] == 200), "{events:?}");
    }
}

#[tokio::test]
async fn a_client_that_leaves_at_once_leaves_a_record() {
    let plane = Plane::start().await;
    for n in 0..20 {
        let mut client = plane.client().await;
        let length = ["", "content-length: 9\r\n"][n % 2];
        client.send(format!("POST /{n} HTTP/1.1\r\nhost: a\r\n{length}\r\n")).await;
    }
    // Connections are accepted in their order.
    plane.get("/last").await;
    assert!(plane.gateway.drain().await);
    let events = plane.requests().await;
    assert_eq!(events.len(), 21, "{events:?}");
    assert!(events.iter().filter(|event| event["status"] == 499).count() >= 10, "{events:?}");
}
