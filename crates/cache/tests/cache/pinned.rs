//! Store connections that belong to one client.

use crate::support::Fixture;
use hedgerow_testkit::until::until;
use std::io::Write;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_is_carried_out_whole_case_27() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client();
    client.check(&[
        ("SET a 1", "+OK"),
        ("MULTI", "+OK"),
        ("SET a 2", "+QUEUED"),
        ("GET a", "+QUEUED"),
        ("EXEC", "*2 +OK $1 2"),
        ("MULTI", "+OK"),
        ("SET a 3", "+QUEUED"),
        ("DISCARD", "+OK"),
        ("GET a", "$1 2"),
        ("EXEC", "-ERR EXEC without MULTI"),
        ("WATCH a", "+OK"),
    ]);
    fixture.server.ask("SET a other");
    client.check(&[("MULTI", "+OK"), ("GET a", "+QUEUED"), ("EXEC", "*-1")]);
    client.send_all(&["SET p 1", "MULTI", "INCR p", "EXEC", "GET p", "PING"]);
    let replies: Vec<String> = (0..6).map(|_| client.next().unwrap()).collect();
    assert_eq!(replies, ["+OK", "+OK", "+QUEUED", "*1\r\n:2", "$1\r\n2", "+PONG"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_script_inside_a_transaction_keeps_its_place_case_33() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client();
    client.send_all(&["MULTI", "SET a 1", "EVALSHA 00 0", "GET a", "EXEC"]);
    let replies: Vec<String> = (0..5).map(|_| client.next().unwrap()).collect();
    assert_eq!(&replies[..4], ["+OK", "+QUEUED", "+QUEUED", "+QUEUED"]);
    assert!(replies[4].starts_with("*3\r\n+OK\r\n-NOSCRIPT"), "{}", replies[4]);
    assert!(replies[4].ends_with("$1\r\n1"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_while_open_is_discarded_case_27() {
    let fixture = Fixture::start().await;
    fixture.stall();
    let mut client = fixture.client();
    client.send_all(&["MULTI", "SET a 1", "GET a", "EXEC", "PING"]);
    let replies: Vec<String> = (0..5).map(|_| client.next().unwrap()).collect();
    assert_eq!(&replies[..3], ["+OK", "+QUEUED", "+QUEUED"]);
    assert!(replies[3].starts_with("-EXECABORT"), "{}", replies[3]);
    assert_eq!(replies[4], "+PONG");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waits_and_subscriptions_hold_up_nobody_case_28() {
    let fixture = Fixture::start().await;
    let (mut waiting, mut listening, mut other) =
        (fixture.client(), fixture.client(), fixture.client());
    waiting.send("BLPOP list 0");
    listening.send("SUBSCRIBE news");
    assert_eq!(listening.next().unwrap().replace("\r\n", " "), "*3 $9 subscribe $4 news :1");
    until("both connections", || (fixture.port.snapshot().pinned == 2).then_some(()));
    other.check(&[("SET a 1", "+OK"), ("PUBLISH news hello", ":1"), ("LPUSH list x", ":1")]);
    assert_eq!(waiting.next().unwrap().replace("\r\n", " "), "*2 $4 list $1 x");
    assert_eq!(listening.next().unwrap().replace("\r\n", " "), "*3 $7 message $4 news $5 hello");
    waiting.check(&[("GET a", "$1 1")]);
    listening.check(&[("UNSUBSCRIBE news", "*3 $11 unsubscribe $4 news :0"), ("GET a", "$1 1")]);
    until("both to be given back", || (fixture.port.snapshot().pinned == 0).then_some(()));
    let mut leaving = fixture.client();
    leaving.send("BLPOP list 0");
    until("its connection", || (fixture.port.snapshot().pinned == 1).then_some(()));
    drop(leaving);
    until("it to be freed", || (fixture.port.snapshot().pinned == 0).then_some(()));
    until("the store to notice", || (fixture.server.info("blocked_clients") == 0).then_some(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_stalls_inside_a_transaction() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client();
    client.check(&[("MULTI", "+OK"), ("SET a 1", "+QUEUED")]);
    fixture.server.pause();
    let reply = client.ask("EXEC");
    assert!(reply.starts_with("-TIMEOUT"), "{reply}");
    fixture.server.resume();
    fixture.recovered();
    // What was in doubt is gone, or was never there; it does not come later.
    until("the old connection's end", || (client.ask("GET a") == "$-1").then_some(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_is_given_back_only_as_it_was_opened() {
    let fixture = Fixture::start().await;
    let given_back = || {
        until("it to be given back", || (fixture.port.snapshot().pinned == 0).then_some(()));
    };
    let transaction = [("MULTI", "+OK"), ("SET a 1", "+QUEUED"), ("EXEC", "*1 +OK")];
    let mut first = fixture.client();
    first.check(&[("WATCH w", "+OK"), ("EXEC", "-ERR EXEC without MULTI"), ("UNWATCH", "+OK")]);
    given_back();
    first.check(&[("WATCH w", "+OK"), ("EXEC", "-ERR EXEC without MULTI")]);
    drop(first);
    given_back();
    let mut second = fixture.client();
    fixture.server.ask("SET w changed");
    second.check(&transaction);

    let mut first = fixture.client();
    first.check(&[
        ("MULTI", "+OK"),
        ("SUBSCRIBE news", "-ERR SUBSCRIBE is not supported here through the guard"),
        ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
        ("PUBLISH news hello", ":0"),
    ]);
    second.check(&transaction);
    first.check(&[("WATCH w", "+OK")]);
    first.send_all(&["QUIT"]);
    assert_eq!(first.next().unwrap(), "+OK");
    assert_eq!(first.next(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_chosen_inside_a_transaction_counts_from_its_exec_on() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client();
    client.check(&[
        ("SET k zero", "+OK"),
        ("SELECT 3", "+OK"),
        ("SET k three", "+OK"),
        ("SELECT 0", "+OK"),
        ("MULTI", "+OK"),
        ("SELECT 3", "+QUEUED"),
        ("DISCARD", "+OK"),
        ("GET k", "$4 zero"),
        ("MULTI", "+OK"),
        ("SELECT 4000000", "+QUEUED"),
        ("EXEC", "*1 -ERR DB index is out of range"),
        ("GET k", "$4 zero"),
        ("WATCH k", "+OK"),
        ("SELECT 4000000", "-ERR DB index is out of range"),
        ("UNWATCH", "+OK"),
        ("GET k", "$4 zero"),
        ("MULTI", "+OK"),
        ("SELECT 3", "+QUEUED"),
        ("EXEC", "*1 +OK"),
        ("GET k", "$5 three"),
    ]);
    let databases: Vec<u32> = fixture.guarded.snapshot().lanes.iter().map(|l| l.database).collect();
    assert_eq!(databases, [0, 3], "no connection to a database that is not there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_sent_behind_the_last_unsubscribe_is_answered() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client();
    client.check(&[("SET k v", "+OK")]);
    let answers = |client: &mut hedgerow_testkit::resp::Raw, lines: &[&str]| -> Vec<String> {
        client.send_all(lines);
        lines.iter().map(|_| client.next().unwrap().replace("\r\n", " ")).collect()
    };
    let plain = ["SUBSCRIBE a", "UNSUBSCRIBE a", "GET k", "PING"];
    let said = answers(&mut client, &plain);
    assert_eq!(said[2..], ["$1 v", "+PONG"]);
    // A message may look like the end of a subscription.
    client.send("SUBSCRIBE unsubscribe");
    client.next();
    fixture.server.raw().stream.write_all(SPOOF).unwrap();
    assert!(client.next().unwrap().starts_with("*3\r\n$7\r\nmessage"));
    fixture.server.ask("PUBLISH unsubscribe second");
    assert!(client.next().unwrap().ends_with("second"));

    let mut newer = fixture.client();
    assert!(newer.ask("HELLO 3").starts_with('%'));
    newer.send("UNSUBSCRIBE a b");
    for channel in ["a", "b"] {
        let expected = format!(">3 $11 unsubscribe $1 {channel} :0");
        assert_eq!(newer.next().unwrap().replace("\r\n", " "), expected);
    }
    newer.check(&[("PING", "+PONG")]);
}

const SPOOF: &[u8] = b"*3\r\n$7\r\nPUBLISH\r\n$11\r\nunsubscribe\r\n$6\r\nxx\r\n:0\r\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_debugger_of_the_store_is_kept_off_the_shared_connection() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client();
    let refused = "-ERR SCRIPT DEBUG is not supported through the guard";
    client.check(&[
        ("SCRIPT DEBUG YES", refused),
        ("SCRIPT EXISTS 00", "*1 :0"),
        ("WATCH k", "+OK"),
        ("SCRIPT DEBUG SYNC", refused),
    ]);
}
