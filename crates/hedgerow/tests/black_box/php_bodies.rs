//! Cases 44, 45, 56 and 57, and a real application on PSR-7 and PSR-15: bytes to PHP and back.

use crate::envelope::assert_failure;
use crate::php::{config, in_repository, serving, sha1};
use crate::server::{Server, json};
use hedgerow_testkit::http::{Client, Response};

/// The application of the conformance suite, which needs no package.
fn conform() -> Server {
    Server::start(&config(&in_repository("sdk/php/conform/app.php")))
}

/// Bytes without a pattern that a buffer's size could hide in.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..length).map(|_| next()).collect()
}

/// A form with a field and a file.
fn form(field: &str, file: &[u8]) -> Vec<u8> {
    let head = format!(
        "--Bnd\r\nContent-Disposition: form-data; name=\"field\"\r\n\r\n{field}\r\n--Bnd\r\n\
         Content-Disposition: form-data; name=\"file\"; filename=\"eight.bin\"\r\n\
         Content-Type: application/octet-stream\r\n\r\n"
    );
    [head.as_bytes(), file, b"\r\n--Bnd--\r\n"].concat()
}

fn send_form(client: &mut Client, target: &str, body: &[u8]) -> Response {
    client.send(format!(
        "POST {target} HTTP/1.1\r\nhost: a\r\ncontent-type: multipart/form-data; boundary=Bnd\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    ));
    client.send(body);
    client.response()
}

#[test]
fn case_44_all_256_bytes_reach_php_and_come_back() {
    let server = conform();
    let all: Vec<u8> = (0..=255).collect();
    assert_eq!(server.post("/conform/sha1", &all).text(), sha1(&all));
    assert_eq!(server.post("/conform/echo", &all).body, all);
    assert_eq!(server.get("/conform/binary").body, all);
}

#[test]
fn case_45_two_cookies_of_php_are_two_lines() {
    let response = conform().get("/conform/cookies");
    let lines: Vec<_> = response.all("set-cookie").collect();
    assert_eq!(lines, ["a=1; Path=/; Expires=Wed, 21 Oct 2099 07:28:00 GMT", "b=2"]);
}

#[test]
fn case_56_the_first_request_of_a_fresh_worker_may_be_an_upload_of_8_mib() {
    let server = conform();
    let body = noise(8 << 20);
    let response = server.post("/conform/sha1", &body);
    assert_eq!((response.status(), response.text()), (200, sha1(&body).as_str()));
    assert_eq!(server.admin("/admin/workers")["workers"][0]["served_requests"], 1);
}

#[test]
fn case_57_a_form_with_a_file_is_seen_whole_and_a_broken_one_is_a_400_of_the_application() {
    let app = "return fn (array $r) => ['body' => json_encode([
        'field' => $r['parsed_body']['field'] ?? null,
        'sha1' => array_map(fn ($file) => sha1_file($file['path']), $r['uploaded_files'])])];";
    let server = serving(app, "");
    let worker = server.workers();
    let file = noise(8 << 20);
    let mut client = server.connect();
    let seen = json(send_form(&mut client, "/", &form("grün", &file)).text());
    assert_eq!(seen, serde_json::json!({ "field": "grün", "sha1": [sha1(&file)] }));
    let whole = form("x", b"file");
    let broken = send_form(&mut client, "/", &whole[..whole.len() - 8]);
    assert_eq!((broken.status(), broken.header("x-vhttpd-error-class")), (400, None), "{broken:?}");
    assert_eq!(send_form(&mut client, "/", &whole).status(), 200);
    assert_eq!(server.workers(), worker);
}

#[test]
fn text_that_is_none_reaches_php_and_breaks_nothing() {
    let server = serving(
        "return fn (array $r) => ['headers' => ['x-seen' => bin2hex($r['headers']['x-bad'] ?? '')],
            'body' => bin2hex($r['path']) . ' ' . bin2hex($r['query']['q'] ?? '')];",
        "",
    );
    let mut client = server.connect();
    client.send(b"GET /%ff%fe?q=%c3%28 HTTP/1.1\r\nhost: a\r\nx-bad: \xff\xfe\r\n\r\n");
    let response = client.response();
    assert_eq!(response.status(), 200, "{response:?}");
    // The path as it was sent, for the application to decode.
    let path: String = b"/%ff%fe".iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(response.text().starts_with(&path), "{response:?}");
    assert!(response.header("x-seen").is_some_and(|seen| !seen.is_empty()), "{response:?}");
}

/// The example on Debian's packages. A queue, since its worker sends the body of an answer to HEAD
/// too, and is busy until it has.
fn example() -> Server {
    let app = config(&in_repository("examples/php-psr15/app.php"));
    Server::start(&format!("{app}worker.queue_capacity = 5\nworker.queue_timeout_ms = 20000"))
}

#[test]
fn the_example_routes_and_speaks_json() {
    let server = example();
    let home = server.get("/");
    assert_eq!(home.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(home.text().contains("<h1>PSR-15 on Hedgerow</h1>"));
    assert!(home.header("server-timing").is_some_and(|timing| timing.starts_with("app;dur=")));
    let missing = server.get("/nowhere");
    assert_eq!((missing.status(), missing.text()), (404, "Not Found\n"));
    assert_eq!(missing.header("x-vhttpd-error-class"), None, "the application's own");
    let wrong = server.get("/upload");
    assert_eq!((wrong.status(), wrong.header("allow")), (405, Some("POST")));

    let items = json(server.get("/api/items").text());
    assert_eq!(items["items"][0]["name"], "hazel");
    let mut client = server.connect();
    let body = "{\"name\": \"hornbeam\"}";
    client.send(format!(
        "POST /api/items HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    ));
    let added = client.response();
    assert_eq!((added.status(), added.header("location")), (201, Some("/api/items/3")));
    assert_eq!(json(added.text()), serde_json::json!({ "id": 3, "name": "hornbeam" }));
    assert_eq!(server.post("/api/items", b"not json").status(), 422);
    assert_eq!(json(server.get("/api/items").text())["items"].as_array().unwrap().len(), 3);
}

#[test]
fn the_example_takes_an_upload_of_8_mib_and_returns_its_sha1() {
    let server = example();
    let file = noise(8 << 20);
    let seen = json(send_form(&mut server.connect(), "/upload", &form("hedge", &file)).text());
    let wanted = serde_json::json!({
        "field": "hedge", "filename": "eight.bin", "size": 8 << 20, "sha1": sha1(&file),
    });
    assert_eq!(seen, wanted);
}

#[test]
fn the_example_streams_forty_events_one_by_one() {
    let server = example();
    let mut client = server.begin("/events?pause_ms=20");
    let head = String::from_utf8(client.up_to(b"\r\n\r\n")).unwrap();
    assert!(head.contains("content-type: text/event-stream\r\n"), "{head}");
    assert!(head.contains("cache-control: no-store\r\n"), "{head}");
    client.up_to(b"id: 1\n");
    server.wait_phase("streaming", 1);
    client.up_to(b"id: 40\nevent: tick\ndata: {\"n\":40,\"of\":40}\n\n");
    client.up_to(b"\r\n0\r\n\r\n");
    let whole = server.get("/events");
    assert_eq!((whole.text().matches("event: tick\n").count(), whole.complete), (40, true));
}

#[test]
fn the_example_gives_a_download_of_20_mib() {
    let server = example();
    let download = server.get("/download");
    assert_eq!((download.status(), download.body.len()), (200, 20 << 20));
    assert_eq!(download.header("content-length"), Some("20971520"));
    let all: Vec<u8> = (0..=255).collect();
    assert!(download.body.chunks(256).all(|block| block == all));
    let mut client = server.connect();
    client.send("HEAD /download HTTP/1.1\r\nhost: a\r\n\r\n");
    let head = client.head_response();
    assert_eq!((head.status(), head.header("content-length")), (200, Some("20971520")));
    client.get("/api/items");
    assert_eq!(client.response().status(), 200);
    let ended = server.stop();
    assert!(ended.access.iter().all(|line| line["status"] == 200), "{:?}", ended.access);
    assert_eq!(ended.access[0]["bytes_out"], 20 << 20);
}

#[test]
fn a_silent_php_application_is_a_504_and_its_worker_is_replaced() {
    let app = "return fn (array $r) => $r['path'] === '/hang' ? sleep(60) : 'fine';";
    let server = serving(
        app,
        "worker.read_timeout_ms = 500\nworker.queue_capacity = 5\nworker.queue_timeout_ms = 20000\nserver.request_timeout_ms = 20000",
    );
    let old = server.workers();
    assert_failure(&server.get("/hang"), 504, "timeout");
    assert_eq!(server.get("/").text(), "fine");
    assert_ne!(server.workers(), old);
}
