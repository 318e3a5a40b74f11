//! Random faults of workers, clients and the application, several at a time.

use crate::scale;
use crate::server::Server;
use hedgerow_policy::jitter::Jitter;
use hedgerow_testkit::http::Client;
use hedgerow_testkit::processes::{descendants, descriptors, signal};
use hedgerow_testkit::until::{until, within};
use rustix::process::Signal;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const POOL: usize = 4;

const CONFIG: &str = "
worker.pool_size = 4
worker.queue_capacity = 8
worker.queue_timeout_ms = 500
worker.read_timeout_ms = 150
worker.stream_idle_timeout_ms = 300
worker.restart_backoff_ms = 20
worker.restart_backoff_max_ms = 100
log.event_log = \"\"
log.access = false
";

const BROKEN_ANSWERS: &[&str] = &[
    "/fault/half",
    "/fault/close",
    "/fault/zero",
    "/fault/notjson",
    "/fault/exit",
    "/fault/garbage",
    "/fault/wrongid",
    "/fault/oversize",
    "/hang",
    "/stream/die?after=1",
    "/error",
    "/fault/badstatus?status=99",
];

#[test]
fn after_random_faults_every_slot_is_accounted_for_and_nothing_leaks() {
    let faults = scale("FAULTS", 400);
    let seed = scale("SEED", RandomState::new().hash_one(0) % 1_000_000);
    println!("{faults} faults, SEED={seed}");
    let server = Server::start(CONFIG);
    let (processes, files) = at_rest(&server);

    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (server, next) = (&server, &next);
            scope.spawn(move || {
                let mut random = Jitter::new(seed ^ (thread << 32));
                while next.fetch_add(1, Ordering::Relaxed) < faults {
                    fault(server, &mut random);
                    accounted_for(server);
                }
            });
        }
    });

    within(Duration::from_secs(2), "a good request is served", || {
        (server.get("/hello").status() == 200).then_some(())
    });
    // The same number of processes and descriptors, each worker with its kept connection again.
    until("processes and descriptors are as many as at the start", || {
        (at_rest(&server) == (processes, files)).then_some(())
    });
    server.stop();
}

/// Every slot in exactly one phase, whatever is going on.
fn accounted_for(server: &Server) {
    let workers = server.admin("/admin/workers");
    let states: Vec<&str> = workers["workers"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|worker| worker["state"].as_str().expect("a state"))
        .collect();
    let known = ["idle", "busy", "starting", "backing_off"];
    assert_eq!(states.len(), POOL, "{states:?}");
    assert!(states.iter().all(|state| known.contains(state)), "{states:?}");
}

/// Processes below the gateway, and its descriptors, once every worker is idle and has been used.
fn at_rest(server: &Server) -> (usize, usize) {
    server.wait_workers(POOL);
    let mut clients: Vec<Client> = (0..POOL).map(|_| server.begin("/sleep?ms=60")).collect();
    let answers: Vec<u16> = clients.iter_mut().map(|client| client.response().status()).collect();
    drop(clients);
    if answers.iter().any(|status| *status != 200) {
        return (0, 0);
    }
    server.wait_workers(POOL);
    let count = || (descendants(server.pid()).len(), descriptors(server.pid()));
    // Connections of the admin requests above are still closing: wait for two equal looks.
    let mut last = count();
    until("descriptors come to rest", || {
        let now = count();
        let same = now == last;
        last = now;
        same.then_some(now)
    })
}

fn fault(server: &Server, random: &mut Jitter) {
    let pick = random.bits();
    match random.bits() % 9 {
        0 => signal_worker(server, pick, Signal::KILL),
        1 => signal_worker(server, pick, Signal::TERM),
        2 => {
            // It stands still, and the next request that reaches it times out.
            signal_worker(server, pick, Signal::STOP);
            server.get("/hello");
        }
        3 => drop(server.begin("/sleep?ms=30")),
        4 => {
            let mut client = server.connect();
            client
                .send("POST /sha1 HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\nonly this");
        }
        5 => {
            let mut client = server.begin("/stream/endless?ms=1");
            client.up_to(b"\r\n\r\n");
        }
        6 => {
            // A download whose client takes a little and leaves.
            let mut client = server.begin("/bytes?n=4000000");
            client.up_to(b"\r\n\r\n");
        }
        7 => {
            let mut client = server.connect();
            client.send("GET / HTTP/1.1\r\nhost x\r\n\r\n");
            client.rest();
        }
        _ => {
            let path = BROKEN_ANSWERS[pick as usize % BROKEN_ANSWERS.len()];
            server.get(path);
        }
    }
}

fn signal_worker(server: &Server, pick: u64, which: Signal) {
    let workers = server.workers();
    if let Some(pid) = workers.get(pick as usize % workers.len().max(1)) {
        signal(*pid, which);
    }
}
