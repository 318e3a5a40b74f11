//! A program that opens the port in front of the cache its own Rust code uses.

use crate::support::{Fixture, port_settings};
use hedgerow_cache::{Cache, Clock, Guarded, Leased, Port, Saved};
use hedgerow_testkit::resp::Raw;

/// Each line is an invalidation of `k` by a client: whoever began to compute it before may not
/// store it any more, who begins after it may.
async fn an_invalidation_voids_leases(guarded: &Guarded, client: &mut Raw, lines: &[&[&str]]) {
    for invalidation in lines {
        let (before, other) = (guarded.generation(b"k").await, guarded.generation(b"o").await);
        assert_eq!(guarded.save(b"k", b"v", None).await, Saved::Stored);
        client.send_all(invalidation);
        invalidation.iter().for_each(|_| drop(client.next().expect("a reply")));
        let late = guarded.save_with_lease(b"k", b"old", None, &before).await;
        assert_eq!(late, Leased::Refused, "{invalidation:?}");
        assert_eq!(guarded.load(b"k").await, None, "{invalidation:?}");
        if !invalidation[0].starts_with("FLUSH") {
            let untouched = guarded.save_with_lease(b"o", b"v", None, &other).await;
            assert_eq!(untouched, Leased::Stored, "{invalidation:?}");
        }
        let after = guarded.generation(b"k").await;
        let saved = guarded.save_with_lease(b"k", b"new", None, &after).await;
        assert_eq!(saved, Leased::Stored, "{invalidation:?}");
        assert_eq!(client.ask("GET k"), "$3\r\nnew");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_the_port_voids_leases_of_the_same_process() {
    let fixture = Fixture::start().await;
    let lines: [&[&str]; 5] =
        [&["DEL a k"], &["UNLINK k"], &["FLUSHDB"], &["FLUSHALL"], &["MULTI", "DEL k", "EXEC"]];
    an_invalidation_voids_leases(&fixture.guarded, &mut fixture.client(), &lines).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn and_so_it_does_with_the_embedded_store() {
    let clock = Clock::start();
    let guarded = Guarded::memory_with(1 << 20, clock);
    let port = Port::start(port_settings(), guarded.clone(), clock).await.unwrap();
    let mut client = Raw::connect(port.local_addr());
    let lines: [&[&str]; 4] = [&["DEL a k"], &["UNLINK k"], &["FLUSHDB"], &["FLUSHALL"]];
    an_invalidation_voids_leases(&guarded, &mut client, &lines).await;
}
