//! Case 51, and what an operator can see and do.

use crate::envelope::assert_failure;
use crate::server::{Server, json};
use hedgerow_testkit::http::{Client, Response};
use hedgerow_testkit::until::until;

fn asked(server: &Server, line: &str, headers: &str) -> Response {
    let mut client = Client::connect(server.admin);
    client
        .send(format!("{line} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n{headers}\r\n"));
    client.response()
}

#[test]
fn case_51_the_token_and_what_is_not_there() {
    let server = Server::start("admin.token = \"s3cret\"");
    // On the data plane there is no admin: the application answers, here that it has no such page.
    let own = server.get("/admin/runtime");
    assert_eq!((own.status(), own.text()), (404, "no such scene\n"));
    for headers in ["", "x-vhttpd-admin-token: wrong\r\n", "authorization: Bearer wrong\r\n"] {
        for line in [
            "GET /admin/runtime",
            "GET /admin/history",
            "GET /admin/stream",
            "POST /admin/workers/restart/all",
            "GET /nowhere",
        ] {
            let refused = asked(&server, line, headers);
            assert_eq!(refused.status(), 403, "{line} {headers}");
            assert_eq!(json(refused.text()), serde_json::json!({ "error": "forbidden" }));
        }
    }
    assert_eq!(asked(&server, "GET /health", "").status(), 200);
    // The page into which the token is typed needs none, and says nothing of this gateway.
    let page = asked(&server, "GET /", "");
    assert_eq!((page.status(), page.header("x-frame-options")), (200, Some("DENY")));
    assert!(page.header("content-security-policy").unwrap().starts_with("default-src 'none'"));
    for headers in ["x-vhttpd-admin-token: s3cret\r\n", "authorization: Bearer s3cret\r\n"] {
        assert_eq!(asked(&server, "GET /admin/runtime", headers).status(), 200);
    }
    let missing =
        asked(&server, "POST /admin/workers/restart?id=99", "x-vhttpd-admin-token: s3cret\r\n");
    assert_eq!(missing.status(), 404);
    assert!(missing.header("content-type").unwrap().starts_with("application/json"));
    assert_eq!(json(missing.text())["error"], "not_found");
    let elsewhere = asked(
        &server,
        "POST /admin/workers/restart/all",
        "x-vhttpd-admin-token: s3cret\r\norigin: http://evil.example\r\n",
    );
    assert_eq!(elsewhere.status(), 403);
    assert_eq!(server.get("/hello").status(), 200);
    let ended = server.stop();
    assert!(
        !ended
            .events
            .iter()
            .any(|event| event["type"] == "worker.retired" && event["reason"] != "shutdown")
    );
}

#[test]
fn workers_are_restarted_one_or_all() {
    let server = Server::start("worker.pool_size = 2");
    let first = server.wait_workers(2);
    let one = server.admin_request("POST /admin/workers/restart?id=1");
    assert_eq!(one.status(), 200, "{one:?}");
    let second = until("another worker 1", || {
        let now = server.workers();
        (now.len() == 2 && now[1] != first[1]).then_some(now)
    });
    assert_eq!(second[0], first[0]);
    assert_eq!(server.admin_request("POST /admin/workers/restart/all").status(), 200);
    until("two others", || {
        let now = server.workers();
        (now.len() == 2 && now.iter().all(|pid| !second.contains(pid))).then_some(())
    });
    assert_eq!(server.stats()["admin_actions_total"], 2);
    assert_eq!(server.get("/hello").status(), 200);
}

#[test]
fn the_live_table_shows_a_request_and_can_cancel_it() {
    let server = Server::start("worker.read_timeout_ms = 20000\nserver.request_timeout_ms = 20000");
    let mut client = server.connect();
    client.send("GET /hang HTTP/1.1\r\nhost: a\r\nx-trace-id: T:51\r\n\r\n");
    server.wait_phase("working", 1);
    let table = server.admin("/admin/requests");
    let row = &table["requests"][0];
    for (field, value) in [("trace_id", "T:51"), ("method", "GET"), ("path", "/hang")] {
        assert_eq!(row[field], value, "{table}");
    }
    assert_eq!(row["worker_id"], 0, "{table}");
    assert!((1..=20_000).contains(&row["deadline_ms"].as_i64().unwrap()), "{table}");
    assert_eq!(server.admin_request("POST /admin/requests/T:51/cancel").status(), 200);
    assert!(client.rest().is_empty(), "a cancelled request gets no answer");
    let event = server.request_event("/hang");
    assert_eq!(event["status"], 499, "{event}");
    assert_eq!(server.admin_request("POST /admin/requests/T:51/cancel").status(), 404);
}

#[test]
fn the_shapes_have_what_the_contract_promises() {
    let server = Server::start("worker.max_requests = 1000");
    assert_failure(&server.get("/error"), 500, "worker_runtime_error");
    let runtime = server.admin("/admin/runtime");
    for key in [
        "started_at_unix",
        "uptime_seconds",
        "tasks",
        "worker_pool_size",
        "worker_backend_mode",
        "worker_queue_capacity",
        "worker_queue_timeout_ms",
        "worker_queue_depth",
        "capabilities",
        "active_upstreams",
        "stats",
    ] {
        assert!(!runtime[key].is_null(), "{key}: {runtime}");
    }
    for key in [
        "http_requests_total",
        "http_errors_total",
        "http_timeouts_total",
        "http_streams_total",
        "admin_actions_total",
        "worker_queue_waits_total",
        "worker_queue_rejected_total",
        "worker_queue_timeouts_total",
        "upstream_plans_total",
        "upstream_plan_errors_total",
    ] {
        assert!(runtime["stats"][key].is_u64(), "{key}: {runtime}");
    }
    let workers = server.admin("/admin/workers");
    for key in ["worker_autostart", "worker_pool_size", "worker_max_requests", "worker_sockets"] {
        assert!(!workers[key].is_null(), "{key}: {workers}");
    }
    let worker = &workers["workers"][0];
    for key in [
        "id",
        "socket",
        "alive",
        "pid",
        "rss_kb",
        "draining",
        "inflight_requests",
        "served_requests",
        "restart_count",
        "next_retry_ts",
    ] {
        assert!(!worker[key].is_null(), "{key}: {workers}");
    }
    let labels =
        "http_requests_total{method=\"GET\",status=\"500\",error_class=\"worker_runtime_error\"}";
    assert_eq!(server.metric(labels), Some(1.0));
    assert_eq!(server.metric("workers{state=\"idle\"}"), Some(1.0));
    assert_eq!(server.admin_request("GET /ready").status(), 200);
}
