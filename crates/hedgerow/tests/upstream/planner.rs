//! The planner reads what the gateway writes down about its own calls.

use crate::models::{Models, through};
use crate::server::{HEDGEROW, Server};
use hedgerow_testkit::until::until;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

fn plan(file: &Path, upstream: &str) -> Value {
    let mut command = Command::new(HEDGEROW);
    command.args(["plan", "hedge", "--json", "--upstream", upstream]).arg(file);
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Twenty calls of which four are rescued by a twin: 24 attempts, the four that lost were cut off.
#[test]
fn the_ledger_of_a_gateway_is_read_as_it_is() {
    let models = Models::start();
    let other = "[upstream.other]\nurl = \"http://127.0.0.1:9\"";
    let server = Server::start(&format!("{}\n{other}", models.config("hedge.after_ms = 150")));
    for n in 0..20 {
        let first = if n % 5 == 4 { "wait" } else { "wait:10" };
        let answer = through(&server, &format!("/models/script?1={first}&2=wait:10"));
        assert_eq!(answer.status(), 200);
    }
    through(&server, "/other/x");
    let keys = |usage: &Value| usage["recent"].as_array().map_or(0, Vec::len);
    let usage = until("every call is in the ledger", || {
        Some(server.admin("/admin/usage")).filter(|usage| keys(usage) == 21)
    });
    let file = server.scratch.file("usage.json", usage.to_string());
    let plan = plan(&file, "models");
    assert_eq!(plan["samples"], 24, "{plan}");
    assert_eq!(plan["source"], "ledger, attempts of upstream models");
    let warnings = plan["warnings"].to_string();
    assert!(warnings.contains("4 of 24 durations were cut off"), "{warnings}");
    let median = plan["baseline"]["p50"].as_f64().expect("a number");
    assert!((0.010..0.150).contains(&median), "{plan}");
}

/// What the event log says of requests, beside everything else that is in it.
#[test]
fn the_event_log_of_a_gateway_is_read_as_it_is() {
    let server = Server::start("");
    for path in ["/hello", "/hello", "/sleep?ms=80", "/error"] {
        server.get(path);
    }
    let events = until("every request is in the event log", || {
        let events = server.events();
        let requests = events.iter().filter(|event| event["type"] == "http.request").count();
        (requests == 4).then_some(events)
    });
    assert!(events.len() > 4, "{events:?}");
    let lines: String = events.iter().map(|event| format!("{event}\n")).collect();
    let file = server.scratch.file("all.ndjson", lines);
    let output = Command::new(HEDGEROW).args(["plan", "hedge", "--json"]).arg(&file).output();
    let plan: Value = serde_json::from_slice(&output.expect("it runs").stdout).expect("JSON");
    assert_eq!(plan["samples"], 3, "{plan}");
    assert_eq!(plan["source"], "event log, http.request, member duration_ms");
    assert!(plan["warnings"].to_string().contains("1 failed calls were left out"), "{plan}");
    assert!(plan["baseline"]["p99"].as_f64() >= Some(0.08), "{plan}");
}

/// Where the event log has calls to upstreams, they count, and requests do not.
#[test]
fn an_event_log_with_calls_is_about_calls() {
    let models = Models::start();
    let server = Server::start(&models.config("hedge.after_ms = 150"));
    for n in 0..10 {
        let first = if n % 5 == 4 { "wait" } else { "wait:10" };
        through(&server, &format!("/models/script?1={first}&2=wait:10"));
    }
    for _ in 0..7 {
        assert_eq!(server.get("/hello").status(), 200);
    }
    let events = until("everything is in the event log", || {
        let events = server.events();
        let of = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
        (of("upstream.call") == 10 && of("http.request") >= 7).then_some(events)
    });
    let lines: String = events.iter().map(|event| format!("{event}\n")).collect();
    let all = server.scratch.file("all.ndjson", lines);
    let calls = plan(&all, "models");
    assert_eq!(calls["samples"], 12, "{calls}");
    assert_eq!(calls["source"], "event log, upstream.call, attempts of upstream models");
    assert!(calls["warnings"].to_string().contains("2 of 12 durations were cut off"), "{calls}");
}
