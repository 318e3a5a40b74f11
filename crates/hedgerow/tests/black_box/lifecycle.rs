//! Cases 39, 46 to 48, 54 and 55: workers and gateways that start, end and change over.

use crate::envelope::assert_failure;
use crate::server::{self, Lines, Server};
use hedgerow_testkit::processes::{alive, children, descendants, signal};
use hedgerow_testkit::scratch::Scratch;
use hedgerow_testkit::until::until;
use rustix::process::Signal;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

#[test]
fn case_46_a_worker_killed_while_idle_is_replaced_without_a_request() {
    let server = Server::start("worker.restart_backoff_ms = 50");
    let old = server.workers()[0];
    signal(old, Signal::KILL);
    let exited = server.event("worker.exited", |event| event["pid"] == old);
    assert_eq!(exited["status"], "was ended by signal 9", "{exited}");
    server.event("worker.restarted", |event| event["worker_id"] == 0);
    assert!(!server.events().iter().any(|event| event["type"] == "http.request"));
    assert_ne!(server.wait_workers(1), [old]);
    assert_eq!(server.get("/hello").text(), "hello\n");
    assert_eq!(server.metric("worker_restarts_total{reason=\"exit\"}"), Some(1.0));
}

#[test]
fn case_47_sigterm_lets_the_request_end_and_leaves_nothing() {
    let mut server = Server::start("worker.pool_size = 2");
    let workers = server.wait_workers(2);
    let family = descendants(server.pid());
    let mut idle = server.begin("/hello");
    assert_eq!(idle.response().status(), 200);
    let mut streaming = server.begin("/stream/text?n=3&ms=200");
    streaming.up_to(b"line 1\n");
    let mut asking = server.begin("/sleep?ms=500");
    server.wait_phase("working", 1);

    server.signal(Signal::TERM);
    let response = asking.response();
    assert_eq!((response.status(), response.text()), (200, "slept\n"));
    assert!(streaming.rest().ends_with(b"0\r\n\r\n"), "the stream ends in order");
    assert!(idle.rest().is_empty(), "an idle connection is closed");
    assert_eq!(server.wait().code(), Some(0), "{}", server.stderr());
    server.nothing_is_left(&family);
    assert!(workers.into_iter().all(|pid| !alive(pid)));
    assert!(TcpStream::connect(server.addr).is_err() && TcpStream::connect(server.admin).is_err());
    let stopped = server.event("server.stopped", |_| true);
    assert_eq!(stopped["reason"], "signal", "{stopped}");
    server.forget();
}

#[test]
fn case_47_what_does_not_end_within_the_drain_is_ended() {
    let server = Server::start("server.drain_ms = 200\nworker.read_timeout_ms = 20000");
    let mut hanging = server.begin("/hang");
    server.wait_phase("working", 1);
    let ended = server.stop();
    assert_failure(&hanging.response(), 503, "draining");
    let event = ended.events.iter().find(|event| event["path"] == "/hang").expect("its event");
    assert_eq!(event["error_class"], "draining", "{event}");
}

/// Asks on and on, each time over a new connection and over a kept one. Whatever is not a 200 is
/// kept to be shown.
fn load(server: &Server, stop: &AtomicBool, served: &AtomicU32) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut kept = server.connect();
    while !stop.load(Relaxed) {
        let fresh = server.get("/sleep?ms=2");
        kept.get("/hello");
        let again = kept.response();
        if again.header("connection") == Some("close") {
            kept = server.connect();
        }
        for response in [fresh, again] {
            if response.status() != 200 {
                wrong.push(format!("{response:?}"));
            }
            served.fetch_add(1, Relaxed);
        }
    }
    wrong
}

#[test]
fn case_48_a_reload_under_load_changes_the_workers_and_fails_no_request() {
    let server = Server::start(
        "worker.pool_size = 2\nworker.queue_capacity = 50\nworker.queue_timeout_ms = 10000",
    );
    let mut seen = server.wait_workers(2);
    let mut stream = server.begin("/stream/sse?n=40&ms=25");
    let (stop, served) = (AtomicBool::new(false), AtomicU32::new(0));
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let loads: Vec<_> = (0..3).map(|_| scope.spawn(|| load(&server, &stop, &served))).collect();
        for reloads in 1..=3 {
            server.reload();
            until("the reload", || {
                let done = |e: &&serde_json::Value| e["type"] == "reload.done";
                (server.events().iter().filter(done).count() == reloads).then_some(())
            });
            let now = server.wait_workers(2);
            assert!(now.iter().all(|pid| !seen.contains(pid)), "{now:?} after {seen:?}");
            seen.extend(now);
            let before = served.load(Relaxed);
            until("requests on the new ones", || {
                (served.load(Relaxed) > before + 20).then_some(())
            });
        }
        stop.store(true, Relaxed);
        loads.into_iter().flat_map(|load| load.join().expect("no panic")).collect()
    });
    assert!(wrong.is_empty(), "{wrong:?}");
    // The stream began on a worker that has been replaced since.
    let events = stream.response();
    assert_eq!(events.text().matches("event: tick").count(), 40, "{events:?}");
    assert!(events.complete);
    let old = &seen[..seen.len() - 2];
    until("the old workers are gone", || old.iter().all(|pid| !alive(*pid)).then_some(()));
}

#[test]
fn case_55_a_reload_onto_an_application_that_does_not_boot_is_abandoned() {
    let scratch = Scratch::new();
    let broken = scratch.path().join("broken");
    let command = format!(
        "worker.command = \"{} stage worker --boot-fail-file {}\"",
        server::HEDGEROW,
        broken.display()
    );
    let server = Server::start_in(scratch, &command, &[]);
    let old = server.workers();
    std::fs::write(&broken, "").unwrap();
    server.reload();
    let abandoned = server.event("reload.abandoned", |_| true);
    let why = abandoned["error"].as_str().unwrap();
    assert!(why.contains("told to fail to boot"), "{abandoned}");
    assert_eq!(server.workers(), old);
    assert_eq!(server.get("/hello").text(), "hello\n");
    until("stderr says so", || server.stderr().contains("reload abandoned").then_some(()));

    std::fs::remove_file(&broken).unwrap();
    server.reload();
    server.event("reload.done", |_| true);
    assert_ne!(server.wait_workers(1), old);
    assert_eq!(server.get("/hello").text(), "hello\n");
}

#[test]
fn case_55_a_reload_of_a_broken_file_is_abandoned_and_a_good_one_takes_effect() {
    let server = Server::start("");
    let old = server.workers();
    server.scratch.file("hedgerow.toml", "worker.pool_size = \"many\"\n");
    server.reload();
    let abandoned = server.event("reload.abandoned", |_| true);
    assert!(abandoned["error"].as_str().unwrap().contains("pool_size"), "{abandoned}");
    assert_eq!(server.workers(), old);
    assert_eq!(server.get("/hello").text(), "hello\n");

    let better = "worker.pool_size = 2\nserver.body_limit = 3\nfailure.header_prefix = \"x-new\"";
    server.scratch.file("hedgerow.toml", server::config(better));
    server.reload();
    server.event("reload.done", |_| true);
    assert_eq!(server.wait_workers(2).len(), 2);
    let refused = until("the new limit", || {
        let response = server.post("/echo", b"1234");
        (response.status() == 413).then_some(response)
    });
    assert_eq!(refused.header("x-new-error-class"), Some("request_too_large"));
}

#[test]
fn case_55_a_reload_into_a_directory_that_cannot_be_made_is_abandoned_and_says_so() {
    let server = Server::start("");
    let old = server.workers();
    let lines = "worker.socket_dir = \"/proc/no-such-place\"";
    server.scratch.file("hedgerow.toml", server::config(lines));
    server.reload();
    let abandoned = server.event("reload.abandoned", |_| true);
    assert!(abandoned["error"].as_str().unwrap().contains("/proc/no-such-place"), "{abandoned}");
    assert_eq!(server.workers(), old);
    assert_eq!(server.get("/hello").text(), "hello\n");
}

#[test]
fn a_reload_says_which_changes_it_cannot_put_in_force() {
    let server = Server::start("");
    let lines = "admin.token = \"new\"\nserver.max_connections = 7\nserver.body_limit = 3";
    server.scratch.file("hedgerow.toml", server::config(lines));
    server.reload();
    until("the line", || {
        let line = "changed, but read at start only: server.max_connections, [admin]\n";
        server.stderr().contains(line).then_some(())
    });
    assert_eq!(
        server.admin_request("GET /admin/stats").status(),
        200,
        "without a token, as before"
    );
    assert_eq!(server.post("/echo", b"1234").status(), 413);
}

#[test]
fn case_54_an_application_that_never_was_ready_is_a_500_and_starts_back_off() {
    let server = Server::start(&format!(
        "worker.command = \"{} stage worker --boot exit\"",
        server::HEDGEROW
    ));
    for _ in 0..2 {
        assert_failure(&server.get("/hello"), 500, "worker_runtime_error");
    }
    assert_eq!(server.admin_request("GET /ready").status(), 503);
    let delays = |server: &Server| -> Vec<f64> {
        let events = server.events();
        let scheduled = events.iter().filter(|e| e["type"] == "worker.restart_scheduled");
        scheduled.map(|e| e["delay_ms"].as_f64().unwrap()).collect()
    };
    let delays = until("three delays", || Some(delays(&server)).filter(|d| d.len() >= 3));
    // Each is at least what the one before was, give or take the jitter, up to the bound.
    assert!(delays[2] > delays[0] && delays.iter().all(|d| *d <= 250.0), "{delays:?}");
    assert_failure(&server.get("/hello"), 500, "worker_runtime_error");
}

#[test]
fn cases_39_54_workers_that_once_were_ready_and_die_are_a_503_and_no_other_content() {
    let scratch = Scratch::new();
    let broken = scratch.path().join("broken");
    let lines = format!(
        "worker.command = \"{} stage worker --boot-fail-file {}\"",
        server::HEDGEROW,
        broken.display()
    );
    let server = Server::start_in(scratch, &lines, &[]);
    assert_eq!(server.get("/hello").text(), "hello\n");
    std::fs::write(&broken, "").unwrap();
    signal(server.workers()[0], Signal::KILL);
    server.event("worker.boot_failed", |_| true);
    for path in ["/", "/hello", "/index.html", "/health", "/admin/workers", "/metrics"] {
        assert_failure(&server.get(path), 503, "worker_pool_exhausted");
    }
    assert_eq!(server.admin_request("GET /ready").status(), 503);
    assert_eq!(server.admin_request("GET /health").status(), 200);
    std::fs::remove_file(&broken).unwrap();
    until("it recovers", || (server.get("/hello").status() == 200).then_some(()));
}

#[test]
fn a_gateway_that_is_killed_takes_its_workers_and_their_children_with_it() {
    let mut server = Server::start(&format!(
        "worker.command = \"{} stage worker --fork-child\"\nworker.pool_size = 2",
        server::HEDGEROW
    ));
    let workers = server.wait_workers(2);
    let grandchildren: Vec<u32> = workers.iter().flat_map(|pid| children(*pid)).collect();
    assert_eq!(grandchildren.len(), 2);
    let family = descendants(server.pid());
    server.signal(Signal::KILL);
    server.wait();
    for pid in family {
        until("a process of the family ends", || (!alive(pid)).then_some(()));
    }
    let run = server.scratch.path().join("run");
    until("the sockets' directory is gone", || {
        std::fs::read_dir(&run).unwrap().next().is_none().then_some(())
    });
    server.forget();
}

/// Runs `serve` that cannot start: exit code 2, nothing on stdout, and what it said.
fn refused(scratch: &Scratch, args: &[&str]) -> String {
    let mut child = server::spawn(scratch, args);
    let mut stdout = Lines::of(child.stdout.take().unwrap());
    let mut stderr = Lines::of(child.stderr.take().unwrap());
    let status = until("the end of hedgerow", || child.try_wait().unwrap());
    // The pipes end with the last process that holds them: nothing was left running.
    stdout.join();
    stderr.join();
    assert_eq!(status.code(), Some(2), "{}", stderr.text());
    assert_eq!(stdout.text(), "");
    let run = std::fs::read_dir(scratch.path().join("run")).unwrap();
    assert_eq!(run.count(), 0, "something was left behind");
    stderr.text()
}

#[test]
fn a_port_in_use_is_one_sentence_and_nothing_is_left_running() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap().to_string();
    let scratch = Scratch::new();
    scratch.file("hedgerow.toml", server::config(""));
    for flag in ["--server-listen", "--admin-listen"] {
        let said = refused(&scratch, &[flag, &addr]);
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains(&addr) && said.contains("in use"), "{said}");
    }
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let scratch = Scratch::new();
    scratch.file("hedgerow.toml", server::config("worker.command = \"no-such-worker --fast\""));
    let said = refused(&scratch, &[]);
    assert!(said.contains("no-such-worker"), "{said}");
    let php = server::config("php.app = \"app.php\"\nphp.bin = \"/nowhere/php\"");
    scratch.file("hedgerow.toml", php);
    let said = refused(&scratch, &[]);
    assert!(said.contains("/nowhere/php"), "{said}");
}

#[test]
fn a_socket_path_that_is_too_long_is_one_report_and_nothing_is_left_running() {
    let scratch = Scratch::new();
    let long = format!("worker.socket_dir = \"/tmp/{}\"", "x".repeat(100));
    scratch.file("hedgerow.toml", server::config(&long));
    let said = refused(&scratch, &[]);
    assert!(said.contains("socket_dir"), "{said}");
}
