//! What is shed, what is repaired, what is journalled.

use crate::support::Fixture;
use hedgerow_cache::settings::Shed;
use hedgerow_cache::{Cache, GuardedSettings, Leased, Purged, Saved};
use hedgerow_policy::breaker::Override;
use hedgerow_policy::journal::{JournalConfig, Overflow};
use hedgerow_testkit::redis::Redis;
use hedgerow_testkit::scratch::Scratch;
use hedgerow_testkit::until::until;
use std::time::Duration;

/// How often the store was asked for a command.
fn asked(server: &Redis, command: &str) -> u64 {
    let text = server.ask("INFO commandstats");
    let line =
        text.split("\r\n").find_map(|l| l.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.and_then(|l| l.split(',').next()?.parse().ok()).unwrap_or(0)
}

fn canary_off(settings: &mut GuardedSettings) {
    settings.guard.canary = None;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_open_reads_reach_nothing_and_saves_the_store_cases_1_2_41() {
    let fixture = Fixture::with(Redis::start(), |_, settings, _| canary_off(settings)).await;
    let mut client = fixture.client();
    client.check(&[("SET old v", "+OK"), ("HSET h f 1", ":1")]);
    fixture.guarded.hold(Override::ForceOpen);
    let before = asked(&fixture.server, "get");
    client.check(&[
        ("GET old", "$-1"),
        ("MGET old x", "*2 $-1 $-1"),
        ("HMGET h f x", "*2 $-1 $-1"),
        ("HGETALL h", "*0"),
        ("EXISTS old", ":0"),
        ("TTL old", ":-2"),
        ("TYPE old", "+none"),
        ("SCAN 0", "*2 $1 0 *0"),
        ("DBSIZE", ":0"),
    ]);
    assert!(client.ask("INCR n").starts_with("-CIRCUITOPEN"));
    assert!(client.ask("SET old v GET").starts_with("-CIRCUITOPEN"));
    assert!(client.ask("EVAL return1 0").starts_with("-CIRCUITOPEN"));
    assert!(client.ask("BLPOP l 1").starts_with("-CIRCUITOPEN"));
    // One after the other: until one has landed, a second would wait for nothing.
    client.check(&[
        ("SET a 1", "+OK"),
        ("SET b 2 EX 100", "+OK"),
        ("SETEX c 100 3", "+OK"),
        ("MSET d 4 e 5", "+OK"),
        ("HSET h g 2", ":1"),
        ("EXPIRE old 50", ":1"),
        ("SET a 9 NX", "$-1"),
        ("SETNX a 9", ":0"),
    ]);
    assert!(fixture.guarded.touch(b"a", Duration::from_secs(5)).await);
    assert!(!fixture.guarded.touch(b"nothing", Duration::from_secs(5)).await);
    assert_eq!(fixture.guarded.save(b"f", b"6", None).await, Saved::Stored);
    assert_eq!(fixture.guarded.load(b"f").await, None);
    assert_eq!(asked(&fixture.server, "get"), before);
    assert_eq!(
        fixture.server.ask("MGET a b c d e f").replace("\r\n", " "),
        "*6 $1 1 $1 2 $1 3 $1 4 $1 5 $1 6"
    );
    let shown = fixture.guarded.snapshot();
    assert!(fixture.state_is("Open"));
    assert_eq!((shown.counts.shed, shown.counts.miss), (10, 0));
    // NX on a key that is there, and a touch of one that is not, are no failures.
    assert_eq!((shown.counts.repairs_landed, shown.counts.repairs_refused), (10, 1));
    assert_eq!(shown.counts.repairs_failed, 0);
    fixture.guarded.hold(Override::ForceClosed);
    client.check(&[("GET a", "$1 1")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_store_costs_one_repair_an_episode_case_3() {
    let fixture = Fixture::start().await;
    fixture.stall();
    let mut client = fixture.client();
    for round in 0..100 {
        let lines: Vec<String> = (0..100).map(|i| format!("SET save:{round}:{i} v")).collect();
        client.send_all(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        (0..100).for_each(|_| assert_eq!(client.next().unwrap(), "$-1"));
    }
    let counts = fixture.guarded.snapshot().counts;
    assert_eq!((counts.repairs_failed, counts.repairs_landed), (1, 0));
    assert_eq!(counts.writes_skipped, 9_999);
    assert!(counts.canaries_failed <= 35);
    fixture.server.resume();
    fixture.recovered();
    let keys = fixture.server.ask("KEYS save:*");
    assert!(keys == "*0" || keys.starts_with("*1\r\n"), "{keys}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_purged_while_the_store_was_down_is_never_read_again_case_8() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client();
    client.check(&[("SET k v1", "+OK"), ("SET other v1", "+OK"), ("HSET h f v1 g v1", ":2")]);
    assert_eq!(fixture.guarded.save(b"r", b"v1", None).await, Saved::Stored);
    fixture.stall();
    client.check(&[("DEL k", ":0"), ("HDEL h f", ":0"), ("DEL other", ":0")]);
    assert_eq!(fixture.guarded.purge(b"r").await, Purged::Journalled);
    assert!(fixture.guarded.snapshot().journal.depth >= 4);
    fixture.server.resume();
    // From now on whoever reads may read anything but what was purged.
    until("the replay", || {
        for line in ["GET k", "HGET h f", "GET other", "GET r"] {
            assert_eq!(client.ask(line), "$-1", "{line}");
        }
        (fixture.guarded.snapshot().journal.depth == 0).then_some(())
    });
    fixture.recovered();
    client.check(&[("MGET k other r", "*3 $-1 $-1 $-1"), ("HGET h g", "$2 v1")]);
    client.check(&[("SET k v2", "+OK"), ("GET k", "$2 v2")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_save_takes_its_key_out_of_the_journal() {
    let fixture = Fixture::with(Redis::start(), |_, settings, _| canary_off(settings)).await;
    let mut client = fixture.client();
    client.check(&[("SET k v1", "+OK")]);
    fixture.guarded.hold(Override::ForceOpen);
    fixture.server.pause();
    client.check(&[("DEL k", ":0")]);
    assert_eq!(fixture.guarded.snapshot().journal.depth, 1);
    let lease = fixture.guarded.generation(b"k").await;
    assert!(lease.unknown());
    let leased = fixture.guarded.save_with_lease(b"k", b"v2", None, &lease).await;
    assert_eq!(leased, Leased::Refused);
    fixture.server.resume();
    fixture.guarded.hold(Override::Auto);
    until("a save that lands", || (client.ask("SET k v2") == "+OK").then_some(()));
    assert_eq!(fixture.guarded.snapshot().journal.depth, 0);
    fixture.recovered();
    client.check(&[("GET k", "$2 v2")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flush_while_open_leaves_nothing_readable_case_10() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client();
    client.check(&[("MSET a 1 b 2", "+OK")]);
    fixture.stall();
    client.check(&[("FLUSHDB", "+OK")]);
    fixture.server.resume();
    until("the replay", || {
        assert_eq!(client.ask("MGET a b").replace("\r\n", " "), "*2 $-1 $-1");
        fixture.state_is("Closed").then_some(())
    });
    client.check(&[("DBSIZE", ":0"), ("SET a 3", "+OK"), ("GET a", "$1 3")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_journal_that_overflows_sheds_until_it_is_resumed_case_9() {
    for (prefix, flush) in [(&b"app:"[..], false), (b"", true)] {
        let fixture = Fixture::with(Redis::start(), |_, settings, _| {
            settings.journal = JournalConfig { capacity: 100, ..JournalConfig::default() };
            settings.key_prefix = prefix.to_vec();
        })
        .await;
        let mut client = fixture.client();
        for i in 0..101 {
            client.ask(&format!("SET app:{i} v1"));
        }
        client.ask("SET elsewhere v1");
        fixture.stall();
        for i in 0..101 {
            client.check(&[(&*format!("DEL app:{i}"), ":0")]);
        }
        assert_eq!(fixture.guarded.snapshot().journal.overflowed, [0]);
        assert_eq!(fixture.events.count("JournalOverflowed {"), 1);
        fixture.server.resume();
        until("the circuit to close", || {
            assert_eq!(client.ask("GET app:100"), "$-1");
            fixture.state_is("Closed").then_some(())
        });
        client.check(&[("GET elsewhere", "$-1"), ("SET new v2", "+OK"), ("GET new", "$-1")]);
        if flush {
            assert!(
                fixture.guarded.resume(false).await.is_err(),
                "without a prefix it is asked for"
            );
        }
        assert_eq!(fixture.guarded.resume(flush).await.unwrap(), 1);
        let elsewhere = if flush { "$-1" } else { "$2 v1" };
        client.check(&[("GET app:100", "$-1"), ("GET elsewhere", elsewhere)]);
        client.check(&[("SET app:100 v2", "+OK"), ("GET app:100", "$2 v2")]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_journal_that_overflows_may_flush_by_itself() {
    let fixture = Fixture::with(Redis::start(), |_, settings, _| {
        let overflow = Overflow::Flush;
        settings.journal = JournalConfig { capacity: 10, overflow, ..JournalConfig::default() };
    })
    .await;
    let mut client = fixture.client();
    client.ask("SET elsewhere v1");
    fixture.stall();
    for i in 0..11 {
        client.check(&[(&*format!("DEL app:{i}"), ":0")]);
    }
    fixture.server.resume();
    fixture.recovered();
    client.check(&[("GET elsewhere", "$-1"), ("DBSIZE", ":0")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_journal_outlives_the_process_with_a_file() {
    let (server, scratch) = (Redis::start(), Scratch::new());
    let path = scratch.path().join("journal");
    server.ask("MSET a v1 b v1");
    let with_file = |settings: &mut GuardedSettings| settings.journal_file = Some(path.clone());
    let fixture = Fixture::with(server, |_, settings, _| with_file(settings)).await;
    fixture.stall();
    fixture.client().check(&[("DEL a", ":0")]);
    assert_eq!(fixture.guarded.purge(b"b").await, Purged::Journalled);
    let Fixture { server, guarded, port, .. } = fixture;
    drop((guarded, port));
    server.resume();
    let fixture = Fixture::with(server, |_, settings, _| with_file(settings)).await;
    fixture.client().check(&[("MGET a b", "*2 $-1 $-1")]);
    until("the replay's answer", || (fixture.guarded.snapshot().journal.depth == 0).then_some(()));
    assert_eq!(fixture.server.ask("EXISTS a b"), ":0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_are_never_valid_twice_cases_11_12_13_14() {
    let fixture = Fixture::start().await;
    let cache = &fixture.guarded;
    let old = cache.generation(b"k").await;
    assert!(!old.unknown());
    let same = cache.generation(b"k").await;
    assert!(!same.unknown());
    // Until it is invalidated both are valid.
    assert_eq!(cache.save_with_lease(b"k", b"0", None, &same).await, Leased::Stored);
    assert_eq!(cache.save_with_lease(b"k", b"1", None, &old).await, Leased::Stored);
    assert_eq!(cache.purge(b"k").await, Purged::Done);
    assert_eq!(cache.save_with_lease(b"k", b"2", None, &old).await, Leased::Refused);
    // The store has forgotten all it knew, scripts included.
    fixture.server.ask("FLUSHALL");
    fixture.server.ask("SCRIPT FLUSH");
    assert_eq!(cache.save_with_lease(b"k", b"3", None, &old).await, Leased::Refused);
    let new = cache.generation(b"k").await;
    assert_ne!(new, old);
    assert_eq!(cache.save_with_lease(b"k", b"4", None, &old).await, Leased::Refused);
    let minute = Some(Duration::from_secs(60));
    assert_eq!(cache.save_with_lease(b"k", b"5", minute, &new).await, Leased::Stored);
    assert_eq!(cache.load(b"k").await.unwrap(), "5");
    // Nothing is left that does not expire, whether the key was there or not.
    cache.purge(b"k").await;
    cache.purge(b"absent").await;
    assert_eq!(fixture.server.ask("DBSIZE"), ":0");
    cache.generation(b"absent").await;
    let ttl = fixture.server.ask("PTTL hedgerow:lease:{absent}");
    assert!(ttl.trim_start_matches(':').parse::<i64>().unwrap() > 0, "{ttl}");
    // Shed: the lease is good unless the key was purged since.
    cache.hold(Override::ForceOpen);
    cache.purge(b"a").await;
    let (a, b) = (cache.generation(b"a").await, cache.generation(b"b").await);
    assert!(a.unknown() && b.unknown());
    assert_eq!(cache.save_with_lease(b"a", b"1", None, &a).await, Leased::Stored);
    cache.purge(b"b").await;
    assert_eq!(cache.save_with_lease(b"b", b"1", None, &b).await, Leased::Refused);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_store_answers_is_passed_through_cases_7_23() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client();
    client.check(&[("LPUSH l 1", ":1")]);
    assert!(client.ask("GET l").starts_with("-WRONGTYPE"));
    fixture.server.ask("CONFIG SET maxmemory 1");
    for _ in 0..50 {
        assert!(client.ask("SET a 1").starts_with("-OOM"));
    }
    assert!(fixture.state_is("Closed"), "the store answers");
    assert_eq!(fixture.guarded.save(b"a", b"1", None).await, Saved::Failed);
    fixture.server.ask("CONFIG SET maxmemory 0");
    client.check(&[("SET a 1", "+OK"), ("GET a", "$1 1")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_alone_open_the_circuit_cases_7_43() {
    let fixture = Fixture::with(Redis::start(), |_, settings, _| {
        settings.guard.breaker.stall = Duration::ZERO;
    })
    .await;
    fixture.server.pause();
    let mut client = fixture.client();
    until("the circuit to open", || {
        client.send_all(&["SET a 1"; 8]);
        (0..8).for_each(|_| assert_eq!(client.next().unwrap(), "$-1"));
        fixture.state_is("Open").then_some(())
    });
    fixture.events.wait("cause: Rate", 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stall_is_seen_before_timeouts_add_up_and_ends_early_cases_36_46() {
    let fixture = Fixture::start().await;
    fixture.stall();
    assert!(fixture.events.count("cause: Stall") + fixture.events.count("cause: Rate") >= 1);
    fixture.server.resume();
    until("an early end", || (fixture.events.count("cause: EarlyEnd") >= 1).then_some(()));
    let shown = fixture.guarded.snapshot();
    assert!(shown.counts.canaries_good >= 3);
    fixture.client().check(&[("SET a 1", "+OK"), ("GET a", "$1 1")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_near_copy_answers_shed_reads_case_39() {
    let fixture = Fixture::with(Redis::start(), |_, settings, _| {
        canary_off(settings);
        settings.stale = Duration::from_secs(3600);
    })
    .await;
    let mut client = fixture.client();
    client.check(&[("MSET a 1 b 2 c 3", "+OK"), ("GET a", "$1 1"), ("GET b", "$1 2")]);
    fixture.guarded.hold(Override::ForceOpen);
    client.check(&[("GET a", "$1 1"), ("GET c", "$-1"), ("DEL a", ":1"), ("GET a", "$-1")]);
    client.check(&[("SET b 9", "+OK"), ("GET b", "$-1")]);
    let counts = fixture.guarded.snapshot().counts;
    assert_eq!((counts.stale, counts.shed), (1, 3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_instead_of_fallbacks_case_49() {
    let fixture = Fixture::with(Redis::start(), |_, settings, port| {
        canary_off(settings);
        port.shed = Shed::Error;
    })
    .await;
    let mut client = fixture.client();
    fixture.server.pause();
    assert!(client.ask("GET a").starts_with("-TIMEOUT"));
    assert_eq!(client.ask("SET a 1"), "$-1");
    fixture.server.resume();
    fixture.guarded.hold(Override::ForceOpen);
    assert!(client.ask("GET a").starts_with("-CIRCUITOPEN"));
    until("a repair", || (client.ask("SET a 1") == "+OK").then_some(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_are_any_bytes_and_lists_find_them() {
    let fixture = Fixture::start().await;
    let cache = &fixture.guarded;
    let value: Vec<u8> = (0..=255).collect();
    assert_eq!(cache.save(&value, &value, Some(Duration::from_secs(60))).await, Saved::Stored);
    assert_eq!(cache.load(&value).await.unwrap(), value);
    assert_eq!(cache.save(b"p:*1", b"x", None).await, Saved::Stored);
    assert_eq!(cache.save(b"p:21", b"x", None).await, Saved::Stored);
    assert_eq!(cache.list(b"p:*", 10).await, ["p:*1"]);
    assert_eq!(cache.list(b"p:", 10).await.len(), 2);
    assert_eq!(cache.size().await, 3);
    assert!(cache.ping().await);
    assert_eq!(cache.flush().await, Purged::Done);
    assert_eq!(cache.size().await, 0);
}
