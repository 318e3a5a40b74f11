use super::*;
use crate::record::tests::{Kept, recorder, start};
use crate::record::{Outcome, Stage};
use hedgerow_policy::observe::{Event, Observer as _};
use hedgerow_policy::pool::SlotPhase;
use hedgerow_policy::{Class, Failure};
use hedgerow_worker::snapshot::{Snapshot, WorkerSnapshot};
use serde_json::Value;
use std::sync::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Two workers, one of which backs off; remembers what was asked of it.
#[derive(Clone, Default)]
pub(super) struct Fake {
    restarted: Arc<Mutex<Vec<u32>>>,
    ready: Arc<Mutex<bool>>,
}

impl control::Workers for Fake {
    fn snapshot(&self) -> Snapshot {
        let worker = |id, phase, pid, next_start_in| WorkerSnapshot {
            id,
            socket: format!("/run/hedgerow/{id}.sock").into(),
            phase,
            phase_for: Duration::from_millis(1_500),
            pid,
            rss: pid.map(|_| 32 << 20),
            draining: false,
            in_flight: u32::from(phase == SlotPhase::Busy),
            served: 7,
            restarts: 1,
            next_start_in,
            capabilities: vec!["keep_alive"],
        };
        Snapshot {
            size: 2,
            queue_depth: 3,
            queue_capacity: 8,
            queue_timeout: Duration::from_millis(250),
            in_flight: 1,
            retiring: 0,
            ready: *self.ready.lock().expect("not poisoned"),
            supervised: true,
            max_requests: 500,
            workers: vec![
                worker(0, SlotPhase::Busy, Some(4_242), None),
                worker(1, SlotPhase::BackingOff, None, Some(Duration::from_secs(1))),
            ],
        }
    }

    fn restart(&self, worker: u32) -> bool {
        self.restarted.lock().expect("not poisoned").push(worker);
        worker < 2
    }

    fn restart_all(&self) {
        self.restarted.lock().expect("not poisoned").extend([0, 1]);
    }
}

pub(super) struct Site {
    pub(super) admin: Admin,
    plane: Plane<Fake>,
    pool: Fake,
    pub(super) recorder: Recorder,
    events: Kept,
}

pub(super) fn site(change: impl FnOnce(&mut Settings)) -> Site {
    let (recorder, _, events) = recorder(crate::record::Settings::default());
    let pool = Fake::default();
    let plane = Plane::new(Some(pool.clone()));
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut settings = Settings { listen, ..Settings::default() };
    change(&mut settings);
    let control = Arc::new(plane.clone());
    let clock = recorder.inner.clock;
    let admin = Admin::start(settings, recorder.clone(), control, clock).expect("starts");
    Site { admin, plane, pool, recorder, events }
}

pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: String,
}

impl Reply {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

impl Site {
    /// Sends one request over a connection of its own. `lines` go into its head.
    pub(super) async fn ask(&self, request: &str, lines: &[&str]) -> Reply {
        let addr = self.admin.local_addr();
        let host = if lines.iter().any(|line| line.starts_with("host:")) {
            String::new()
        } else {
            format!("host: {addr}\r\n")
        };
        let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
        let head = format!("{request} HTTP/1.1\r\n{host}{lines}connection: close\r\n\r\n");
        let mut stream = TcpStream::connect(addr).await.expect("connects");
        stream.write_all(head.as_bytes()).await.expect("writes");
        let mut text = String::new();
        stream.read_to_string(&mut text).await.expect("reads");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).expect("a status");
        Reply { status, head: head.to_owned(), body: body.to_owned() }
    }
}

fn fields(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

fn has(value: &Value, names: &str) {
    for name in names.split(' ') {
        assert!(value.get(name).is_some(), "{name} is missing in {value}");
    }
}

#[tokio::test]
async fn health_and_ready() {
    let site = site(|_| {});
    let health = site.ask("GET /health", &[]).await;
    assert_eq!((health.status, health.body.as_str()), (200, "OK\n"));
    assert_eq!(site.ask("GET /ready", &[]).await.status, 503, "the listeners are not up");
    site.plane.set_serving(true);
    assert_eq!(site.ask("GET /ready", &[]).await.status, 503, "no worker is ready");
    *site.pool.ready.lock().expect("not poisoned") = true;
    let ready = site.ask("GET /ready", &[]).await;
    assert_eq!((ready.status, ready.json()["ready"].clone()), (200, Value::from(true)));
    site.plane.set_serving(false);
    assert_eq!(site.ask("GET /ready", &[]).await.status, 503, "draining");
    assert!(Control::ready(&{
        let plane = Plane::<Fake>::new(None);
        plane.set_serving(true);
        plane
    }));
}

#[tokio::test]
async fn runtime_workers_and_stats_have_the_fields_of_the_contract() {
    let site = site(|_| {});
    site.recorder.on(&Event::QueueWait);
    site.recorder.on(&Event::QueueRejected);
    let failure = Failure::new(Class::Timeout, hedgerow_policy::failure::At::Worker, "silent");
    let outcome = Outcome { status: 504, failure: Some(failure), stream: None };
    site.recorder.begin(start("t")).finish(outcome);

    let runtime = site.ask("GET /admin/runtime", &[]).await.json();
    has(
        &runtime,
        "started_at_unix uptime_seconds worker_pool_size worker_backend_mode \
         worker_queue_capacity worker_queue_timeout_ms worker_queue_depth capabilities \
         active_upstreams stats",
    );
    assert_eq!(runtime["worker_queue_depth"], 3);
    assert_eq!(runtime["worker_queue_timeout_ms"], 250);
    assert_eq!(runtime["stats"]["worker_queue_waits_total"], 1);
    assert_eq!(runtime["stats"]["worker_queue_rejected_total"], 1);

    let stats = site.ask("GET /admin/stats", &[]).await.json();
    has(
        &stats,
        "http_requests_total http_errors_total http_timeouts_total http_streams_total \
         admin_actions_total worker_queue_waits_total worker_queue_rejected_total \
         worker_queue_timeouts_total upstream_plans_total upstream_plan_errors_total",
    );
    assert_eq!(
        (&stats["http_requests_total"], &stats["http_timeouts_total"]),
        (&Value::from(1), &Value::from(1))
    );

    let workers = site.ask("GET /admin/workers", &[]).await.json();
    has(&workers, "worker_autostart worker_pool_size worker_max_requests worker_sockets workers");
    has(
        &workers["workers"][1],
        "id socket alive pid rss_kb draining inflight_requests served_requests restart_count \
         next_retry_ts",
    );
    assert_eq!(workers["workers"][0]["alive"], true);
    assert_eq!(workers["workers"][0]["rss_kb"], 32 << 10);
    assert_eq!(workers["workers"][1]["alive"], false);
    assert!(workers["workers"][1]["next_retry_ts"].as_u64() > Some(1_600_000_000_000));
    assert_eq!(workers["worker_sockets"][1], "/run/hedgerow/1.sock");

    let upstreams = site.ask("GET /admin/runtime/upstreams?limit=5&details=1", &[]).await.json();
    let names = ["active_count", "details", "limit", "offset", "returned_count", "sessions"];
    assert_eq!(fields(&upstreams), names);
    assert_eq!(
        (&upstreams["limit"], &upstreams["sessions"]),
        (&Value::from(5), &Value::Array(Vec::new()))
    );
}

#[tokio::test]
async fn the_live_table_shows_and_cancels() {
    let site = site(|_| {});
    let now = site.recorder.inner.clock.now();
    let old = site.recorder.begin(crate::record::Start { received: now, ..start("a:1") });
    old.set_stage(Stage::Working);
    old.set_worker(1, None);
    old.set_deadline(now + Duration::from_secs(60));
    let received = now + Duration::from_nanos(1);
    let new = site.recorder.begin(crate::record::Start { received, ..start("b") });
    let shown = site.ask("GET /admin/requests", &[]).await.json();
    let first = &shown["requests"][0];
    has(first, "trace_id request_id method path phase age_ms phase_ms worker_id deadline_ms");
    assert_eq!((&first["trace_id"], &first["phase"]), (&"a:1".into(), &"working".into()));
    assert!(first["deadline_ms"].as_i64().is_some_and(|left| left > 0 && left <= 60_000));
    assert_eq!(shown["requests"][1]["worker_id"], Value::Null);
    let limited = site.ask("GET /admin/requests?limit=1", &[]).await.json();
    assert_eq!(
        (&limited["total"], limited["requests"].as_array().map(Vec::len)),
        (&Value::from(2), Some(1))
    );

    let cancelled = site.ask("POST /admin/requests/a%3A1/cancel", &[]).await;
    assert_eq!((cancelled.status, &cancelled.json()["cancelled"]), (200, &Value::from(1)));
    old.cancelled().await;
    assert_eq!(site.ask("POST /admin/requests/nobody/cancel", &[]).await.status, 404);
    assert_eq!(site.ask("GET /admin/stats", &[]).await.json()["admin_actions_total"], 1);
    drop((old, new));
    site.recorder.close();
    assert_eq!(site.events.objects()[0]["type"], "admin.action");
}

#[tokio::test]
async fn workers_are_restarted() {
    let site = site(|_| {});
    let one = site.ask("POST /admin/workers/restart?id=1", &[]).await;
    assert_eq!((one.status, &one.json()["worker"]["id"]), (200, &Value::from(1)));
    let unknown = site.ask("POST /admin/workers/restart?id=99", &[]).await;
    assert_eq!((unknown.status, &unknown.json()["error"]), (404, &"not_found".into()));
    assert!(unknown.head.contains("content-type: application/json"));
    for odd in ["", "?id=", "?id=-1", "?id=x", "?id=99999999999"] {
        assert_eq!(site.ask(&format!("POST /admin/workers/restart{odd}"), &[]).await.status, 400);
    }
    let all = site.ask("POST /admin/workers/restart/all", &[]).await.json();
    assert_eq!(all["restarted"], 2);
    assert_eq!(*site.pool.restarted.lock().expect("not poisoned"), [1, 99, 0, 1]);
}

#[tokio::test]
async fn who_is_not_let_in_learns_nothing() {
    let site = site(|settings| settings.token = Some("s3cret".to_owned()));
    assert_eq!(site.ask("GET /health", &[]).await.status, 200);
    for request in [
        "GET /ready",
        "GET /admin/history",
        "GET /admin/stream",
        "GET /nothing",
        "POST /admin/workers/restart/all",
    ] {
        for lines in [&[][..], &["x-vhttpd-admin-token: wrong"], &["authorization: Bearer wrong"]] {
            let reply = site.ask(request, lines).await;
            assert_eq!((reply.status, reply.body.as_str()), (403, "{\"error\":\"forbidden\"}\n"));
        }
    }
    for token in ["x-vhttpd-admin-token: s3cret", "authorization: Bearer s3cret"] {
        assert_eq!(site.ask("GET /admin/stats", &[token]).await.status, 200);
        let rebound = site.ask("GET /admin/stats", &[token, "host: evil.example"]).await;
        assert_eq!(rebound.status, 403);
        let elsewhere = site.ask("GET /admin/stats", &[token, "origin: http://evil.example"]).await;
        assert_eq!(elsewhere.status, 403);
        assert!(!elsewhere.head.contains("access-control"));
    }
    assert!(site.pool.restarted.lock().expect("not poisoned").is_empty());
}

#[tokio::test]
async fn wrong_methods_and_paths() {
    let site = site(|settings| settings.metrics = false);
    let post = site.ask("POST /admin/stats", &["content-length: 0"]).await;
    assert_eq!((post.status, &post.json()["error"]), (405, &"method_not_allowed".into()));
    assert!(post.head.contains("allow: GET, HEAD"));
    let get = site.ask("GET /admin/workers/restart/all", &[]).await;
    assert!(get.status == 405 && get.head.contains("allow: POST"));
    for path in ["/nothing", "/admin", "/admin/", "/metrics", "/admin/requests//cancel"] {
        let reply = site.ask(&format!("GET {path}"), &[]).await;
        assert_eq!((reply.status, reply.body.as_str()), (404, "{\"error\":\"not_found\"}\n"));
        assert!(reply.head.contains("x-content-type-options: nosniff"));
        assert!(reply.head.contains("cache-control: no-store"));
    }
    let head = site.ask("HEAD /health", &[]).await;
    assert_eq!((head.status, head.body.as_str()), (200, ""));
}

#[tokio::test]
async fn metrics_in_both_forms() {
    let site = site(|_| {});
    site.recorder.begin(start("t")).finish(Outcome { status: 200, failure: None, stream: None });
    site.recorder.on(&Event::QueueGranted { waited: Duration::from_millis(20) });
    site.recorder.bad_head("192.0.2.1".parse().expect("an address"), "tls");
    let page = site.ask("GET /metrics", &[]).await;
    assert!(page.head.contains("text/plain; version=0.0.4"), "{}", page.head);
    for line in [
        "hedgerow_http_requests_total{method=\"GET\",status=\"200\",error_class=\"none\"} 1",
        "hedgerow_http_request_duration_seconds_count 1",
        "hedgerow_http_requests_in_flight 0",
        "hedgerow_workers{state=\"busy\"} 1",
        "hedgerow_workers{state=\"idle\"} 0",
        "hedgerow_worker_queue_depth 3",
        "hedgerow_worker_queue_wait_seconds_bucket{le=\"0.025\"} 1",
        "hedgerow_worker_restarts_total{reason=\"timeout\"} 0",
        "hedgerow_bad_heads_total{reason=\"tls\"} 1",
        "hedgerow_body_memory_bytes 0",
        "hedgerow_events_dropped_total 0",
        "hedgerow_worker_output_dropped_total{reason=\"too_fast\"} 0",
        "hedgerow_connections 0",
        "hedgerow_worker_resident_memory_bytes 33554432",
        "hedgerow_history_rows_limit 900",
        "hedgerow_dashboard_streams 0",
    ] {
        assert!(page.body.lines().any(|shown| shown == line), "{line} is missing:\n{}", page.body);
    }
    let helped = page.body.lines().filter(|line| line.starts_with("# HELP")).count();
    let typed = page.body.lines().filter(|line| line.starts_with("# TYPE")).count();
    assert_eq!(helped, typed);
    let newer = site.ask("GET /metrics", &["accept: application/openmetrics-text"]).await;
    assert!(newer.head.contains("application/openmetrics-text") && newer.body.ends_with("# EOF\n"));
}

#[tokio::test]
async fn what_cannot_start_says_why() {
    let taken = site(|_| {});
    let again = |listen, token: Option<&str>| {
        let recorder = taken.recorder.clone();
        let clock = recorder.inner.clock;
        let token = token.map(str::to_owned);
        let settings = Settings { listen, token, ..Settings::default() };
        Admin::start(settings, recorder, Arc::new(taken.plane.clone()), clock)
            .expect_err("cannot start")
            .to_string()
    };
    let addr = taken.admin.local_addr();
    assert!(again(addr, None).starts_with(&format!("cannot listen on the admin address {addr}:")));
    let open = SocketAddr::from(([0, 0, 0, 0], 0));
    for token in [None, Some("")] {
        assert!(again(open, token).contains("admin.token must be set"));
    }
}

#[tokio::test]
async fn a_stop_ends_idle_connections() {
    let site = site(|_| {});
    let mut idle = TcpStream::connect(site.admin.local_addr()).await.expect("connects");
    let head = format!("GET /health HTTP/1.1\r\nhost: {}\r\n\r\n", site.admin.local_addr());
    idle.write_all(head.as_bytes()).await.expect("writes");
    let mut first = [0; 12];
    idle.read_exact(&mut first).await.expect("reads");
    assert_eq!(&first, b"HTTP/1.1 200");
    let addr = site.admin.local_addr();
    site.admin.stop().await;
    let mut rest = Vec::new();
    idle.read_to_end(&mut rest).await.expect("an end");
    assert!(TcpStream::connect(addr).await.is_err());
}

#[tokio::test]
async fn who_asks_nothing_keeps_nobody_out() {
    let site = site(|settings| settings.max_connections = 64);
    let mut idle = Vec::new();
    for _ in 0..200 {
        let mut stream = TcpStream::connect(site.admin.local_addr()).await.expect("connects");
        let _ = stream.write_all(b"GET /health HTTP/1.1\r\n").await;
        idle.push(stream);
    }
    let clock = site.recorder.inner.clock;
    let health = clock.until(clock.now() + HEAD / 4, site.ask("GET /health", &[])).await;
    assert_eq!(health.map(|reply| reply.status), Some(200));
}

#[test]
fn the_token_is_not_shown() {
    let settings = Settings { token: Some("s3cret".to_owned()), ..Settings::default() };
    assert!(!format!("{settings:?}").contains("s3cret"));
}
