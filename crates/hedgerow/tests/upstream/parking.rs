//! One PHP worker, and twenty clients whose requests wait for calls of two seconds: the worker is
//! free while they wait.

use crate::models::{Models, endings, php};
use crate::server::Server;
use hedgerow_testkit::http::Client;
use std::sync::atomic::{AtomicBool, Ordering};

const CLIENTS: usize = 20;

const APP: &str = "
use Hedgerow\\Batch;

return fn (array $request) => match (true) {
    Batch::results($request) !== null => (string) Batch::results($request)['call']['status'],
    $request['path'] === '/batch' => Batch::of(['call' => ['upstream' => 'models', 'path' => '/silent?ms=2000']])->resume(),
    default => 'plain',
};
";

/// Each client comes when the one before it is parked, a few milliseconds later. Without a queue two
/// that come in the same instant are one too many: the second is refused, as any request would be.
fn park(server: &Server, models: &Models) -> Vec<Client> {
    let mut clients = Vec::new();
    for number in 1..=CLIENTS {
        clients.push(server.begin("/batch"));
        models.wait("another batch", "/silent", |calls| calls.len() == number);
    }
    clients
}

/// Milliseconds of the requests to this path, by the server's own clock, in order of size.
fn durations(server: &Server, path: &str) -> Vec<f64> {
    let events = server.events().into_iter();
    let mut took: Vec<f64> = events
        .filter(|event| event["type"] == "http.request" && event["path"] == path)
        .map(|event| {
            assert_eq!(event["status"], 200, "{event}");
            event["duration_ms"].as_f64().expect("a number")
        })
        .collect();
    took.sort_by(f64::total_cmp);
    took
}

fn answered(server: &Server, clients: Vec<Client>) {
    for mut client in clients {
        assert_eq!(client.response().text(), "200");
    }
    // The last event is on its way.
    server.event("http.request", |_| durations(server, "/batch").len() == CLIENTS);
    let took = durations(server, "/batch");
    println!("{CLIENTS} batches of 2 s: {:.0} to {:.0} ms", took[0], took[CLIENTS - 1]);
    // One after another they would take forty seconds; ten times the second that is allowed beside
    // the two of the calls is the bound here.
    assert!(took[CLIENTS - 1] < 12_000.0, "{took:?}");
}

#[test]
fn without_a_queue_one_worker_holds_twenty_batches_at_once() {
    let models = Models::start();
    let server = php(APP, &format!("worker.queue_capacity = 0\n{}", models.config("")));
    let clients = park(&server, &models);
    assert_eq!(endings(&models.calls("/silent")), ["open"; CLIENTS], "all of them at once");
    answered(&server, clients);
    let stats = server.stats();
    assert_eq!(stats["worker_queue_rejected_total"], 0, "{stats}");
    assert_eq!(stats["http_errors_total"], 0, "{stats}");
}

#[test]
fn plain_requests_are_served_promptly_beside_them() {
    let models = Models::start();
    let queue = "worker.queue_capacity = 10\nworker.queue_timeout_ms = 5000\n";
    let server = php(APP, &format!("{queue}{}", models.config("")));
    let clients = park(&server, &models);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let plain = scope.spawn(|| {
            let mut client = server.connect();
            // Through the resumes as well, and not only while nothing else happens.
            while !over.load(Ordering::Relaxed) {
                client.get("/plain");
                assert_eq!(client.response().text(), "plain");
            }
        });
        answered(&server, clients);
        over.store(true, Ordering::Relaxed);
        plain.join().expect("every plain request was served");
    });
    let took = durations(&server, "/plain");
    let (middle, last) = (took[took.len() / 2], took[took.len() - 1]);
    println!("{} plain requests beside them: p50 {middle:.2}, max {last:.2} ms", took.len());
    assert!(last < 500.0, "{last}");
}
