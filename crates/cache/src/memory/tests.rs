//! The embedded store, command by command, with the moment as an argument.

use super::*;
use bytes::BytesMut;
use proptest::prelude::*;
use std::time::Duration;

struct Client {
    memory: Memory,
    now: Moment,
    database: u32,
    protocol: Protocol,
}

impl Client {
    fn new() -> Client {
        Client {
            memory: Memory::new(1 << 20),
            now: Moment::from_millis(1_000),
            database: 0,
            protocol: Protocol::Resp2,
        }
    }

    fn ask(&self, line: &str) -> String {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.ask_args(&args)
    }

    fn ask_args(&self, args: &[&[u8]]) -> String {
        let mut out = BytesMut::new();
        let asked = Asked {
            args,
            database: self.database,
            protocol: self.protocol,
            now: self.now,
            unix_ms: 1_700_000_000_000 + self.now.as_millis() as i64,
        };
        execute(&self.memory, &asked, &mut out);
        String::from_utf8_lossy(&out).replace("\r\n", " ").trim_end().to_owned()
    }

    fn check(&self, cases: &[(&str, &str)]) {
        for (line, expected) in cases {
            assert_eq!(self.ask(line), *expected, "{line}");
        }
    }
}

#[test]
fn strings() {
    Client::new().check(&[
        ("GET a", "$-1"),
        ("SET a 1", "+OK"),
        ("get a", "$1 1"),
        ("SET a 2 NX", "$-1"),
        ("SET b 2 XX", "$-1"),
        ("SET a 2 XX GET", "$1 1"),
        ("SETNX a 3", ":0"),
        ("INCR a", ":3"),
        ("INCRBY a 10", ":13"),
        ("DECRBY a 3", ":10"),
        ("DECR a", ":9"),
        ("APPEND a x", ":2"),
        ("INCR a", "-ERR value is not an integer or out of range"),
        ("MSET x 1 y 2", "+OK"),
        ("MSET x 1 y", "-ERR wrong number of arguments for 'mset' command"),
        ("MGET x nothing y", "*3 $1 1 $-1 $1 2"),
        ("STRLEN a", ":2"),
        ("GETDEL x", "$1 1"),
        ("GETSET x 5", "$-1"),
        ("EXISTS x y z x", ":3"),
        ("DEL x y z", ":2"),
        ("TYPE a", "+string"),
        ("SET a", "-ERR wrong number of arguments for 'set' command"),
        ("SET a 1 EX", "-ERR syntax error"),
        ("SET a 1 EX 0", "-ERR invalid expire time in 'set' command"),
        ("SET a 1 EX x", "-ERR value is not an integer or out of range"),
        ("SET a 1 EX 1 KEEPTTL", "-ERR syntax error"),
        ("SET a 9223372036854775807", "+OK"),
        ("INCR a", "-ERR increment or decrement would overflow"),
        ("LPUSH l 1", "-ERR unknown command 'LPUSH': the embedded store does not have it"),
    ]);
}

#[test]
fn hashes() {
    let mut client = Client::new();
    client.check(&[
        ("HSET h a 1 b 2", ":2"),
        ("HSET h a 3 c 4", ":1"),
        ("HGET h a", "$1 3"),
        ("HMGET h a x b", "*3 $1 3 $-1 $1 2"),
        ("HGETALL h", "*6 $1 a $1 3 $1 b $1 2 $1 c $1 4"),
        ("HKEYS h", "*3 $1 a $1 b $1 c"),
        ("HLEN h", ":3"),
        ("HEXISTS h x", ":0"),
        ("HINCRBY h a 4", ":7"),
        ("HSETNX h a 1", ":0"),
        ("GET h", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("HDEL h a b c x", ":3"),
        ("EXISTS h", ":0"),
        ("SET s 1", "+OK"),
        ("HSET s a 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("HSET h a", "-ERR wrong number of arguments for 'hset' command"),
        ("HSET h a 1", ":1"),
    ]);
    client.protocol = Protocol::Resp3;
    client.check(&[("HGETALL h", "%1 $1 a $1 1"), ("HGET h x", "_")]);
}

#[test]
fn expiry_follows_from_the_moment_alone() {
    let mut client = Client::new();
    client.check(&[
        ("SET a 1 PX 1500", "+OK"),
        ("TTL a", ":2"),
        ("PTTL a", ":1500"),
        ("SET b 1", "+OK"),
        ("TTL b", ":-1"),
        ("TTL c", ":-2"),
        ("PERSIST b", ":0"),
        ("SETEX d 5 x", "+OK"),
        ("SET a 2 KEEPTTL", "+OK"),
        ("EXPIRE b 10 GT", ":0"),
        ("EXPIRE b 10", ":1"),
        ("PEXPIREAT d 1700000003000", ":1"),
        ("SET e 1 EXAT 1", "+OK"),
        ("EXISTS e", ":0"),
    ]);
    client.now = client.now + Duration::from_millis(1_499);
    client.check(&[("GET a", "$1 2"), ("PTTL d", ":501")]);
    client.now = client.now + Duration::from_millis(1);
    client.check(&[("GET a", "$-1"), ("DBSIZE", ":2"), ("EXPIRE b -1", ":1"), ("GET b", "$-1")]);
}

#[test]
fn databases_are_apart() {
    let mut client = Client::new();
    client.check(&[("SET a 0", "+OK")]);
    client.database = 3;
    client.check(&[("GET a", "$-1"), ("SET a 3", "+OK"), ("FLUSHDB", "+OK"), ("DBSIZE", ":0")]);
    client.database = 0;
    client.check(&[("GET a", "$1 0"), ("FLUSHALL ASYNC", "+OK"), ("GET a", "$-1")]);
}

#[test]
fn a_scan_returns_every_key_once() {
    let client = Client::new();
    for i in 0..2_000 {
        client.ask(&format!("SET key:{i} 1"));
    }
    let (mut cursor, mut seen, mut calls) = ("0".to_owned(), Vec::new(), 0);
    loop {
        let reply = client.ask(&format!("SCAN {cursor} MATCH key:* COUNT 100"));
        let words: Vec<&str> = reply.split(' ').collect();
        cursor = words[2].to_owned();
        seen.extend(words[4..].iter().filter(|w| w.starts_with("key:")).map(|w| (*w).to_owned()));
        calls += 1;
        if cursor == "0" {
            break;
        }
    }
    let total = seen.len();
    seen.sort();
    seen.dedup();
    assert_eq!((total, seen.len()), (2_000, 2_000));
    assert!((2..=64).contains(&calls), "{calls} calls");
}

#[test]
fn it_holds_no_more_than_it_may() {
    let client = Client::new();
    let value = "v".repeat(1_000);
    for i in 0..5_000 {
        client.ask(&format!("SET key:{i} {value}"));
        assert!(client.memory.bytes() <= client.memory.capacity());
    }
    assert!(client.memory.size(0, client.now) > 500);
    client.ask(&format!("HSET h {}", format!("f {value} ").repeat(1).trim_end()));
    for i in 0..2_000 {
        client.ask(&format!("HSET h f{i} {value}"));
        assert!(client.memory.bytes() <= client.memory.capacity());
    }
}

#[test]
fn a_lease_from_before_a_purge_is_never_valid_again_case_12() {
    let (memory, now) = (Memory::new(1 << 20), Moment::START);
    let old = memory.lease();
    assert!(memory.save_with_lease(0, b"k", b"1", old, now, Moment::NEVER));
    memory.purge(0, b"k", now);
    assert!(!memory.save_with_lease(0, b"k", b"1", old, now, Moment::NEVER));
    for i in 0..20_000 {
        memory.save(0, format!("other:{i}").as_bytes(), &[0; 500], now, Moment::NEVER);
    }
    assert!(!memory.save_with_lease(0, b"k", b"1", old, now, Moment::NEVER));
    let new = memory.lease();
    assert!(memory.save_with_lease(0, b"k", b"2", new, now, Moment::NEVER));
    memory.flush(0);
    assert!(!memory.save_with_lease(0, b"k", b"3", new, now, Moment::NEVER));
}

fn words() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let name = prop::sample::select(table::names().collect::<Vec<_>>());
    let word = prop_oneof![
        3 => "[a-c]".prop_map(String::into_bytes),
        2 => "-?[0-9]{1,20}".prop_map(String::into_bytes),
        2 => prop::sample::select(vec![
            "EX", "PX", "NX", "XX", "GET", "KEEPTTL", "MATCH", "COUNT", "GT", "LT", "*", "[a", "\\",
        ]).prop_map(|w| w.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..6),
    ];
    (name, prop::collection::vec(word, 0..6)).prop_map(|(name, mut words)| {
        words.insert(0, name.as_bytes().to_vec());
        words
    })
}

proptest! {
    /// Whatever is sent, one whole reply comes back and the bound holds.
    #[test]
    fn any_commands_get_one_whole_reply_each(
        commands in prop::collection::vec((words(), 0u64..3_000, any::<bool>()), 0..60),
    ) {
        let memory = Memory::new(8 << 10);
        let mut now = Moment::START;
        for (words, later, three) in commands {
            now = now + Duration::from_millis(later);
            let args: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            let protocol = if three { Protocol::Resp3 } else { Protocol::Resp2 };
            let unix_ms = 1_700_000_000_000 + now.as_millis() as i64;
            let mut out = BytesMut::new();
            execute(&memory, &Asked { args: &args, database: 0, protocol, now, unix_ms }, &mut out);
            let frame = hedgerow_wire::resp::decode(&mut out, hedgerow_wire::resp::Limits::STORE);
            prop_assert!(frame.unwrap().is_some());
            prop_assert!(out.is_empty());
            prop_assert!(memory.bytes() <= memory.capacity());
        }
    }
}
