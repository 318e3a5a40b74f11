//! What one client can make the port keep.

use crate::support::{Fixture, port_settings};
use bytes::BytesMut;
use hedgerow_cache::{Clock, Guarded, Port};
use hedgerow_testkit::redis::Redis;
use hedgerow_testkit::resp::Raw;
use hedgerow_testkit::until::until;
use hedgerow_wire::resp::reply;
use std::io::Write;
use std::time::Duration;

const MIB: usize = 1 << 20;
/// More than sockets keep by themselves.
const MUCH: usize = 128 * MIB;

/// How much of an endless pipeline of this command is taken.
fn taken(client: &mut Raw, command: &[&[u8]]) -> usize {
    let mut bytes = BytesMut::new();
    reply::command(&mut bytes, command);
    let patience = Duration::from_millis(500);
    client.stream.set_write_timeout(Some(patience)).expect("an option");
    let mut taken = 0;
    while taken < MUCH {
        match client.stream.write(&bytes) {
            Ok(count) => taken += count,
            Err(_) => break,
        }
    }
    taken
}

/// A store that stands still, and that is waited for.
async fn still() -> Fixture {
    let change = |redis: &mut hedgerow_cache::RedisSettings| {
        redis.call_timeout = Duration::from_secs(20);
        redis.liveness_timeout = Duration::from_secs(20);
    };
    Fixture::with(Redis::start(), |redis, _, port| {
        change(redis);
        port.output_limit = MIB;
        port.input_limit = 4 * MIB;
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_behind_one_that_does_not_come_are_bounded() {
    let fixture = still().await;
    let mut client = fixture.client();
    fixture.server.pause();
    client.send("GET k");
    let text = vec![b'x'; 16 << 10];
    assert!(taken(&mut client, &[b"ECHO", &text]) < MUCH / 2);
    fixture.server.resume();
    assert_eq!(client.next().unwrap(), "$-1", "and then it goes on");
    assert!(client.next().unwrap().starts_with("$16384"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_for_a_connection_of_ones_own_are_bounded() {
    let fixture = still().await;
    let (mut transaction, mut listening) = (fixture.client(), fixture.client());
    transaction.check(&[("MULTI", "+OK")]);
    listening.ask("SUBSCRIBE news");
    fixture.server.pause();
    let text = vec![b'x'; 16 << 10];
    assert!(taken(&mut transaction, &[b"SET", b"k", &text]) < MUCH / 2);
    assert!(taken(&mut listening, &[b"SUBSCRIBE", &text]) < MUCH / 2);
    fixture.server.resume();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_sends_more_than_may_wait_is_told_and_closed() {
    let fixture = still().await;
    let told = "-ERR Protocol error: too big request";
    let mut waiting = fixture.client();
    waiting.send("BLPOP list 0");
    let text = vec![b'x'; 16 << 10];
    assert!(taken(&mut waiting, &[b"ECHO", &text]) < MUCH / 2);
    let mut endless = fixture.client();
    endless.stream.write_all(b"*1000000\r\n").unwrap();
    let mut argument = BytesMut::new();
    reply::bulk(&mut argument, &text);
    let mut sent = 0;
    while sent < MUCH && endless.stream.write_all(&argument).is_ok() {
        sent += argument.len();
    }
    assert!(sent < MUCH);
    let mut large = fixture.client();
    large.stream.write_all(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5000000\r\n").unwrap();
    large.stream.write_all(&vec![b'x'; 4 * MIB]).unwrap();
    assert_eq!(large.next().unwrap(), told);
    assert_eq!(large.next(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_that_is_larger_than_the_limit_can_be_had() {
    let fixture = Fixture::with(Redis::start(), |redis, _, port| {
        redis.call_timeout = Duration::from_secs(5);
        port.output_limit = MIB;
    })
    .await;
    let mut client = fixture.client();
    let value = "v".repeat(6 * MIB);
    assert_eq!(client.ask(&format!("SET k {value}")), "+OK");
    for _ in 0..3 {
        assert_eq!(client.ask("GET k").len(), value.len() + "$6291456\r\n".len());
    }
    client.check(&[("MULTI", "+OK"), ("GET k", "+QUEUED")]);
    assert!(client.ask("EXEC").len() > value.len());
    assert_eq!(fixture.port.snapshot().overflowed, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_embedded_store_answers_as_its_client_reads() {
    let mut settings = port_settings();
    (settings.output_limit, settings.input_limit) = (4 * MIB, MIB);
    let port =
        Port::start(settings, Guarded::memory(64 << 20), Clock::start()).await.expect("a port");
    let mut client = Raw::connect(port.local_addr());
    assert_eq!(client.ask(&format!("SET k {}", "v".repeat(MIB / 2))), "+OK");
    client.send_all(&["GET k"; 100]);
    for _ in 0..100 {
        assert!(client.next().expect("a reply").len() > MIB / 2);
    }
    assert_eq!(port.snapshot().overflowed, 0);
    client.check(&[("MULTI", "+OK")]);
    let half = format!("SET k {}", "v".repeat(MIB / 2));
    assert_eq!(client.ask(&half), "+QUEUED");
    assert_eq!(client.ask(&half), "-ERR too many commands in a transaction");
    assert!(client.ask("EXEC").starts_with("-EXECABORT"));
}

/// Reads until the connection ends, and says whether there was a clean or an abrupt end within it.
async fn ends(stream: &mut tokio::net::TcpStream) -> bool {
    use tokio::io::AsyncReadExt;
    let mut rest = vec![0; 64 << 10];
    loop {
        match stream.read(&mut rest).await {
            Ok(0) | Err(_) => return true,
            Ok(_) => {}
        }
    }
}

#[tokio::test(start_paused = true)]
async fn who_holds_much_and_stands_still_goes_once_others_are_refused() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut settings = port_settings();
    settings.total_limit = MIB;
    let port =
        Port::start(settings, Guarded::memory(64 << 20), Clock::start()).await.expect("a port");
    let connect = || tokio::net::TcpStream::connect(port.local_addr());
    let half = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$3000000\r\n";
    let held = || port.snapshot().held_bytes as usize;

    // It holds all there is, and says no more.
    let mut still = connect().await.expect("it listens");
    still.write_all(half).await.expect("it reads");
    still.write_all(&vec![b'x'; MIB]).await.expect("it reads");
    while held() < MIB - (64 << 10) {
        tokio::task::yield_now().await;
    }
    tokio::time::advance(Duration::from_secs(60)).await;
    tokio::task::yield_now().await;
    assert_eq!(port.snapshot().clients, 1, "nobody else needs the room");

    let mut refused = connect().await.expect("it listens");
    refused.write_all(half).await.expect("it reads");
    let _ = refused.write_all(&vec![b'x'; MIB / 2]).await;
    let mut said = [0; 9];
    refused.read_exact(&mut said).await.expect("an answer");
    assert_eq!(&said, b"-PORTFULL");
    assert!(held() > MIB / 2, "what the first holds stays its own");

    assert!(ends(&mut still).await, "time passes by itself, and it is closed");
    let shown = port.snapshot();
    let closed = |why: hedgerow_cache::TooMuch| shown.closed[why as usize];
    assert_eq!(closed(hedgerow_cache::TooMuch::Stalled), 1, "{shown:?}");
    assert_eq!(closed(hedgerow_cache::TooMuch::Total), 1, "{shown:?}");
    drop((still, refused));
    while port.snapshot().clients > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(held(), 0);
    let mut next = connect().await.expect("it listens");
    next.write_all(half).await.expect("it reads");
    next.write_all(&vec![b'x'; MIB / 2]).await.expect("there is room again");
    while held() < MIB / 2 - (64 << 10) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_of_a_command_of_very_many_arguments() {
    let settings = port_settings();
    let port =
        Port::start(settings, Guarded::memory(64 << 20), Clock::start()).await.expect("a port");
    let mut client = Raw::connect(port.local_addr());
    client.stream.write_all(b"*200001\r\n$3\r\nDEL\r\n").unwrap();
    client.stream.write_all(&b"$1\r\nk\r\n".repeat(199_999)).unwrap();
    until("it is held", || (port.snapshot().held_bytes > MIB as u64).then_some(()));
    client.stream.write_all(b"$1\r\nk\r\n").unwrap();
    assert_eq!(client.next().unwrap(), ":0");
    until("it is let go", || (port.snapshot().held_bytes == 0).then_some(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_of_the_embedded_store_is_bounded_in_what_it_keeps_and_says() {
    let mut settings = port_settings();
    (settings.output_limit, settings.input_limit) = (MIB, 4 * MIB);
    let port =
        Port::start(settings, Guarded::memory(64 << 20), Clock::start()).await.expect("a port");
    let mut client = Raw::connect(port.local_addr());
    assert_eq!(client.ask(&format!("SET k {}", "v".repeat(MIB / 2))), "+OK");
    client.check(&[("MULTI", "+OK"), ("GET k", "+QUEUED"), ("GET k", "+QUEUED")]);
    client.check(&[("GET k", "+QUEUED"), ("STRLEN k", "+QUEUED")]);
    let said = client.ask("EXEC");
    assert!(said.starts_with("*4\r\n$524288\r\nvvv"), "{}", &said[..20]);
    assert!(said.ends_with(":524288"));
    assert_eq!(said.matches("-PORTFULL").count(), 2);
    assert!(port.snapshot().withheld.0 == 2 && said.len() < 2 * MIB);

    // Arguments of no length cost something too.
    client.check(&[("MULTI", "+OK")]);
    let mut full = false;
    for _ in 0..10 {
        client.stream.write_all(b"*50001\r\n$4\r\nMGET\r\n").unwrap();
        client.stream.write_all(&b"$0\r\n\r\n".repeat(50_000)).unwrap();
        full |= client.next().unwrap() == "-ERR too many commands in a transaction";
    }
    assert!(full, "half a million of them are more than 4 MiB");
    assert!(client.ask("EXEC").starts_with("-EXECABORT"));
}
