//! HTTP/2, by its preface over plain TCP.

use crate::plane::Plane;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::time::Duration;
use tokio::io::AsyncWriteExt;

type Sender = SendRequest<Full<Bytes>>;

/// Speaks HTTP/2 over any connection.
pub(crate) async fn speak<T>(io: T) -> Sender
where
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let builder = http2::Builder::new(TokioExecutor::new());
    let (sender, connection) = builder.handshake(TokioIo::new(io)).await.unwrap();
    tokio::spawn(connection);
    sender
}

pub(crate) fn get(path: &str) -> Request<Full<Bytes>> {
    Request::get(format!("http://a.example:81{path}")).body(Full::default()).unwrap()
}

async fn text(response: Response<Incoming>) -> String {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test]
async fn requests_side_by_side_on_one_connection() {
    let mut plane = Plane::with(|setup| setup.workers = 3).await;
    let mut sender = speak(plane.client().await.tcp).await;
    let held = sender.send_request(get("/hold"));
    plane.arrival().await;
    let mut post = get("/echo");
    *post.method_mut() = http::Method::POST;
    *post.body_mut() = Full::from("body");
    let echo = sender.send_request(post).await.unwrap();
    assert_eq!(echo.headers()["content-length"], "4");
    assert_eq!(echo.headers()["x-vhttpd-trace-id"].len(), 32);
    assert_eq!(text(echo).await, "body");
    plane.stage.gate.add_permits(1);
    assert_eq!(text(held.await.unwrap()).await, "held");
    let seen = plane.stage.seen.lock().unwrap();
    assert_eq!(seen[1].0.protocol_version, "2");
    assert_eq!((seen[1].0.host.as_str(), seen[1].0.port.as_str()), ("a.example", "81"));
    assert_eq!(seen[1].0.headers["host"], "a.example:81");
}

#[tokio::test]
async fn crumbs_of_cookies_are_one_header_for_the_worker() {
    let plane = Plane::start().await;
    let mut sender = speak(plane.client().await.tcp).await;
    let mut request = get("/");
    for crumb in ["a=1", "b=2"] {
        request.headers_mut().append("cookie", crumb.parse().unwrap());
    }
    sender.send_request(request).await.unwrap();
    let seen = plane.stage.seen.lock().unwrap();
    assert_eq!(seen[0].0.headers["cookie"], "a=1; b=2");
}

#[tokio::test]
async fn failures_look_the_same() {
    let plane = Plane::with(|setup| setup.settings.body_limit = 3).await;
    let mut sender = speak(plane.client().await.tcp).await;
    let response = sender.send_request(get("/boom")).await.unwrap();
    assert_eq!(response.status(), 500);
    assert_eq!(response.headers()["x-vhttpd-error-class"], "worker_runtime_error");
    assert!(!response.headers().contains_key("connection"));
    assert_eq!(text(response).await, "Internal Server Error");
    let mut large = get("/");
    *large.method_mut() = http::Method::POST;
    *large.body_mut() = Full::from("1234");
    assert_eq!(sender.send_request(large).await.unwrap().status(), 413);
    let mut odd = get("/");
    odd.headers_mut().insert("host", "b.example".parse().unwrap());
    assert_eq!(sender.send_request(odd).await.unwrap().status(), 400);
    // One bad stream is no reason to end the others.
    assert_eq!(sender.send_request(get("/")).await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_failed_head_is_answered_without_a_body_and_recorded_as_what_it_is() {
    let plane = Plane::with(|setup| {
        setup.read_timeout = Duration::from_millis(100);
        setup.workers = 2;
    })
    .await;
    let mut sender = speak(plane.client().await.tcp).await;
    for path in ["/boom", "/silent"] {
        let mut head = get(path);
        *head.method_mut() = http::Method::HEAD;
        let response = sender.send_request(head).await.unwrap();
        let reason = response.status().canonical_reason().unwrap();
        assert_eq!(response.headers()["content-length"], reason.len().to_string());
        // A frame of data would be an error here: there is none to come.
        assert_eq!(text(response).await, "");
    }
    let events = plane.requests().await;
    let seen = events.iter().map(|event| (event["status"].as_u64(), &event["error_class"]));
    let expected = [(Some(500), &"worker_runtime_error".into()), (Some(504), &"timeout".into())];
    assert_eq!(seen.collect::<Vec<_>>(), expected, "{events:?}");
    assert_eq!(events[1]["timeout_phase"], "read", "{events:?}");
}

#[tokio::test]
async fn more_than_a_hundred_headers_are_too_many_but_not_crumbs_of_a_cookie() {
    let plane = Plane::start().await;
    let mut sender = speak(plane.client().await.tcp).await;
    for (name, code) in [("x-a", 431), ("cookie", 200)] {
        let mut request = get("/");
        for _ in 0..101 {
            request.headers_mut().append(name, "a=1".parse().unwrap());
        }
        let response = sender.send_request(request).await.unwrap();
        assert_eq!(response.status(), code, "{name}");
    }
    assert_eq!(plane.served(), 1);
}

#[tokio::test]
async fn case_35_a_broken_text_stream_is_reset() {
    // Two, since the one that broke its stream rests for a while.
    let plane = Plane::with(|setup| setup.workers = 2).await;
    let mut sender = speak(plane.client().await.tcp).await;
    let mut response = sender.send_request(get("/text/dies")).await.unwrap();
    let first = response.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(first, "one\n");
    plane.stage.gate.add_permits(1);
    let error = loop {
        match response.frame().await {
            Some(Ok(_)) => {}
            Some(Err(error)) => break error,
            None => panic!("the stream looks complete"),
        }
    };
    assert!(format!("{error:?}").contains("Reset"), "{error:?}");
    assert_eq!(sender.send_request(get("/")).await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_stream_reset_by_the_client_is_a_client_that_left() {
    let mut plane = Plane::start().await;
    let mut sender = speak(plane.client().await.tcp).await;
    let held = tokio::spawn(sender.send_request(get("/hold")));
    plane.arrival().await;
    held.abort();
    let _ = held.await;
    plane.stage.gate.add_permits(1);
    assert_eq!(sender.send_request(get("/")).await.unwrap().status(), 200);
    let events = plane.requests().await;
    assert_eq!(events[0]["status"], 499, "{events:?}");
}

#[tokio::test]
async fn an_answer_that_is_left_standing_is_given_up_though_others_are_taken() {
    let plane = Plane::with(|setup| {
        setup.settings.keep_alive = Duration::from_millis(100);
        setup.workers = 2;
    })
    .await;
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(70_000).initial_connection_window_size(1 << 20);
    let io = TokioIo::new(plane.client().await.tcp);
    let (mut sender, connection) = builder.handshake::<_, Full<Bytes>>(io).await.unwrap();
    tokio::spawn(connection);
    let standing = sender.send_request(get("/big")).await.unwrap();
    while !sender.is_closed() {
        if let Ok(response) = sender.send_request(get("/")).await {
            let _ = response.into_body().collect().await;
        }
        plane.clock.sleep_until(plane.clock.now() + Duration::from_millis(10)).await;
    }
    assert!(standing.into_body().collect().await.is_err());
    assert!(plane.gateway.drain().await);
    let events = plane.requests().await;
    assert!(events.iter().any(|event| event["status"] == 499 && event["path"] == "/big"));
    assert!(events.iter().any(|event| event["status"] == 200));
}

#[tokio::test]
async fn an_idle_connection_says_goodbye() {
    let plane = Plane::with(|setup| {
        setup.settings.keep_alive = Duration::from_millis(300);
    })
    .await;
    let mut sender = speak(plane.client().await.tcp).await;
    assert_eq!(sender.send_request(get("/")).await.unwrap().status(), 200);
    plane.until("the goodbye", || sender.is_closed()).await;
}

#[tokio::test]
async fn a_drain_lets_streams_finish() {
    let mut plane = Plane::start().await;
    let mut sender = speak(plane.client().await.tcp).await;
    let held = tokio::spawn(sender.send_request(get("/hold")));
    plane.arrival().await;
    let gateway = plane.gateway.clone();
    let draining = tokio::spawn(async move { gateway.drain().await });
    plane.until("the drain", || std::net::TcpStream::connect(plane.addr).is_err()).await;
    plane.stage.gate.add_permits(1);
    assert_eq!(text(held.await.unwrap().unwrap()).await, "held");
    assert!(draining.await.unwrap());
}

#[tokio::test]
async fn the_preface_may_come_in_pieces_and_http_1_may_begin_like_it() {
    let plane = Plane::start().await;
    let mut client = plane.client().await;
    for piece in ["PRI * HT", "TP/2.0\r\n\r\nSM", "\r\n\r\n"] {
        client.send(piece).await;
        client.tcp.flush().await.unwrap();
        tokio::task::yield_now().await;
    }
    // An empty SETTINGS frame is answered with the gateway's own.
    client.send([0, 0, 0, 4, 0, 0, 0, 0, 0]).await;
    let mut frame = [0; 9];
    tokio::io::AsyncReadExt::read_exact(&mut client.tcp, &mut frame).await.unwrap();
    assert_eq!(frame[3], 4, "a SETTINGS frame");
    let answer = plane.raw("PRINT / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
}

#[tokio::test]
async fn where_it_is_off_the_preface_is_a_bad_request() {
    let plane = Plane::with(|setup| setup.settings.http2 = false).await;
    let answer = plane.raw("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert_eq!(plane.served(), 0);
}
