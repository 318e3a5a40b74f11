//! Plans, batches and the egress port over a scripted upstream.

use crate::client::Client;
use crate::plane::Plane;
use hedgerow_gateway::{Calls, Egress, Settings};
use hedgerow_policy::hedge::HedgeConfig;
use hedgerow_policy::queue::QueueConfig;
use hedgerow_stage::upstream::Upstream;
use hedgerow_upstream::{AllowList, Opened, PlanSettings, Settings as Named};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::time::Duration;

/// Calls to a scripted upstream named `models`, hedged after 150 ms.
fn calls(plane: &Plane) -> Calls {
    let upstream = Upstream::start("127.0.0.1:0", "models").unwrap();
    let url = format!("http://{}", upstream.address());
    let mut models = Named::new("models", [url.as_str()]).unwrap();
    let after = Some(Duration::from_millis(150));
    models.race.hedge = Some(HedgeConfig { after, after_quantile: None, ..HedgeConfig::default() });
    let builder = hedgerow_upstream::Client::builder().clock(plane.clock);
    let client = builder.build([models]).unwrap();
    let settings = PlanSettings {
        allow: AllowList::default(),
        fixture_root: None,
        max_open: 100,
        results_limit: 1 << 20,
        state_limit: 1 << 10,
        calls: Named::anywhere(),
    };
    Calls::new(Opened::new(client, settings).unwrap())
}

async fn planned() -> Plane {
    let plane = Plane::start().await;
    plane.gateway.make_calls(calls(&plane));
    plane
}

fn plan(extra: &Value) -> String {
    let mut plan = json!({
        "mode": "stream", "strategy": "upstream_plan", "event": "start", "upstream": "models",
        "codec": "ndjson", "meta": {"field_path": "message.content"},
    });
    for (name, value) in extra.as_object().unwrap() {
        plan[name] = value.clone();
    }
    plan.to_string()
}

async fn post(client: &mut Client, path: &str, body: &str, headers: &str) -> String {
    let length = body.len();
    let head = format!("POST {path} HTTP/1.1\r\nhost: h\r\n{headers}content-length: {length}\r\n");
    client.send(format!("{head}connection: close\r\n\r\n{body}")).await;
    client.rest().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_is_streamed_and_the_worker_is_free_meanwhile() {
    let plane = planned().await;
    let body = plan(&json!({"path": "/model?n=3&ms=1"}));
    let answer = post(&mut plane.client().await, "/frame", &body, "").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("content-type: text/plain; charset=utf-8\r\n"), "{answer}");
    for piece in ["The\r\n", " hedge\r\n", " is\r\n", "\r\n0\r\n\r\n"] {
        assert!(answer.contains(piece), "{piece:?} in {answer}");
    }
    let events = plan(&json!({"path": "/model?n=2&ms=1", "mapper": "ndjson_sse_field"}));
    let answer = post(&mut plane.client().await, "/frame", &events, "").await;
    assert!(answer.contains("id: tok-1\nevent: token\ndata: The\n\n"), "{answer}");
    assert!(answer.contains("id: done-3\nevent: done\ndata: done\n\n"), "{answer}");
    // One worker and no more: while a plan stalls, others are served.
    let stalls = plan(&json!({"path": "/headers"}));
    let mut waiting = plane.client().await;
    let head =
        format!("POST /frame HTTP/1.1\r\nhost: h\r\ncontent-length: {}\r\n\r\n", stalls.len());
    waiting.send(head + &stalls).await;
    let other = plan(&json!({"path": "/model?n=1&ms=1"}));
    let answer = post(&mut plane.client().await, "/frame", &other, "").await;
    assert!(answer.contains("The\r\n"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_stalls_is_rescued_and_one_that_fails_has_its_form() {
    let plane = planned().await;
    let mut client = plane.client().await;
    let slow = plan(&json!({"path": "/silent?attempt=1", "codec": "raw", "mapper": "raw"}));
    let answer = post(&mut client, "/frame", &slow, "").await;
    assert!(answer.contains("\"hedgerow-attempt\":\"2\""), "{answer}");
    assert!(answer.contains("content-type: application/json\r\n"), "{answer}");

    let refused = plan(&json!({"path": "/status/500"}));
    let answer = post(&mut plane.client().await, "/frame", &refused, "").await;
    assert!(answer.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{answer}");
    assert!(answer.contains("x-vhttpd-error-class: upstream_error\r\n"), "{answer}");
    let events = plan(&json!({"path": "/status/500", "mapper": "ndjson_sse_field"}));
    let answer = post(&mut plane.client().await, "/frame", &events, "").await;
    assert!(answer.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{answer}");
    assert!(answer.contains("content-type: text/event-stream\r\n"), "{answer}");
    assert!(answer.contains("event: error\n") && answer.contains("event: done\n"), "{answer}");

    let breaks = plan(&json!({"path": "/model?n=9&ms=1&nonsense=3"}));
    let answer = post(&mut plane.client().await, "/frame", &breaks, "x-trace-id: T7\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("\n[upstream_error T7]\n"), "{answer}");

    // Where the client takes trailers, one names the class.
    let answer = post(&mut plane.client().await, "/frame", &breaks, "te: Trailers\r\n").await;
    assert!(answer.contains("\r\ntrailer: x-vhttpd-error-class\r\n"), "{answer}");
    let ending = "\r\n0\r\nx-vhttpd-error-class: upstream_error\r\n\r\n";
    assert!(answer.ends_with(ending), "{answer}");
    let whole = plan(&json!({"path": "/model?n=1&ms=1"}));
    let answer = post(&mut plane.client().await, "/frame", &whole, "te: trailers\r\n").await;
    assert!(answer.ends_with("\r\n0\r\n\r\n"), "{answer}");
    let mut sender = crate::http2::speak(plane.client().await.tcp).await;
    let mut request = crate::http2::get("/frame");
    *request.method_mut() = http::Method::POST;
    *request.body_mut() = breaks.into();
    let body = sender.send_request(request).await.unwrap().into_body().collect().await.unwrap();
    assert_eq!(body.trailers().unwrap()["x-vhttpd-error-class"], "upstream_error");
    assert!(body.to_bytes().starts_with(b"The"));

    for (what, class) in [
        (json!({"transport": "ws"}), "unsupported_transport"),
        (json!({"upstream": "nope"}), "upstream_forbidden"),
        (json!({"upstream": null, "url": "http://127.0.0.1:9/"}), "upstream_forbidden"),
        (json!({"fixture_path": "a"}), "upstream_forbidden"),
    ] {
        let answer = post(&mut plane.client().await, "/frame", &plan(&what), "").await;
        assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
        assert!(answer.contains(&format!("x-vhttpd-error-class: {class}\r\n")), "{answer}");
    }
}

const BATCH: &str = r#"{"mode":"batch","event":"start","then":"respond","requests":{
    "slow":{"upstream":"models","path":"/silent?attempt=1"},
    "fast":{"upstream":"models","path":"/x"},
    "no":{"upstream":"nope"}}}"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_answered_whole_or_as_it_settles() {
    let plane = planned().await;
    let answer = post(&mut plane.client().await, "/frame", BATCH, "").await;
    let slow = answer.find("\"slow\":{\"status\":200").expect("the first key");
    let fast = answer.find("\"fast\":{\"status\":200").expect("the second");
    assert!(slow < fast && answer.contains("\"winner\":\"hedge\""), "in order: {answer}");
    assert!(answer.contains("\"error_class\":\"upstream_forbidden\""), "{answer}");
    let accept = "accept: text/event-stream\r\n";
    let answer = post(&mut plane.client().await, "/frame", BATCH, accept).await;
    let slow = answer.find("\"key\":\"slow\"").expect("the slow one");
    let fast = answer.find("\"key\":\"fast\"").expect("the fast one");
    assert!(fast < slow && answer.contains("\"done\":3,\"total\":3"), "as it settles: {answer}");
    assert!(answer.contains("event: done\n"), "{answer}");
}

/// Case 46: one worker, no queue, and somebody else's request with the worker when the batch is done.
#[tokio::test(flavor = "multi_thread")]
async fn case_46_a_resumed_request_is_served_next_and_never_refused() {
    let mut plane = Plane::with(|setup| setup.queue = QueueConfig::NONE).await;
    plane.gateway.make_calls(calls(&plane));
    let batch = json!({
        "mode": "batch", "event": "start", "then": "resume", "state": {"n": 7},
        "requests": {"a": {"upstream": "models", "path": "/silent?ms=100"}},
    });
    let body = batch.to_string();
    let mut parked = plane.client().await;
    let head = format!("POST /resume HTTP/1.1\r\nhost: h\r\ncontent-length: {}\r\n", body.len());
    parked.send(format!("{head}connection: close\r\n\r\n{body}")).await;
    assert_eq!(plane.arrival().await, "/resume");
    // The worker is free while the batch runs; somebody else takes it.
    let mut other = plane.client().await;
    loop {
        other.get("/hold").await;
        tokio::select! {
            path = plane.arrival() => break assert_eq!(path, "/hold"),
            head = other.up_to("\r\n\r\n") => assert!(head.contains(" 503 "), "still busy: {head}"),
        }
    }
    // A third is refused: there is no queue. The resumed request is not.
    let calls = plane.clock.now() + Duration::from_millis(300);
    plane.clock.sleep_until(calls).await;
    let mut third = plane.client().await;
    third.get("/hello").await;
    assert!(third.up_to("\r\n\r\n").await.contains(" 503 "));
    plane.stage.gate.add_permits(1);
    let answer = parked.rest().await;
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert!(answer.contains("\"n\":7") && answer.contains("\"status\":200"), "{answer}");
    assert!(other.up_to("held").await.contains("200 OK"));
}

async fn egress(plane: &Plane) -> Egress {
    let loopback = "127.0.0.1:0".parse().unwrap();
    Egress::start(loopback, &Settings::default(), calls(plane), plane.recorder.clone(), plane.clock)
        .unwrap()
}

async fn through(egress: &Egress, plane: &Plane, request: &str) -> String {
    let mut client = Client::connect(egress.local_addr(), plane.clock).await;
    client.send(request).await;
    client.rest().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_egress_port_hedges_and_passes_on() {
    let plane = Plane::start().await;
    let egress = egress(&plane).await;
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n");
    let answer = through(&egress, &plane, &get("/models/a/b?c=d")).await;
    assert!(answer.contains("\"path\":\"/a/b\"") && answer.contains("\"c\":\"d\""), "{answer}");
    assert!(answer.contains("hedgerow-attempts: 1\r\nhedgerow-winner: primary\r\n"), "{answer}");
    assert!(!answer.contains("hedgerow-hedged-after-ms"), "{answer}");
    let answer = through(&egress, &plane, &get("/models/silent?attempt=1")).await;
    assert!(answer.contains("hedgerow-attempts: 2\r\nhedgerow-winner: hedge\r\n"), "{answer}");
    assert!(answer.contains("hedgerow-hedged-after-ms: 1"), "{answer}");
    let answer = through(&egress, &plane, &get("/models/status/500")).await;
    assert!(answer.starts_with("HTTP/1.1 500 ") && answer.contains("status 500"), "{answer}");
    let answer = through(&egress, &plane, &get("/models/reset")).await;
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    assert!(answer.contains("x-vhttpd-error-class: upstream_error\r\n"), "{answer}");
    assert!(answer.contains("hedgerow-attempts: 1\r\n"), "{answer}");
    assert!(through(&egress, &plane, &get("/nope/x")).await.starts_with("HTTP/1.1 404 "));
    let events = through(&egress, &plane, &get("/models/model?n=2&ms=1&format=openai")).await;
    assert!(events.contains("data: [DONE]"), "{events}");
    let echoed = "POST /models/echo HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\
                  connection: close\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
    assert!(through(&egress, &plane, echoed).await.ends_with("\r\n\r\nabcde"));
    let batch = format!(
        "POST /-/batch HTTP/1.1\r\nhost: h\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{BATCH}",
        BATCH.len()
    );
    let answer = through(&egress, &plane, &batch).await;
    assert!(answer.contains("\"winner\":\"hedge\""), "{answer}");
    let nonsense =
        "POST /-/batch HTTP/1.1\r\nhost: h\r\nconnection: close\r\ncontent-length: 2\r\n\r\n[]";
    assert!(through(&egress, &plane, nonsense).await.starts_with("HTTP/1.1 400 "));
    let upload = "GET /models/silent HTTP/1.1\r\nhost: h\r\n\r\n";
    let mut leaves = Client::connect(egress.local_addr(), plane.clock).await;
    leaves.send(upload).await;
    plane.until("it is listed", || plane.recorder.in_flight() == 1).await;
    drop(leaves);
    plane.until("it is gone", || plane.recorder.in_flight() == 0).await;
    egress.drain(plane.clock, plane.clock.now()).await;
    let events = plane.events().await;
    let calls: Vec<_> = events.iter().filter(|e| e["type"] == "egress.request").collect();
    let shown: Vec<_> = calls
        .iter()
        .map(|e| {
            let at = |key: &str| e[key].as_str().unwrap_or("-").to_owned();
            format!("{} {} {} {}", at("path"), e["status"], at("winner"), at("error_class"))
        })
        .collect();
    let expected = [
        "/models/a/b 200 primary -",
        "/models/silent 200 hedge -",
        "/models/status/500 500 - -",
        "/models/reset 502 - upstream_error",
        "/nope/x 404 - not_found",
        "/models/model 200 primary -",
        "/models/echo 200 primary -",
        "/-/batch 200 - -",
        "/-/batch 400 - bad_request",
        "/models/silent 499 - client_closed",
    ];
    assert_eq!(shown, expected);
    assert_eq!((&calls[1]["upstream"], &calls[1]["attempts"]), (&"models".into(), &2.into()));
    assert!(calls[1]["hedged_after_ms"].as_f64().unwrap() >= 150.0, "{}", calls[1]);
    assert!(calls[0]["hedged_after_ms"].is_null(), "{}", calls[0]);
    let count = |at: usize, key: &str| calls[at][key].as_u64().unwrap();
    assert_eq!((count(6, "bytes_in"), count(6, "bytes_out")), (5, 5));
    assert!(count(3, "bytes_out") == 11 && count(7, "bytes_in") == BATCH.len() as u64);
}
