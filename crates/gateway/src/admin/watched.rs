//! The history, the stream and the page, over real connections.

use super::tests::{Reply, Site, site};
use super::watch::STREAMS;
use super::*;
use crate::record::tests::start;
use crate::record::{Outcome, Stage};
use hedgerow_policy::breaker::{Cause, Counts, State as Circuit, Transition};
use hedgerow_policy::observe::{EndReason, Event, Observer as _};
use hedgerow_policy::{Class, Failure, Moment};
use serde_json::Value;
use std::fmt::Write as _;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};

/// An open stream.
struct Stream(BufReader<TcpStream>);

impl Stream {
    async fn open(site: &Site, lines: &[&str]) -> Stream {
        let addr = site.admin.local_addr();
        let mut stream = TcpStream::connect(addr).await.expect("connects");
        let mut head = format!("GET /admin/stream HTTP/1.1\r\nhost: {addr}\r\n");
        for line in lines {
            write!(head, "{line}\r\n").expect("memory");
        }
        stream.write_all(format!("{head}\r\n").as_bytes()).await.expect("writes");
        Stream(BufReader::new(stream))
    }

    async fn status(&mut self) -> u16 {
        let mut line = String::new();
        self.0.read_line(&mut line).await.expect("reads");
        line.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status")
    }

    /// The next second.
    async fn next(&mut self) -> Value {
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).await.expect("reads") > 0, "the stream ended");
            if let Some(data) = line.strip_prefix("data: ") {
                return serde_json::from_str(data).expect("JSON");
            }
        }
    }
}

#[tokio::test]
async fn the_history_says_what_came_when() {
    let site = site(|_| {});
    let waited = async |rows: u64| loop {
        let shown = site.ask("GET /admin/history", &[]).await.json();
        if shown["held"].as_u64() >= Some(rows) {
            return shown;
        }
    };
    waited(1).await;
    let failure = Failure::new(Class::Timeout, hedgerow_policy::failure::At::Worker, "silent");
    for failure in [None, Some(failure)] {
        let status = if failure.is_some() { 504 } else { 200 };
        site.recorder.begin(start("t")).finish(Outcome { status, failure, stream: None });
    }
    site.recorder.on(&Event::WorkerKilled { worker: 1, pid: 7, reason: EndReason::Timeout });
    let told = Transition {
        at: Moment::START,
        from: Circuit::Closed,
        to: Circuit::Open,
        cause: Cause::Stall,
        episode: 3,
        counts: Counts { calls: 20, failures: 19 },
    };
    site.recorder.on(&Event::BreakerTransition { name: "cache", transition: &told });
    let shown = waited(2).await;
    let sum = |name: &str| -> u64 {
        shown["columns"][name].as_array().into_iter().flatten().filter_map(Value::as_u64).sum()
    };
    assert_eq!((sum("http.requests"), sum("failed.timeout"), sum("http.server_errors")), (2, 1, 0));
    assert_eq!(shown["columns"]["queue.depth"][0], 3);
    assert_eq!(shown["columns"]["workers.backing_off"][0], 1);
    assert_eq!((&shown["capacity"], &shown["step_ms"]), (&900.into(), &1_000.into()));
    assert_eq!(shown["events"][0]["kind"], "worker.killed");
    assert_eq!(
        (&shown["events"][0]["worker"], &shown["events"][0]["detail"]),
        (&1.into(), &"timeout".into())
    );
    assert_eq!(
        (&shown["moves"][0]["to"], &shown["moves"][0]["cause"]),
        (&"open".into(), &"stall".into())
    );
    let times = shown["t"].as_array().expect("times");
    assert!(times.iter().all(|t| t.as_u64().is_some_and(|t| t < 60_000)), "{times:?}");

    let after = shown["first"].as_u64().expect("a number") + times.len() as u64 - 1;
    let later = site.ask(&format!("GET /admin/history?after={after}"), &[]).await.json();
    assert!(later["first"].as_u64() > Some(after));
}

#[tokio::test]
async fn a_stream_shows_each_second_what_is_the_case() {
    let site = site(|settings| settings.token = Some("s3cret".to_owned()));
    let mut stream = Stream::open(&site, &["authorization: Bearer s3cret"]).await;
    let first = stream.next().await;
    let path = "/<img src=x onerror=alert(1)>".to_owned() + &"x".repeat(5_000);
    let now = site.recorder.inner.clock.now();
    let active = site.recorder.begin(crate::record::Start { path, received: now, ..start("a") });
    active.set_worker(0, None);
    active.set_stage(Stage::Working);
    let second = stream.next().await;
    assert_eq!(
        second["first"].as_u64(),
        first["first"].as_u64().map(|n| n + 1),
        "no row is missed"
    );
    let now = &second["now"];
    assert_eq!((&now["queue"]["depth"], &now["queue"]["capacity"]), (&3.into(), &8.into()));
    assert_eq!(
        (&now["workers"][0]["state"], &now["workers"][1]["on"]),
        (&"busy".into(), &Value::Null)
    );
    let on = now["workers"][0]["on"]["path"].as_str().expect("a path");
    assert!(on.starts_with("/<img src=x onerror=alert(1)>x") && on.chars().count() == 201, "{on}");
    assert_eq!(now["requests"]["total"], 1);
    assert_eq!(second["columns"]["http.in_flight"][0], 1);
    drop(active);
}

#[tokio::test]
async fn only_so_many_streams_are_open_and_who_asks_by_hand_comes_in() {
    let site = site(|_| {});
    let mut open = Vec::new();
    for _ in 0..STREAMS {
        let mut stream = Stream::open(&site, &[]).await;
        assert_eq!(stream.status().await, 200);
        open.push(stream);
    }
    assert_eq!(Stream::open(&site, &[]).await.status().await, 503);
    assert_eq!(site.ask("GET /health", &[]).await.status, 200);
    for stream in &mut open {
        stream.next().await;
    }
    // One that has left makes room, at its next frame at the latest.
    open.pop();
    while Stream::open(&site, &[]).await.status().await != 200 {}
}

/// Time stands still but for timers that are waited for: nobody waits for real.
#[tokio::test(start_paused = true)]
async fn a_reader_that_takes_nothing_is_cut_off() {
    let site = site(|_| {});
    let long = "/".to_owned() + &"ä".repeat(200);
    let now = site.recorder.inner.clock.now();
    let crowd: Vec<_> = (0..50)
        .map(|n| {
            let begun = crate::record::Start { path: long.clone(), received: now, ..start("t") };
            let active = site
                .recorder
                .begin(crate::record::Start { trace_id: format!("{n}").into(), ..begun });
            active.set_stage(Stage::Queued);
            active
        })
        .collect();
    let mut stream = Stream::open(&site, &[]).await;
    assert_eq!(stream.status().await, 200);
    loop {
        let page = site.ask("GET /metrics", &[]).await.body;
        let says = |line: &str| page.lines().any(|shown| shown == line);
        if says("hedgerow_dashboard_streams_cut_off_total 1") {
            assert!(says("hedgerow_dashboard_streams 0"), "{page}");
            break;
        }
        let clock = site.recorder.inner.clock;
        clock.sleep_until(clock.now() + Duration::from_secs(1)).await;
    }
    // What was on its way comes, and then the end.
    let mut rest = Vec::new();
    let _ = stream.0.read_to_end(&mut rest).await;
    assert!(!rest.ends_with(b"0\r\n\r\n"), "a stream that was cut off must not look complete");
    drop(crowd);
}

#[tokio::test]
async fn who_looks_on_does_not_hold_up_a_stop() {
    let site = site(|_| {});
    let mut stream = Stream::open(&site, &[]).await;
    stream.next().await;
    site.admin.stop().await;
    let mut rest = Vec::new();
    stream.0.read_to_end(&mut rest).await.expect("the end");
    assert!(rest.ends_with(b"\r\n0\r\n\r\n"), "in good order: {rest:?}");
}

#[tokio::test]
async fn the_page_comes_compressed_and_under_its_policy() {
    let site = site(|settings| settings.token = Some("s3cret".to_owned()));
    let page = site.ask("GET /", &[]).await;
    assert_eq!(page.status, 200, "the token is typed into the page");
    assert!(page.body.starts_with("<!doctype html>"));
    let has = |reply: &Reply, line: &str| reply.head.contains(line);
    assert!(has(&page, "content-type: text/html") && !has(&page, "content-encoding"));
    for rule in [
        "default-src 'none'",
        "script-src 'self';",
        "frame-ancestors 'none'",
        "trusted-types 'none'",
    ] {
        assert!(has(&page, rule), "{rule}");
    }
    assert!(!has(&page, "unsafe-inline"));
    assert!(
        has(&page, "x-content-type-options: nosniff") && has(&page, "referrer-policy: no-referrer")
    );
    let addr = site.admin.local_addr();
    let mut stream = TcpStream::connect(addr).await.expect("connects");
    let head = format!(
        "GET /vendor/uplot.js HTTP/1.1\r\nhost: {addr}\r\naccept-encoding: gzip\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.expect("writes");
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).await.expect("reads");
    let text = String::from_utf8_lossy(&reply);
    assert!(text.contains("content-encoding: gzip") && text.contains("text/javascript"));
    assert!(reply.windows(2).any(|pair| pair == [0x1f, 0x8b]) && reply.len() < 40_000);
    assert_eq!(
        site.ask("GET /vendor/../index.html", &[]).await.status,
        403,
        "no such file, no token"
    );
    let elsewhere = site.ask("GET /", &["host: evil.example"]).await;
    assert_eq!(elsewhere.status, 403);
}
