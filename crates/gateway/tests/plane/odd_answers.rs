//! The egress port in front of an upstream whose answers are odd: ambiguous, broken, not asked for.

use crate::client::Client;
use crate::plane::Plane;
use hedgerow_gateway::{Calls, Egress, Settings};
use hedgerow_upstream::{AllowList, Opened, PlanSettings, Settings as Named};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};

const OK: &str = "HTTP/1.1 200 OK\r\n";

/// Says these bytes to every request, and closes.
fn saying(bytes: String) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(bytes.as_bytes());
        }
    });
    address
}

async fn through(plane: &Plane, answer: &str, request: &str) -> String {
    let egress = before(plane, saying(answer.to_owned()), 75_000);
    let mut client = Client::connect(egress.local_addr(), plane.clock).await;
    client.send(request).await;
    client.rest().await
}

/// The port before the upstream there, which keeps an idle connection for so many milliseconds.
fn before(plane: &Plane, address: SocketAddr, keep_alive: u64) -> Egress {
    let url = format!("http://{address}");
    let mut odd = Named::new("odd", [url.as_str()]).unwrap();
    odd.body_limit = LARGE as u64;
    let builder = hedgerow_upstream::Client::builder().clock(plane.clock);
    let client = builder.build([odd]).unwrap();
    let settings = PlanSettings {
        allow: AllowList::default(),
        fixture_root: None,
        max_open: 1,
        results_limit: 1 << 20,
        state_limit: 1 << 10,
        calls: Named::anywhere(),
    };
    let calls = Calls::new(Opened::new(client, settings).unwrap());
    let loopback = "127.0.0.1:0".parse().unwrap();
    let recorder = plane.recorder.clone();
    let keep_alive = std::time::Duration::from_millis(keep_alive);
    let settings = Settings { keep_alive, ..Settings::default() };
    Egress::start(loopback, &settings, calls, recorder, plane.clock).unwrap()
}

const GET: &str = "GET /odd/x HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_length_never_cuts_a_body_that_came_in_chunks() {
    let plane = Plane::start().await;
    let chunks = "5\r\nhello\r\n0\r\n\r\n";
    let both = format!("{OK}content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n{chunks}");
    let answer = through(&plane, &both, GET).await;
    assert!(answer.ends_with(&format!("\r\n\r\n{chunks}")), "{answer}");
    assert!(!answer.contains("content-length"), "{answer}");
    let twice = format!("{OK}content-length: 5, 5\r\n\r\nhello");
    let answer = through(&plane, &twice, GET).await;
    assert!(answer.starts_with(OK) && answer.ends_with(chunks), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_broken_from_its_first_byte_on_is_a_502() {
    let plane = Plane::start().await;
    for chunk in ["ZZ\r\nhello", "FFFFFFFFFFFFFFFFF\r\nhello"] {
        let broken = format!("{OK}transfer-encoding: chunked\r\n\r\n{chunk}");
        let answer = through(&plane, &broken, GET).await;
        assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
        assert!(answer.contains("x-vhttpd-error-class: upstream_error\r\n"), "{answer}");
    }
    let switched = "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n";
    let answer = through(&plane, switched, GET).await;
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_does_not_speak_for_the_port() {
    let plane = Plane::start().await;
    let says = "hedgerow-hedged-after-ms: 5\r\nhedgerow-retries: 9\r\nhedgerow-winner: hedge\r\n\
                x-request-id: its-own\r\n";
    let answer = through(&plane, &format!("{OK}{says}content-length: 2\r\n\r\nok"), GET).await;
    for own in ["x-request-id: its-own\r\n", "hedgerow-winner: primary\r\n", "attempts: 1\r\n"] {
        assert!(answer.contains(own), "{own} in {answer}");
    }
    assert!(!answer.contains("hedged-after") && !answer.contains("retries"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_body_that_does_not_parse_is_the_callers_fault() {
    let plane = Plane::start().await;
    let head = "POST /odd/x HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n";
    let answer = through(&plane, "", &format!("{head}ZZ\r\nabc")).await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert!(answer.contains("x-vhttpd-error-class: bad_request\r\n"), "{answer}");
}

/// Answers each request at its head, reads on, and then says how much there was. What it says first
/// is large where the path says so.
fn answering_early() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serve = |mut stream: std::net::TcpStream| {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            if !matches!(stream.read(&mut byte), Ok(1)) {
                return;
            }
            head.push(byte[0]);
        }
        let mut reading = stream.try_clone().unwrap();
        let reads =
            std::thread::spawn(move || while reading.read(&mut [0; 4096]).is_ok_and(|n| n > 0) {});
        let large = if head.starts_with(b"POST /large") { LARGE } else { 5 };
        let _ = write!(stream, "{OK}content-length: {large}\r\n\r\n");
        let _ = stream.write_all(&vec![b'a'; large]);
        let _ = reads.join();
    };
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

/// More than the sockets of a connection hold.
const LARGE: usize = 32 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_of_a_request_that_was_answered_early_is_never_taken_for_another() {
    let plane = Plane::start().await;
    // It rests after a quarter of that.
    let egress = before(&plane, answering_early(), 400);
    let mut client = Client::connect(egress.local_addr(), plane.clock).await;
    let hidden = "GET /nowhere/hidden HTTP/1.1\r\nhost: h\r\n\r\n";
    let head = format!("content-length: {}\r\n\r\n", hidden.len() + 1);
    client.send(format!("POST /odd/x HTTP/1.1\r\nhost: h\r\n{head}x")).await;
    assert!(client.up_to("aaaaa").await.starts_with(OK));
    // So long that an idle connection would have come to rest.
    let wait = plane.clock.now() + std::time::Duration::from_millis(250);
    plane.clock.sleep_until(wait).await;
    client.send(hidden).await;
    client.send("GET /nowhere/asked HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n").await;
    let rest = client.rest().await;
    assert!(rest.starts_with("HTTP/1.1 404 "), "{rest}");
    assert_eq!(rest.matches("HTTP/1.1 ").count(), 1, "{rest}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_may_send_everything_before_it_reads_a_large_answer() {
    let plane = Plane::start().await;
    let egress = before(&plane, answering_early(), 75_000);
    let mut client = Client::connect(egress.local_addr(), plane.clock).await;
    let upload = LARGE;
    let head = format!("host: h\r\nconnection: close\r\ncontent-length: {upload}\r\n\r\n");
    client.send(format!("POST /odd/large HTTP/1.1\r\n{head}")).await;
    let limit = plane.clock.now() + std::time::Duration::from_secs(20);
    let sent = plane.clock.until(limit, client.send(vec![b'u'; upload])).await;
    assert!(sent.is_some(), "the upload stands still");
    let answer = client.rest().await;
    assert!(answer.starts_with(OK) && answer.ends_with('a'), "{}", answer.len());
    assert!(answer.len() > LARGE);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_with_trailers_is_whole() {
    let plane = Plane::start().await;
    let said = format!("{OK}transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nx-sum: 1\r\n\r\n");
    let answer = through(&plane, &said, GET).await;
    assert!(answer.ends_with("5\r\nhello\r\n0\r\n\r\n"), "{answer}");
    plane.until("it is over", || plane.recorder.in_flight() == 0).await;
    let events = plane.events().await;
    let call = events.iter().find(|event| event["type"] == "egress.request").unwrap();
    assert_eq!((&call["status"], &call["error_class"]), (&200.into(), &serde_json::Value::Null));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_has_nothing_more_to_say_gets_its_answer() {
    use tokio::io::AsyncWriteExt;
    let plane = Plane::start().await;
    let egress = before(&plane, saying(format!("{OK}content-length: 2\r\n\r\nhi")), 75_000);
    let chunked = "transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    for request in [
        "GET /odd/x HTTP/1.1\r\nhost: h\r\n\r\n".to_owned(),
        "POST /odd/x HTTP/1.0\r\ncontent-length: 3\r\n\r\nabc".to_owned(),
        "POST /odd/x HTTP/1.1\r\nhost: h\r\ncontent-length: 3\r\n\r\nabc".to_owned(),
        format!("POST /odd/x HTTP/1.1\r\nhost: h\r\n{chunked}"),
    ] {
        // The end is read at another step of the exchange each time.
        for _ in 0..30 {
            let mut client = Client::connect(egress.local_addr(), plane.clock).await;
            client.send(&request).await;
            client.tcp.shutdown().await.unwrap();
            let answer = client.rest().await;
            assert!(answer.ends_with("\r\n\r\nhi"), "{request:?}: {answer:?}");
        }
    }
    let mut client = Client::connect(egress.local_addr(), plane.clock).await;
    client.send("POST /odd/x HTTP/1.1\r\nhost: h\r\ncontent-length: 3\r\n\r\nab").await;
    client.tcp.shutdown().await.unwrap();
    client.rest().await;
    plane.until("the cut one is over", || plane.recorder.in_flight() == 0).await;
}
