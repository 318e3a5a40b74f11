//! The guarded cache through the real binary, in front of a real redis-server.

use crate::server::{Server, command, json};
use hedgerow_testkit::http::Client;
use hedgerow_testkit::redis::Redis;
use hedgerow_testkit::resp::Raw;
use hedgerow_testkit::scratch::Scratch;
use hedgerow_testkit::until::until;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;

/// A server with workers and a port in front of this store, and the port's address.
pub(crate) fn guarded(redis: &Redis, more: &str) -> (Server, SocketAddr) {
    serving(&format!("cache.store = \"redis://127.0.0.1:{}\"\n{more}", redis.port))
}

/// The same in front of the store that the lines name.
pub(crate) fn serving(lines: &str) -> (Server, SocketAddr) {
    let lines = format!("cache.resp.listen = \"127.0.0.1:0\"\n{lines}");
    let server = Server::start(&lines);
    let port = port_of(&server);
    (server, port)
}

/// Where the Redis port of a server is.
pub(crate) fn port_of(server: &Server) -> SocketAddr {
    until("the address of the port", || {
        let said = server.stderr();
        let (_, rest) = said.split_once("cache on redis://")?;
        rest.lines().next()?.parse().ok()
    })
}
#[test]
fn a_stalled_store_sheds_reads_keeps_purges_and_closes_early() {
    let redis = Redis::start();
    let (server, port) = guarded(&redis, "cache.breaker.stall_outstanding = 1");
    let mut caller = Raw::connect(port);
    assert_eq!(caller.ask("SET greeting hello"), "+OK");
    assert_eq!(caller.ask("SET old value"), "+OK");
    assert_eq!(caller.ask("GET greeting"), "$5\r\nhello");

    redis.pause();
    until("the circuit opens", || {
        assert_eq!(caller.ask("GET greeting"), "$-1", "a read that times out is a miss");
        (server.admin("/admin/cache")["state"] == "open").then_some(())
    });
    assert_eq!(caller.ask("DEL old"), ":0", "kept in the journal");
    assert_eq!(caller.ask("INCR counter").split(' ').next(), Some("-CIRCUITOPEN"));
    assert_eq!(caller.ask("PING"), "+PONG");
    let shown = server.admin("/admin/cache");
    assert_eq!(shown["journal_depth"], 1);
    assert!(shown["reads"]["timeout"].as_u64() > Some(0), "{shown}");
    assert_eq!(server.get("/hello").status(), 200, "workers do not mind");
    assert_eq!(server.metric("breaker_state{name=\"cache\"}"), Some(2.0));

    redis.resume();
    until("the episode ends, long before its 30 seconds", || {
        (server.admin("/admin/breakers")["breakers"][0]["state"] == "closed").then_some(())
    });
    assert_eq!(caller.ask("GET old"), "$-1", "the purge was replayed before the first read");
    assert_eq!(caller.ask("GET greeting"), "$5\r\nhello");
    assert_eq!(server.admin("/admin/cache")["journal_depth"], 0);
    let opened = server.event("breaker.transition", |event| event["to"] == "open");
    assert_eq!(opened["name"], "cache");
    server.event("breaker.transition", |event| event["to"] == "closed");
    server.stop();
}

#[test]
fn the_cache_runs_without_workers_and_on_the_embedded_store() {
    let scratch = Scratch::new();
    scratch.file(
        "hedgerow.toml",
        "[admin]\nlisten = \"127.0.0.1:0\"\n[cache.resp]\nlisten = \"127.0.0.1:0\"\n",
    );
    let mut child = command(&scratch, &[]).spawn().expect("hedgerow runs");
    let mut said = String::new();
    let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
    stderr.read_line(&mut said).expect("the start line");
    let (_, rest) = said.split_once("admin on http://").unwrap_or_else(|| panic!("{said}"));
    let (admin, cache) = rest.trim_end().split_once(", cache on redis://").expect("both");
    let mut caller = Raw::connect(cache.parse().expect("an address"));
    assert_eq!(caller.ask("SET a 1"), "+OK");
    assert_eq!(caller.ask("GET a"), "$1\r\n1");
    let mut client = Client::connect(admin.parse().expect("an address"));
    client.send("GET /admin/cache HTTP/1.1\r\nhost: localhost\r\n\r\n");
    assert_eq!(json(client.response().text())["store"], "memory");
    drop((caller, client));
    hedgerow_testkit::processes::signal(child.id(), rustix::process::Signal::TERM);
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn a_reload_changes_deadlines_and_thresholds_and_forgets_nothing() {
    let redis = Redis::start();
    let lines = |timeout: u32, throughput: u32| {
        format!(
            "cache.store = \"redis://127.0.0.1:{}\"\ncache.resp.listen = \"127.0.0.1:0\"\n\
             cache.liveness_timeout_ms = 200000\ncache.call_timeout_ms = {timeout}\n\
             cache.breaker = {{ stall_ms = 0, window_ms = 600000, min_throughput = {throughput} }}",
            redis.port
        )
    };
    let server = Server::start(&lines(100_000, 1000));
    let mut caller = Raw::connect(port_of(&server));
    caller.check(&[("SET a 1", "+OK"), ("GET a", "$1 1"), ("GET a", "$1 1")]);
    let breaker = || server.admin("/admin/breakers")["breakers"][0].clone();
    assert_eq!(breaker()["calls"], 3);

    server.scratch.file("hedgerow.toml", crate::server::config(&lines(50, 4)));
    server.reload();
    server.event("reload.done", |_| true);
    redis.pause();
    // With the old deadline no test would wait for these; with the old threshold nothing opens.
    for _ in 0..3 {
        assert_eq!(caller.ask("GET a"), "$-1");
    }
    let shown = breaker();
    assert_eq!((&shown["state"], &shown["calls"]), (&"open".into(), &6.into()), "{shown}");
    assert!(!server.stderr().contains("read at start only"), "{}", server.stderr());
    redis.resume();
    server.stop();
}

#[test]
fn resume_without_a_prefix_wants_a_flush_to_be_asked_for() {
    let redis = Redis::start();
    let (server, port) =
        guarded(&redis, "cache.breaker.stall_outstanding = 1\ncache.journal = { capacity = 2 }");
    let mut caller = Raw::connect(port);
    redis.pause();
    until("the circuit opens", || {
        caller.ask("GET a");
        (server.admin("/admin/cache")["state"] == "open").then_some(())
    });
    for key in ["a", "b", "c"] {
        caller.ask(&format!("DEL {key}"));
    }
    redis.resume();
    until("the circuit closes", || {
        (server.admin("/admin/cache")["state"] == "closed").then_some(())
    });
    assert_eq!(server.admin("/admin/cache")["journal_overflowed"][0], 0);
    assert_eq!(server.admin_request("POST /admin/cache/resume").status(), 409);
    assert_eq!(server.admin_request("POST /admin/cache/resume?flush=1").status(), 200);
    assert_eq!(caller.ask("SET a 1"), "+OK");
    assert_eq!(caller.ask("GET a"), "$1\r\n1", "reads go through again");
    server.stop();
}
