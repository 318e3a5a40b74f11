//! Cases 22 to 28 and 59: who waits for a worker, how long, and who does not.

use crate::envelope::assert_failure;
use crate::server::Server;
use hedgerow_testkit::until::until;

/// Duration of the one event with this class.
fn duration(server: &Server, class: &str) -> f64 {
    let event = server.event("http.request", |event| event["error_class"] == class);
    event["duration_ms"].as_f64().expect("a number")
}

#[test]
fn cases_22_23_59_without_a_queue_a_busy_pool_refuses_at_once() {
    let rows = [
        "worker.queue_capacity = 0\nworker.queue_timeout_ms = 5000",
        "worker.queue_capacity = 5\nworker.queue_timeout_ms = 0",
        "worker.queue_capacity = -1\nworker.queue_timeout_ms = 5000",
        "worker.queue_capacity = 5\nworker.queue_timeout_ms = -5",
    ];
    for lines in rows {
        let server = Server::start(lines);
        let frozen = server.freeze();
        let mut busy = server.begin("/hello");
        server.wait_phase("working", 1);
        assert_failure(&server.get("/second"), 503, "worker_pool_exhausted");
        assert!(duration(&server, "worker_pool_exhausted") < 200.0, "{lines}");
        let stats = server.stats();
        for counter in ["waits", "rejected", "timeouts"] {
            assert_eq!(stats[format!("worker_queue_{counter}_total")], 0, "{lines}: {stats}");
        }
        frozen.thaw();
        assert_eq!(busy.response().status(), 200);
    }
}

#[test]
fn cases_24_27_28_two_wait_one_is_refused_and_the_counters_say_so() {
    let server = Server::start("worker.queue_capacity = 2\nworker.queue_timeout_ms = 10000");
    let frozen = server.freeze();
    let mut served = server.begin("/hello");
    server.wait_phase("working", 1);
    let mut waiting = [server.begin("/hello"), server.begin("/hello")];
    server.wait_phase("queued", 2);
    assert_failure(&server.get("/refused"), 503, "worker_queue_full");
    assert!(duration(&server, "worker_queue_full") < 200.0);

    let runtime = server.admin("/admin/runtime");
    assert_eq!(runtime["worker_queue_capacity"], 2, "{runtime}");
    assert_eq!(runtime["worker_queue_timeout_ms"], 10000, "{runtime}");
    assert_eq!(runtime["worker_queue_depth"], 2, "{runtime}");
    let stats = &runtime["stats"];
    assert_eq!(stats["worker_queue_waits_total"], 2, "{runtime}");
    assert_eq!(stats["worker_queue_rejected_total"], 1, "{runtime}");
    assert_eq!(stats["worker_queue_timeouts_total"], 0, "{runtime}");
    assert_eq!(server.metric("worker_queue_depth"), Some(2.0));

    frozen.thaw();
    assert_eq!(served.response().status(), 200);
    for client in &mut waiting {
        assert_eq!(client.response().status(), 200);
    }
    assert_eq!(server.admin("/admin/runtime")["worker_queue_depth"], 0);
    assert_eq!(server.metric("worker_queue_depth"), Some(0.0));
    assert_eq!(server.metric("worker_queue_wait_seconds_count"), Some(2.0));
}

#[test]
fn case_25_waiters_are_served_in_the_order_of_their_coming() {
    let server = Server::start("worker.queue_capacity = 3\nworker.queue_timeout_ms = 10000");
    let frozen = server.freeze();
    let mut first = server.begin("/hello");
    server.wait_phase("working", 1);
    let traces = ["first", "second", "third"];
    let mut waiting = Vec::new();
    for (waiters, trace) in traces.iter().enumerate() {
        let mut client = server.connect();
        // So long that the order of the ends is that of the beginnings.
        client
            .send(format!("GET /sleep?ms=100 HTTP/1.1\r\nhost: a\r\nx-trace-id: {trace}\r\n\r\n"));
        waiting.push(client);
        server.wait_phase("queued", waiters + 1);
    }
    frozen.thaw();
    assert_eq!(first.response().status(), 200);
    for client in &mut waiting {
        assert_eq!(client.response().status(), 200);
    }
    let ended = server.stop();
    let sleepers = ended.access.iter().filter(|line| line["path"] == "/sleep");
    let served: Vec<_> = sleepers.map(|line| line["trace_id"].as_str().unwrap()).collect();
    assert_eq!(served, traces);
    // Each had to wait, and the event says how long.
    let waited = |e: &&serde_json::Value| e["queue_wait_ms"].as_f64().is_some_and(|ms| ms > 0.0);
    assert_eq!(ended.events.iter().filter(waited).count(), 3);
}

#[test]
fn case_26_a_wait_ends_at_its_own_bound_and_not_with_the_worker() {
    let server = Server::start(
        "worker.queue_capacity = 2\nworker.queue_timeout_ms = 100\nworker.read_timeout_ms = 20000\nserver.request_timeout_ms = 20000",
    );
    let frozen = server.freeze();
    let mut busy = server.begin("/hello");
    server.wait_phase("working", 1);
    assert_failure(&server.get("/waiter"), 504, "worker_queue_timeout");
    let took = duration(&server, "worker_queue_timeout");
    assert!((100.0..1000.0).contains(&took), "{took} ms");
    let event = server.request_event("/waiter");
    assert_eq!(event["timeout_phase"], "queue", "{event}");
    assert_eq!(server.stats()["worker_queue_timeouts_total"], 1);
    frozen.thaw();
    assert_eq!(busy.response().status(), 200);
}

#[test]
fn a_wait_that_the_deadline_cuts_short_is_a_queue_timeout_too() {
    let server = Server::start(
        "worker.queue_capacity = 2\nworker.queue_timeout_ms = 20000\nworker.read_timeout_ms = 20000\nserver.request_timeout_ms = 200",
    );
    let frozen = server.freeze();
    let mut busy = server.begin("/hello");
    server.wait_phase("working", 1);
    assert_failure(&server.get("/waiter"), 504, "worker_queue_timeout");
    assert_failure(&busy.response(), 504, "timeout");
    frozen.thaw();
    until("the worker is idle", || (server.in_phase("working") == 0).then_some(()));
}

#[test]
fn a_waiter_whose_client_has_gone_is_passed_over() {
    let server = Server::start("worker.queue_capacity = 2\nworker.queue_timeout_ms = 10000");
    let frozen = server.freeze();
    let mut busy = server.begin("/hello");
    server.wait_phase("working", 1);
    let leaver = server.begin("/fault/exit");
    server.wait_phase("queued", 1);
    let mut stays = server.begin("/cookies");
    server.wait_phase("queued", 2);
    drop(leaver);
    assert_eq!(server.request_event("/fault/exit")["status"], 499);
    frozen.thaw();
    assert_eq!(busy.response().status(), 200);
    assert_eq!(stays.response().status(), 200);
    // The worker would have died of the request of the one who left.
    assert!(!server.events().iter().any(|event| event["type"] == "worker.exited"));
}
