use super::*;
use hedgerow_policy::failure::{At, Phase, Report};
use hedgerow_policy::observe::{EndReason, Event, Observer as _};
use serde_json::Value;
use std::net::Ipv4Addr;
use std::sync::Mutex;

/// Memory that a test can read while a writer thread owns the other end.
#[derive(Clone, Default)]
pub(crate) struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("not poisoned").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Kept {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("not poisoned").clone()).expect("UTF-8")
    }

    /// The lines, each of which must be a JSON object.
    pub(crate) fn objects(&self) -> Vec<Value> {
        let text = self.text();
        assert!(text.is_empty() || text.ends_with('\n'), "a torn last line");
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
            .collect()
    }
}

pub(crate) fn recorder(settings: Settings) -> (Recorder, Kept, Kept) {
    let (access, events) = (Kept::default(), Kept::default());
    let outputs =
        Outputs { access: Some(Box::new(access.clone())), events: Some(Box::new(events.clone())) };
    let recorder = Recorder::with_outputs(settings, Clock::start(), outputs).expect("threads");
    (recorder, access, events)
}

pub(crate) fn start(trace: &str) -> Start {
    Start {
        trace_id: trace.into(),
        request_id: format!("r-{trace}").into(),
        method: http::Method::GET,
        path: "/users/42".to_owned(),
        remote_addr: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7)),
        protocol: "HTTP/1.1",
        received: Moment::START,
        span: None,
    }
}

fn ok() -> Outcome {
    Outcome { status: 200, failure: None, stream: None }
}

fn failed(status: u16, failure: Failure) -> Outcome {
    Outcome { status, failure: Some(failure), stream: None }
}

fn keys(line: &str) -> Vec<&str> {
    line.split(['{', ','])
        .filter_map(|part| part.strip_prefix('"').and_then(|part| part.split_once("\":")))
        .map(|(key, _)| key)
        .collect()
}

#[test]
fn a_finish_is_one_line_of_each_kind() {
    let (recorder, access, events) = recorder(Settings::default());
    let active = recorder.begin(start("t1"));
    active.set_worker(3, Some(77));
    active.set_queue_wait(Duration::from_micros(1_500));
    active.add_bytes_in(10);
    active.add_bytes_out(20);
    active.finish(ok());
    recorder.close();
    let [line] = access.objects().try_into().expect("one access line");
    assert_eq!(line["bytes_out"], 20);
    assert_eq!(line["worker_id"], 3);
    assert_eq!(line["queue_wait_ms"], 1.5);
    let [event] = events.objects().try_into().expect("one event");
    assert_eq!(event["type"], "http.request");
    assert_eq!(event["trace_id"], "t1");
    assert_eq!(event["status"], 200);
    assert!(event["duration_ms"].is_number());
    assert_eq!(event.get("error_class"), None);
    assert_eq!(
        keys(&events.text()),
        [
            "type",
            "ts",
            "trace_id",
            "request_id",
            "method",
            "path",
            "remote_addr",
            "protocol",
            "status",
            "bytes_in",
            "bytes_out",
            "duration_ms",
            "queue_wait_ms",
            "worker_id",
            "worker_pid",
            "receive_ms"
        ]
    );
}

#[test]
fn a_failure_says_all_the_contract_asks_for() {
    let (recorder, _, events) = recorder(Settings::default());
    let silent = Failure::new(Class::Timeout, At::Worker, "no answer in 300 ms");
    recorder.begin(start("t1")).finish(failed(504, silent.in_phase(Phase::Read)));
    let report = Report {
        class: "worker_runtime_error".to_owned(),
        exception: Some("RuntimeException".to_owned()),
        message: Some("boom\r\nx-evil: 1".to_owned()),
    };
    let thrown =
        Failure::new(Class::WorkerRuntimeError, At::Worker, "the worker reported an error");
    recorder.begin(start("t2")).finish(failed(500, thrown.reported(report)));
    recorder.close();
    let lines = events.objects();
    for line in &lines {
        for key in ["trace_id", "request_id", "method", "path", "error_class", "error_message"] {
            assert!(line[key].is_string(), "{key} in {line}");
        }
        assert!(line["status"].is_u64() && line["duration_ms"].is_number());
    }
    assert_eq!(lines[0]["timeout_phase"], "read");
    assert_eq!(lines[0]["error_message"], "no answer in 300 ms");
    assert_eq!(lines[1]["worker_error_class"], "worker_runtime_error");
    assert_eq!(lines[1]["worker_exception"], "RuntimeException");
    assert_eq!(lines[1]["error_message"], "boom\r\nx-evil: 1");
    assert_eq!(lines[1].get("timeout_phase"), None);
}

#[test]
fn redaction_masks_words_and_keeps_the_rest() {
    let (recorder, _, events) = recorder(Settings { redact: true, ..Settings::default() });
    let active = recorder.begin(start("t1"));
    let thrown = Failure::new(Class::WorkerRuntimeError, At::Worker, "password=hunter2");
    recorder.stream_error(&active, &thrown);
    active.finish(failed(500, thrown));
    recorder.on(&Event::WorkerOutput { worker: 0, pid: 1, stderr: true, line: "hunter2" });
    recorder.on(&Event::WorkerBootFailed { worker: 0, pid: 1, error: "hunter2" });
    recorder.on(&Event::ReloadAbandoned { error: "hunter2" });
    recorder.close();
    assert!(!events.text().contains("hunter2"), "{}", events.text());
    assert_eq!(events.text().matches("[redacted]").count(), 5);
    assert_eq!(events.objects()[1]["error_class"], "worker_runtime_error");
}

#[test]
fn a_dropped_request_was_left_by_its_client_once() {
    let (recorder, access, events) = recorder(Settings::default());
    drop(recorder.begin(start("t1")));
    recorder.close();
    assert_eq!(access.objects().len(), 1);
    let [event] = events.objects().try_into().expect("one event");
    assert_eq!(event["status"], 499);
    assert_eq!(event["error_class"], "client_closed");
    assert_eq!(recorder.inner.metrics.totals().http_requests, 1);
    assert_eq!(recorder.inner.live.in_flight(), 0);
}

#[test]
fn the_query_is_written_nowhere() {
    let (recorder, access, events) = recorder(Settings::default());
    let start = Start { path: "/a?token=secret".to_owned(), ..start("t1") };
    recorder.begin(start).finish(ok());
    recorder.close();
    assert!(!access.text().contains("secret") && !events.text().contains("secret"));
    assert_eq!(events.objects()[0]["path"], "/a");
}

#[test]
fn a_stream_that_breaks_keeps_its_status() {
    let (recorder, _, events) = recorder(Settings::default());
    let active = recorder.begin(start("t1"));
    let broke = Failure::new(Class::TransportError, At::Worker, "closed in the middle");
    recorder.stream_error(&active, &broke);
    active.finish(Outcome { status: 200, failure: None, stream: Some("sse") });
    recorder.close();
    let lines = events.objects();
    assert_eq!(lines[0]["type"], "http.stream.error");
    assert_eq!(lines[0]["error_class"], "transport_error");
    assert_eq!(lines[0].get("status"), None);
    assert_eq!(lines[1]["status"], 200);
    assert_eq!(lines[1]["stream_failed"], true);
}

#[test]
fn sixty_four_writers_leave_whole_lines() {
    let (recorder, access, events) = recorder(Settings::default());
    std::thread::scope(|scope| {
        for writer in 0..64 {
            let recorder = &recorder;
            scope.spawn(move || {
                for n in 0..100 {
                    let start = Start { path: format!("/\"\\\n\u{2028}é/{n}"), ..start("t") };
                    let active =
                        recorder.begin(Start { trace_id: format!("{writer}-{n}").into(), ..start });
                    active.finish(ok());
                }
            });
        }
    });
    recorder.close();
    let mut traces: Vec<String> =
        events.objects().iter().map(|line| line["trace_id"].to_string()).collect();
    traces.sort_unstable();
    traces.dedup();
    assert_eq!(traces.len(), 6_400);
    assert_eq!(access.objects().len(), 6_400);
    assert_eq!(recorder.inner.live.in_flight(), 0);
    assert!(recorder.inner.live.snapshot(10).is_empty());
}

#[test]
fn one_process_that_ends_is_one_restart() {
    let (recorder, _, events) = recorder(Settings::default());
    let restarts = || recorder.inner.metrics.page_restarts();
    let reason = EndReason::MaxRequests;
    recorder.on(&Event::WorkerReady { worker: 0, pid: 10, after: Duration::from_millis(20) });
    recorder.on(&Event::WorkerRetired { worker: 0, pid: 10, reason });
    recorder.on(&Event::WorkerExited { worker: 0, pid: 10, status: "exit 0" });
    recorder.on(&Event::WorkerReady { worker: 0, pid: 11, after: Duration::from_millis(20) });
    recorder.on(&Event::WorkerKilled { worker: 0, pid: 11, reason: EndReason::Timeout });
    recorder.on(&Event::WorkerExited { worker: 1, pid: 12, status: "signal 9" });
    recorder.on(&Event::WorkerRetired { worker: 2, pid: 13, reason: EndReason::Shutdown });
    recorder.on(&Event::WorkerBootFailed { worker: 3, pid: 14, error: "no" });
    recorder.on(&Event::WorkerKilled { worker: 3, pid: 14, reason: EndReason::Fault });
    // The system gives numbers out again.
    recorder.on(&Event::WorkerStarted { worker: 3, pid: 14 });
    recorder.on(&Event::WorkerExited { worker: 3, pid: 14, status: "exit 1" });
    recorder.close();
    let counted: Vec<_> = restarts().into_iter().filter(|(_, count)| *count > 0).collect();
    assert_eq!(counted, [("boot_failed", 1), ("exit", 2), ("max_requests", 1), ("timeout", 1)]);
    let kinds: Vec<String> =
        events.objects().iter().map(|e| e["type"].as_str().unwrap_or("").to_owned()).collect();
    assert_eq!(
        kinds,
        [
            "worker.ready",
            "worker.max_requests_reached",
            "worker.exited",
            "worker.restarted",
            "worker.killed",
            "worker.exited",
            "worker.retired",
            "worker.boot_failed",
            "worker.killed",
            "worker.started",
            "worker.exited"
        ]
    );
}

#[tokio::test]
async fn cancelling_a_trace_wakes_all_its_requests() {
    let (recorder, _, _) = recorder(Settings::default());
    let (one, two, other) =
        (recorder.begin(start("t")), recorder.begin(start("t")), recorder.begin(start("u")));
    let mut waiting = Box::pin(one.cancelled());
    assert!(futures_now(&mut waiting).await.is_none());
    assert_eq!(recorder.inner.live.cancel("t"), 2);
    waiting.await;
    // Whoever asks late is told too, and as often as it asks.
    two.cancelled().await;
    two.cancelled().await;
    assert!(futures_now(&mut Box::pin(other.cancelled())).await.is_none());
    assert_eq!(recorder.inner.live.cancel("nobody"), 0);
    for active in [one, two, other] {
        active.finish(ok());
    }
}

/// Polls once.
async fn futures_now<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    std::future::poll_fn(|cx| {
        std::task::Poll::Ready(match std::pin::Pin::new(&mut *future).poll(cx) {
            std::task::Poll::Ready(out) => Some(out),
            std::task::Poll::Pending => None,
        })
    })
    .await
}

#[test]
fn a_full_table_shows_less_and_refuses_nobody() {
    let (recorder, access, _) = recorder(Settings { live_limit: 2, ..Settings::default() });
    let all: Vec<Active> = ["a", "b", "c"].into_iter().map(|t| recorder.begin(start(t))).collect();
    assert_eq!(recorder.inner.live.in_flight(), 3);
    assert_eq!(recorder.inner.live.snapshot(10).len(), 2);
    assert_eq!(recorder.inner.live.unlisted(), 1);
    all.into_iter().for_each(|active| active.finish(ok()));
    assert_eq!(recorder.inner.live.in_flight(), 0);
    let again = recorder.begin(start("d"));
    assert_eq!(recorder.inner.live.snapshot(10).len(), 1);
    again.finish(ok());
    recorder.close();
    assert_eq!(access.objects().len(), 4);
}

#[test]
fn a_rotated_log_is_let_go_and_nothing_is_lost() {
    let folder = std::env::temp_dir().join(format!("hedgerow-record-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (path, moved) = (folder.join("events.ndjson"), folder.join("events.ndjson.1"));
    let settings = Settings { access: false, event_log: Some(path.clone()), ..Settings::default() };
    let recorder = Recorder::new(settings, Clock::start()).expect("opens");
    recorder.server_started(&[SocketAddr::from(([127, 0, 0, 1], 8080))]);
    std::fs::rename(&path, &moved).expect("moves");
    recorder.reopen().expect("opens again");
    recorder.server_stopped("SIGTERM");
    recorder.close();
    let read = |path| std::fs::read_to_string(path).expect("a file");
    let (old, new) = (read(&moved), read(&path));
    assert!(new.contains("\"server.stopped\"") && !old.contains("\"server.stopped\""));
    assert_eq!(format!("{old}{new}").matches("\"server.started\"").count(), 1);
    std::fs::remove_dir_all(&folder).expect("removes");
}
