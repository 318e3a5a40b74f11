//! `to = "static"`: the files of a folder, and nothing beside them.

use crate::curl::curl;
use crate::envelope::assert_failure;
use crate::server::Server;
use hedgerow_testkit::http::Response;
use hedgerow_testkit::scratch::Scratch;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use std::os::unix::fs::symlink;
use std::process::Command;

const LONG: usize = 300_000;

/// `/s/*` leads to the folder `www`, `/robots.txt` to the folder `www`, anything else to the worker.
fn server() -> Server {
    let scratch = Scratch::new();
    let at = |name: &str| scratch.path().join(name);
    for folder in ["www/sub/.git", "www/empty", "outside"] {
        std::fs::create_dir_all(at(folder)).unwrap();
    }
    let long: Vec<u8> = (0..LONG).map(|n| (n % 251) as u8).collect();
    for (name, bytes) in [
        ("www/index.html", &b"<p>index"[..]),
        ("www/a b.css", b"p{}"),
        ("www/sub/index.html", b"<p>sub"),
        ("www/sub/.git/config", b"secret"),
        ("www/.env", b"secret"),
        ("www/nothing.txt", b""),
        ("www/robots.txt", b"User-agent: *\n"),
        ("www/long.bin", &long),
        ("outside/secret.txt", b"secret"),
        ("secret.txt", b"secret"),
    ] {
        std::fs::write(at(name), bytes).unwrap();
    }
    symlink("sub/index.html", at("www/inside.html")).unwrap();
    symlink("../outside/secret.txt", at("www/leaves.txt")).unwrap();
    symlink(at("www/index.html"), at("www/absolute.html")).unwrap();
    symlink("../outside", at("www/leaving")).unwrap();
    symlink("loop", at("www/loop")).unwrap();
    assert!(Command::new("mkfifo").arg(at("www/pipe")).status().unwrap().success());
    let routes = "\n[[route]]\npath = \"/s/*\"\nto = \"static\"\nroot = \"www\"\n\
                  [[route]]\npath = \"/robots.txt\"\nto = \"static\"\nroot = \"www\"\n";
    Server::start_in(scratch, routes, &[])
}

fn asked(server: &Server, line: &str, headers: &str) -> Response {
    let mut client = server.connect();
    client.send(format!("{line} HTTP/1.1\r\nhost: h\r\n{headers}\r\n"));
    if line.starts_with("HEAD") { client.head_response() } else { client.response() }
}

#[test]
fn files_have_their_type_their_version_and_their_parts() {
    let server = server();
    let index = server.get("/s/");
    assert_eq!((index.status(), index.text()), (200, "<p>index"));
    assert_eq!(index.header("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(index.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(server.get("/s/a%20b.css").header("content-type"), Some("text/css; charset=utf-8"));
    assert_eq!(server.get("/s/sub/").text(), "<p>sub");
    assert_eq!(server.get("/s/inside.html").text(), "<p>sub", "a link that stays inside");
    assert_eq!(server.get("/robots.txt").text(), "User-agent: *\n");
    assert_eq!(server.get("/hello").status(), 200, "the worker has the rest");
    let moved = server.get("/s/sub?a=b");
    assert_eq!((moved.status(), moved.header("location")), (301, Some("/s/sub/?a=b")));
    let empty = server.get("/s/nothing.txt");
    assert_eq!((empty.status(), empty.body.len(), empty.complete), (200, 0, true));

    let long = server.get("/s/long.bin");
    assert_eq!((long.status(), long.body.len(), long.complete), (200, LONG, true));
    assert!(long.body.iter().enumerate().all(|(at, byte)| usize::from(*byte) == at % 251));
    let head = asked(&server, "HEAD /s/long.bin", "");
    assert_eq!(head.header("content-length"), Some("300000"));
    let part = asked(&server, "HEAD /s/long.bin", "range: bytes=0-3\r\n");
    assert_eq!((part.status(), part.header("content-length")), (200, Some("300000")));
    let tag = long.header("etag").unwrap().to_owned();
    let date = long.header("last-modified").unwrap().to_owned();
    for known in [format!("if-none-match: {tag}\r\n"), format!("if-modified-since: {date}\r\n")] {
        let same = asked(&server, "HEAD /s/long.bin", &known);
        assert_eq!((same.status(), same.header("etag")), (304, Some(tag.as_str())), "{known}");
    }
    let other = asked(&server, "GET /s/long.bin", "if-match: \"x\"\r\nrange: bytes=4-\r\n");
    assert_eq!((other.status(), other.body.len()), (412, 0));
    let range = asked(&server, "GET /s/long.bin", "range: bytes=251-70000\r\n");
    assert_eq!((range.status(), range.body.len()), (206, 69_750));
    assert_eq!(range.header("content-range"), Some("bytes 251-70000/300000"));
    assert!(range.body.iter().enumerate().all(|(at, byte)| usize::from(*byte) == at % 251));
    let beyond = asked(&server, "GET /s/long.bin", "range: bytes=300000-\r\n");
    assert_eq!(beyond.header("content-range"), Some("bytes */300000"));
    assert_eq!(beyond.status(), 416);
    let post = server.post("/s/long.bin", b"x");
    assert_eq!((post.status(), post.header("allow")), (405, Some("GET, HEAD")));
    let over = curl(&["--http2-prior-knowledge", &format!("http://{}/s/long.bin", server.addr)]);
    assert_eq!((over.code, over.status, over.body.len()), (0, 200, LONG));

    let paths = server.stop().access.into_iter();
    let of = |line: &serde_json::Value| line["path"] == "/s/long.bin" && line["status"] == 200;
    let sent: Vec<u64> = paths.filter(of).map(|l| l["bytes_out"].as_u64().unwrap()).collect();
    assert_eq!(sent, [LONG as u64, 0, 0, LONG as u64], "GET, HEAD twice, and GET over HTTP/2");
}

#[test]
fn nothing_outside_the_folder_and_nothing_hidden_is_there() {
    let server = server();
    for path in [
        "/s/leaves.txt",
        "/s/leaving/secret.txt",
        "/s/absolute.html",
        "/s/loop",
        "/s/pipe",
        "/s/.env",
        "/s/%2Eenv",
        "/s/sub/.git/config",
        "/s//etc/passwd",
        "/s//",
        "/s/empty/",
        "/s/index.html/x",
        "/s/%00",
        "/s/gone",
        "/s/%252e%252e/secret.txt",
        "/s/...",
    ] {
        let mut client = server.connect();
        client.send(format!("GET {path} HTTP/1.1\r\nhost: h\r\n\r\n"));
        let answer = client.response();
        assert_failure(&answer, 404, "not_found");
        assert!(!String::from_utf8_lossy(&answer.body).contains("secret"), "{path}: {answer:?}");
    }
    for path in [
        "/s/../secret.txt",
        "/s/%2e%2e/secret.txt",
        "/s/..%2fsecret.txt",
        "/s/sub/../../secret.txt",
        "/s/sub/%2E%2E/%2E%2E/secret.txt",
        "/s/./index.html",
        "/s/..\\secret.txt",
    ] {
        assert_failure(&server.get(path), 400, "bad_request");
    }
    // A folder that is replaced is seen at the next request.
    std::fs::rename(server.scratch.path().join("www"), server.scratch.path().join("old")).unwrap();
    symlink("outside", server.scratch.path().join("www")).unwrap();
    assert_eq!(server.get("/s/secret.txt").text(), "secret");
    assert_failure(&server.get("/s/"), 404, "not_found");
}

#[test]
fn a_file_that_cannot_be_opened_is_not_a_file_that_is_not_there() {
    let server = server();
    let mut client = server.connect();
    let mut ask = |path: &str| {
        client.get(path);
        client.response()
    };
    assert_eq!(ask("/s/").text(), "<p>index");
    let pid = i32::try_from(server.pid()).ok().and_then(Pid::from_raw);
    let limit = |limit| prlimit(pid, Resource::Nofile, limit).expect("a process of ours");
    // No new descriptor; those that are open stay.
    let before = limit(Rlimit { current: Some(3), ..getrlimit(Resource::Nofile) });
    let answers = [ask("/s/"), ask("/s/gone")];
    limit(before);
    for answer in &answers {
        assert_failure(answer, 502, "transport_error");
        let said = answer.header("proxy-status").unwrap_or_default();
        assert!(said.contains("error=proxy_internal_error;"), "{answer:?}");
    }
    let event = server.request_event("/s/gone");
    assert!(event["error_message"].as_str().is_some_and(|m| m.contains("Too many open files")));
    assert_eq!(ask("/s/").text(), "<p>index");
    assert_failure(&ask("/s/gone"), 404, "not_found");
}
