//! Signals that come at a bad time.

use crate::server::{self, HEDGEROW, Lines, Server};
use hedgerow_testkit::processes::{alive, descendants, signal};
use hedgerow_testkit::scratch::Scratch;
use hedgerow_testkit::until::until;
use rustix::process::Signal;

#[test]
fn sigterm_while_workers_boot_leaves_nothing() {
    let scratch = Scratch::new();
    scratch.file(
        "hedgerow.toml",
        server::config(&format!(
            "worker.command = \"{HEDGEROW} stage worker --fork-child --boot hang\"\nworker.start_timeout_ms = 60000\nworker.pool_size = 2"
        )),
    );
    let mut child = server::spawn(&scratch, &[]);
    let mut stderr = Lines::of(child.stderr.take().unwrap());
    // The guard, two workers and the child of each.
    let family = until("the workers and their children", || {
        let family = descendants(child.id());
        (family.len() == 5).then_some(family)
    });
    signal(child.id(), Signal::TERM);
    let status = until("the end of hedgerow", || child.try_wait().unwrap());
    assert_eq!(status.code(), Some(0), "{}", stderr.text());
    for pid in family {
        until("a process of the family ends", || (!alive(pid)).then_some(()));
    }
    stderr.join();
    assert_eq!(std::fs::read_dir(scratch.path().join("run")).unwrap().count(), 0, "left behind");
}

#[test]
fn a_second_sigterm_does_not_wait_for_the_drain() {
    let mut server = Server::start(
        "server.drain_ms = 60000\nworker.read_timeout_ms = 60000\nserver.request_timeout_ms = 60000",
    );
    let family = descendants(server.pid());
    let _hanging = server.begin("/hang");
    server.wait_phase("working", 1);
    server.signal(Signal::TERM);
    until("the drain", || std::net::TcpStream::connect(server.addr).is_err().then_some(()));
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0), "{}", server.stderr());
    server.nothing_is_left(&family);
    server.forget();
}

#[test]
fn sigterm_while_a_reload_boots_its_workers_leaves_nothing() {
    let server = Server::start("");
    let slow = format!(
        "worker.command = \"{HEDGEROW} stage worker --boot hang\"\nworker.start_timeout_ms = 60000"
    );
    let before = descendants(server.pid()).len();
    server.scratch.file("hedgerow.toml", server::config(&slow));
    server.reload();
    until("the new worker", || (descendants(server.pid()).len() > before).then_some(()));
    assert_eq!(server.get("/hello").text(), "hello\n", "the old worker serves on");
    // Dropping the server ends it, and looks for what is left.
}

#[test]
fn reloads_that_come_faster_than_workers_boot_end_with_the_last_configuration() {
    let server = Server::start("");
    for size in [2, 3, 1, 2] {
        server.scratch.file("hedgerow.toml", server::config(&format!("worker.pool_size = {size}")));
        server.reload();
    }
    server.event("reload.done", |_| true);
    until("the last size", || {
        let workers = server.admin("/admin/workers");
        (workers["worker_pool_size"] == 2).then_some(())
    });
    assert_eq!(server.wait_workers(2).len(), 2);
    assert_eq!(server.get("/hello").text(), "hello\n");
}
