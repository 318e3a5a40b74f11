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
    let url = format!("http://{}", saying(answer.to_owned()));
    let builder = hedgerow_upstream::Client::builder().clock(plane.clock);
    let client = builder.build([Named::new("odd", [url.as_str()]).unwrap()]).unwrap();
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
    let egress =
        Egress::start(loopback, &Settings::default(), calls, recorder, plane.clock).unwrap();
    let mut client = Client::connect(egress.local_addr(), plane.clock).await;
    client.send(request).await;
    client.rest().await
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
