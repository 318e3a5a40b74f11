//! Workers that are replaced by plan, that somebody else starts, and that talk too much; outputs
//! that nobody reads.

use crate::envelope::assert_failure;
use crate::server::{self, HEDGEROW, Lines, Server};
use hedgerow_testkit::http::Client;
use hedgerow_testkit::processes::{Leashed, alive, signal};
use hedgerow_testkit::scratch::Scratch;
use hedgerow_testkit::until::until;
use rustix::process::Signal;
use serde_json::Value;
use std::process::{Command, Stdio};

#[test]
fn a_worker_that_has_served_its_requests_is_replaced_and_no_request_notices() {
    let server = Server::start(
        "worker.max_requests = 5\nworker.max_requests_jitter = 0.0\nworker.queue_capacity = 10\nworker.queue_timeout_ms = 20000",
    );
    let first = server.workers()[0];
    // The old one serves on until its successor has booted, so how many that takes is not certain.
    until("two replacements", || {
        assert_eq!(server.get("/hello").text(), "hello\n");
        let reached = |event: &&Value| event["type"] == "worker.max_requests_reached";
        (server.events().iter().filter(reached).count() >= 2).then_some(())
    });
    let retired = server.event("worker.max_requests_reached", |event| event["pid"] == first);
    assert_eq!(retired["reason"], "max_requests", "{retired}");
    until("the first worker is gone", || (!alive(first)).then_some(()));
    let ended = server.stop();
    let count = |kind: &str| ended.events.iter().filter(|event| event["type"] == kind).count();
    assert!(count("http.request") >= 10, "no sooner than told");
    assert_eq!(count("worker.restart_scheduled"), 0, "a plan is no crash");
}

#[test]
fn a_worker_that_grew_too_large_is_replaced_between_two_requests() {
    let server = Server::start(&format!(
        "worker.command = \"{HEDGEROW} stage worker --rss 64\"\nworker.max_rss = \"48MiB\"\nworker.queue_capacity = 5\nworker.queue_timeout_ms = 20000"
    ));
    let large = server.workers()[0];
    assert_eq!(server.get("/hello").text(), "hello\n");
    let retired = server.event("worker.retired", |event| event["pid"] == large);
    assert_eq!(retired["reason"], "max_rss", "{retired}");
    assert_eq!(server.get("/hello").text(), "hello\n");
}

/// A worker that the test starts itself, at `own.sock`.
fn own(scratch: &Scratch) -> Leashed {
    let socket = scratch.path().join("own.sock");
    let mut command = Command::new(HEDGEROW);
    command.args(["stage", "worker", "--socket"]).arg(&socket).stdin(Stdio::null());
    let child = Leashed(command.spawn().expect("the scripted worker runs"));
    until("its socket", || socket.exists().then_some(()));
    child
}

#[test]
fn a_worker_that_somebody_else_started_is_used_and_neither_ended_nor_replaced() {
    let scratch = Scratch::new();
    let mut own = own(&scratch);
    let lines = "worker.sockets = [\"own.sock\"]\nworker.queue_capacity = 5\nworker.queue_timeout_ms = 20000\nworker.read_timeout_ms = 300";
    let server = Server::start_in(scratch, lines, &[]);
    assert_eq!(server.get("/hello").text(), "hello\n");
    assert_eq!(server.post("/echo", b"body").text(), "body");
    assert_failure(&server.get("/fault/half"), 502, "transport_error");
    // It rests for the backoff, during which the pool is down; then it is used again.
    let next = || until("it is used", || Some(server.get("/hello")).filter(|r| r.status() == 200));
    assert_eq!(next().text(), "hello\n");
    assert_failure(&server.get("/fault/late?ms=600"), 504, "timeout");
    assert_eq!(next().text(), "hello\n");
    let workers = server.admin("/admin/workers");
    assert_eq!(
        (&workers["worker_autostart"], &workers["workers"][0]["pid"]),
        (&false.into(), &Value::Null)
    );
    server.stop();
    assert!(own.try_wait().unwrap().is_none(), "it is not ours to end");
}

#[test]
fn a_flood_of_output_is_taken_and_changes_nothing() {
    let server =
        Server::start(&format!("worker.command = \"{HEDGEROW} stage worker --print 20000\""));
    assert_eq!(server.get("/hello").text(), "hello\n");
    server.event("worker.output", |event| event["line"] == "stdout line 1");
    assert_eq!(server.get("/hello").text(), "hello\n");
    server.stop();
}

#[test]
fn an_access_log_that_nobody_reads_any_more_ends_nothing() {
    let scratch = Scratch::new();
    scratch.file("hedgerow.toml", server::config(""));
    let mut child = server::spawn(&scratch, &[]);
    drop(child.stdout.take());
    let mut stderr = Lines::of(child.stderr.take().unwrap());
    let (addr, _) =
        until("the addresses", || stderr.all().iter().find_map(|line| server::addresses(line)));
    for _ in 0..3 {
        let mut client = Client::connect(addr);
        client.get("/hello");
        assert_eq!(client.response().text(), "hello\n");
    }
    signal(child.id(), Signal::TERM);
    let status = until("the end of hedgerow", || child.try_wait().unwrap());
    stderr.join();
    assert_eq!(status.code(), Some(0), "{}", stderr.text());
}

#[test]
fn an_event_log_that_cannot_be_written_is_one_sentence_before_anything_is_started() {
    let scratch = Scratch::new();
    scratch.file("hedgerow.toml", server::config("log.event_log = \"/nowhere/events.ndjson\""));
    let output = server::command(&scratch, &[]).output().expect("hedgerow runs");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("/nowhere/events.ndjson"), "{said}");
    assert_eq!(std::fs::read_dir(scratch.path().join("run")).unwrap().count(), 0);
}
