//! The race of one call, seen from both its ends: what the caller gets and what the upstream saw.
//! Times are the cases' scaled down, and far enough apart that a slow machine keeps their order.

use crate::models::{Models, egress, endings, through, usage};
use crate::server::Server;
use hedgerow_testkit::http::{Client, Response};
use hedgerow_testkit::until::{until, within};
use serde_json::Value;
use std::time::Duration;

/// An upstream and a server in front of it with these lines for `[upstream.models]`.
fn race(lines: &str) -> (Models, Server) {
    let models = Models::start();
    let server = Server::start(&models.config(lines));
    (models, server)
}

const TWIN: &str = "hedge = { after_ms = 200 }";

/// What attempts 1 and 2 get: the steps of the scripted upstream.
fn script(server: &Server, primary: &str, twin: &str) -> Response {
    through(server, &format!("/models/script?1={primary}&2={twin}"))
}

/// The status, the body, and who gave it after how many attempts.
fn told(response: &Response) -> (u16, &str, &str, &str) {
    let header = |name| response.header(name).unwrap_or("none");
    let (attempts, winner) = (header("hedgerow-attempts"), header("hedgerow-winner"));
    (response.status(), response.text(), attempts, winner)
}

#[test]
fn case_03_and_45_a_silent_call_is_answered_by_its_twin_and_closed() {
    let (models, server) = race(TWIN);
    let response = script(&server, "wait", "wait:60,data:twin");
    assert_eq!(told(&response), (200, "twin", "2", "hedge"));
    // A tenth of a second is what is promised; ten times that is asked here.
    within(Duration::from_secs(1), "the loser's end at the upstream", || {
        (endings(&models.calls("/script")) == ["cancelled", "served"]).then_some(())
    });
    let calls = models.calls("/script");
    assert_ne!(calls[0]["peer_port"], calls[1]["peer_port"], "another connection");
    let after: u64 = response.header("hedgerow-hedged-after-ms").unwrap().parse().unwrap();
    assert!(after >= 200, "{after}");
}

#[test]
fn case_05_a_failure_behind_the_twins_start_waits_for_the_twin() {
    let (models, server) =
        race("hedge = { after_ms = 200 }\nretry = { max = 1, statuses = [500] }");
    let response = script(&server, "wait:1000,status:500", "wait:1600,data:twin");
    assert_eq!(told(&response), (200, "twin", "2", "hedge"));
    assert_eq!(response.header("hedgerow-retries"), None);
    assert_eq!(endings(&models.calls("/script")), ["served", "served"], "no third");
}

#[test]
fn case_07_a_failure_before_it_is_the_answer_or_is_retried_and_charged() {
    let (models, server) = race(TWIN);
    let response = script(&server, "status:500", "data:never");
    assert_eq!(told(&response), (500, "status 500\n", "1", "primary"));
    assert_eq!(models.calls("/script").len(), 1);
    let retry = "retry = { max = 1, backoff_ms = 1, statuses = [500] }";
    let (models, server) = race(&format!("{retry}\nbudget = {{ ratio = 0.0, burst = 1 }}"));
    let response = script(&server, "status:500", "data:again");
    assert_eq!(told(&response), (200, "again", "2", "retry"));
    assert_eq!(response.header("hedgerow-retries"), Some("1"));
    // That was the budget.
    let response = script(&server, "status:500", "data:again");
    assert_eq!(told(&response), (500, "status 500\n", "1", "primary"));
    assert_eq!(models.calls("/script").len(), 3);
}

#[test]
fn case_08_a_status_settles_a_key_at_once_only_where_it_is_definitive() {
    let (_models, server) = race(TWIN);
    let response = script(&server, "wait:1000,status:400", "wait:1600,data:twin");
    assert_eq!(told(&response), (200, "twin", "2", "hedge"));
    let (models, server) = race("hedge = { after_ms = 200 }\ndefinitive = [400]");
    let response = script(&server, "wait:1000,status:400", "wait");
    assert_eq!(told(&response), (400, "status 400\n", "2", "primary"));
    models.wait("the twin's end", "/script", |calls| endings(calls) == ["served", "cancelled"]);
}

#[test]
fn case_09_a_failed_twin_never_displaces_a_running_original() {
    let (models, server) = race(TWIN);
    let response = script(&server, "wait:1200,data:primary", "status:400");
    assert_eq!(told(&response), (200, "primary", "2", "primary"));
    assert_eq!(endings(&models.calls("/script")), ["served", "served"]);
}

#[test]
fn case_13_a_body_that_stalls_is_begun_again_and_never_spliced() {
    let (models, server) = race("hedge = { idle_ms = 300 }");
    let response = script(&server, "data:one,wait:50,data:two,wait", "data:three,data:four");
    assert_eq!(told(&response), (200, "threefour", "2", "hedge"));
    models.wait("the loser's end", "/script", |calls| endings(calls) == ["cancelled", "served"]);
}

#[test]
fn case_14_a_committed_answer_is_not_hedged_and_its_silence_breaks_it_off() {
    let hedge = "hedge = { idle_ms = 100, answer = \"first_data\" }";
    let (models, server) = race(&format!("{hedge}\nidle_timeout_ms = 500"));
    let response = script(&server, "data:one,wait", "data:two");
    assert_eq!(told(&response), (200, "one", "1", "primary"));
    assert!(!response.complete, "{response:?}");
    models.wait("its end", "/script", |calls| endings(calls) == ["cancelled"]);
}

#[test]
fn case_16_the_budget_bounds_the_twins_of_a_brown_out_and_every_call_is_answered() {
    let (models, server) = race("hedge = { after_ms = 200 }\nbudget = { ratio = 0.1, burst = 3 }");
    let at = egress(&server);
    let mut clients: Vec<Client> = (0..100).map(|_| Client::connect(at)).collect();
    clients.iter_mut().for_each(|client| client.get("/models/silent?ms=1500"));
    assert!(clients.iter_mut().all(|client| client.response().status() == 200));
    let (usage, _) = usage(&server);
    let fired = usage["hedges_fired"].as_u64().unwrap();
    assert!((10..=13).contains(&fired), "{usage}");
    assert_eq!(usage["suppressed"]["budget"], 100 - fired, "{usage}");
    assert_eq!(models.seen()["received"], 100 + fired);
}

#[test]
fn case_17_with_an_empty_budget_a_call_takes_its_own_time() {
    let (_models, server) = race("hedge = { after_ms = 100 }\nbudget = { ratio = 0.0, burst = 0 }");
    let response = script(&server, "wait:500,data:own", "data:twin");
    assert_eq!(told(&response), (200, "own", "1", "primary"));
    assert_eq!(usage(&server).0["suppressed"]["budget"], 1);
    let name = "hedges_suppressed_total{upstream=\"models\",reason=\"budget\"}";
    assert_eq!(server.metric(name), Some(1.0));
}

/// A request with a body and further headers through the egress port.
fn send(server: &Server, method: &str, target: &str, headers: &str, body: &[u8]) -> Response {
    let mut client = Client::connect(egress(server));
    let length = body.len();
    client.send(format!("{method} {target} HTTP/1.1\r\nhost: a\r\n{headers}"));
    client.send(format!("content-length: {length}\r\n\r\n"));
    client.send(body);
    client.response()
}

#[test]
fn case_19_what_is_not_safe_to_repeat_needs_a_key() {
    let (models, server) = race(TWIN);
    let target = "/models/script?1=wait:700,data:own&2=data:twin";
    let response = send(&server, "POST", target, "", b"x");
    assert_eq!(told(&response), (200, "own", "1", "primary"));
    assert_eq!(usage(&server).0["suppressed"]["unsafe"], 1);
    let target = "/models/script?1=wait&2=data:twin";
    let response = send(&server, "POST", target, "idempotency-key: k-7\r\n", b"x");
    assert_eq!(told(&response), (200, "twin", "2", "hedge"));
    let calls = models.calls("/script");
    let keys: Vec<&Value> = calls.iter().map(|call| &call["idempotency_key"]).collect();
    assert_eq!(keys, ["", "k-7", "k-7"]);
}

#[test]
fn case_20_a_body_is_repeated_byte_for_byte_up_to_its_limit() {
    let (models, server) = race("hedge = { after_ms = 300 }\nbuffer_limit = \"64KiB\"");
    let body: Vec<u8> = (0..=64_u32 << 10).map(|n| (n % 251) as u8).collect();
    let at_limit = &body[..64 << 10];
    let response = send(&server, "PUT", "/models/echo?stall&attempt=1", "", at_limit);
    assert_eq!((response.status(), response.header("hedgerow-winner")), (200, Some("hedge")));
    assert_eq!(response.body, at_limit);
    let calls = models.calls("/echo");
    assert_eq!(calls[0]["body_sha1"], calls[1]["body_sha1"]);
    let response = send(&server, "PUT", "/models/echo?stall=900&attempt=1", "", &body);
    assert_eq!((response.status(), response.header("hedgerow-attempts")), (200, Some("1")));
    assert_eq!(response.body, body);
    assert_eq!(usage(&server).0["suppressed"]["body"], 1);
}

#[test]
fn case_23_a_retry_waits_as_long_as_the_endpoint_asked() {
    let retry = "retry = { max = 1, backoff_ms = 1, statuses = [429, 503] }";
    let (models, server) = race(&format!("hedge = {{ after_ms = 200 }}\n{retry}"));
    let steps = "1=wait:800,status:429&2=wait:1200,status:503&3=data:third&retry_after=1";
    let response = through(&server, &format!("/models/script?{steps}"));
    assert_eq!(told(&response), (200, "third", "3", "retry"));
    assert_eq!(models.calls("/script").len(), 3);
    let (_, recent) = usage(&server);
    // Refused at 800, and asked for a second.
    let began = recent[0]["attempts"][2]["start_ms"].as_f64().unwrap();
    assert!(began >= 1_800.0, "{recent:?}");
}

#[test]
fn case_25_a_client_that_leaves_ends_both_and_blames_nobody() {
    let breaker = "breaker = { min_throughput = 1, failure_ratio = 0.01 }";
    let (models, server) = race(&format!("hedge = {{ after_ms = 100 }}\n{breaker}"));
    let mut client = Client::connect(egress(&server));
    client.get("/models/silent");
    models.wait("two attempts", "/silent", |calls| endings(calls) == ["open", "open"]);
    drop(client);
    models.wait("their end", "/silent", |calls| endings(calls) == ["cancelled", "cancelled"]);
    let name = "upstream_calls_total{upstream=\"models\",outcome=\"abandoned\"}";
    assert_eq!(server.metric(name), Some(1.0));
    let breakers = server.admin("/admin/breakers");
    assert_eq!(breakers["breakers"][0]["failures"], 0, "{breakers}");
    let (_, recent) = usage(&server);
    for attempt in recent[0]["attempts"].as_array().unwrap() {
        assert_eq!(attempt["outcome"], "abandoned", "{recent:?}");
    }
}

/// A hundred calls, ten at a time, of which each twentieth is slow.
#[test]
fn case_37_observing_counts_and_starts_nothing() {
    let (models, server) = race("hedge = { after_ms = 1000, mode = \"observe\" }");
    let at = egress(&server);
    std::thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(move || {
                let mut client = Client::connect(at);
                for _ in 0..10 {
                    client.get("/models/silent?ms=1500&every=20");
                    assert_eq!(client.response().status(), 200);
                }
            });
        }
    });
    assert_eq!(models.seen()["received"], 100);
    let name = "hedges_observed_total{upstream=\"models\"}";
    assert_eq!(server.metric(name), Some(5.0));
    assert_eq!(usage(&server).0["hedges_fired"], 0);
}

/// Two endpoints, `a` and `b`, as one upstream.
fn two(lines: &str) -> (Models, Models, Server) {
    let (a, b) = (Models::named("a"), Models::named("b"));
    let own: String = lines.lines().map(|line| format!("upstream.models.{line}\n")).collect();
    let endpoints = format!("upstream.models.endpoints = [\"{}\", \"{}\"]\n", a.url(), b.url());
    let server = Server::start(&format!("egress.listen = \"127.0.0.1:0\"\n{endpoints}{own}"));
    (a, b, server)
}

#[test]
fn case_42_a_stalled_endpoint_is_passed_over_after_so_many_hedges() {
    let demote = "demote = { after = 3, cooldown_ms = 60000 }";
    let hedge = "hedge = { after_ms = 150 }\nbudget = { ratio = 1.0, burst = 10 }";
    let (a, b, server) = two(&format!("{hedge}\n{demote}"));
    for _ in 0..50 {
        assert_eq!(through(&server, "/models/silent?at=a").status(), 200);
    }
    assert_eq!(a.calls("/silent").len(), 3, "then it is demoted");
    assert_eq!(b.calls("/silent").len(), 50);
}

#[test]
fn case_38_winning_late_does_not_spare_an_endpoint() {
    let demote = "demote = { after = 3, cooldown_ms = 60000 }";
    let hedge = "hedge = { after_ms = 150 }\nbudget = { ratio = 1.0, burst = 10 }";
    let (a, b, server) = two(&format!("{hedge}\n{demote}"));
    // `a` is late and still the first; where `b` is asked first it answers at once.
    let target = "/models/script?a=wait:700,data:a&b.2=wait:2000&b.1=data:b";
    let answers: Vec<String> =
        (0..20).map(|_| through(&server, target).text().to_owned()).collect();
    assert_eq!(answers.iter().filter(|answer| *answer == "a").count(), 3, "{answers:?}");
    assert!(answers[answers.len() - 10..].iter().all(|answer| answer == "b"), "{answers:?}");
    assert_eq!(a.calls("/script").len(), 3);
    assert_eq!(b.calls("/script").len(), 20, "17 calls and the twins of 3");
}

#[test]
fn case_41_nothing_cuts_a_call_that_is_silent_and_well() {
    let (models, server) = race("hedge = { after_ms = 200000 }");
    // Longer than any time limit that is on by default for workers and requests.
    let response = through(&server, "/models/silent?ms=6000");
    assert_eq!((response.status(), response.header("hedgerow-attempts")), (200, Some("1")));
    assert_eq!(endings(&models.calls("/silent")), ["served"]);
}

#[test]
fn case_43_events_are_never_held_back() {
    let (models, server) = race("hedge = { after_ms = 60000, answer = \"full\" }");
    for (kind, piece) in [("events", "data:+one%5Cn%5Cn"), ("rows", "%7B%22n%22:1%7D%5Cn")] {
        let mut client = Client::connect(egress(&server));
        client.get(&format!("/models/script?1={kind},data:{piece},wait"));
        client.up_to(if kind == "rows" { b"{\"n\":1}\n" } else { b"data: one\n\n" });
        let calls = models.calls("/script");
        assert_eq!(calls.last().unwrap()["ended"], "open", "read while the upstream still sends");
    }
}

#[test]
fn case_44_the_usage_page_tells_what_a_key_took() {
    let (_models, server) = race("hedge = { after_ms = 200 }\nprice = { per_call = 0.25 }");
    script(&server, "wait", "data:twin");
    through(&server, "/models/x");
    let (usage, recent) = usage(&server);
    assert_eq!((&usage["calls"], &usage["attempts"]), (&2.into(), &3.into()), "{usage}");
    assert_eq!((&usage["hedges_fired"], &usage["hedges_won"]), (&1.into(), &1.into()), "{usage}");
    assert_eq!((&usage["cost"], &usage["cost_unknown"]), (&0.5.into(), &1.into()), "{usage}");
    let hedged = recent.iter().find(|key| key["retry"] == true).expect("a hedged key");
    assert_eq!(hedged["winner"], "hedge", "{hedged}");
    let attempts = hedged["attempts"].as_array().unwrap();
    let told: Vec<[&str; 2]> = attempts
        .iter()
        .map(|a| ["role", "outcome"].map(|name| a[name].as_str().unwrap()))
        .collect();
    assert_eq!(told, [["primary", "lost"], ["hedge", "won"]], "{hedged}");
    assert_eq!((&attempts[0]["cost"], &attempts[1]["cost"]), (&Value::Null, &0.25.into()));
    assert_eq!(recent.iter().filter(|key| key.get("retry").is_some()).count(), 1, "{recent:?}");
}

#[test]
fn a_stop_lets_a_call_that_is_under_way_finish() {
    let models = Models::start();
    let lines = format!("server.drain_ms = 30000\n{}", models.config(""));
    let mut server = Server::start(&lines);
    let address = egress(&server);
    let waiting = std::thread::spawn(move || {
        let mut client = Client::connect(address);
        client.get("/models/script?1=wait:2500,data:late");
        client.response()
    });
    until("the call is with the upstream", || (!models.calls("/script").is_empty()).then_some(()));
    server.signal(rustix::process::Signal::TERM);
    let response = waiting.join().unwrap();
    assert_eq!((response.status(), response.text()), (200, "late"));
    assert_eq!(server.wait().code(), Some(0), "{}", server.stderr());
    server.forget();
}
