//! What one client of the cache port sends is no matter of the others.

use crate::cache::guarded;
use hedgerow_testkit::redis::Redis;
use hedgerow_testkit::resp::Raw;
use std::io::{Read, Write};
use std::net::SocketAddr;

/// All that is answered to these bytes, until the connection is closed.
fn until_closed(port: SocketAddr, bytes: &[u8]) -> String {
    let mut client = Raw::connect(port);
    client.stream.write_all(bytes).expect("it reads");
    let mut text = String::new();
    client.stream.read_to_string(&mut text).expect("it is closed in good order");
    text
}

#[test]
fn a_farewell_behind_the_beginning_of_a_transaction_holds_up_nobody() {
    let redis = Redis::start();
    let (server, port) = guarded(&redis, "cache.call_timeout_ms = 5000");
    for _ in 0..20 {
        assert_eq!(until_closed(port, b"MULTI\r\nQUIT\r\n"), "+OK\r\n+OK\r\n");
        assert_eq!(
            until_closed(port, b"MULTI\r\nSET a 1\r\nQUIT\r\n"),
            "+OK\r\n+QUEUED\r\n+OK\r\n"
        );
        assert_eq!(until_closed(port, b"WATCH a\r\nQUIT\r\nPING\r\n"), "+OK\r\n+OK\r\n");
        let listening = until_closed(port, b"SUBSCRIBE a\r\nQUIT\r\n");
        assert!(listening.ends_with(":1\r\n+OK\r\n"), "{listening}");
        Raw::connect(port).check(&[("PING", "+PONG"), ("GET a", "$-1")]);
    }
    server.stop();
}

#[test]
fn what_the_store_would_close_its_connection_for_does_not_reach_it() {
    let redis = Redis::start();
    let (server, port) = guarded(&redis, "cache.call_timeout_ms = 5000");
    let mut other = Raw::connect(port);
    other.check(&[("SET a 1", "+OK")]);
    for (bytes, answer) in [
        (&b"POST / HTTP/1.1\r\nHost: here\r\n\r\nSET a 2\r\n"[..], ""),
        (b"SET b 1\r\nHost: here\r\nSET a 2\r\n", "+OK\r\n"),
        (b"*1\r\n$4\r\npost\r\n", ""),
        (b"*02\r\n$3\r\nGET\r\n$1\r\na\r\n", "-ERR Protocol error: invalid multibulk length\r\n"),
        (b"*2\r\n$3\r\nGET\r\n$01\r\na\r\n", "-ERR Protocol error: invalid bulk length\r\n"),
        (b"*1\r\n$-0\r\n\r\n", "-ERR Protocol error: invalid bulk length\r\n"),
    ] {
        assert_eq!(until_closed(port, bytes), answer, "{}", bytes.escape_ascii());
        other.check(&[("GET a", "$1 1")]);
    }
    // Whether the store has answered the MULTI by then is not known.
    let within = until_closed(port, b"MULTI\r\nPOST x\r\nSET a 2\r\nEXEC\r\n");
    assert!(["", "+OK\r\n"].contains(&&*within), "{within}");
    other.check(&[("GET a", "$1 1")]);
    assert_eq!(server.metric("cache_reconnects_total"), Some(0.0));
    server.stop();
}
