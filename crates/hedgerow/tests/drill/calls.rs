//! Hedged calls through the egress port, with random faults of the upstream and of callers.

use crate::scale;
use crate::server::{HEDGEROW, Server};
use hedgerow_policy::jitter::Jitter;
use hedgerow_testkit::http::Client;
use hedgerow_testkit::processes::{Leashed, descriptors, resident};
use hedgerow_testkit::until::{until, within};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Callers at once.
const CALLERS: u64 = 16;

/// What the process may hold more at the end than after the first part of the calls: what its
/// bounded logs and pools fill with, and what the allocator keeps.
const GROWTH: u64 = 16 << 20;

const CONFIG: &str = "
egress.listen = \"127.0.0.1:0\"
log.event_log = \"\"
log.access = false
upstream.models.hedge = { after_ms = 4, idle_ms = 4, max = 2 }
upstream.models.retry = { max = 1, backoff_ms = 1, backoff_max_ms = 4, statuses = [429, 503] }
upstream.models.budget = { ratio = 1.0, burst = 1000000 }
upstream.models.idle_timeout_ms = 60
upstream.models.total_timeout_ms = 250
upstream.models.response_buffer_limit = \"4KiB\"
";

/// The scripted upstream as a process, so that its end takes its connections along.
struct Upstream {
    _process: Leashed,
    url: String,
}

impl Upstream {
    fn start() -> Upstream {
        let mut child = Command::new(HEDGEROW)
            .args(["stage", "upstream", "--listen", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("hedgerow runs");
        let mut url = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut url).expect("a line");
        Upstream { _process: Leashed(child), url: url.trim_end().to_owned() }
    }

    fn seen(&self) -> serde_json::Value {
        let at = self.url.trim_start_matches("http://").parse().expect("an address");
        let mut client = Client::connect(at);
        client.get("/-/seen");
        serde_json::from_slice(&client.response().body).expect("a table")
    }
}

#[test]
fn after_hedged_calls_with_random_faults_nothing_is_left() {
    let calls = scale("CALLS", 3_000);
    let seed = scale("SEED", RandomState::new().hash_one(0) % 1_000_000);
    println!("{calls} calls, SEED={seed}");
    let upstream = Upstream::start();
    let url = &upstream.url;
    let server = Server::start(&format!("{CONFIG}upstream.models.url = \"{url}\"\n"));
    let egress = until("the address of the egress port", || {
        let said = server.stderr();
        said.split_once("egress on http://")?.1.lines().next()?.parse().ok()
    });
    let start = at_rest(&server);

    // Logs fill and pools grow in the first part; from then on memory stays where it is.
    let first = (calls / 4).max(1_000).min(calls);
    run(egress, seed, first);
    let warm = resident(server.pid());
    run(egress, seed ^ 0x5eed, calls - first);
    let grown = resident(server.pid()).saturating_sub(warm);

    // Whatever was cancelled is cancelled at the upstream too: it holds idle connections alone.
    until("the upstream has nothing open", || {
        let seen = upstream.seen();
        let calls = seen["calls"].as_array().expect("a list");
        calls.iter().all(|call| call["ended"] != "open").then_some(())
    });
    let usage = server.admin("/admin/usage");
    let models = &usage["upstreams"]["models"];
    let count = |name: &str| models[name].as_u64().expect("a count");
    assert_eq!(count("attempts"), count("calls") + count("hedges_fired") + count("retries"));
    assert!(count("calls") >= calls && count("hedges_fired") > calls / 10, "{models}");
    assert_eq!(models["endpoints"][0]["pending"], 0, "{models}");

    drop(upstream);
    // Its idle connections are closed with it; a task that looks after them ends within ten seconds.
    within(Duration::from_secs(60), "tasks and descriptors are as many as at the start", || {
        (at_rest(&server) == start).then_some(())
    });
    println!(
        "{} attempts for {} calls; {start:?} tasks and descriptors as before; {} KiB grown",
        count("attempts"),
        count("calls"),
        grown >> 10
    );
    assert!(grown < GROWTH, "{grown} bytes more after {calls} calls than after {first}");
    server.stop();
}

/// The runtime's tasks, and the descriptors of the process, once two looks are equal.
fn at_rest(server: &Server) -> (u64, usize) {
    let look = || {
        let runtime = server.admin("/admin/runtime");
        (runtime["tasks"].as_u64().expect("a count"), descriptors(server.pid()))
    };
    let mut last = look();
    until("tasks and descriptors come to rest", || {
        let now = look();
        let same = now == last;
        last = now;
        same.then_some(now)
    })
}

fn run(egress: SocketAddr, seed: u64, calls: u64) {
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for caller in 0..CALLERS {
            let next = &next;
            scope.spawn(move || {
                let mut random = Jitter::new(seed ^ (caller << 32));
                let mut client = Client::connect(egress);
                while next.fetch_add(1, Relaxed) < calls {
                    if !call(&mut client, &mut random) {
                        client = Client::connect(egress);
                    }
                }
            });
        }
    });
}

/// One call; whether its connection can take another.
fn call(client: &mut Client, random: &mut Jitter) -> bool {
    let steps: Vec<String> = (1..=4).map(|n| format!("{n}={}", step(random))).collect();
    let target = format!("/models/script?{}", steps.join("&"));
    match random.bits() % 10 {
        // A caller that leaves: at once, or behind the head.
        0 => {
            client.get(&target);
            return false;
        }
        1 => {
            client.get("/models/endless?ms=1");
            client.up_to(b"\r\n\r\n");
            return false;
        }
        // An upload that breaks off.
        2 => {
            client.send(format!("PUT {target} HTTP/1.1\r\nhost: a\r\ncontent-length: 99\r\n\r\nx"));
            return false;
        }
        // A body that both attempts carry.
        3 => {
            let body = vec![b'x'; (random.bits() % 20_000) as usize];
            let length = body.len();
            client.send(format!(
                "PUT {target} HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n"
            ));
            client.send(body);
            client.maybe_response();
            // One that was answered before its body was taken is closed behind the answer.
            return false;
        }
        4 => {
            let batch = format!(
                "{{\"requests\":{{\"a\":{{\"upstream\":\"models\",\"path\":\"/script?{}\"}},\
                 \"b\":{{\"upstream\":\"models\",\"path\":\"/x\"}}}},\"deadline_ms\":40}}",
                steps.join("&")
            );
            client.post("/-/batch", batch.as_bytes());
        }
        _ => client.get(&target),
    }
    // What broke in the very moment in which its first byte came may leave without a head.
    client.maybe_response().is_some_and(|response| response.complete)
}

/// What one attempt meets.
fn step(random: &mut Jitter) -> String {
    let ms = random.bits() % 12;
    match random.bits() % 10 {
        0 => "wait".to_owned(),
        1 => "reset".to_owned(),
        2 => format!("wait:{ms},reset"),
        3 => format!("wait:{ms},status:{}", [404, 429, 500, 503][(random.bits() % 4) as usize]),
        4 => "data:some,wait".to_owned(),
        5 => format!("data:some,wait:{ms},reset"),
        6 => format!("events,data:x,wait:{ms},data:y"),
        7 => format!("data:{},wait:{ms},data:end", "x".repeat(6_000)),
        _ => format!("wait:{ms},data:fine"),
    }
}
