//! The port without a store.

use crate::support::port_settings;
use hedgerow_cache::{Clock, Guarded, Port};
use hedgerow_testkit::resp::Raw;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_embedded_store_through_the_port() {
    let clock = Clock::start();
    let guarded = Guarded::memory_with(1 << 20, clock);
    let port = Port::start(port_settings(), guarded, clock).await.unwrap();
    let mut client = Raw::connect(port.local_addr());
    client.check(&[
        ("PING", "+PONG"),
        ("SET a 1 EX 100", "+OK"),
        ("GET a", "$1 1"),
        ("SELECT 3", "+OK"),
        ("GET a", "$-1"),
        ("SELECT 0", "+OK"),
        ("MULTI", "+OK"),
        ("INCR a", "+QUEUED"),
        ("GET a", "+QUEUED"),
        ("EXEC", "*2 :2 $1 2"),
        ("WATCH a", "+OK"),
        ("SET a 5", "+OK"),
        ("MULTI", "+OK"),
        ("GET a", "+QUEUED"),
        ("EXEC", "*-1"),
        ("MULTI", "+OK"),
        ("NONSENSE", "-ERR unknown command 'NONSENSE': the embedded store does not have it"),
        ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
        ("EXEC", "-ERR EXEC without MULTI"),
        ("HELLO 3", "%7 $6 server $5 redis $7 version $5 7.0.0 $5 proto :3 $2 id :1 $4 mode $10 standalone $4 role $6 master $7 modules *0"),
        ("HSET h a 1", ":1"),
        ("HGETALL h", "%1 $1 a $1 1"),
        ("GET nothing", "_"),
    ]);
    assert!(client.ask("INFO").contains("store:memory"));
    client.send_all(&["SET p 1", "PING", "GET p", "INCR p"]);
    let replies: Vec<String> = (0..4).map(|_| client.next().unwrap()).collect();
    assert_eq!(replies, ["+OK", "+PONG", "$1\r\n1", ":2"]);
}
