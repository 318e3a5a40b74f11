//! What all clients of the cache port may hold together, through the real binary and real sockets.

use crate::cache::guarded;
use hedgerow_testkit::redis::Redis;
use hedgerow_testkit::resp::Raw;
use hedgerow_testkit::until::until;
use std::io::Write;

const MIB: usize = 1 << 20;
const HELD: &str = "cache_clients_held_bytes";

/// The beginning of a command with a value of so many bytes, of which `sent` are there.
fn half_a_set(client: &mut Raw, length: usize, sent: usize) -> std::io::Result<()> {
    write!(client.stream, "*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n${length}\r\n")?;
    client.stream.write_all(&vec![b'x'; sent])
}

#[test]
fn who_asks_for_more_when_all_is_held_is_told_and_nobody_else_suffers() {
    let redis = Redis::start();
    let lines = "cache.resp.total_limit = \"2MiB\"\ncache.call_timeout_ms = 5000";
    let (server, port) = guarded(&redis, lines);
    assert_eq!(server.metric("cache_clients_held_limit_bytes"), Some(2.0 * MIB as f64));
    assert_eq!(server.metric(HELD), Some(0.0));

    let (mut large, mut small) = (Raw::connect(port), Raw::connect(port));
    half_a_set(&mut large, 2 * MIB, 2 * MIB - 10).expect("there is room");
    until("most of the room is held", || (server.metric(HELD)? > 1.9 * MIB as f64).then_some(()));

    small.check(&[("SET a 1", "+OK"), ("GET a", "$1 1"), ("INCR a", ":2"), ("PING", "+PONG")]);
    small.send_all(&["GET a"; 500]);
    (0..500).for_each(|_| assert_eq!(small.next().as_deref(), Some("$1\r\n2")));
    small.check(&[("MULTI", "+OK"), ("INCR a", "+QUEUED"), ("EXEC", "*1 :3")]);

    let mut more = Raw::connect(port);
    // It may be closed before all is sent.
    let _ = half_a_set(&mut more, MIB, MIB);
    let told = "-PORTFULL the port holds as much as it may for all clients";
    assert_eq!(more.next().as_deref(), Some(told));
    assert_eq!(more.next(), None);
    assert_eq!(server.metric("cache_clients_closed_total{reason=\"total_limit\"}"), Some(1.0));

    large.stream.write_all(b"xxxxxxxxxx\r\n").expect("it is read");
    assert_eq!(large.next().as_deref(), Some("+OK"), "who was there first is served");
    until("all of it is given back", || (server.metric(HELD)? == 0.0).then_some(()));
    let mut again = Raw::connect(port);
    half_a_set(&mut again, MIB, MIB).expect("there is room again");
    again.stream.write_all(b"\r\n").expect("it is read");
    assert_eq!(again.next().as_deref(), Some("+OK"));
    server.stop();
}

#[test]
fn a_reply_without_room_is_an_error_and_those_behind_it_are_right() {
    let redis = Redis::start();
    let lines = "cache.resp.total_limit = \"2MiB\"\ncache.call_timeout_ms = 5000";
    let (server, port) = guarded(&redis, lines);
    let mut client = Raw::connect(port);
    let value = "v".repeat(700 << 10);
    assert_eq!(client.ask(&format!("SET big {value}")), "+OK");
    client.send_all(&["GET big", "GET big", "GET big", "GET big", "GET big", "INCR n", "DEL big"]);
    let replies: Vec<String> = (0..7).map(|_| client.next().expect("one each")).collect();
    let whole = |reply: &&String| reply.len() > value.len();
    assert!(replies[..5].iter().filter(whole).count() >= 2, "what fits is there");
    let without: Vec<_> = replies.iter().filter(|reply| reply.starts_with('-')).collect();
    assert!(!without.is_empty() && without.len() < 5, "{}", without.len());
    for reply in &without {
        let text = "-PORTFULL the port holds as much as it may for all clients; carried out, its \
                    reply let go";
        assert_eq!(reply.as_str(), text);
    }
    assert_eq!(replies[5..], [":1", ":1"]);
    let counted = server.metric("cache_replies_withheld_total{reason=\"total_limit\"}");
    assert_eq!(counted, Some(without.len() as f64));
    let shown = server.admin("/admin/cache");
    assert_eq!((&shown["state"], &shown["journal_depth"]), (&"closed".into(), &0.into()));
    until("all of it is given back", || (server.metric(HELD)? == 0.0).then_some(()));
    server.stop();
}

#[test]
fn replies_that_wait_for_one_client_leave_room_for_the_others() {
    let redis = Redis::start();
    let lines = "cache.resp.output_limit = \"1MiB\"\ncache.resp.total_limit = \"64MiB\"\n\
                 cache.call_timeout_ms = 5000";
    let (server, port) = guarded(&redis, lines);
    let mut client = Raw::connect(port);
    let value = "v".repeat(700 << 10);
    assert_eq!(client.ask(&format!("SET big {value}")), "+OK");
    client.send_all(&["GET big", "GET big", "GET big", "PING"]);
    assert!(client.next().expect("a reply").len() > value.len());
    let text = "-PORTFULL too many replies of this client wait; carried out, its reply let go";
    for _ in 0..2 {
        assert_eq!(client.next().as_deref(), Some(text));
    }
    assert_eq!(client.next().as_deref(), Some("+PONG"));
    let counted = server.metric("cache_replies_withheld_total{reason=\"output_limit\"}");
    assert_eq!(counted, Some(2.0));
    server.stop();
}

#[test]
fn each_reason_for_which_a_client_is_closed_is_counted() {
    let redis = Redis::start();
    let lines = "cache.resp = { input_limit = \"1MiB\", output_limit = \"1MiB\", listen = \
                 \"127.0.0.1:0\" }\ncache.call_timeout_ms = 5000";
    let server = crate::server::Server::start(&format!(
        "cache.store = \"redis://127.0.0.1:{}\"\n{lines}",
        redis.port
    ));
    let port = crate::cache::port_of(&server);
    let mut large = Raw::connect(port);
    let _ = half_a_set(&mut large, 4 * MIB, 2 * MIB);
    assert_eq!(large.next().as_deref(), Some("-ERR Protocol error: too big request"));
    let closed =
        |reason: &str| server.metric(&format!("cache_clients_closed_total{{reason=\"{reason}\"}}"));
    assert_eq!(closed("input_limit"), Some(1.0));

    let mut deaf = Raw::connect(port);
    assert_eq!(deaf.ask(&format!("SET v {}", "v".repeat(512 << 10))), "+OK");
    until("who reads nothing is closed", || {
        let mut command = bytes::BytesMut::new();
        hedgerow_wire::resp::reply::command(&mut command, &[b"GET", b"v"]);
        let _ = deaf.stream.write_all(&command);
        (closed("output_limit") == Some(1.0)).then_some(())
    });
    assert_eq!(server.metric("cache_clients_overflowed_total"), Some(1.0));
    assert_eq!((closed("total_limit"), closed("stalled")), (Some(0.0), Some(0.0)));
    server.stop();
}
