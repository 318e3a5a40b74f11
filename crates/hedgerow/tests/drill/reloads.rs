//! SIGHUP while requests and streams are in flight.

use crate::scale;
use crate::server::Server;
use hedgerow_testkit::until::until;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

const CONFIG: &str = "
worker.pool_size = 3
worker.queue_capacity = 64
worker.queue_timeout_ms = 4000
log.access = false
";

#[test]
fn reloads_under_load_fail_no_request_and_cut_no_stream() {
    let reloads = scale("RELOADS", 4) as usize;
    let server = Server::start(CONFIG);
    server.wait_workers(3);
    let (over, served) = (AtomicBool::new(false), AtomicU64::new(0));
    let done = |server: &Server| {
        server.events().iter().filter(|event| event["type"] == "reload.done").count()
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut client = server.connect();
                while !over.load(Relaxed) {
                    client.get("/hello");
                    let response = client.response();
                    assert_eq!(response.status(), 200, "{}", response.head);
                    served.fetch_add(1, Relaxed);
                }
            });
        }
        scope.spawn(|| {
            while !over.load(Relaxed) {
                let response = server.get("/stream/sse?n=20&ms=10");
                let events = response.text().matches("data:").count();
                assert_eq!((response.status(), events, response.complete), (200, 20, true));
            }
        });
        // Whatever goes wrong here, the others must hear that it is over.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for reload in 1..=reloads {
                let before = server.workers();
                server.reload();
                until("the reload", || (done(&server) >= reload).then_some(()));
                let after = server.wait_workers(3);
                assert!(after.iter().all(|pid| !before.contains(pid)), "new workers");
            }
        }));
        over.store(true, Relaxed);
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
    });
    println!("{} requests served during {reloads} reloads", served.load(Relaxed));
    assert!(served.load(Relaxed) > 0);
    assert_eq!(server.stats()["http_errors_total"], 0);
    server.stop();
}
