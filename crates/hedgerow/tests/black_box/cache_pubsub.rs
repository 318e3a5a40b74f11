//! Subscribers get through the cache port what the store itself says.

use crate::cache::guarded;
use bytes::BytesMut;
use hedgerow_testkit::redis::Redis;
use hedgerow_testkit::resp::Raw;
use hedgerow_wire::resp::reply;
use std::io::Write;
use std::net::SocketAddr;

/// The commands of one client, in one piece; the last is a PING, whose reply is the last one.
fn said(port: SocketAddr, version: &str, commands: &[Vec<&str>]) -> Vec<String> {
    let mut client = Raw::connect(port);
    client.ask(&format!("HELLO {version}"));
    let mut bytes = BytesMut::new();
    for command in commands {
        let args: Vec<&[u8]> = command.iter().map(|arg| arg.as_bytes()).collect();
        reply::command(&mut bytes, &args);
    }
    reply::command(&mut bytes, &[b"PING", b"at its end"]);
    client.stream.write_all(&bytes).expect("it reads");
    let mut all = Vec::new();
    loop {
        let reply = client.next().expect("nothing is lost before the last reply");
        let last = reply.ends_with("at its end");
        all.push(reply);
        if last {
            return all;
        }
    }
}

#[test]
fn each_subscription_and_each_farewell_is_answered() {
    let redis = Redis::start();
    let (server, port) = guarded(&redis, "cache.call_timeout_ms = 5000");
    // Their replies do not come in one read.
    let long: Vec<String> = ["x", "y", "z"].map(|name| name.repeat(30_000)).to_vec();
    let with = |first: &[&'static str]| {
        let names = long.iter().map(String::as_str);
        first.iter().copied().chain(names).collect::<Vec<&str>>()
    };
    let lines = |lines: &'static str| lines.split(", ").map(|line| line.split(' ').collect());
    let mut cases: Vec<Vec<Vec<&str>>> = vec![
        vec![vec!["SUBSCRIBE", "a"], with(&["UNSUBSCRIBE", "a"]), vec!["GET", "v"]],
        vec![with(&["SUBSCRIBE"]), vec!["UNSUBSCRIBE"], vec!["GET", "v"]],
        vec![with(&["UNSUBSCRIBE"]), with(&["PUNSUBSCRIBE"])],
        vec![vec!["SUBSCRIBE", "a"], with(&["UNSUBSCRIBE", "a"]), with(&["SUNSUBSCRIBE"])],
    ];
    for line in [
        "SUBSCRIBE a b c, UNSUBSCRIBE a b c, GET v",
        "SUBSCRIBE a, UNSUBSCRIBE a b c, SET v 2, GET v",
        "SUBSCRIBE a a, UNSUBSCRIBE a a, GET v",
        "UNSUBSCRIBE, PUNSUBSCRIBE, SUNSUBSCRIBE, UNSUBSCRIBE a b",
        "SUBSCRIBE a, PSUBSCRIBE p*, UNSUBSCRIBE, PING, PUNSUBSCRIBE, GET v",
        "PSUBSCRIBE a* b*, SUBSCRIBE a, PUNSUBSCRIBE, PING, UNSUBSCRIBE x a z, GET v",
        // Channels of shards are counted by themselves.
        "SUBSCRIBE a, SSUBSCRIBE s, SUNSUBSCRIBE s, PING, UNSUBSCRIBE, GET v",
        "SSUBSCRIBE s t, SUBSCRIBE a, UNSUBSCRIBE, PING, SUNSUBSCRIBE, GET v",
        "SUBSCRIBE a, UNSUBSCRIBE, SUBSCRIBE b, UNSUBSCRIBE, BLPOP none 0.01",
        "SUBSCRIBE, SUBSCRIBE a, SUBSCRIBE, UNSUBSCRIBE, MULTI, INCR v, EXEC",
    ] {
        cases.push(lines(line).collect());
    }
    for version in ["2", "3"] {
        for case in &cases {
            redis.ask("SET v 1");
            let direct = said(([127, 0, 0, 1], redis.port).into(), version, case);
            redis.ask("SET v 1");
            let through = said(port, version, case);
            assert_eq!(direct.len(), through.len(), "version {version}: {case:.200?}");
            assert!(direct == through, "version {version}: {case:.200?}");
        }
    }
    server.stop();
}

#[test]
fn a_subscriber_hears_what_is_published_until_its_last_farewell() {
    let redis = Redis::start();
    let (server, port) = guarded(&redis, "cache.call_timeout_ms = 5000");
    for version in ["2", "3"] {
        let mut listening = Raw::connect(port);
        let head = if version == "3" { '>' } else { '*' };
        listening.ask(&format!("HELLO {version}"));
        listening.ask("SUBSCRIBE a");
        listening.ask("SSUBSCRIBE s");
        let gone = listening.ask("SUNSUBSCRIBE s");
        assert!(gone.ends_with("sunsubscribe\r\n$1\r\ns\r\n:0"), "{gone}");
        assert_eq!(redis.ask("PUBLISH a hello"), ":1");
        let heard = listening.next().expect("a message");
        assert_eq!(heard, format!("{head}3\r\n$7\r\nmessage\r\n$1\r\na\r\n$5\r\nhello"));
        listening.ask("UNSUBSCRIBE");
        assert_eq!(redis.ask("PUBLISH a hello"), ":0");
        listening.check(&[("SET k v", "+OK"), ("GET k", "$1 v")]);
    }
    server.stop();
}
