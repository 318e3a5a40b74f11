//! Real clients through the port get what they get from the store itself.
//!
//! Each client runs the same operations twice, on an empty store each time, and says what it got: from
//! redis-server, and from redis-server through the port. Where the embedded store serves the
//! operations, a third time in front of that.

use crate::cache::guarded;
use hedgerow_testkit::redis::Redis;
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A command line of a client, up to the port.
fn script(name: &str) -> Command {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients");
    let program = match name.rsplit_once('.') {
        Some((_, "py")) => "python3",
        Some((_, "js")) => "node",
        _ => "php",
    };
    let mut command = Command::new(program);
    command.env("PYTHONPATH", installed("python")).env("NODE_PATH", installed("node_modules"));
    command.arg(tests.join(name));
    command
}

/// Where scripts/tools puts what it fetches.
fn installed(what: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/clients").join(what)
}

/// What the client says: pairs of an operation's name and what it gave.
fn said(mut command: Command) -> Vec<Value> {
    let shown = format!("{command:?}");
    let output = command.stdin(Stdio::null()).output().expect("the client runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{shown}: {}: {errors}", output.status);
    let text = String::from_utf8(output.stdout).expect("text");
    let list = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{shown}: {e}: {text}"));
    let Value::Array(list) = list else { panic!("{shown}: no list: {list}") };
    list
}

fn same(what: &str, direct: &[Value], through: &[Value]) {
    for (direct, through) in direct.iter().zip(through) {
        assert_eq!(direct, through, "{what}: direct, and through the port");
    }
    assert_eq!(direct.len(), through.len(), "{what}");
}

/// Runs a client on every way there is. `ask`: what it says of the server at a port, given what part
/// of the operations to carry out.
fn compare(what: &str, least: usize, ask: impl Fn(&Redis, u16, &str) -> Vec<Value>) {
    let redis = Redis::start();
    // Nothing here is about time: a deadline is met, however busy the machine.
    let (server, port) = guarded(&redis, "cache.call_timeout_ms = 2000");
    let run = |port: u16, part: &str| {
        assert_eq!(redis.ask("FLUSHALL"), "+OK");
        ask(&redis, port, part)
    };
    let direct = run(redis.port, "full");
    assert!(direct.len() >= least, "{what} did too little: {} operations", direct.len());
    same(what, &direct, &run(port.port(), "full"));
    let shown = server.admin("/admin/cache");
    assert_eq!(shown["reads"]["shed"], 0, "{shown}");
    assert_eq!(shown["reads"]["timeout"], 0, "{shown}");
    server.stop();

    let (server, port) = crate::cache::serving("cache.store = \"memory\"");
    same(what, &run(redis.port, "embedded"), &ask(&redis, port.port(), "embedded"));
    server.stop();
}

fn compare_script(name: &str, version: &str) {
    compare(name, 60, |store, port, part| {
        let mut command = script(name);
        // The store itself is asked who is waiting there.
        command.args([&port.to_string(), part, version, &store.port.to_string()]);
        said(command)
    });
}

#[test]
fn case_34_redis_py() {
    compare_script("redis_py.py", "2");
}

#[test]
fn case_34_redis_py_in_version_3() {
    compare_script("redis_py.py", "3");
}

#[test]
fn case_34_ioredis() {
    compare_script("ioredis.js", "2");
}

#[test]
fn case_34_phpredis() {
    compare_script("phpredis.php", "2");
}

#[test]
fn case_34_predis() {
    compare_script("predis.php", "2");
}

/// Lines for redis-cli, in the order in which it is given them.
const LINES: &str = "\
SET a \"one\\x00\\r\\ntwo\"
GET a
GET none
MSET b 1 c 2
MGET a none b
INCR b
INCR a
GETSET b x
HSET h f 1 g 2
HGETALL h
HMGET h f none
HGET a f
SCAN 0 COUNT 100 MATCH h
EXPIRE a 100
PERSIST a
TTL a
TYPE h
SET a 1 NX
DEL a b none
MULTI
SET m 1
GET m
EXEC
MULTI
SET m 2
DISCARD
EXEC
WATCH m
UNWATCH
GET
SELECT 3
SET d 3
DBSIZE
SELECT 0
GET d
";

/// The same where the embedded store is no help.
const MORE_LINES: &str = "\
NOSUCH a b
RPUSH l a b c
LRANGE l 0 -1
SADD s a
SMEMBERS s
ZADD z 1.5 a
ZRANGE z 0 -1 WITHSCORES
ZSCORE z a
EVAL \"return {1, 'two', {false}}\" 0
EVALSHA 0000 0
BLPOP l none 1
BLPOP none 0.05
XADD x 1-1 f v
XRANGE x - +
GEOADD g 13.4 52.5 p
GEOPOS g p none
PUBLISH c m
CLIENT SETNAME me
CLIENT GETNAME
CONFIG GET maxmemory-policy
OBJECT ENCODING l
";

#[test]
fn case_34_redis_cli() {
    for version in ["-2", "-3"] {
        compare(&format!("redis-cli {version}"), 30, |_, port, part| {
            let mut command = Command::new("redis-cli");
            command.args([version, "--no-raw", "-p", &port.to_string()]);
            let mut child = command
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("redis-cli is installed");
            let more = if part == "full" { MORE_LINES } else { "" };
            let mut input = child.stdin.take().expect("a pipe");
            input.write_all(format!("{LINES}{more}").as_bytes()).expect("it reads");
            drop(input);
            let output = child.wait_with_output().expect("it ends");
            let text = String::from_utf8(output.stdout).expect("text");
            text.lines().map(|line| json!(line)).collect()
        });
    }
}

#[test]
fn case_34_redis_benchmark() {
    compare("redis-benchmark", 8, |_, port, part| {
        let tests = match part {
            "full" => "ping,set,get,incr,lpush,rpop,sadd,hset,zadd,mset,lrange_100",
            _ => "ping,set,get,incr,hset,mset",
        };
        let mut command = Command::new("redis-benchmark");
        command.args(["-p", &port.to_string(), "-t", tests, "-e", "--csv"]);
        command.args(["-n", "2000", "-c", "20", "-P", "4", "-r", "100", "-d", "32"]);
        let output = command.stdin(Stdio::null()).output().expect("redis-benchmark is installed");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{text}{errors}");
        assert!(!format!("{text}{errors}").contains("from server"), "{text}{errors}");
        // The tests it has finished; how fast they were is not the same twice.
        text.lines().skip(1).map(|line| json!(line.split(',').next())).collect()
    });
}

/// What the Rust client gets for one command after the other; errors as it tells them.
fn rust_client(url: &str, part: &str) -> redis::RedisResult<Vec<Value>> {
    let client = redis::Client::open(url)?;
    let mut connection = client.get_connection()?;
    let mut said = Vec::new();
    let lines = LINES.lines().chain(MORE_LINES.lines().filter(|_| part == "full"));
    for line in lines.filter(|line| !line.contains('"')) {
        let mut words = line.split(' ');
        let mut command = redis::cmd(words.next().unwrap_or_default());
        command.arg(words.collect::<Vec<_>>());
        let answer: redis::RedisResult<redis::Value> = command.query(&mut connection);
        said.push(json!(format!("{line}: {answer:?}")));
    }
    let bytes: Vec<u8> = (0..=255).chain(*b"\r\n$-1\r\n").collect();
    let mut pipe = redis::pipe();
    for i in 0..200 {
        pipe.cmd("SET").arg(i % 20).arg(&bytes).ignore().cmd("GET").arg(i % 30);
        pipe.cmd("INCR").arg(format!("n{}", i % 5));
    }
    let answers: Vec<redis::Value> = pipe.query(&mut connection)?;
    said.push(json!(format!("{answers:?}")));
    let (one, two): (i64, Option<Vec<u8>>) = redis::pipe()
        .atomic()
        .cmd("INCR")
        .arg("counter")
        .cmd("GET")
        .arg("none")
        .query(&mut connection)?;
    said.push(json!([one, two]));
    if part == "full" {
        let mut other = client.get_connection()?;
        let mut subscriber = other.as_pubsub();
        subscriber.subscribe("ch")?;
        subscriber.psubscribe("c*")?;
        redis::cmd("PUBLISH").arg("ch").arg(&bytes).exec(&mut connection)?;
        for _ in 0..2 {
            let message = subscriber.get_message()?;
            said.push(json!(format!("{message:?}")));
        }
    }
    Ok(said)
}

#[test]
fn case_34_the_rust_client() {
    for version in ["resp2", "resp3"] {
        compare(&format!("redis-rs, {version}"), 50, |_, port, part| {
            let url = format!("redis://127.0.0.1:{port}/?protocol={version}");
            rust_client(&url, part).expect("the client gets through its list")
        });
    }
}
