//! Case 50, and text that is none: what two readers could understand in two ways never reaches a
//! worker.

use crate::server::{HEDGEROW, Server, json};

/// What becomes of a request.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Fate {
    /// 400, and the connection closes.
    Refused,
    /// The one reading of RFC 9112, then the connection closes.
    OneWay(&'static str),
}
use Fate::{OneWay, Refused};

/// Behind every request, in case it can be smuggled.
const SECOND: &[u8] = b"GET /smuggled HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";

const CHUNKED: &str = "transfer-encoding: chunked\r\n";
const NONE: &str = "\r\n0\r\n\r\n";
const ONE: &str = "\r\n1\r\nx\r\n0\r\n\r\n";

/// The lines behind `Host` of a POST, what follows them, and its fate.
const LINES: &[(&str, &str, Fate)] = &[
    ("content-length: 4\r\ntransfer-encoding: chunked\r\n", ONE, OneWay("x")),
    ("transfer-encoding: chunked\r\ncontent-length: 4\r\n", ONE, OneWay("x")),
    ("content-length: 1\r\ncontent-length: 2\r\n", "\r\nxx", Refused),
    ("content-length: 1, 1\r\n", "\r\nx", Refused),
    ("content-length: +1\r\n", "\r\nx", Refused),
    ("content-length: -1\r\n", "\r\nx", Refused),
    ("content-length: 0x1\r\n", "\r\nx", Refused),
    ("content-length:\r\n", "\r\nx", Refused),
    ("content-length: 18446744073709551617\r\n", "\r\nx", Refused),
    ("content-length : 1\r\n", "\r\nx", Refused),
    ("transfer-encoding: gzip\r\n", "\r\nx", Refused),
    ("transfer-encoding: identity\r\n", "\r\nx", Refused),
    ("transfer-encoding: gzip, chunked\r\n", NONE, Refused),
    ("transfer-encoding: chunked, identity\r\n", NONE, Refused),
    ("transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n", NONE, Refused),
    ("transfer-encoding: xchunked\r\n", NONE, Refused),
    ("transfer-encoding: \x0bchunked\r\n", NONE, Refused),
    ("transfer-encoding:\r\n", NONE, Refused),
    (CHUNKED, "\r\n1;a\nb\r\nx\r\n0\r\n\r\n", Refused),
    (CHUNKED, "\r\n1\nx\r\n0\r\n\r\n", Refused),
    (CHUNKED, "\r\n1\r\nx\n0\r\n\r\n", Refused),
    (CHUNKED, "\r\n1\r\nxx\r\n0\r\n\r\n", Refused),
    (CHUNKED, "\r\n0x1\r\nx\r\n0\r\n\r\n", Refused),
    (CHUNKED, "\r\n10000000000000001\r\nx\r\n0\r\n\r\n", Refused),
    ("x(y): 1\r\n", "\r\n", Refused),
    (": 1\r\n", "\r\n", Refused),
    ("x-y: 1\r\n 2\r\n", "\r\n", Refused),
    ("x-y: 1\r2\r\n", "\r\n", Refused),
    ("x-y: \0\r\n", "\r\n", Refused),
    ("host: b\r\n", "\r\n", Refused),
];

/// Whole heads, all refused.
const HEADS: &[&str] = &[
    "GET / HTTP/1.1\r\n\r\n",
    "GET / HTTP/1.1\r\nhost: a/b\r\n\r\n",
    "GET / HTTP/1.1\r\n host: a\r\n\r\n",
    "GET /\0 HTTP/1.1\r\nhost: a\r\n\r\n",
    "GET x HTTP/1.1\r\nhost: a\r\n\r\n",
    "GET ftp://a/ HTTP/1.1\r\nhost: a\r\n\r\n",
    "CONNECT a:443 HTTP/1.1\r\nhost: a:443\r\n\r\n",
    "GET * HTTP/1.1\r\nhost: a\r\n\r\n",
    "GET  / HTTP/1.1\r\nhost: a\r\n\r\n",
    "G(T / HTTP/1.1\r\nhost: a\r\n\r\n",
    "GET / HTTP/1.2\r\nhost: a\r\n\r\n",
    "GET /\r\nhost: a\r\n\r\n",
    "POST / HTTP/1.0\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
];

#[test]
fn case_50_the_smuggling_table() {
    let server = Server::start("");
    let lines = LINES.iter().map(|(lines, rest, fate)| {
        (format!("POST /echo HTTP/1.1\r\nhost: a\r\n{lines}{rest}"), *fate)
    });
    let heads = HEADS.iter().map(|head| ((*head).to_owned(), Refused));
    let (mut wrong, mut reached) = (Vec::new(), 0);
    for (request, fate) in lines.chain(heads) {
        let mut client = server.connect();
        client.send(&request);
        client.send(SECOND);
        let answer = String::from_utf8_lossy(&client.rest()).into_owned();
        let right = match fate {
            Refused => answer.starts_with("HTTP/1.1 400 "),
            OneWay(body) => {
                reached += 1;
                answer.starts_with("HTTP/1.1 200 ")
                    && answer.contains("connection: close\r\n")
                    && answer.ends_with(&format!("\r\n\r\n{body}"))
            }
        };
        if !right || answer.matches("HTTP/1.1 ").count() != 1 {
            wrong.push(format!("{request:?}: {fate:?}, but {answer:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(server.admin("/admin/workers")["workers"][0]["served_requests"], reached);
    let ended = server.stop();
    assert!(!ended.access.iter().any(|line| line["path"] == "/smuggled"));
}

#[test]
fn bytes_that_are_no_text_are_refused_or_travel_and_break_nothing() {
    let server =
        Server::start(&format!("worker.command = \"{HEDGEROW} stage worker --mode /envelope\""));
    let ask = |request: &[u8]| {
        let mut client = server.connect();
        client.send(request);
        client.rest()
    };
    // In the target: refused, or passed on as something that is text.
    for request in [
        &b"GET /a\xffb HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"[..],
        b"GET /a?x=\xff\xfe HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
        b"GET /a%ffb?x=%ff&%fe=1 HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
        b"GET /a HTTP/1.1\r\nhost: a\r\nx-bad: \xff\xfe\r\ncookie: a=\xff\r\nconnection: close\r\n\r\n",
        b"GET /a HTTP/1.1\r\nhost: a\xff\r\nconnection: close\r\n\r\n",
        b"GET /a HTTP/1.1\r\nhost: a\r\nx-trace-id: \xff\r\nx-request-id: \xff\r\nconnection: close\r\n\r\n",
    ] {
        let answer = ask(request);
        let shown = String::from_utf8_lossy(&answer).into_owned();
        assert_eq!(shown.matches("HTTP/1.1 ").count(), 1, "{shown}");
        if shown.starts_with("HTTP/1.1 200 ") {
            let (_, body) = shown.split_once("\r\n\r\n").unwrap();
            let envelope = json(body);
            assert!(envelope["path"].as_str().is_some_and(|path| path.starts_with("/a")), "{shown}");
        } else {
            assert!(shown.starts_with("HTTP/1.1 400 "), "{shown}");
        }
    }
    // In the body every byte is as good as another.
    let body = json(server.post("/x", b"\xc3\x28\xff").text());
    assert_eq!(body["body_length"], 3, "{body}");
    assert_eq!(server.get("/hello").status(), 200);
    // Reads every line of both logs, which must be text.
    let ended = server.stop();
    assert!(ended.access.len() >= 3);
}
