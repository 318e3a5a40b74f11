//! Nothing leaks: many keys with random faults, then everything is as it was before.

use crate::calls::{client, s, settings};
use crate::network::{Does, End, Network, says};
use hedgerow_policy::Jitter;
use hedgerow_policy::hedge::{Answer, HedgeConfig, RaceConfig, RetryConfig};
use hedgerow_upstream::{Body, Client, Protocol};
use std::sync::Arc;
use tokio::task::JoinSet;

/// What attempt after attempt of one key meets.
fn faults(random: &mut Jitter) -> Vec<Does> {
    let one = |random: &mut Jitter| match random.bits() % 7 {
        0 => Does::Closes(random.bits() % 5),
        1 => says(1_000_000, "never"),
        2 => Does::Answers {
            after: random.bits() % 4,
            status: [200, 404, 429, 503][(random.bits() % 4) as usize],
            headers: vec![("retry-after", "2")],
            pieces: vec![(0, "a"), (random.bits() % 9, "b")],
            end: [End::Complete, End::Breaks, End::Silence][(random.bits() % 3) as usize],
        },
        _ => says(random.bits() % 6, "fine"),
    };
    (0..5).map(|_| one(random)).collect()
}

async fn key(client: Client, path: String, seed: u64) -> bool {
    let mut random = Jitter::new(seed);
    let clock = client.clock();
    // One in eight callers leaves.
    let patience = if random.bits().is_multiple_of(8) { s(random.bits() % 12) } else { s(1_000) };
    let call = async {
        let request = http::Request::get(path).body(Body::empty()).unwrap();
        match client.call("models", request).await {
            // One in four reads only the first piece.
            Ok(mut response) if random.bits().is_multiple_of(4) => response.next().await.is_some(),
            Ok(mut response) => response.bytes(100).await.is_ok(),
            Err(_) => false,
        }
    };
    clock.until(clock.now() + patience, call).await.unwrap_or(false)
}

async fn soak(http2: bool, keys: u64) {
    let network = Network::speaking(http2);
    let hedge =
        HedgeConfig { after: Some(s(3)), after_quantile: None, max: 2, ..HedgeConfig::default() };
    let mut fine = 0;
    for (round, answer) in
        [Answer::Full, Answer::FirstData, Answer::Headers].into_iter().enumerate()
    {
        let race = RaceConfig {
            hedge: Some(HedgeConfig { answer, idle: Some(s(2)), ..hedge.clone() }),
            retry: RetryConfig { max: 2, ..RetryConfig::default() },
            idle_timeout: Some(s(20)),
            total_timeout: Some(s(60)),
            ..RaceConfig::default()
        };
        let mut all = settings(race);
        all.budget.ratio = 0.5;
        all.protocol = if http2 { Protocol::Http2 } else { Protocol::Http1 };
        let client = client(&network, all);
        let mut running = JoinSet::new();
        for n in 0..keys {
            let seed = n + keys * round as u64;
            let path = format!("/{seed}");
            network.script(&path, faults(&mut Jitter::new(seed)));
            running.spawn(key(client.clone(), path, seed));
            if running.len() >= 50 {
                fine += u64::from(running.join_next().await.unwrap().unwrap());
            }
        }
        while let Some(one) = running.join_next().await {
            fine += u64::from(one.unwrap());
        }
        let view = &client.view()[0];
        assert!(view.state.endpoints.iter().all(|endpoint| endpoint.pending == 0));
        let kept: usize = view.connections.iter().map(|at| at.idle + at.shared).sum();
        assert!(kept <= 120, "{kept} connections for fifty calls at once");
        let c = view.state.counters;
        assert_eq!(c.succeeded + c.failed + c.abandoned, keys, "every key is counted once: {c:?}");
        assert_eq!(c.hedges, c.hedge_outcomes.iter().sum::<u64>(), "and every twin");
        assert_eq!(client.ledger().totals("models").keys, keys);
        assert!(c.hedges + c.retries <= keys / 2 + 10 + c.hedges / 2, "within the budget");
    }
    assert!(fine > keys, "most keys are answered: {fine} of {}", 3 * keys);
    // The clients are gone, and with them every connection and every task.
    assert_eq!(network.open().await, 0);
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let clock = hedgerow_upstream::Clock::start();
    clock.sleep_until(clock.now() + s(60)).await;
    assert!(tasks <= 2 + keys as usize / 10, "{tasks}");
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    assert!(tasks <= Arc::strong_count(&network), "{tasks} tasks are left");
}

#[tokio::test(start_paused = true)]
async fn nothing_leaks_over_http1() {
    soak(false, 500).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_leaks_over_http2() {
    soak(true, 500).await;
}

/// The long run: `cargo test --release -p hedgerow-upstream --test upstream -- --ignored soak`.
#[tokio::test(start_paused = true)]
#[ignore = "a hundred thousand keys take a while"]
async fn nothing_leaks_in_a_long_soak() {
    soak(false, 33_400).await;
    soak(true, 33_400).await;
}
