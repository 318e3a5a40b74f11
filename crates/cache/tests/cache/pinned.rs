//! Store connections that belong to one client.

use crate::support::Fixture;
use hedgerow_testkit::until::until;

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
