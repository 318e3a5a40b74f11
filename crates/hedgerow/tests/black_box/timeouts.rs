//! Cases 18 to 21, 52 and 53: what a silent worker costs, and whom.

use crate::envelope::assert_failure;
use crate::server::Server;
use hedgerow_testkit::processes::alive;
use hedgerow_testkit::until::until;

/// The duration of an event, between its figure and ten times that.
fn assert_took(event: &serde_json::Value, figure: f64) {
    let took = event["duration_ms"].as_f64().expect("a number");
    assert!((figure..figure * 10.0).contains(&took), "{took} ms: {event}");
}

#[test]
fn case_18_a_silent_worker_is_a_504_and_the_event_says_read() {
    let server = Server::start("worker.read_timeout_ms = 300\nserver.request_timeout_ms = 20000");
    let mut client = server.connect();
    client.send("GET /hang?a=b HTTP/1.1\r\nhost: a\r\nx-trace-id: T-18\r\n\r\n");
    let response = client.response();
    assert_failure(&response, 504, "timeout");
    assert_eq!(response.header("x-vhttpd-trace-id"), Some("T-18"));
    let event = server.request_event("/hang");
    let wanted = [
        ("method", "GET"),
        ("trace_id", "T-18"),
        ("error_class", "timeout"),
        ("timeout_phase", "read"),
    ];
    for (field, value) in wanted {
        assert_eq!(event[field], value, "{event}");
    }
    assert_took(&event, 300.0);
}

#[test]
fn case_19_the_request_timeout_ends_what_the_read_timeout_allows() {
    let server = Server::start("worker.read_timeout_ms = 20000\nserver.request_timeout_ms = 300");
    assert_failure(&server.get("/hang"), 504, "timeout");
    let event = server.request_event("/hang");
    assert_eq!(event["timeout_phase"], "request", "{event}");
    assert_took(&event, 300.0);
    let runtime = server.admin("/admin/runtime");
    assert_eq!(runtime["stats"]["http_timeouts_total"], 1, "{runtime}");
}

#[test]
fn case_21_after_a_timeout_nobody_sees_the_late_answer_and_the_worker_is_gone() {
    let server = Server::start("worker.read_timeout_ms = 200");
    let old = server.workers()[0];
    let mut client = server.begin("/fault/late?ms=400");
    assert_failure(&client.response(), 504, "timeout");
    // On the same connection, which a gateway that mixes answers up would answer with "late".
    until("a worker again", || {
        client.get("/hello");
        let response = client.response();
        (response.status() == 200).then(|| assert_eq!(response.text(), "hello\n"))
    });
    until("the old worker is gone", || (!alive(old)).then_some(()));
    let killed = server.event("worker.killed", |event| event["pid"] == old);
    assert_eq!(killed["reason"], "timeout", "{killed}");
    assert_ne!(server.workers(), [old]);
    assert_eq!(server.metric("worker_restarts_total{reason=\"timeout\"}"), Some(1.0));
}

#[test]
fn case_52_a_client_that_leaves_does_not_free_its_worker() {
    let server = Server::start("worker.queue_capacity = 1\nworker.queue_timeout_ms = 10000");
    let frozen = server.freeze();
    let leaver = server.begin("/hello");
    server.wait_phase("working", 1);
    drop(leaver);
    let gone = server.request_event("/hello");
    assert_eq!((&gone["status"], &gone["error_class"]), (&499.into(), &"client_closed".into()));
    // The slot stays busy: the next request waits, and has the worker once the answer is there.
    let mut waiter = server.begin("/cookies");
    server.wait_phase("queued", 1);
    assert_eq!(server.admin("/admin/workers")["workers"][0]["state"], "busy");
    frozen.thaw();
    let response = waiter.response();
    assert_eq!((response.status(), response.text()), (200, "cookies"));
}

#[test]
fn case_52_nor_does_it_keep_it_beyond_the_read_timeout() {
    let server = Server::start(
        "worker.read_timeout_ms = 300\nworker.queue_capacity = 1\nworker.queue_timeout_ms = 10000",
    );
    let old = server.workers()[0];
    let leaver = server.begin("/hang");
    server.wait_phase("working", 1);
    drop(leaver);
    let mut waiter = server.begin("/hello");
    assert_eq!(waiter.response().text(), "hello\n");
    let killed = server.event("worker.killed", |event| event["pid"] == old);
    assert_eq!(killed["reason"], "timeout", "{killed}");
}

#[test]
fn case_52_the_same_after_a_request_timeout() {
    let server = Server::start(
        "server.request_timeout_ms = 200\nworker.read_timeout_ms = 10000\nworker.queue_capacity = 1\nworker.queue_timeout_ms = 10000",
    );
    let frozen = server.freeze();
    assert_failure(&server.get("/hello"), 504, "timeout");
    assert_eq!(server.admin("/admin/workers")["workers"][0]["state"], "busy");
    let old = server.workers();
    frozen.thaw();
    assert_eq!(server.get("/hello").text(), "hello\n");
    // The answer came in time for the worker, if not for its client.
    assert_eq!(server.workers(), old);
}

#[test]
fn case_53_no_number_of_timeouts_puts_the_pool_into_backoff() {
    let server = Server::start(
        "worker.read_timeout_ms = 100\nworker.pool_size = 4\nworker.queue_capacity = 200\nworker.queue_timeout_ms = 20000\nserver.request_timeout_ms = 20000",
    );
    let mut hanging: Vec<_> = (0..200).map(|_| server.begin("/hang")).collect();
    for client in &mut hanging {
        assert_failure(&client.response(), 504, "timeout");
    }
    assert_eq!(server.get("/hello").text(), "hello\n");
    let ended = server.stop();
    let count =
        |field: &str, value: &str| ended.events.iter().filter(|e| e[field] == value).count();
    assert_eq!(count("type", "worker.restart_scheduled"), 0);
    assert_eq!(count("timeout_phase", "read"), 200);
    let killed = |e: &&serde_json::Value| e["type"] == "worker.killed" && e["reason"] == "timeout";
    assert_eq!(ended.events.iter().filter(killed).count(), 200);
}
