//! Commands that would change the store for everybody do not pass the cache port.

use crate::cache::guarded;
use hedgerow_testkit::redis::Redis;
use hedgerow_testkit::resp::Raw;

/// The command, and what its answer names.
const REFUSED: &[(&str, &str)] = &[
    ("ACL LIST", "ACL"),
    ("ACL SETUSER default off", "ACL"),
    ("ACL WHOAMI", "ACL"),
    ("BGREWRITEAOF", "BGREWRITEAOF"),
    ("BGSAVE", "BGSAVE"),
    ("SAVE", "SAVE"),
    ("DEBUG SLEEP 5", "DEBUG"),
    ("FAILOVER", "FAILOVER"),
    ("MIGRATE 127.0.0.1 1 kept 0 10", "MIGRATE"),
    ("MONITOR", "MONITOR"),
    ("PFDEBUG GETREG k", "PFDEBUG"),
    ("PFSELFTEST", "PFSELFTEST"),
    ("PSYNC ? -1", "PSYNC"),
    ("SYNC", "SYNC"),
    ("REPLCONF listening-port 1", "REPLCONF"),
    ("REPLICAOF 127.0.0.1 1", "REPLICAOF"),
    ("SLAVEOF 127.0.0.1 1", "SLAVEOF"),
    ("RESTORE-ASKING k 0 x", "RESTORE-ASKING"),
    ("SHUTDOWN NOSAVE", "SHUTDOWN"),
    ("SWAPDB 0 1", "SWAPDB"),
    ("CLUSTER RESET", "CLUSTER RESET"),
    ("CLUSTER MEET 127.0.0.1 1", "CLUSTER MEET"),
    ("COMMANDLOG RESET slow", "COMMANDLOG RESET"),
    ("CONFIG SET maxmemory 1", "CONFIG SET"),
    ("CONFIG RESETSTAT", "CONFIG RESETSTAT"),
    ("CONFIG REWRITE", "CONFIG REWRITE"),
    ("CONFIG GET *", "CONFIG GET of a pattern or of a password"),
    ("CONFIG GET maxmemory requirepass", "CONFIG GET of a pattern or of a password"),
    ("FUNCTION KILL", "FUNCTION KILL"),
    ("LATENCY RESET", "LATENCY RESET"),
    ("MEMORY PURGE", "MEMORY PURGE"),
    ("MODULE LOAD /nowhere.so", "MODULE LOAD"),
    ("MODULE UNLOAD none", "MODULE UNLOAD"),
    ("SCRIPT DEBUG YES", "SCRIPT DEBUG"),
    ("SCRIPT KILL", "SCRIPT KILL"),
    ("SLOWLOG RESET", "SLOWLOG RESET"),
];

/// What looks, or concerns the application's own data.
const PASSES: &[&str] = &[
    "CLUSTER KEYSLOT a",
    "CONFIG GET maxmemory-policy",
    "CONFIG GET save appendonly",
    "CONFIG",
    "FUNCTION LIST",
    "LASTSAVE",
    "LATENCY LATEST",
    "MEMORY USAGE none",
    "MODULE LIST",
    "OBJECT ENCODING kept",
    "SCRIPT EXISTS 00",
    "SCRIPT FLUSH",
    "SLOWLOG LEN",
    "RESTORE copy 0 x",
];

fn refusal(what: &str) -> String {
    format!("-ERR {what} is not supported through the guard")
}

#[test]
fn what_changes_the_store_for_everybody_is_refused_and_never_sent() {
    let redis = Redis::start();
    let (server, port) = guarded(&redis, "cache.call_timeout_ms = 5000");
    let mut client = Raw::connect(port);
    assert_eq!(client.ask("SET kept value"), "+OK");
    let before = redis.ask("INFO commandstats");
    for (line, what) in REFUSED {
        assert_eq!(client.ask(line), refusal(what), "{line}");
        let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
        let small = format!("{} {rest}", name.to_lowercase());
        assert_eq!(client.ask(small.trim_end()), refusal(what), "{small}");
    }
    client.send_all(&["GET kept", "SWAPDB 0 1", "GET kept", "replicaof no one", "PING"]);
    let replies: Vec<String> = (0..5).map(|_| client.next().expect("one each")).collect();
    let value = "$5\r\nvalue".to_owned();
    let expected =
        [value.clone(), refusal("SWAPDB"), value, refusal("REPLICAOF"), "+PONG".to_owned()];
    assert_eq!(replies, expected, "in its turn");

    let of = |page: &str, name: &str| page.contains(&format!("cmdstat_{}", name.to_lowercase()));
    let after = redis.ask("INFO commandstats");
    for (line, what) in REFUSED {
        let (name, form) = what.split_once(' ').unwrap_or((what, ""));
        let form = form.split(' ').next().filter(|form| !form.is_empty() && *form != "GET");
        let shown = form.map_or(name.to_owned(), |form| format!("{name}|{form}"));
        assert_eq!(of(&after, &shown), of(&before, &shown), "{line} has reached the store");
    }
    server.stop();
}

#[test]
fn a_transaction_with_a_refused_command_is_not_carried_out() {
    let redis = Redis::start();
    let (server, port) = guarded(&redis, "cache.call_timeout_ms = 5000");
    let mut client = Raw::connect(port);
    let aborted = "-EXECABORT Transaction discarded because of previous errors.";
    for (line, what) in REFUSED {
        client.send_all(&["SET a 1", "MULTI", "INCR a", line, "INCR a", "EXEC", "GET a"]);
        let replies: Vec<String> = (0..7).map(|_| client.next().expect("one each")).collect();
        let refused = refusal(what);
        let expected =
            ["+OK", "+OK", "+QUEUED", &refused, "+QUEUED", aborted, "$1\r\n1"].map(str::to_owned);
        assert_eq!(replies, expected, "{line}");
    }
    client.check(&[
        ("WATCH a", "+OK"),
        ("HELLO 3", "-ERR HELLO is not supported here through the guard"),
        ("RESET", "-ERR RESET is not supported here through the guard"),
        ("MULTI", "+OK"),
        ("CLIENT ID", "-ERR CLIENT is not supported here through the guard"),
        ("EXEC", aborted),
        ("MULTI", "+OK"),
        ("SAVE", &refusal("SAVE")),
        ("DISCARD", "+OK"),
        ("MULTI", "+OK"),
        ("INCR a", "+QUEUED"),
        ("EXEC", "*1 :2"),
    ]);
    server.stop();
}

#[test]
fn what_looks_is_answered_by_the_store() {
    let redis = Redis::start();
    let (server, port) = guarded(&redis, "cache.call_timeout_ms = 5000");
    let mut client = Raw::connect(port);
    assert_eq!(client.ask("SET kept value"), "+OK");
    for line in PASSES {
        let through = client.ask(line);
        assert_eq!(through, redis.ask(line), "{line}");
        assert!(!through.contains("the guard"), "{line}: {through}");
    }
    server.stop();
}
