//! What a client gets for what a worker says, and what a worker gets for what a client says.

use crate::client::{body, header, status};
use crate::plane::Plane;

#[tokio::test]
async fn a_plain_request() {
    let plane = Plane::start().await;
    let response = plane.get("/").await;
    assert_eq!(status(&response), 200);
    assert_eq!(header(&response, "content-length"), Some("5"));
    assert_eq!(header(&response, "content-type"), Some("text/plain"));
    assert_eq!(header(&response, "x-vhttpd-trace-id").map(str::len), Some(32));
    assert_eq!(header(&response, "x-request-id").map(str::len), Some(32));
    assert_eq!(body(&response), "hello");
    let events = plane.requests().await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["status"], 200);
}

#[tokio::test]
async fn case_42_ids_are_echoed_or_replaced_whole() {
    let plane = Plane::start().await;
    let ask = |headers: &str| {
        let head = format!(
            "GET /?trace_id=query HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{headers}\r\n"
        );
        let plane = &plane;
        async move { plane.raw(head).await }
    };
    let response = ask("x-request-id: r-1\r\nx-trace-id: t:1\r\n").await;
    assert_eq!(header(&response, "x-request-id"), Some("r-1"));
    assert_eq!(header(&response, "x-vhttpd-trace-id"), Some("t:1"));
    for odd in ["a b", "a\tb", &"x".repeat(129)] {
        let response = ask(&format!("x-trace-id: {odd}\r\n")).await;
        let trace = header(&response, "x-vhttpd-trace-id").unwrap();
        assert_eq!(trace.len(), 32, "{odd}");
    }
    assert_ne!(header(&ask("").await, "x-vhttpd-trace-id"), Some("query"));
}

#[tokio::test]
async fn case_10_and_40_a_reported_failure_gets_the_envelope_an_own_500_does_not() {
    let plane = Plane::start().await;
    let response = plane.get("/boom").await;
    assert_eq!(status(&response), 500);
    assert_eq!(body(&response), "Internal Server Error");
    assert_eq!(header(&response, "content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(header(&response, "x-vhttpd-error-class"), Some("worker_runtime_error"));
    assert_eq!(header(&response, "x-worker-error-class"), Some("worker_runtime_error"));
    assert_eq!(header(&response, "x-worker-exception"), Some("RuntimeException"));
    assert_eq!(header(&response, "cache-control"), Some("no-store"));
    assert!(header(&response, "proxy-status").unwrap().starts_with("hedgerow; error="));
    assert!(!response.contains("secret") && !response.contains("stack"), "{response}");
    let own = plane.get("/own500").await;
    assert_eq!((status(&own), body(&own)), (500, "the application's own"));
    assert_eq!(header(&own, "x-vhttpd-error-class"), None);
    let events = plane.requests().await;
    assert_eq!(events[0]["error_class"], "worker_runtime_error");
    assert!(events[0]["error_message"].as_str().unwrap().contains("secret in /srv/app.php:3"));
}

#[tokio::test]
async fn case_17_statuses_that_are_none() {
    let plane = Plane::start().await;
    for odd in ["99", "600", "101", "199", "\"abc\""] {
        let response = plane.get(&format!("/status/{}", odd.replace('"', "%22"))).await;
        // The quotes arrive encoded, so that one is no JSON at all.
        let expected = if odd.starts_with('"') { 502 } else { 500 };
        assert_eq!(status(&response), expected, "{odd}: {response}");
        if expected == 500 {
            assert_eq!(header(&response, "x-vhttpd-error-class"), Some("app_contract_error"));
        }
    }
}

#[tokio::test]
async fn headers_cannot_be_injected() {
    let plane = Plane::start().await;
    let response = plane.get("/inject").await;
    assert_eq!(status(&response), 500);
    assert_eq!(header(&response, "x-vhttpd-error-class"), Some("app_contract_error"));
    assert!(!response.contains("x-evil"), "{response}");
}

#[tokio::test]
async fn case_45_cookies_stay_lines_and_the_connections_headers_stay_here() {
    let plane = Plane::start().await;
    let mut client = plane.client().await;
    client.send("GET /cookies HTTP/1.1\r\nhost: a\r\nx-request-id: r\r\n\r\n").await;
    let response = client.up_to("abc").await;
    assert_eq!(response.matches("set-cookie: ").count(), 2, "{response}");
    assert!(response.contains("set-cookie: a=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT\r\n"));
    for absent in ["connection", "transfer-encoding", "x-vhttpd-error-class", "x-worker-error"] {
        assert_eq!(header(&response, absent), None, "{response}");
    }
    assert_eq!(header(&response, "content-length"), Some("3"));
    assert_eq!(header(&response, "x-request-id"), Some("r"));
    client.get("/").await;
    client.up_to("hello").await;
}

#[tokio::test]
async fn answers_without_a_body() {
    let plane = Plane::start().await;
    let mut client = plane.client().await;
    let rows = [
        ("HEAD", "200", Some("3")),
        ("GET", "204", None),
        ("GET", "205", Some("0")),
        ("GET", "304", None),
        ("HEAD", "404", Some("3")),
    ];
    for (method, code, length) in rows {
        client.send(format!("{method} /status/{code} HTTP/1.1\r\nhost: a\r\n\r\n")).await;
        let response = client.up_to("\r\n\r\n").await;
        assert_eq!(status(&response).to_string(), code, "{response}");
        assert_eq!(header(&response, "content-length"), length, "{method} {code}: {response}");
        assert_eq!(header(&response, "transfer-encoding"), None);
    }
    // A body where there must be none would stand in front of this answer.
    client.get("/").await;
    assert!(client.up_to("hello").await.starts_with("HTTP/1.1 200 OK\r\n"));
    client.send("HEAD /boom HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
    let response = client.rest().await;
    assert_eq!((status(&response), body(&response)), (500, ""));
}

#[tokio::test]
async fn a_large_body_comes_in_pieces_and_whole() {
    let plane = Plane::start().await;
    let response = plane.get("/big").await;
    assert_eq!(header(&response, "content-length"), Some("8388608"));
    assert_eq!(body(&response).len(), 8 << 20);
    let cut = plane.get("/short").await;
    assert_eq!(status(&cut), 200);
    assert!(body(&cut).len() < 300_000);
    let events = plane.events().await;
    assert!(events.iter().any(|event| event["type"] == "http.stream.error"), "{events:?}");
}

#[tokio::test]
async fn a_plan_is_not_served_yet() {
    let plane = Plane::start().await;
    let response = plane.get("/plan").await;
    assert_eq!(status(&response), 502);
    assert_eq!(header(&response, "x-vhttpd-error-class"), Some("unsupported_transport"));
}

#[tokio::test]
async fn case_39_with_no_worker_there_is_a_failure_and_nothing_else() {
    let plane = Plane::start().await;
    for path in ["/close", "/close"] {
        let response = plane.get(path).await;
        assert!([502, 503].contains(&status(&response)), "{response}");
        assert!(header(&response, "x-vhttpd-error-class").is_some());
    }
}

#[tokio::test]
async fn case_43_what_a_worker_gets() {
    let plane = Plane::start().await;
    plane
        .raw(concat!(
            "GET /users/42?trace_id=worker&a=1 HTTP/1.1\r\n",
            "Host: Example.org:8080\r\n",
            "Cookie: sid=abc\r\n",
            "X-Rep: 1\r\n",
            "X-Rep: 2\r\n",
            "X-Vhttpd-Trace-Id: forged\r\n",
            "X_Worker_Error: forged\r\n",
            "TE: trailers\r\n",
            "Keep-Alive: timeout=5\r\n",
            "X-Mine: secret\r\n",
            "X-Trace-Id: T\r\n",
            "Connection: close, X-Mine\r\n\r\n",
        ))
        .await;
    let seen = plane.stage.seen.lock().unwrap();
    let (request, _, frame) = &seen[0];
    assert_eq!(request.id, "T");
    assert_eq!(request.path, "/users/42");
    assert_eq!(request.query["trace_id"], "worker");
    assert_eq!(request.cookies["sid"], "abc");
    assert_eq!(request.headers["x-rep"], "1, 2");
    assert_eq!((request.host.as_str(), request.port.as_str()), ("Example.org", "8080"));
    assert_eq!((request.scheme.as_str(), request.protocol_version.as_str()), ("http", "1.1"));
    assert_eq!(request.remote_addr, "127.0.0.1");
    assert!(request.deadline_unix_ms.is_some());
    let names: Vec<&str> = request.header_list.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["host", "cookie", "x-rep", "x-rep", "x-trace-id"]);
    let text = std::str::from_utf8(frame).unwrap();
    assert!(!text.contains("forged") && !text.contains("secret"), "{text}");
}

#[tokio::test]
async fn the_host_of_an_absolute_target_wins() {
    let plane = Plane::start().await;
    plane.raw("GET http://real:81/x HTTP/1.1\r\nhost: other\r\nconnection: close\r\n\r\n").await;
    plane.raw("GET /old HTTP/1.0\r\n\r\n").await;
    let seen = plane.stage.seen.lock().unwrap();
    assert_eq!((seen[0].0.host.as_str(), seen[0].0.port.as_str()), ("real", "81"));
    assert_eq!(seen[0].0.headers["host"], "real:81");
    assert_eq!(seen[0].0.path, "/x");
    assert_eq!(seen[1].0.host, "127.0.0.1");
    assert_eq!(seen[1].0.protocol_version, "1.0");
}
