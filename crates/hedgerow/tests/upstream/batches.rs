//! Batches, asked for at the egress port and by a PHP application with one worker and no queue.

use crate::models::{Models, egress, endings, php, usage};
use crate::server::{Server, json};
use hedgerow_testkit::http::Client;
use hedgerow_testkit::until::until;
use serde_json::{Value, json as object};
use std::fmt::Display;
use std::net::SocketAddr;

/// A batch of what it is posted: `{"requests", "then", "deadline_ms", "state"}`.
const APP: &str = r#"
use Hedgerow\Batch;

return function (array $request) {
    $results = Batch::results($request);
    if ($results !== null) {
        return json_encode(['state' => Batch::state($request), 'results' => $results, 'posted' => strlen($request['body'])]);
    }
    if ($request['path'] === '/who') {
        return 'here';
    }
    $asked = json_decode($request['body'], true);
    $batch = Batch::of($asked['requests']);
    return ($asked['then'] ?? '') === 'resume'
        ? $batch->resume(state: $asked['state'] ?? [], deadlineMs: $asked['deadline_ms'] ?? null)
        : $batch->respond(deadlineMs: $asked['deadline_ms'] ?? null);
};
"#;

/// Posts a batch, to the port `at` and this path.
fn ask(at: SocketAddr, path: &str, accept: &str, batch: &impl Display) -> Client {
    let mut client = Client::connect(at);
    let body = batch.to_string();
    let length = body.len();
    client.send(format!("POST {path} HTTP/1.1\r\nhost: a\r\naccept: {accept}\r\n"));
    client.send(format!("content-length: {length}\r\n\r\n{body}"));
    client
}

fn whole(mut client: Client) -> Value {
    let response = client.response();
    assert_eq!(response.status(), 200, "{response:?}");
    json(response.text())
}

fn at(path: &str) -> Value {
    object!({"upstream": "models", "path": path})
}

/// Both ways to ask for the same.
fn both(server: &Server) -> [(SocketAddr, &'static str); 2] {
    [(server.addr, "/"), (egress(server), "/-/batch")]
}

#[test]
fn case_28_five_calls_one_of_them_silent() {
    let models = Models::start();
    let server = Server::start(&models.config("hedge = { after_ms = 200 }"));
    // In this order, which a map of this test's would sort.
    let calls = [("e", "/1"), ("d", "/2"), ("c", "/silent?attempt=1"), ("b", "/4"), ("a", "/5")];
    let calls = calls.map(|(key, path)| format!("\"{key}\":{}", at(path)));
    let batch = format!("{{\"requests\":{{{}}}}}", calls.join(","));
    let mut answer = ask(egress(&server), "/-/batch", "*/*", &batch);
    let answer = answer.response();
    let places: Vec<usize> = ["e", "d", "c", "b", "a"]
        .iter()
        .map(|key| answer.text().find(&format!("\"{key}\":{{")).expect("every key"))
        .collect();
    assert!(places.is_sorted(), "{answer:?}");
    let results = &json(answer.text())["results"];
    let told: Vec<&Value> = ["hedged", "winner", "attempts"].map(|n| &results["c"][n]).into();
    assert_eq!(told, [&object!(true), &object!("hedge"), &object!(2)]);
    assert_eq!((&results["a"]["hedged"], &results["a"]["attempts"]), (&false.into(), &1.into()));
    let (usage, recent) = usage(&server);
    assert_eq!(usage["attempts"], 6, "{usage}");
    let mut keys: Vec<&str> = recent.iter().filter_map(|key| key["key"].as_str()).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["a", "b", "c", "d", "e"]);
}

#[test]
fn case_30_a_batch_has_a_cap_of_its_own_and_loses_no_key() {
    let models = Models::start();
    let lines = "hedge = { after_ms = 200 }\nbudget = { ratio = 1.0, burst = 10 }";
    let server = Server::start(&models.config(&format!("{lines}\nbatch_max_hedges = 2")));
    let requests: serde_json::Map<String, Value> =
        (0..5).map(|n| (format!("k{n}"), at("/silent?ms=1000"))).collect();
    let results = whole(ask(egress(&server), "/-/batch", "*/*", &object!({"requests": requests})));
    for n in 0..5 {
        assert_eq!(results["results"][format!("k{n}")]["status"], 200, "{results}");
    }
    let (usage, _) = usage(&server);
    assert_eq!((&usage["hedges_fired"], &usage["suppressed"]["batch_cap"]), (&2.into(), &3.into()));
    assert_eq!(models.seen()["received"], 7);
}

#[test]
fn results_come_one_by_one_with_progress_to_those_who_take_them_so() {
    let models = Models::start();
    let lines = "hedge = { after_ms = 400 }\nbudget = { burst = 10 }";
    let server = php(APP, &models.config(lines));
    let batch = object!({"requests": {"slow": at("/silent?attempt=1"), "fast": at("/x")}});
    for (port, path) in both(&server) {
        let mut lines = ask(port, path, "application/x-ndjson", &batch);
        let fast = String::from_utf8(lines.up_to(b"}\n")).expect("text");
        assert!(fast.contains("\"key\":\"fast\"") && fast.contains("\"done\":1"), "{fast}");
        let slow = String::from_utf8(lines.up_to(b"}\n")).expect("text");
        assert!(slow.contains("\"key\":\"slow\"") && slow.contains("\"done\":2"), "{slow}");
        let mut events = ask(port, path, "text/event-stream", &batch);
        let response = events.response();
        assert_eq!(response.header("content-type"), Some("text/event-stream"));
        let told: Vec<&str> = response.text().split("\n\n").collect();
        assert!(told[0].starts_with("event: result\ndata: {\"key\":\"fast\","), "{response:?}");
        assert!(told[1].starts_with("event: result\ndata: {\"key\":\"slow\","), "{response:?}");
        assert_eq!(&told[2..], ["event: done\ndata: done", ""], "{response:?}");
    }
}

#[test]
fn a_resumed_request_has_its_state_its_results_and_its_body() {
    let models = Models::start();
    let server = php(APP, &models.config(""));
    let state = object!({"n": 7, "deep": {"list": [1, "two"]}});
    let batch = object!({
        "requests": {"a": at("/silent?ms=700"), "b": {"upstream": "models", "path": "/echo", "method": "POST", "body": "posted", "headers": {"content-type": "text/x"}}},
        "then": "resume", "state": state,
    });
    let parked = ask(server.addr, "/", "*/*", &batch);
    models.wait("the batch", "/silent", |calls| calls.len() == 1);
    assert_eq!(server.get("/who").text(), "here", "the one worker is free meanwhile");
    let answer = whole(parked);
    assert_eq!(answer["state"], state);
    assert_eq!(answer["posted"], batch.to_string().len());
    let echoed = &answer["results"]["b"];
    assert_eq!((&echoed["status"], &echoed["body"]), (&200.into(), &"posted".into()));
    assert_eq!(echoed["headers"]["content-type"], "text/x");
    assert_eq!(answer["results"]["a"]["error_class"], Value::Null, "{answer}");
}

#[test]
fn what_is_not_done_at_the_deadline_is_that_keys_timeout() {
    let models = Models::start();
    let server = php(APP, &models.config(""));
    for then in ["respond", "resume"] {
        let requests = object!({"never": at("/silent"), "fine": at("/x")});
        let batch = object!({"requests": requests, "deadline_ms": 600, "then": then});
        let results = &whole(ask(server.addr, "/", "*/*", &batch))["results"];
        let never = &results["never"];
        assert_eq!(
            (&never["status"], &never["error_class"]),
            (&504.into(), &"upstream_timeout".into())
        );
        assert_eq!(results["fine"]["status"], 200, "{results}");
    }
    models.wait("its end", "/silent", |calls| endings(calls) == ["cancelled", "cancelled"]);
}

#[test]
fn a_key_that_may_not_be_asked_fails_alone() {
    let models = Models::start();
    let server = php(APP, &models.config(""));
    let batch = object!({"requests": {
        "unknown": {"upstream": "nope", "path": "/"},
        "elsewhere": {"url": "http://169.254.169.254/latest/meta-data"},
        "fine": at("/x"),
        "broken": at("/status/503"),
    }});
    for (port, path) in both(&server) {
        let results = &whole(ask(port, path, "*/*", &batch))["results"];
        for key in ["unknown", "elsewhere"] {
            let told = (&results[key]["status"], &results[key]["error_class"]);
            assert_eq!(told, (&502.into(), &"upstream_forbidden".into()), "{results}");
        }
        assert_eq!(results["fine"]["status"], 200, "{results}");
        let broken = (&results["broken"]["status"], &results["broken"]["error_class"]);
        assert_eq!(broken, (&503.into(), &"upstream_error".into()), "{results}");
    }
}

#[test]
fn a_result_over_the_limit_is_that_keys_error_and_binary_ones_are_base64() {
    let models = Models::start();
    let lines = format!("plan.results_limit = \"4KiB\"\n{}", models.config(""));
    let server = php(APP, &lines);
    let large = format!("/script?1=data:{}", "x".repeat(5_000));
    for then in ["respond", "resume"] {
        let requests = object!({"large": at(&large), "bytes": at("/script?1=hex:00ff80fe"), "text": at("/script?1=data:t")});
        let batch = object!({"requests": requests, "then": then});
        let results = &whole(ask(server.addr, "/", "*/*", &batch))["results"];
        assert_eq!(results["large"]["error_class"], "upstream_error", "{results}");
        assert_eq!(results["large"]["body"].as_str().unwrap_or_default(), "", "{results}");
        assert_eq!(results["text"]["body"], "t", "{results}");
        let bytes = &results["bytes"];
        assert_eq!((&bytes["status"], &bytes["body"]), (&200.into(), &"AP+A/g==".into()));
        assert_eq!(bytes["body_encoding"], "base64", "{results}");
    }
}

#[test]
fn a_client_that_leaves_ends_its_calls() {
    let models = Models::start();
    let server = php(APP, &models.config(""));
    let mut left = 0;
    for then in ["respond", "resume"] {
        let batch = object!({"requests": {"a": at("/silent"), "b": at("/silent")}, "then": then});
        for (port, path) in both(&server) {
            let client = ask(port, path, "*/*", &batch);
            models.wait("two calls", "/silent", |calls| {
                endings(calls).iter().filter(|ended| **ended == "open").count() == 2
            });
            drop(client);
            left += 2;
            models.wait("their end", "/silent", |calls| endings(calls) == vec!["cancelled"; left]);
        }
    }
    until("no session is left", || {
        (server.admin("/admin/runtime/upstreams")["active_count"] == 0).then_some(())
    });
    // Nobody waits any more, so no worker was asked for it.
    assert_eq!(server.get("/who").text(), "here");
}

/// What is posted to the egress port and is no batch.
#[test]
fn what_is_no_batch_is_refused() {
    let models = Models::start();
    let server = Server::start(&models.config(""));
    for body in [object!([]), object!({"requests": {"a": {"path": "/"}}})] {
        let response = ask(egress(&server), "/-/batch", "*/*", &body).response();
        assert_eq!(response.status(), 400, "{body}: {response:?}");
    }
    let mut client = Client::connect(egress(&server));
    client.get("/-/batch");
    assert_eq!(client.response().status(), 404);
}
