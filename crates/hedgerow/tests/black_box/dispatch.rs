//! Streams in steps: the gateway keeps them open, and workers are free between two steps.

use crate::envelope::assert_failure;
use crate::php;
use crate::server::Server;
use hedgerow_testkit::until::until;

/// One worker, a queue for whoever meets it at a step, and the strategy.
fn server(lines: &str) -> Server {
    let queue = "worker.queue_capacity = 40\nworker.queue_timeout_ms = 4000\n";
    Server::start(&format!("worker.stream_dispatch = true\n{queue}{lines}"))
}

fn steps(server: &Server, event: &str) -> f64 {
    server.metric(&format!("dispatch_steps_total{{event=\"{event}\"}}")).unwrap_or_default()
}

fn wait_closed(server: &Server, line: &str) {
    server.event("worker.output", |event| event["line"] == line);
    until("no stream in steps", || (server.metric("dispatch_streams") == Some(0.0)).then_some(()));
}

#[test]
fn a_stream_in_steps_is_whole_and_what_is_not_taken_is_an_ordinary_request() {
    let server = server("");
    let sse = server.get("/dispatch?n=2");
    assert_eq!(sse.status(), 200, "{sse:?}");
    assert_eq!(sse.header("content-type"), Some("text/event-stream"));
    assert_eq!(
        (sse.header("x-steps"), sse.header("cache-control")),
        (Some("yes"), Some("no-cache"))
    );
    assert_eq!(
        sse.text(),
        "id: 1\nevent: tick\ndata: tick 1\n\nid: 2\nevent: tick\ndata: tick 2\n\n"
    );
    assert!(sse.complete);
    let text = server.get("/dispatch?n=3&as=text&empty=1");
    assert_eq!((text.text(), text.complete), ("line 1\nline 2\nline 3\n", true));
    assert_eq!(text.header("content-type"), Some("text/plain; charset=utf-8"));
    let plain = server.post("/echo", b"not taken");
    assert_eq!((plain.status(), plain.text()), (200, "not taken"));
    assert_eq!(steps(&server, "open"), 3.0);
    assert_eq!(steps(&server, "next"), 1.0 + 5.0);
    assert_eq!(steps(&server, "close"), 0.0, "what is done is not closed");
    assert_eq!(server.stats()["http_streams_total"], 2);
    assert_eq!(server.admin("/admin/runtime")["capabilities"]["stream_dispatch"], true);
    let ended = server.stop();
    let kinds: Vec<_> = ended.access.iter().map(|line| line["stream"].clone()).collect();
    assert_eq!(kinds, ["sse".into(), "text".into(), serde_json::Value::Null]);
}

#[test]
fn between_steps_the_worker_serves_others_and_a_client_that_leaves_closes_its_stream() {
    let server = server("");
    let mut quiet: Vec<_> = (0..20).map(|_| server.begin("/dispatch?empty=1000000")).collect();
    for client in &mut quiet {
        client.up_to(b"\r\n\r\n");
    }
    server.wait_phase("streaming", 20);
    assert_eq!(server.get("/hello").status(), 200, "one worker, and twenty streams");
    assert_eq!(server.metric("dispatch_streams"), Some(20.0));
    drop(quiet);
    wait_closed(&server, "closed after 0");
    assert_eq!(steps(&server, "close"), 20.0);
    // A HEAD request has its head, and no more.
    let mut client = server.connect();
    client.send("HEAD /dispatch HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n");
    let head = String::from_utf8(client.rest()).unwrap();
    assert!(head.contains("x-steps: yes") && head.ends_with("\r\n\r\n"), "{head}");
    until("its close", || (steps(&server, "close") == 21.0).then_some(()));
}

#[test]
fn a_stream_in_steps_outlives_its_worker() {
    let server = server("worker.max_requests = 2\nworker.max_requests_jitter = 0");
    let all = server.get("/dispatch?n=7&as=text");
    assert!(all.complete, "{all:?}");
    assert_eq!(all.text(), (1..=7).map(|n| format!("line {n}\n")).collect::<String>());
    server.event("worker.max_requests_reached", |_| true);
}

#[test]
fn an_early_failure_is_one_and_a_late_one_ends_the_stream() {
    let server = server("plan.state_limit = \"1KiB\"");
    assert_failure(&server.get("/dispatch?fail=1"), 500, "worker_runtime_error");
    assert_failure(&server.get("/dispatch?state=2000"), 500, "app_contract_error");
    let sse = server.get("/dispatch?fail=2");
    assert_eq!((sse.status(), sse.complete), (200, true));
    let (before, after) = sse.text().split_once("event: error\n").expect("an error event");
    assert!(
        before.contains("tick 1") && after.contains("\"error_class\":\"worker_runtime_error\"")
    );
    assert!(!sse.text().contains("told to fail"), "{}", sse.text());
    wait_closed(&server, "closed after 1");
    let mut client = server.begin("/dispatch?fail=2&as=text");
    let all = String::from_utf8(client.rest()).unwrap();
    assert!(all.contains("line 1\n") && !all.ends_with("0\r\n\r\n"), "aborted: {all}");
    let broken = server.event("http.stream.error", |event| event["status"].is_null());
    assert_eq!(broken["error_message"], "the step was told to fail", "{broken}");
}

#[test]
fn steps_that_bring_nothing_are_few_and_end() {
    let server = server("worker.stream_idle_timeout_ms = 400");
    let all = server.get("/dispatch?empty=1000000");
    assert!(all.text().contains("\"error_class\":\"timeout\""), "{all:?}");
    assert!(steps(&server, "next") <= 8.0, "{} steps", steps(&server, "next"));
    wait_closed(&server, "closed after 0");
    // A text of nothing is nothing.
    let mut client = server.begin("/dispatch?empty=1000000&as=text&hollow=1");
    assert!(client.rest().ends_with(b"\r\n\r\n"), "aborted");
    assert!(steps(&server, "next") <= 16.0, "{} steps", steps(&server, "next"));
    // As many as are allowed, and no more.
    let server = self::server("plan.max_open = 1");
    let mut held = server.begin("/dispatch?empty=1000000");
    held.up_to(b"\r\n\r\n");
    assert_failure(&server.get("/dispatch"), 503, "worker_pool_exhausted");
}

#[test]
fn php_makes_streams_in_steps() {
    let app = r#"return [
        'http' => fn (array $r) => 'plain ' . $r['path'] . ' ' . $r['body'],
        'stream' => function (array $e) {
            if ($e['path'] !== '/steps') { return null; }
            if ($e['event'] === 'close') { fwrite(STDERR, "closed at {$e['state']['n']}\n"); return ['done' => true]; }
            $said = $e['state']['said'] ?? $e['body'];
            $n = ($e['state']['n'] ?? 0) + 1;
            return ['chunks' => [['event' => 'said', 'id' => $n, 'data' => "$said $n"]],
                    'state' => ['n' => $n, 'said' => $said], 'done' => $n >= (int) $e['query']['n']];
        },
    ];"#;
    let lines = "worker.stream_dispatch = true\nworker.pool_size = 2\nworker.queue_capacity = 4\n\
                 worker.queue_timeout_ms = 10000";
    let server = php::serving(app, lines);
    let all = server.post("/steps?n=3", b"hello");
    assert_eq!(all.header("content-type"), Some("text/event-stream"), "{all:?}");
    let expected: String =
        (1..=3).map(|n| format!("id: {n}\nevent: said\ndata: hello {n}\n\n")).collect();
    assert_eq!((all.text(), all.complete), (expected.as_str(), true));
    assert_eq!(server.post("/other", b"body").text(), "plain /other body");
    let mut client = server.begin("/steps?n=100000000");
    client.up_to(b"id: 5\n");
    drop(client);
    server.event("worker.output", |event| {
        event["line"].as_str().is_some_and(|line| line.starts_with("closed at "))
    });
}
