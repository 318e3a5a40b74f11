//! The story of one request, as somebody on call would ask for it.

use crate::server::{HEDGEROW, Server, json};
use hedgerow_testkit::scratch::Scratch;
use hedgerow_testkit::until::until;
use serde_json::Value;
use std::process::{Command, Output};

/// `hedgerow explain` with these words, in the directory of the server.
fn explain(scratch: &Scratch, words: &[&str]) -> Output {
    let mut command = Command::new(HEDGEROW);
    command.arg("explain").args(words).current_dir(scratch.path());
    command.output().expect("it runs")
}

/// What the running gateway tells of it, once it knows.
fn asked(server: &Server, id: &str) -> String {
    let admin = server.admin.to_string();
    until(&format!("the story of {id}"), || {
        let told = explain(&server.scratch, &[id, "-c", "hedgerow.toml", "--admin-listen", &admin]);
        let text = String::from_utf8(told.stdout).expect("text");
        (told.status.success() && text.contains("Where the time went")).then_some(text)
    })
}

fn get(server: &Server, id: &str, target: &str) -> u16 {
    let mut client = server.connect();
    client.send(format!("GET {target} HTTP/1.1\r\nhost: a\r\nx-request-id: {id}\r\n\r\n"));
    client.response().status()
}

/// The story from the event log, as JSON, once it is written.
fn logged(server: &Server, id: &str) -> Value {
    until(&format!("the log about {id}"), || {
        let words = [id, "--event-log", "events.ndjson", "--json"];
        let told = explain(&server.scratch, &words);
        told.status.success().then(|| json(&String::from_utf8_lossy(&told.stdout)))
    })
}

fn sums_up(story: &Value) {
    let parts = story["parts"].as_array().expect("parts");
    let sum: f64 = parts.iter().map(|part| part["ms"].as_f64().expect("a number")).sum();
    let all = story["duration_ms"].as_f64().expect("a number");
    // Each part is rounded down to a microsecond.
    assert!(sum <= all + 0.001 && sum > all - 0.1, "{sum} of {all}: {story}");
}

#[test]
fn a_plain_request_and_one_that_waited() {
    let server = Server::start("worker.queue_capacity = 5\nworker.queue_timeout_ms = 20000");
    assert_eq!(get(&server, "plain", "/hello"), 200);
    let story = asked(&server, "plain");
    assert!(story.starts_with("GET /hello  ->  200, "), "{story}");
    assert!(story.contains("worker 0 (pid ") && !story.contains('\x1b'), "{story}");
    let frozen = server.freeze();
    let first = server.begin("/hello");
    server.wait_phase("working", 1);
    let mut second = server.connect();
    second.send("GET /echo HTTP/1.1\r\nhost: a\r\nx-request-id: waits\r\n\r\n");
    server.wait_phase("queued", 1);
    // Under way, it has no story yet.
    let admin = server.admin.to_string();
    let live =
        explain(&server.scratch, &["waits", "-c", "hedgerow.toml", "--admin-listen", &admin]);
    let live = String::from_utf8(live.stdout).expect("text");
    assert!(live.starts_with("GET /echo is still under way") && live.contains("queued"), "{live}");
    frozen.thaw();
    assert_eq!(second.response().status(), 200);
    drop(first);
    let story = asked(&server, "waits");
    assert!(story.contains("it waited ") && story.contains("waiting for a worker"), "{story}");
    for id in ["plain", "waits"] {
        sums_up(&logged(&server, id));
    }
}

#[test]
fn a_timeout_with_the_kill_and_the_replacement() {
    let server = Server::start("worker.read_timeout_ms = 300");
    assert_eq!(get(&server, "hangs", "/hang"), 504);
    server.event("worker.restarted", |_| true);
    let story = asked(&server, "hangs");
    for told in [
        "GET /hang  ->  504 timeout",
        "was killed: timeout",
        "worker 0 was replaced (pid ",
        "timeout (read): a worker had the request",
        "Look at: ",
    ] {
        assert!(story.contains(told), "{told}: {story}");
    }
    let from_log = logged(&server, "hangs");
    assert_eq!(from_log["cause"]["class"], "timeout");
    sums_up(&from_log);
    // The next request of the slot is not blamed for that.
    assert_eq!(get(&server, "next", "/hello"), 200);
    assert!(!asked(&server, "next").contains("killed"));
}

#[test]
fn a_hedged_batch_and_a_call_through_the_egress_port() {
    let upstream = |name| {
        let upstream = hedgerow_stage::upstream::Upstream::start("127.0.0.1:0", name);
        format!("http://{}", upstream.expect("it runs").address())
    };
    let (one, two) = (upstream("one"), upstream("two"));
    let server = Server::start(&format!(
        "egress.listen = \"127.0.0.1:0\"\n
[upstream.demo]\nendpoints = [{one:?}, {two:?}]\nhedge = {{ after_ms = 60 }}\n"
    ));
    let paths = "/batch?paths=/silent%3Fattempt=1,/ok";
    assert_eq!(get(&server, "batch", paths), 200);
    let story = asked(&server, "batch");
    for told in [
        ", no worker taken",
        "called demo for \"ok\": 200 after",
        "the hedge answered after",
        "no data, end at ",
        ": superseded",
        "200: won",
        "calls, no worker taken",
    ] {
        assert!(story.contains(told), "{told}: {story}");
    }
    let story = logged(&server, "batch");
    sums_up(&story);
    let calls = story["calls"].as_array().expect("calls");
    let hedged = calls.iter().find(|call| call["winner"] == "hedge").expect("a hedged call");
    assert_eq!(hedged["attempts"].as_array().map(Vec::len), Some(2), "{hedged}");
    assert!(hedged["hedged_after_ms"].as_f64() >= Some(60.0), "{hedged}");

    let egress = server.stderr();
    let (_, egress) = egress.split_once("egress on http://").expect("the port");
    let egress = egress.lines().next().expect("a line").trim().parse().expect("an address");
    let mut client = hedgerow_testkit::http::Client::connect(egress);
    client.send("GET /demo/status/503 HTTP/1.1\r\nhost: a\r\nx-trace-id: out\r\n\r\n");
    assert_eq!(client.response().status(), 503);
    let call = logged(&server, "out");
    assert_eq!(call["calls"][0]["attempts"][0]["status"], 503, "{call}");
}

#[test]
fn a_client_that_left_and_ids_that_nobody_knows() {
    let server = Server::start("worker.read_timeout_ms = 400");
    let mut client = server.connect();
    client.send("GET /hang HTTP/1.1\r\nhost: a\r\nx-request-id: impatient\r\n\r\n");
    server.wait_phase("working", 1);
    drop(client);
    // The worker is killed later, for this request.
    server.event("worker.restarted", |_| true);
    let story = asked(&server, "impatient");
    assert!(
        story.contains("499 client_closed") && story.contains("the client was gone"),
        "{story}"
    );
    assert!(story.contains("was killed: timeout"), "{story}");
    sums_up(&logged(&server, "impatient"));

    let unknown = explain(&server.scratch, &["impatienx", "--event-log", "events.ndjson"]);
    assert_eq!((unknown.status.code(), unknown.stdout.len()), (Some(1), 0));
    let said = String::from_utf8(unknown.stderr).expect("text");
    assert!(said.contains("nothing is known of impatienx") && said.contains("near it: impatient"));
    assert_eq!(said.lines().count(), 1, "{said}");
    let unreadable = explain(&server.scratch, &["x", "--event-log", "no/such/file"]);
    assert_eq!(unreadable.status.code(), Some(2));
}

#[test]
fn the_newest_events_are_there_without_a_log_and_behind_the_guards() {
    let server = Server::start("log.event_log = \"\"\nadmin.token = \"s3cret\"");
    assert_eq!(get(&server, "quiet", "/hello"), 200);
    assert_eq!(server.admin_request("GET /admin/events?trace=quiet").status(), 403);
    let admin = server.admin.to_string();
    let words = ["quiet", "-c", "hedgerow.toml", "--admin-listen", &admin];
    let told = until("the story", || {
        let told = explain(&server.scratch, &words);
        told.status.success().then_some(told)
    });
    assert!(String::from_utf8_lossy(&told.stdout).contains("GET /hello"));
    let words = [&words[..], &["--admin-token", "wrong"]].concat();
    let refused = explain(&server.scratch, &words);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("admin.token"), "{refused:?}");
    let words = ["quiet", "-c", "hedgerow.toml", "--admin-listen", "127.0.0.1:1"];
    let nobody = explain(&server.scratch, &words);
    assert_eq!(nobody.status.code(), Some(2), "{nobody:?}");
}
