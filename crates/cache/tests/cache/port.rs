//! The port while everything is well, and its own rules.

use crate::support::{Fixture, port_settings};
use hedgerow_cache::{Clock, Guarded, Port};
use hedgerow_testkit::redis::Redis;
use hedgerow_testkit::resp::Raw;
use hedgerow_testkit::until::until;
use std::io::{Read, Write};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_are_those_of_the_store_case_34() {
    let fixture = Fixture::start().await;
    let script = [
        "SET a 1",
        "GET a",
        "GET nothing",
        "INCR a",
        "APPEND a x",
        "SET a 2 NX",
        "SET a 2 XX GET",
        "MSET x 1 y 2",
        "MGET x nothing y",
        "HSET h f 1 g 2",
        "HGETALL h",
        "HMGET h f nothing",
        "HDEL h f",
        "EXISTS x y z",
        "EXPIRE x 100",
        "TTL y",
        "TYPE h",
        "LPUSH l 1 2 3",
        "LRANGE l 0 -1",
        "SADD s a",
        "SMEMBERS s",
        "ZADD z 1.5 m",
        "ZRANGE z 0 -1 WITHSCORES",
        "GETDEL y",
        "GET h",
        "INCR l",
        "SET",
        "NONSENSE a b",
        "DBSIZE",
        "STRLEN a",
        "SETEX e 10 v",
        "DEL a x h l s z e nothing",
        "SCAN 0",
        "KEYS *",
        "EVAL return{1,'a',false} 0",
        "SETRANGE r 2 x",
        "SET big 0123456789",
        "GETRANGE big 1 3",
        "FLUSHDB",
        "DBSIZE",
        "OBJECT HELP",
    ];
    for hello in [None, Some("HELLO 3")] {
        let (mut direct, mut guarded) = (fixture.server.raw(), fixture.client());
        if let Some(hello) = hello {
            direct.ask(hello);
            guarded.ask(hello);
        }
        let expected: Vec<String> = script.iter().map(|line| direct.ask(line)).collect();
        for (line, expected) in script.iter().zip(&expected) {
            assert_eq!(&guarded.ask(line), expected, "{line} {hello:?}");
        }
        // The same in one piece.
        guarded.send_all(&script);
        for (line, expected) in script.iter().zip(&expected) {
            assert_eq!(&guarded.next().unwrap(), expected, "{line} {hello:?} pipelined");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inline_commands_and_commands_in_pieces() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client();
    client.stream.write_all(b"SET a \"hello world\"\r\nGET a\r\n\r\nPING\n").unwrap();
    assert_eq!(client.next().unwrap(), "+OK");
    assert_eq!(client.next().unwrap(), "$11\r\nhello world");
    assert_eq!(client.next().unwrap(), "+PONG");
    for byte in b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n" {
        client.stream.write_all(&[*byte]).unwrap();
    }
    assert_eq!(client.next().unwrap(), "$11\r\nhello world");
    let big = "v".repeat(5 << 20);
    assert_eq!(client.ask(&format!("SET big {big}")), "+OK");
    assert_eq!(client.ask("GET big"), format!("${}\r\n{big}", big.len()));
    client.stream.write_all(b"*1\r\n:1\r\n").unwrap();
    assert_eq!(client.next().unwrap(), "-ERR Protocol error: expected '$', got ':'");
    assert_eq!(client.next(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_versions_of_the_protocol_case_29() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client();
    assert!(client.ask("HELLO 4").starts_with("-NOPROTO"));
    assert!(client.ask("HELLO 3").starts_with("%7\r\n"));
    client.check(&[
        ("HSET h a 1", ":1"),
        ("HGETALL h", "%1 $1 a $1 1"),
        ("GET nothing", "_"),
        ("ZADD z 1.5 m", ":1"),
        ("ZSCORE z m", ",1.5"),
        ("ZRANGE z 0 -1 WITHSCORES", "*1 *2 $1 m ,1.5"),
        ("SADD s a", ":1"),
        ("SMEMBERS s", "~1 $1 a"),
        ("MGET nothing", "*1 _"),
        ("HELLO 2", "*14 $6 server $5 redis $7 version $5 7.0.0 $5 proto :2 $2 id :1 $4 mode $10 standalone $4 role $6 master $7 modules *0"),
        ("HGETALL h", "*2 $1 a $1 1"),
    ]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn databases_never_mix_case_31() {
    let fixture = Fixture::start().await;
    let (mut zero, mut three) = (fixture.client(), fixture.client());
    three.check(&[("SELECT 3", "+OK"), ("SELECT 99", "-ERR DB index is out of range")]);
    for round in 0..100 {
        zero.send_all(&[&format!("SET k zero{round}"), "GET k"]);
        three.send_all(&[&format!("SET k three{round}"), "GET k"]);
        assert_eq!(zero.next().unwrap(), "+OK");
        assert_eq!(three.next().unwrap(), "+OK");
        assert!(zero.next().unwrap().ends_with(&format!("zero{round}")));
        assert!(three.next().unwrap().ends_with(&format!("three{round}")));
    }
    // Within one pipeline too: effects come in the order of the commands.
    zero.send_all(&["SET p 0", "SELECT 3", "GET p", "SET p 3", "SELECT 0", "GET p"]);
    let replies: Vec<String> = (0..6).map(|_| zero.next().unwrap()).collect();
    assert_eq!(replies, ["+OK", "+OK", "$-1", "+OK", "+OK", "$1\r\n0"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_know_the_password_gets_nowhere() {
    let server = Redis::start();
    let fixture = Fixture::with(server, |_, _, port| port.password = "secret".into()).await;
    let mut client = fixture.client();
    client.check(&[
        ("GET a", "-NOAUTH Authentication required."),
        ("AUTH wrong", "-WRONGPASS invalid username-password pair or user is disabled."),
        ("AUTH other secret", "-WRONGPASS invalid username-password pair or user is disabled."),
        ("AUTH secret", "+OK"),
        ("GET a", "$-1"),
        ("RESET", "+RESET"),
        ("GET a", "-NOAUTH Authentication required."),
    ]);
    assert!(client.ask("HELLO 3 AUTH default secret SETNAME me").starts_with("%7"));
    client.check(&[("CLIENT GETNAME", "$2 me")]);
    let mut stranger = fixture.client();
    stranger.stream.write_all(b"*2\r\n$3\r\nGET\r\n$100000\r\n").unwrap();
    assert_eq!(stranger.next().unwrap(), "-ERR Protocol error: invalid bulk length");
    let open = hedgerow_cache::PortSettings { listen: ([0, 0, 0, 0], 0).into(), ..port_settings() };
    let refused = Port::start(open, Guarded::memory(1 << 20), Clock::start()).await;
    assert!(refused.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_read_is_closed_and_nobody_else_case_32() {
    let server = Redis::start();
    let fixture = Fixture::with(server, |_, _, port| port.output_limit = 8 << 20).await;
    let mut other = fixture.client();
    other.ask(&format!("SET big {}", "v".repeat(1 << 20)));
    let mut deaf = fixture.client();
    until("the deaf client to be closed", || {
        let mut out = bytes::BytesMut::new();
        hedgerow_wire::resp::reply::command(&mut out, &[b"GET", b"big"]);
        let written = deaf.stream.write_all(&out);
        assert_eq!(other.ask("PING"), "+PONG");
        (fixture.port.snapshot().overflowed == 1 || written.is_err()).then_some(())
    });
    assert_eq!(fixture.port.snapshot().overflowed, 1);
    other.check(&[("SET a 1", "+OK"), ("GET a", "$1 1")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_guard_answers_itself_case_30() {
    let fixture = Fixture::start().await;
    fixture.stall();
    let mut client = fixture.client();
    client.check(&[
        ("PING", "+PONG"),
        ("PING x", "$1 x"),
        ("ECHO x", "$1 x"),
        ("CLIENT SETNAME me", "+OK"),
        ("CLIENT SETINFO LIB-NAME lib", "+OK"),
        ("CLIENT GETNAME", "$2 me"),
        ("SELECT 1", "+OK"),
        ("ROLE", "*3 $6 master :0 *0"),
        ("COMMAND DOCS", "*0"),
        ("MONITOR", "-ERR MONITOR is not supported through the guard"),
        ("CLIENT KILL ID 1", "-ERR CLIENT KILL is not supported through the guard"),
        ("CLIENT REPLY OFF", "-ERR CLIENT REPLY is not supported through the guard"),
        ("CLIENT TRACKING ON", "-ERR CLIENT TRACKING is not supported through the guard"),
    ]);
    assert!(client.ask("CLIENT ID").starts_with(':'));
    assert!(client.ask("CLIENT INFO").contains("lib-name=lib"));
    assert!(client.ask("COMMAND").starts_with('*'));
    assert!(client.ask("INFO").contains("redis_version"));
    assert!(client.ask("INFO hedgerow").contains("breaker_state:open"));
    client.check(&[("QUIT", "+OK")]);
    assert_eq!(client.next(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_behind_a_farewell_does_not_cost_the_reply() {
    let fixture = Fixture::start().await;
    let mut client = std::net::TcpStream::connect(fixture.port.local_addr()).unwrap();
    client.write_all(b"QUIT\r\n").unwrap();
    let mut reply = [0; 5];
    client.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+OK\r\n");
    // The first would be answered with a reset by a closed connection, and the second would fail.
    for _ in 0..2 {
        client.write_all(b"\r\n").expect("it still listens");
    }
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).expect("an end in good order");
    assert!(rest.is_empty(), "{rest:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_too_many_is_told_so() {
    let server = Redis::start();
    let fixture = Fixture::with(server, |_, _, port| port.max_clients = 1).await;
    let mut first = fixture.client();
    first.check(&[("PING", "+PONG")]);
    let mut second = Raw::connect(fixture.port.local_addr());
    assert_eq!(second.next().unwrap(), "-ERR max number of clients reached");
    assert_eq!(second.next(), None);
    drop(first);
    until("the place to come free", || (fixture.port.snapshot().clients == 0).then_some(()));
    fixture.client().check(&[("PING", "+PONG")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopping_answers_what_was_sent() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client();
    client.check(&[("SET a 1", "+OK")]);
    let Fixture { port, .. } = fixture;
    port.stop(Duration::from_secs(5)).await;
    assert_eq!(client.next(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rust_client_case_34() {
    let fixture = Fixture::start().await;
    let url = format!("redis://{}/2", fixture.port.local_addr());
    let client = redis::Client::open(url).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let () = redis::cmd("SET").arg("k").arg("v").query_async(&mut connection).await.unwrap();
    let value: String = redis::cmd("GET").arg("k").query_async(&mut connection).await.unwrap();
    assert_eq!(value, "v");
    let mut pipe = redis::pipe();
    pipe.atomic().cmd("INCR").arg("n").cmd("INCR").arg("n");
    let both: (i64, i64) = pipe.query_async(&mut connection).await.unwrap();
    assert_eq!(both, (1, 2));
    assert_eq!(fixture.server.ask("DBSIZE"), ":0", "nothing in database 0");
}
