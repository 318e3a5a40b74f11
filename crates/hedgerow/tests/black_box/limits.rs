//! Cases 49 and 58, and clients that send too much, too little or too slowly.

use crate::envelope::assert_failure;
use crate::server::{HEDGEROW, Server};
use hedgerow_testkit::http::Client;
use hedgerow_testkit::processes::resident;
use hedgerow_testkit::until::until;

#[test]
fn case_49_a_body_beyond_the_limit_is_a_413_before_a_worker_is_taken() {
    let server = Server::start("server.body_limit = 1000");
    assert_eq!(server.post("/echo", &[b'x'; 1000]).body.len(), 1000);
    assert_failure(&server.post("/echo", &[b'x'; 1001]), 413, "request_too_large");
    let mut chunked = server.connect();
    chunked.send("POST /echo HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3e8\r\n");
    chunked.send([b'x'; 1000]);
    chunked.send("\r\n1\r\nx\r\n0\r\n\r\n");
    assert_failure(&chunked.response(), 413, "request_too_large");
    assert_eq!(server.admin("/admin/workers")["workers"][0]["served_requests"], 1);
}

#[test]
fn case_49_who_expects_100_continue_gets_the_413_without_it() {
    let server = Server::start("server.body_limit = 1000");
    let expecting = |length: usize| {
        let mut client = server.connect();
        client.send(format!(
            "POST /echo HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: {length}\r\n\r\n"
        ));
        client
    };
    assert_failure(&expecting(1001).response(), 413, "request_too_large");
    let mut client = expecting(1000);
    assert_eq!(client.response().status(), 100);
    client.send([b'x'; 1000]);
    assert_eq!(client.response().body.len(), 1000);
}

#[test]
fn a_body_that_does_not_fit_a_worker_s_frame_is_a_413() {
    let server = Server::start(&format!(
        "server.body_limit = \"64MiB\"\nworker.command = \"{HEDGEROW} stage worker --no-capabilities\""
    ));
    assert_failure(&server.post("/sha1", &vec![b'x'; 17 << 20]), 413, "request_too_large");
    assert_eq!(server.post("/sha1", b"").text(), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    let able = Server::start("server.body_limit = \"64MiB\"");
    let body = vec![b'x'; 17 << 20];
    assert_eq!(able.post("/sha1", &body).text(), crate::php::sha1(&body));
}

#[test]
fn heads_that_are_too_large_are_refused_and_others_are_served() {
    let server = Server::start("");
    let line = format!("x-long: {}\r\n", "v".repeat(8000));
    let many: String = (0..5000).map(|n| format!("x-{n}: {n}\r\n")).collect();
    let rows = [
        ("many long lines", format!("GET / HTTP/1.1\r\nhost: a\r\n{}\r\n", line.repeat(100))),
        ("one endless line", format!("GET / HTTP/1.1\r\nhost: a\r\nx: {}", "v".repeat(1 << 20))),
        ("many short lines", format!("GET / HTTP/1.1\r\nhost: a\r\n{many}\r\n")),
        ("a long target", format!("GET /{} HTTP/1.1\r\nhost: a\r\n\r\n", "p".repeat(1 << 20))),
    ];
    for (what, request) in rows {
        let mut client = server.connect();
        client.send(&request);
        let answer = String::from_utf8_lossy(&client.rest()).into_owned();
        let refused =
            ["431", "414", "400"].iter().any(|s| answer.starts_with(&format!("HTTP/1.1 {s}")));
        assert!(answer.is_empty() || refused, "{what}: {answer:?}");
    }
    assert_eq!(server.admin("/admin/workers")["workers"][0]["served_requests"], 0);
    assert_eq!(server.get("/hello").status(), 200);
    let ended = server.stop();
    assert_eq!(ended.events.iter().filter(|e| e["type"] == "http.bad_head").count(), 4);
    assert_eq!(ended.access.len(), 1, "what is no request has no access line");
}

#[test]
fn clients_that_dribble_change_nothing_for_others_and_are_ended() {
    let server = Server::start("server.header_timeout_ms = 1000\nserver.body_timeout_ms = 1000");
    let mut heads: Vec<Client> = (0..5).map(|_| server.connect()).collect();
    let mut bodies: Vec<Client> = (0..5).map(|_| server.connect()).collect();
    for client in &mut heads {
        client.send("GET /slow HTTP/1.1\r\nhost: a\r\nx-s");
    }
    for client in &mut bodies {
        client.send("POST /slow HTTP/1.1\r\nhost: a\r\ncontent-length: 100000\r\n\r\n");
    }
    server.wait_phase("receiving", 5);
    // A byte each between any two requests of others: none of these holds the one worker.
    for _ in 0..20 {
        for client in heads.iter_mut().chain(&mut bodies) {
            client.send("l");
        }
        assert_eq!(server.get("/hello").text(), "hello\n");
    }
    for client in &mut bodies {
        assert_failure(&client.response(), 408, "request_timeout");
    }
    for client in &mut heads {
        let answer = String::from_utf8_lossy(&client.rest()).into_owned();
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{answer:?}");
    }
    let served = server.admin("/admin/workers")["workers"][0]["served_requests"].clone();
    assert_eq!(served, 20);
}

#[test]
fn case_58_slow_uploads_beyond_the_memory_for_bodies_go_to_disk() {
    let server = Server::start("server.body_memory = \"4MiB\"\nserver.body_limit = \"10MiB\"");
    assert_eq!(server.get("/hello").status(), 200);
    let before = resident(server.pid());
    let (length, most) = (10 << 20, (10 << 20) - 1);
    let body = vec![b'x'; length];
    let mut slow: Vec<Client> = (0..20).map(|_| server.connect()).collect();
    for client in &mut slow {
        client.send(format!("POST /sha1 HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n"));
        client.send(&body[..most]);
    }
    until("all but the last bytes have come", || {
        let requests = server.admin("/admin/requests");
        let receiving =
            requests["requests"].as_array()?.iter().filter(|r| r["phase"] == "receiving");
        (receiving.count() == 20).then_some(())
    });
    assert_eq!(server.get("/hello").status(), 200);
    // 200 MiB have come; in memory there may be 4, and the buffers of 20 connections.
    let grown = resident(server.pid()).saturating_sub(before);
    assert!(grown < 40 << 20, "{grown} bytes more");
    let digest = crate::php::sha1(&body);
    for client in &mut slow {
        client.send(b"x");
        let response = client.response();
        assert_eq!((response.status(), response.text()), (200, digest.as_str()));
    }
    assert!(server.metric("bodies_spooled_total").is_some_and(|spooled| spooled >= 19.0));
}
