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

/// Headers of HTTP/2 that an HTTP/1 reader behind us would understand otherwise (RFC 9113, 8.2 and
/// 8.3), written by hand since no library sends them.
#[tokio::test]
async fn http2_heads_that_would_change_their_meaning() {
    type Fields = &'static [(&'static str, &'static str)];
    let table: &[(&str, Fields)] = &[
        ("a transfer coding", &[("transfer-encoding", "chunked")]),
        ("a connection header", &[("connection", "close")]),
        ("an upgrade", &[("upgrade", "h2c")]),
        ("an upper-case name", &[("X-Y", "1")]),
        ("a line end in a value", &[("x-y", "1\r\nx-evil: 1")]),
        ("a line end in a name", &[("x-y\r\nx-evil", "1")]),
        ("a colon in a name", &[("x:y", "1")]),
        ("a NUL in a value", &[("x-y", "\0")]),
        ("a second path", &[(":path", "/b")]),
        ("an unknown pseudo header", &[(":x", "1")]),
        ("a pseudo header behind others", &[("x-y", "1"), (":authority", "b")]),
        ("two lengths", &[("content-length", "0"), ("content-length", "1")]),
        ("a length without its body", &[("content-length", "5")]),
        ("an odd length", &[("content-length", "+0")]),
        ("a host that differs", &[("host", "b")]),
        ("two hosts", &[("host", "a"), ("host", "a")]),
    ];
    let plane = Plane::start().await;
    let mut wrong = Vec::new();
    for (what, fields) in table {
        let mut head = vec![(":method", "GET"), (":scheme", "http"), (":path", "/a")];
        head.push((":authority", "a"));
        head.extend_from_slice(fields);
        let answer = http2_answer(&plane, &head).await;
        if answer.starts_with("20") || plane.served() > 0 {
            wrong.push(format!("{what}: {answer}"));
        }
    }
    for head in [
        &[(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "a b")][..],
        &[(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "")],
        &[(":method", "GET"), (":scheme", "http"), (":authority", "a")],
        &[(":method", "GET"), (":scheme", "http"), (":path", "/")],
        &[(":method", "GET"), (":scheme", "http"), (":authority", "u@a"), (":path", "/")],
        &[(":method", "G T"), (":scheme", "http"), (":authority", "a"), (":path", "/")],
        &[(":method", "CONNECT"), (":authority", "a:443")],
    ] {
        let answer = http2_answer(&plane, head).await;
        if answer.starts_with("20") || plane.served() > 0 {
            wrong.push(format!("{head:?}: {answer}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let good = [(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/a")];
    assert_eq!(http2_answer(&plane, &good).await, "200");
    assert_eq!(plane.served(), 1);
}

/// The status of the answer to a head, or how it was refused.
async fn http2_answer(plane: &Plane, head: &[(&str, &str)]) -> String {
    use tokio::io::AsyncReadExt;
    let mut block = Vec::new();
    for (name, value) in head {
        // A literal without indexing, its name spelt out (RFC 7541, 6.2.2).
        block.extend_from_slice(&[0, name.len() as u8]);
        block.extend_from_slice(name.as_bytes());
        block.push(value.len() as u8);
        block.extend_from_slice(value.as_bytes());
    }
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend_from_slice(&[0, 0, 0, 4, 0, 0, 0, 0, 0]);
    // END_STREAM and END_HEADERS, on stream 1.
    bytes.extend_from_slice(&[0, 0, block.len() as u8, 1, 5, 0, 0, 0, 1]);
    bytes.extend_from_slice(&block);
    let mut client = plane.client().await;
    client.send(bytes).await;
    loop {
        let mut prefix = [0; 9];
        if client.tcp.read_exact(&mut prefix).await.is_err() {
            return "closed".into();
        }
        let length = u32::from_be_bytes([0, prefix[0], prefix[1], prefix[2]]) as usize;
        let mut payload = vec![0; length];
        if client.tcp.read_exact(&mut payload).await.is_err() {
            return "closed".into();
        }
        match prefix[3] {
            3 => return "reset".into(),
            7 => return "goaway".into(),
            // The status comes first: a name of the static table, or with its value spelt out.
            1 => {
                let known = ["200", "204", "206", "304", "400", "404", "500"];
                return match payload.first() {
                    Some(&index @ 0x88..=0x8e) => known[usize::from(index - 0x88)].into(),
                    other => format!("another status, {other:?}"),
                };
            }
            _ => {}
        }
    }
}
