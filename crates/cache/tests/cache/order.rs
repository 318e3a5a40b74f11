//! Who gets which reply, and what a lost connection may still do.

use crate::support::Fixture;
use hedgerow_cache::settings::Credential;
use hedgerow_cache::{Cache, Clock, Guarded, GuardedSettings, RedisSettings, Saved};
use hedgerow_policy::observe::Silent;
use hedgerow_testkit::redis::Redis;
use hedgerow_testkit::until::until;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// A lost connection is noticed soon, and nothing but its replacement is in the way.
fn quick(redis: &mut RedisSettings, settings: &mut GuardedSettings) {
    redis.call_timeout = Duration::from_millis(250);
    redis.liveness_timeout = Duration::from_millis(400);
    redis.connect_timeout = Duration::from_millis(400);
    settings.guard.canary = None;
    // Too many for a test to reach: the circuit stays closed.
    settings.guard.breaker.min_throughput = 1_000_000;
    settings.guard.breaker.stall = Duration::ZERO;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadline_ends_one_wait_and_no_connection_case_24() {
    let fixture = Fixture::start().await;
    let before = fixture.server.info("total_connections_received");
    let mut clients: Vec<_> = (0..92).map(|_| fixture.client()).collect();
    for (i, client) in clients.iter_mut().enumerate() {
        client.check(&[(&*format!("SET key:{i} value:{i}"), "+OK")]);
    }
    fixture.server.pause();
    clients[0].send("GET key:0");
    assert_eq!(clients[0].next().unwrap(), "$-1", "its deadline");
    for (i, client) in clients.iter_mut().enumerate() {
        client.send(&format!("GET key:{i}"));
    }
    fixture.server.resume();
    let mut own = 0;
    for (i, client) in clients.iter_mut().enumerate() {
        let reply = client.next().unwrap();
        assert!(reply.ends_with(&format!("value:{i}")) || reply == "$-1", "{reply} for {i}");
        own += usize::from(reply != "$-1");
    }
    assert!(own > 0, "the store was back in time for some");
    assert_eq!(fixture.guarded.snapshot().reconnects, 0);
    // This one asks itself, on a connection of its own.
    let after = fixture.server.info("total_connections_received");
    assert_eq!(after - before, 1, "the second question");
    assert!(fixture.guarded.snapshot().late_replies >= 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_connection_is_never_replaced() {
    let fixture = Fixture::with(Redis::start(), |redis, settings, _| quick(redis, settings)).await;
    let mut client = fixture.client();
    client.check(&[("SET a 1", "+OK")]);
    // As long as several liveness timeouts take, told by another connection that waits.
    fixture.server.ask("BLPOP nothing 1");
    client.check(&[("GET a", "$1 1")]);
    assert_eq!(fixture.events.count("Cache(Lost"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_write_never_lands_over_a_newer_one_cases_37_38_47() {
    let fixture = Fixture::with(Redis::start(), |redis, settings, _| quick(redis, settings)).await;
    let mut client = fixture.client();
    client.check(&[("SET k v0", "+OK"), ("SET only v0", "+OK"), ("HSET h f v0 g v0", ":2")]);
    fixture.server.pause();
    client.send_all(&["SET k v1", "SET only v1", "HSET h f v1", "INCR n"]);
    let replies: Vec<String> = (0..4).map(|_| client.next().unwrap()).collect();
    assert_eq!(&replies[..3], ["$-1", "$-1", ":0"]);
    assert!(replies[3].starts_with("-TIMEOUT"), "{}", replies[3]);
    until("the connection to be given up", || {
        (fixture.events.count("silent for the liveness") >= 1).then_some(())
    });
    fixture.server.resume();
    until("the newer value", || (client.ask("SET k v2") == "+OK").then_some(()));
    client.check(&[
        ("GET k", "$2 v2"),
        ("GET only", "$-1"),
        ("HGET h f", "$-1"),
        ("HGET h g", "$2 v0"),
    ]);
    // Whatever the old connection held has been carried out by now, or never will be.
    for _ in 0..50 {
        client.check(&[("GET k", "$2 v2"), ("GET only", "$-1")]);
    }
    let shown = fixture.guarded.snapshot();
    assert!(shown.order_guaranteed);
    assert_eq!((shown.reconnects, shown.settled), (1, 3), "k, only, and a field of h, once");
    let clients = fixture.server.ask("CLIENT LIST");
    assert_eq!(clients.matches("name=hedgerow").count(), 1, "{clients}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_connection_serves_though_all_who_waited_for_it_have_left() {
    let fixture = Fixture::with(Redis::start(), |redis, settings, _| quick(redis, settings)).await;
    let mut client = fixture.client();
    client.check(&[("SET a 1", "+OK")]);
    fixture.server.pause();
    client.check(&[("GET a", "$-1")]);
    fixture.events.wait("silent for the liveness", 1);
    // These wait for the new connection, and are gone before it is there.
    client.check(&[("GET a", "$-1"), ("GET a", "$-1")]);
    fixture.server.resume();
    fixture.events.wait("again: true", 1);
    until("an answer", || (client.ask("GET a") == "$1\r\n1").then_some(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stall_beyond_the_liveness_timeout_ends_early_too_case_40() {
    let fixture = Fixture::with(Redis::start(), |redis, _, _| {
        redis.liveness_timeout = Duration::from_millis(600);
    })
    .await;
    fixture.stall();
    fixture.events.wait("silent for the liveness", 1);
    fixture.events.wait("Canary { good: false }", 3);
    fixture.server.resume();
    fixture.events.wait("cause: EarlyEnd", 1);
    fixture.client().check(&[("SET a 1", "+OK"), ("GET a", "$1 1")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_forbids_it_is_said_so_and_doubts_read_as_misses_case_48() {
    let server = Redis::start();
    server.ask("ACL SETUSER app on >secret ~* &* +@all -client|kill");
    let fixture = Fixture::with(server, |redis, settings, _| {
        quick(redis, settings);
        let (user, password) = (Some("app".to_owned()), "secret".to_owned());
        redis.credential = Some(Credential { user, password });
    })
    .await;
    assert!(!fixture.guarded.snapshot().order_guaranteed);
    assert_eq!(fixture.events.count("order_guaranteed: false"), 1);
    let mut client = fixture.client();
    client.check(&[("SET k v0", "+OK"), ("SET other v0", "+OK")]);
    fixture.server.pause();
    client.check(&[("SET k v1", "$-1")]);
    until("the connection to be given up", || {
        (fixture.events.count("silent for the liveness") >= 1).then_some(())
    });
    until("the doubt", || {
        fixture.guarded.snapshot().lanes.iter().any(|lane| lane.in_doubt == 1).then_some(())
    });
    client.check(&[("GET k", "$-1")]);
    fixture.server.resume();
    until("the old connection's end", || {
        let reply = client.ask("GET k");
        assert_eq!(reply, "$-1", "in doubt, and then removed");
        (fixture.guarded.snapshot().lanes.iter().all(|lane| lane.in_doubt == 0)
            && client.ask("GET other") == "$2\r\nv0")
            .then_some(())
    });
    client.check(&[("GET k", "$-1"), ("SET k v2", "+OK"), ("GET k", "$2 v2")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_was_restarted_is_taken_up_again() {
    let mut fixture =
        Fixture::with(Redis::start(), |redis, settings, _| quick(redis, settings)).await;
    let mut client = fixture.client();
    client.check(&[("SET a 1", "+OK")]);
    fixture.server.kill();
    until("the loss", || (fixture.events.count("Cache(Lost") >= 2).then_some(()));
    assert_eq!(client.ask("GET a"), "$-1");
    assert!(client.ask("INCR a").starts_with("-STOREDOWN"));
    fixture.server.start_again();
    until("a connection", || (client.ask("SET a 2") == "+OK").then_some(()));
    client.check(&[("GET a", "$1 2")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_takes_nothing_fails_callers_at_their_deadline_case_26() {
    let fixture = Fixture::with(Redis::start(), |redis, settings, _| {
        quick(redis, settings);
        redis.liveness_timeout = Duration::from_secs(20);
        redis.queue_bytes = 8 << 20;
    })
    .await;
    let mut client = fixture.client();
    client.check(&[("SET a 1", "+OK")]);
    fixture.server.pause();
    let big = "v".repeat(1 << 20);
    for _ in 0..16 {
        assert_eq!(client.ask(&format!("SET big {big}")), "$-1");
    }
    fixture.server.resume();
    until("the store again", || (client.ask("GET a") == "$1\r\n1").then_some(()));
    assert_eq!(fixture.guarded.snapshot().reconnects, 0);
}

/// A store that greets as one does and then answers one GET so slowly that it is never silent for
/// long, and never done in time.
fn trickling(listener: &TcpListener, pieces: usize) {
    let (mut stream, _) = listener.accept().expect("a connection");
    let mut greeting = vec![0u8; 4096];
    let mut asked = 0;
    while asked < 6 {
        let count = stream.read(&mut greeting).expect("a greeting");
        asked += greeting[..count].iter().filter(|&&b| b == b'*').count();
    }
    stream.write_all(b"+OK\r\n:1\r\n+x addr=1:1 \r\n+run_id:a\r\n:0\r\n*0\r\n").expect("an answer");
    let _ = stream.read(&mut greeting).expect("a command");
    let piece = vec![b'v'; 1024];
    stream.write_all(format!("${}\r\n", pieces * piece.len()).as_bytes()).expect("a head");
    let clock =
        tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a clock");
    clock.block_on(async {
        let pace = Clock::start();
        for _ in 0..pieces {
            stream.write_all(&piece).expect("it reads");
            pace.sleep_until(pace.now() + Duration::from_millis(10)).await;
        }
    });
    stream.write_all(b"\r\n").expect("it reads");
    let _ = stream.read(&mut greeting).expect("a save");
    stream.write_all(b"+OK\r\n").expect("it reads");
    let _ = stream.read(&mut greeting);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_that_trickles_in_is_no_silence_case_25() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let store = std::thread::spawn(move || trickling(&listener, 100));
    let mut redis = RedisSettings::from_url(&format!("redis://127.0.0.1:{port}")).unwrap();
    let mut settings = GuardedSettings::default();
    quick(&mut redis, &mut settings);
    let cache = Guarded::redis(redis, settings, Arc::new(Silent), Clock::start()).unwrap();
    until("the connection", || cache.snapshot().lanes[0].connected.then_some(()));
    assert_eq!(cache.load(b"big").await, None, "its deadline");
    until("the rest of it", || (cache.snapshot().late_replies >= 1).then_some(()));
    assert_eq!(cache.snapshot().reconnects, 0);
    // The reply behind it still finds its caller, late or not.
    assert_eq!(cache.save(b"k", b"v", None).await, Saved::Stored);
    assert!(cache.snapshot().lanes[0].connected);
    drop(cache);
    store.join().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_not_there_is_no_error_and_no_flood() {
    let nobody = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = nobody.local_addr().unwrap().port();
    let mut redis = RedisSettings::from_url(&format!("redis://127.0.0.1:{port}")).unwrap();
    redis.connect_timeout = Duration::from_millis(200);
    let events = Arc::new(hedgerow_testkit::events::Events::default());
    let settings = GuardedSettings::default();
    let cache = Guarded::redis(redis, settings, events.clone(), Clock::start()).unwrap();
    let taken = Arc::new(AtomicUsize::new(0));
    let counts = taken.clone();
    tokio::spawn(async move {
        // Who is let in and hears nothing has found no store either.
        let mut held = Vec::new();
        while let Ok((stream, _)) = nobody.accept().await {
            counts.fetch_add(1, Relaxed);
            held.push(stream);
        }
    });
    until("three attempts", || (taken.load(Relaxed) >= 3).then_some(()));
    assert_eq!(cache.load(b"k").await, None);
    assert_eq!(cache.save(b"k", b"v", None).await, Saved::Failed);
    // Each attempt waits twice as long as the one before.
    assert!(taken.load(Relaxed) <= 6);
    assert_eq!(events.count("Cache(Lost"), 1, "the same reason is told once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalidation_that_the_store_forbids_settles_nothing() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client();
    client.check(&[("SET k v1", "+OK")]);
    fixture.server.ask("ACL SETUSER default -del -unlink");
    fixture.stall();
    client.check(&[("DEL k", ":0")]);
    fixture.server.resume();
    fixture.recovered();
    assert!(client.ask("DEL k").starts_with("-NOPERM"));
    client.check(&[("GET k", "$-1")]);
    fixture.server.ask("ACL SETUSER default +@all");
    until("the replay", || {
        client.check(&[("GET k", "$-1")]);
        fixture.guarded.snapshot().journal.depth.eq(&0).then_some(())
    });
    assert_eq!(fixture.server.ask("EXISTS k"), ":0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_that_comes_late_is_nobodys_though_its_client_is_idle() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client();
    fixture.server.pause();
    client.check(&[("GET a", "$-1")]);
    fixture.server.resume();
    until("the late reply", || fixture.guarded.snapshot().late_replies.eq(&1).then_some(()));
    client.check(&[("GET a", "$-1"), ("PING", "+PONG")]);
}
