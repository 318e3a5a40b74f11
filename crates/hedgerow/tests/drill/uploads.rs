//! Slow uploads, many of them.

use crate::scale;
use crate::server::Server;
use hedgerow_testkit::http::Client;
use hedgerow_testkit::processes::resident;
use hedgerow_testkit::until::until;
use rustix::process::{Resource, getrlimit, setrlimit};

const MIB: u64 = 1 << 20;
/// `server.body_memory` of the run.
const BODY_MEMORY: u64 = 16 * MIB;
/// What the gateway may hold besides: itself, connections, and one read of each upload on its way
/// to memory or disk.
const CONSTANT: u64 = 64 * MIB;
const FOR_EACH: u64 = 48 << 10;

#[test]
fn slow_uploads_stay_within_the_memory_for_bodies_and_others_are_served() {
    let uploads = scale("UPLOADS", 300);
    // Two descriptors an upload in this process would be one too many for the usual limit.
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("more descriptors");
    let config = format!(
        "server.body_memory = {BODY_MEMORY}\nserver.body_timeout_ms = 600000\nlog.access = false\n\
         worker.queue_capacity = 16\nworker.queue_timeout_ms = 4000"
    );
    let server = Server::start(&config);
    let piece = vec![b'x'; 256 << 10];
    let mut clients: Vec<Client> = Vec::new();
    for _ in 0..uploads {
        let mut client = server.connect();
        client.send("POST /sha1 HTTP/1.1\r\nhost: x\r\ncontent-length: 10485760\r\n\r\n");
        client.send(&piece);
        clients.push(client);
    }
    let sent = uploads * piece.len() as u64;
    until("what was sent has arrived", || {
        let begun = server.metric("http_requests_in_flight").expect("a metric");
        (begun >= uploads as f64).then_some(())
    });
    assert!(sent > 2 * BODY_MEMORY, "the run must go past the bound to say anything");
    for _ in 0..20 {
        assert_eq!(server.get("/hello").status(), 200, "others are served");
        let held = resident(server.pid());
        let bound = BODY_MEMORY + CONSTANT + uploads * FOR_EACH;
        assert!(held < bound, "{} MiB held, {} allowed", held / MIB, bound / MIB);
    }
    let held = server.metric("body_memory_bytes").expect("a metric");
    assert!(held <= BODY_MEMORY as f64, "{held}");

    // One of them goes on to its end: what was spooled is whole.
    let mut client = clients.pop().expect("an upload");
    let rest = vec![b'x'; (10 * MIB) as usize - piece.len()];
    client.send(&rest);
    let response = client.response();
    assert_eq!(response.status(), 200, "{}", response.head);
    assert_eq!(response.text().trim(), sha1_of_ten_mebibytes_of_x());
    drop(clients);
    until("every body was given back", || {
        (server.metric("body_memory_bytes") == Some(0.0)).then_some(())
    });
    server.stop();
}

/// `head -c 10485760 /dev/zero | tr '\0' x | sha1sum`
fn sha1_of_ten_mebibytes_of_x() -> &'static str {
    "83cc369e6d2bd16117e3b13db9e971e72f5bcf59"
}
