//! Random operations while the store stands still, loses connections, and comes back.
//!
//! Each value names its key, so a reply that belongs to another request shows. `HEDGEROW_OPS=125000`
//! makes it a million; a failure is replayed with `HEDGEROW_SEED`.

use crate::support::Fixture;
use hedgerow_policy::jitter::Jitter;
use hedgerow_testkit::redis::Redis;
use hedgerow_testkit::resp::Raw;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const CLIENTS: usize = 8;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(otherwise)
}

/// A reply of GET is nothing, or a value of that key.
fn belongs(reply: &str, key: u64) -> bool {
    matches!(reply, "$-1" | "") || reply.contains(&format!("value-of-{key}."))
}

/// One pipeline of random commands and its replies.
fn round(client: &mut Raw, random: &mut Jitter) -> usize {
    let mut lines = Vec::new();
    let mut keys = Vec::new();
    for _ in 0..=random.bits() % 12 {
        let key = random.bits() % 200;
        let size = "x".repeat((random.bits() % 300) as usize);
        keys.push(key);
        lines.push(match random.bits() % 10 {
            0..=3 => format!("SET k{key} value-of-{key}.{size}"),
            4..=7 => format!("GET k{key}"),
            8 => format!("MGET k{key} k{key}"),
            _ => format!("ECHO value-of-{key}."),
        });
    }
    client.send_all(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    for (line, key) in lines.iter().zip(&keys) {
        let reply = client.next().expect("the port never closes");
        let good = match line.split(' ').next() {
            Some("SET") => reply == "+OK" || reply == "$-1",
            Some("MGET") => {
                reply.starts_with("*2")
                    && reply.split("\r\n").skip(1).all(|l| l.starts_with('$') || belongs(l, *key))
            }
            _ => belongs(&reply, *key),
        };
        assert!(good, "{line:.40} was answered {reply:.80}");
    }
    lines.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_reply_belongs_to_its_request() {
    let seed = number("HEDGEROW_SEED", u64::from(std::process::id()));
    println!("HEDGEROW_SEED={seed}");
    let wanted = number("HEDGEROW_OPS", 3_000) as usize;
    let fixture = Fixture::with(Redis::start(), |redis, _, _| {
        redis.call_timeout = Duration::from_millis(20);
        redis.connect_timeout = Duration::from_millis(200);
        redis.liveness_timeout = Duration::from_millis(150);
    })
    .await;
    let running = AtomicUsize::new(CLIENTS);
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (fixture, running) = (&fixture, &running);
            scope.spawn(move || {
                let mut random = Jitter::new(seed ^ number as u64);
                let mut client = fixture.client();
                let mut done = 0;
                while done < wanted {
                    done += round(&mut client, &mut random);
                    if random.bits().is_multiple_of(97) {
                        // It leaves in the middle of something, and comes again.
                        client.send_all(&["GET k1", "SET k1 value-of-1.", "GET k2"]);
                        client = fixture.client();
                    }
                }
                running.fetch_sub(1, Ordering::SeqCst);
            });
        }
        let mut random = Jitter::new(!seed);
        let mut trouble = fixture.client();
        while running.load(Ordering::SeqCst) > 0 {
            match random.bits() % 3 {
                0 => {
                    fixture.server.pause();
                    // As long as these take: some deadlines, sometimes the liveness timeout.
                    for _ in 0..random.bits() % 12 {
                        round(&mut trouble, &mut random);
                    }
                    fixture.server.resume();
                }
                1 => drop(fixture.server.ask("CLIENT KILL TYPE normal SKIPME yes")),
                _ => drop(round(&mut trouble, &mut random)),
            }
        }
    });
    fixture.server.resume();
    fixture.recovered();
    fixture.client().check(&[("SET end 1", "+OK"), ("GET end", "$1 1")]);
}
