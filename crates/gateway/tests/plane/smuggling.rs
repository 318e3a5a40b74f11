//! Case 50: what two readers could understand in two ways never reaches a worker.

use crate::client::status;
use crate::plane::Plane;

/// What becomes of a request.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Fate {
    /// Refused with this status, and the connection closes.
    Refused(u16),
    /// Understood in the one way RFC 9112 gives it; with the body the worker gets; then closed.
    OneWay(&'static str),
}
use Fate::{OneWay, Refused};

/// Behind every request, in case it can be smuggled.
const SECOND: &str = "GET /smuggled HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";

#[rustfmt::skip]
const TABLE: &[(&str, &str, Fate)] = &[
    // Lengths.
    ("length, then coding", "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", OneWay("x")),
    ("coding, then length", "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n1\r\nx\r\n0\r\n\r\n", OneWay("x")),
    ("two lengths that differ", "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx", Refused(400)),
    ("a list of lengths", "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1, 1\r\n\r\nx", Refused(400)),
    ("a signed length", "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: +1\r\n\r\nx", Refused(400)),
    ("a negative length", "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\nx", Refused(400)),
    ("a hexadecimal length", "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0x1\r\n\r\nx", Refused(400)),
    ("an empty length", "POST / HTTP/1.1\r\nhost: a\r\ncontent-length:\r\n\r\nx", Refused(400)),
    ("a length past 64 bits", "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 18446744073709551617\r\n\r\nx", Refused(400)),
    // Codings.
    ("another coding", "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip\r\n\r\nx", Refused(400)),
    ("identity", "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: identity\r\n\r\nx", Refused(400)),
    ("chunked last of two", "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n", Refused(400)),
    ("chunked first of two", "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n", Refused(400)),
    ("chunked twice", "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", Refused(400)),
    ("chunked with an x before", "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: xchunked\r\n\r\n0\r\n\r\n", Refused(400)),
    ("chunked with a vertical tab", "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: \x0bchunked\r\n\r\n0\r\n\r\n", Refused(400)),
    ("an empty coding", "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding:\r\n\r\n0\r\n\r\n", Refused(400)),
    ("chunked in HTTP/1.0", "POST / HTTP/1.0\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", Refused(400)),
    // Chunks.
    ("a line feed in a chunk extension", "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n1;a\nb\r\nx\r\n0\r\n\r\n", Refused(400)),
    ("a chunk size ended by a line feed", "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n1\nx\r\n0\r\n\r\n", Refused(400)),
    ("a chunk ended by a line feed", "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\n0\r\n\r\n", Refused(400)),
    ("a chunk longer than it says", "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n1\r\nxx\r\n0\r\n\r\n", Refused(400)),
    ("a chunk size with 0x", "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0x1\r\nx\r\n0\r\n\r\n", Refused(400)),
    ("a chunk size past 64 bits", "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n10000000000000001\r\nx\r\n0\r\n\r\n", Refused(400)),
    ("a negative chunk size", "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n-1\r\nx\r\n0\r\n\r\n", Refused(400)),
    // Lines and names.
    ("a space before the colon", "POST / HTTP/1.1\r\nhost: a\r\ncontent-length : 1\r\n\r\nx", Refused(400)),
    ("a name that is no token", "GET / HTTP/1.1\r\nhost: a\r\nx(y): 1\r\n\r\n", Refused(400)),
    ("an empty name", "GET / HTTP/1.1\r\nhost: a\r\n: 1\r\n\r\n", Refused(400)),
    ("a folded line", "GET / HTTP/1.1\r\nhost: a\r\nx-y: 1\r\n 2\r\n\r\n", Refused(400)),
    ("a first header that begins with a space", "GET / HTTP/1.1\r\n host: a\r\n\r\n", Refused(400)),
    ("a bare carriage return in a value", "GET / HTTP/1.1\r\nhost: a\r\nx-y: 1\r2\r\n\r\n", Refused(400)),
    ("a NUL in a value", "GET / HTTP/1.1\r\nhost: a\r\nx-y: \x00\r\n\r\n", Refused(400)),
    ("a NUL in the target", "GET /\x00 HTTP/1.1\r\nhost: a\r\n\r\n", Refused(400)),
    // Hosts and targets.
    ("no host", "GET / HTTP/1.1\r\n\r\n", Refused(400)),
    ("two hosts", "GET / HTTP/1.1\r\nhost: a\r\nhost: a\r\n\r\n", Refused(400)),
    ("an empty host", "GET / HTTP/1.1\r\nhost:\r\n\r\n", Refused(400)),
    ("a host with a path", "GET / HTTP/1.1\r\nhost: a/b\r\n\r\n", Refused(400)),
    ("a host with a user", "GET / HTTP/1.1\r\nhost: u@a\r\n\r\n", Refused(400)),
    ("a target without a slash", "GET x HTTP/1.1\r\nhost: a\r\n\r\n", Refused(400)),
    ("a target with a user", "GET http://u@a/ HTTP/1.1\r\nhost: a\r\n\r\n", Refused(400)),
    ("a target of another scheme", "GET ftp://a/ HTTP/1.1\r\nhost: a\r\n\r\n", Refused(400)),
    ("connect", "CONNECT a:443 HTTP/1.1\r\nhost: a:443\r\n\r\n", Refused(400)),
    ("a star for get", "GET * HTTP/1.1\r\nhost: a\r\n\r\n", Refused(400)),
    ("two spaces in the first line", "GET  / HTTP/1.1\r\nhost: a\r\n\r\n", Refused(400)),
    ("a method that is no token", "G(T / HTTP/1.1\r\nhost: a\r\n\r\n", Refused(400)),
    ("a version there is not", "GET / HTTP/1.2\r\nhost: a\r\n\r\n", Refused(400)),
    ("no version", "GET /\r\nhost: a\r\n\r\n", Refused(400)),
];

#[tokio::test]
async fn case_50_the_table() {
    let plane = Plane::start().await;
    let mut wrong = Vec::new();
    for &(what, request, fate) in TABLE {
        let before = plane.served();
        let answer = plane.raw(format!("{request}{SECOND}")).await;
        let seen = plane.stage.seen.lock().unwrap()[before..].to_vec();
        let right = match fate {
            Refused(code) => status(&answer) == code && seen.is_empty(),
            OneWay(body) => {
                status(&answer) == 200
                    && answer.contains("connection: close")
                    && seen.len() == 1
                    && seen[0].1 == body
                    && !seen[0].0.headers.contains_key("content-length")
            }
        };
        if !right || answer.matches("HTTP/1.1 ").count() != 1 {
            let paths: Vec<&str> = seen.iter().map(|(request, ..)| request.path.as_str()).collect();
            wrong.push(format!("{what}: wanted {fate:?}, got {answer:?}, seen {paths:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// RFC 9112 lets a reader take these; there is one way to understand each, so they are served.
#[tokio::test]
async fn what_is_odd_and_allowed() {
    let plane = Plane::start().await;
    let rows = [
        ("bare line feeds (2.2)", "GET /a HTTP/1.1\nhost: a\nconnection: close\n\n"),
        (
            "an empty line in front (2.2)",
            "\r\nGET /a HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
        ),
        (
            "the same length twice (6.3)",
            "POST /a HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 1\r\nconnection: close\r\n\r\nx",
        ),
        ("a star for options", "OPTIONS * HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"),
        (
            "a fragment, which is cut off",
            "GET /a#b HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
        ),
    ];
    for (what, request) in rows {
        let before = plane.served();
        assert_eq!(status(&plane.raw(request).await), 200, "{what}");
        let seen = plane.stage.seen.lock().unwrap();
        assert_eq!(seen.len(), before + 1, "{what}");
        assert!(["/a", "*"].contains(&seen[before].0.path.as_str()), "{what}");
    }
}
