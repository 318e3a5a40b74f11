//! The scripted store stands still as a stopped redis-server does, and answers as one.

use hedgerow_stage::store::Store;
use hedgerow_testkit::resp::Raw;
use hedgerow_testkit::until::until;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

fn store() -> Store {
    Store::start("127.0.0.1:0", "127.0.0.1:0").expect("two ports")
}

fn tell(store: &Store, line: &str) -> String {
    let mut stream = TcpStream::connect(store.control()).expect("it listens");
    stream.write_all(format!("{line} HTTP/1.1\r\n\r\n").as_bytes()).expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn it_answers_as_a_store_does() {
    let store = store();
    let mut client = Raw::connect(store.address());
    client.check(&[
        ("PING", "+PONG"),
        ("SET a 1 EX 100", "+OK"),
        ("SET a 2 NX", "$-1"),
        ("SET a 3 XX GET KEEPTTL", "$1 1"),
        ("TTL a", ":100"),
        ("PERSIST a", ":1"),
        ("TTL a", ":-1"),
        ("TTL none", ":-2"),
        ("INCRBY a 4", ":7"),
        ("MGET a none", "*2 $1 7 $-1"),
        ("HSET h f 1 g 2", ":2"),
        ("HGETALL h", "*4 $1 f $1 1 $1 g $1 2"),
        ("GET h", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("HDEL h f g", ":2"),
        ("TYPE h", "+none"),
        ("SELECT 3", "+OK"),
        ("GET a", "$-1"),
        ("SELECT 16", "-ERR DB index is out of range"),
        ("SELECT 0", "+OK"),
        ("UNLINK a none", ":1"),
        ("DBSIZE", ":0"),
        ("SET a", "-ERR syntax error"),
        ("LPUSH l a", "-ERR unknown command: the scripted store does not have it"),
    ]);
}

#[test]
fn what_is_sent_while_it_stands_still_is_carried_out_when_it_wakes() {
    let store = store();
    let mut client = Raw::connect(store.address());
    client.check(&[("SET a 1", "+OK")]);
    assert!(tell(&store, "POST /stall").contains("\"stalled\":true"));
    client.send_all(&["SET a 2", "GET a"]);
    let mut late = Raw::connect(store.address());
    late.send("GET a");
    client.stream.set_nonblocking(true).unwrap();
    assert!(client.stream.peek(&mut [0]).is_err(), "nothing is answered");
    client.stream.set_nonblocking(false).unwrap();
    assert!(tell(&store, "GET /").contains("\"commands\":1,"), "and nothing carried out");
    assert!(tell(&store, "POST /wake").contains("\"stalled\":false"));
    assert_eq!(client.next().as_deref(), Some("+OK"));
    assert_eq!(client.next().as_deref(), Some("$1\r\n2"));
    assert!(late.next().is_some());
    // By itself, too.
    tell(&store, "POST /stall?ms=1");
    client.check(&[("GET a", "$1 2")]);
}

#[test]
fn a_connection_that_was_ended_does_nothing_any_more() {
    let store = store();
    let (mut old, mut new) = (Raw::connect(store.address()), Raw::connect(store.address()));
    let id = old.ask("CLIENT ID");
    let line = format!("CLIENT KILL ID {}", id.trim_start_matches(':'));
    assert_eq!(new.ask(&line), ":1");
    assert_eq!(old.next(), None);
    new.check(&[("CLIENT KILL ID 99", ":0"), ("PING", "+PONG")]);
}

#[test]
fn as_a_program_it_says_where_it_is() {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_hedgerow-stage"));
    command.arg("store").stdout(std::process::Stdio::piped());
    let mut child = hedgerow_testkit::processes::Leashed(command.spawn().expect("it runs"));
    let mut out = child.stdout.take().expect("a pipe");
    let mut said = String::new();
    until("two lines", || {
        let mut piece = [0; 256];
        let length = out.read(&mut piece).expect("its words");
        said.push_str(std::str::from_utf8(&piece[..length]).expect("text"));
        (said.matches('\n').count() == 2).then_some(())
    });
    let address = said.lines().next().and_then(|line| line.strip_prefix("redis://"));
    let mut client = Raw::connect(address.expect("an address").parse().expect("one"));
    client.check(&[("PING", "+PONG")]);
}
