//! Cases 1 to 9 and 17: what a worker can do to an exchange.

use crate::envelope::assert_failure;
use crate::server::Server;
use hedgerow_testkit::processes::resident;

#[test]
fn case_01_no_socket_is_a_transport_error() {
    let server = Server::start("worker.sockets = [\"run-nowhere.sock\"]");
    let response = server.get("/hello");
    assert_failure(&response, 502, "transport_error");
    let trace = response.header("x-vhttpd-trace-id").unwrap();
    assert_eq!(server.event("http.request", |e| e["trace_id"] == trace)["status"], 502);
}

#[test]
fn cases_02_to_08_an_exchange_that_breaks_is_a_transport_error_and_the_worker_is_replaced() {
    let server = Server::start("");
    let faults =
        ["close", "zero", "half", "notjson", "array", "number", "garbage", "nostatus", "wrongid"];
    for fault in faults {
        let old = server.wait_workers(1);
        assert_failure(&server.get(&format!("/fault/{fault}")), 502, "transport_error");
        let killed = server.event("worker.killed", |event| event["pid"] == old[0]);
        assert_eq!(killed["reason"], "fault", "{fault}: {killed}");
        let new = server.wait_workers(1);
        assert_ne!(new, old, "{fault}");
        assert_eq!(server.get("/hello").text(), "hello\n", "{fault}");
    }
    let ended = server.stop();
    // Faults are no crashes: each worker was replaced at once.
    assert!(!ended.events.iter().any(|e| e["type"] == "worker.restart_scheduled"));
    let failed: Vec<_> = ended.events.iter().filter(|e| e["status"] == 502).collect();
    assert_eq!(failed.len(), faults.len());
    for event in failed {
        assert_eq!(event["error_class"], "transport_error", "{event}");
        assert!(event["error_message"].as_str().is_some_and(|m| !m.is_empty()), "{event}");
    }
}

#[test]
fn case_04_a_length_beyond_16_mib_is_refused_and_costs_no_memory() {
    let server = Server::start("");
    assert_eq!(server.get("/hello").status(), 200);
    let before = resident(server.pid());
    assert_failure(&server.get("/fault/oversize"), 502, "transport_error");
    let grown = resident(server.pid()).saturating_sub(before);
    assert!(grown < 10 << 20, "{grown} bytes more for a frame that was refused");
}

#[test]
fn case_05_a_frame_of_exactly_16_mib_is_an_answer() {
    let server = Server::start("");
    let response = server.get("/fault/exact");
    assert_eq!(response.status(), 200);
    assert!(response.complete && response.body.len() > (16 << 20) - 200);
    assert!(response.body.iter().all(|byte| *byte == b'x'));
}

#[test]
fn case_09_a_worker_that_resets_while_it_is_written_to_is_a_transport_error() {
    let server = Server::start("");
    assert_failure(&server.post("/fault/reset", &vec![b'x'; 8 << 20]), 502, "transport_error");
    assert_eq!(server.request_event("/fault/reset")["bytes_in"], 8 << 20);
}

#[test]
fn case_17_a_status_that_http_does_not_allow_is_a_contract_error() {
    let server = Server::start("");
    for status in ["99", "600", "101", "abc", "-1", "0"] {
        let response = server.get(&format!("/fault/badstatus?status={status}"));
        assert_failure(&response, 500, "app_contract_error");
    }
}

#[test]
fn headers_that_a_worker_tries_to_inject_never_reach_a_client() {
    let server = Server::start("");
    for case in ["crlf", "nul", "name"] {
        let response = server.get(&format!("/headers?case={case}"));
        assert_failure(&response, 500, "app_contract_error");
        assert!(
            !response.head.contains("evil") && !response.head.contains("x-nul"),
            "{response:?}"
        );
    }
    let hop = server.get("/headers?case=hop");
    assert_eq!((hop.status(), hop.text()), (200, "headers"), "{hop:?}");
    assert_eq!(hop.all("content-length").collect::<Vec<_>>(), ["7"], "{hop:?}");
    for name in ["transfer-encoding", "keep-alive"] {
        assert_eq!(hop.header(name), None, "{hop:?}");
    }
    let forged = server.get("/headers?case=vhttpd");
    assert_eq!(forged.status(), 200);
    assert_eq!(forged.header("x-vhttpd-error-class"), None, "{forged:?}");
    assert_eq!(forged.all("x-vhttpd-trace-id").count(), 1, "{forged:?}");
    assert_ne!(forged.header("x-vhttpd-trace-id"), Some("forged"), "{forged:?}");
    assert_eq!(server.get("/hello").status(), 200);
}
