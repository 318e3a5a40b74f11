//! Cases 28–30: batches.

use crate::calls::{client, rules, s, settings};
use crate::network::{Does, Network, refuses, says, silent};
use hedgerow_policy::Moment;
use hedgerow_policy::hedge::{Reason, RetryConfig};
use hedgerow_upstream::{
    AllowList, BatchOptions, Client, Opened, PlanContext, PlanSettings, Settings,
};
use hedgerow_wire::batch;

pub(crate) fn plan_settings() -> PlanSettings {
    PlanSettings {
        allow: AllowList::default(),
        fixture_root: None,
        max_open: 3,
        results_limit: 1 << 20,
        state_limit: 1 << 10,
        calls: Settings::anywhere(),
    }
}

pub(crate) fn context() -> PlanContext {
    PlanContext {
        trace: "T".into(),
        request_id: "R".into(),
        traceparent: None,
        deadline: Moment::NEVER,
    }
}

fn opened(client: Client) -> Opened {
    Opened::new(client, plan_settings()).unwrap()
}

fn five(network: &Network, scripts: Vec<Vec<Does>>) -> batch::Batch {
    let mut requests = Vec::new();
    for (n, script) in scripts.into_iter().enumerate() {
        network.script(&format!("/{n}"), script);
        requests.push(format!("\"k{n}\":{{\"upstream\":\"models\",\"path\":\"/{n}\"}}"));
    }
    let text = format!("{{\"id\":\"T\",\"requests\":{{{}}}}}", requests.join(","));
    batch::decode(text.as_bytes()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn case_28_a_batch_with_one_stalled_key() {
    let network = Network::new();
    let mut scripts = vec![vec![says(60, "x")]; 5];
    scripts[2] = vec![silent(), says(60, "twin")];
    let batch = five(&network, scripts);
    let opened = opened(client(&network, settings(rules())));
    let running = opened.batch(batch, &context(), BatchOptions::default()).unwrap();
    assert_eq!(opened.sessions().active(), 1);
    let results = running.all().await;
    assert_eq!(network.second(), 160);
    let keys: Vec<&str> = results.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["k0", "k1", "k2", "k3", "k4"]);
    let twin = &results[2].1;
    assert_eq!(
        (twin.winner, twin.hedged, twin.attempts, twin.duration_ms),
        (Some("hedge"), true, 2, 160_000)
    );
    assert!(results.iter().all(|(_, result)| result.status == 200 && result.error_class.is_none()));
    let attempts: usize = opened.client().ledger().recent().iter().map(|e| e.attempts.len()).sum();
    assert_eq!((attempts, opened.sessions().active()), (6, 0));
}

#[tokio::test(start_paused = true)]
async fn case_29_results_flow_while_a_key_is_retried() {
    let network = Network::new();
    let mut scripts = vec![vec![says(40, "x")]; 3];
    scripts[1] = vec![refuses(20, 503), says(60, "again")];
    let batch = five(&network, scripts);
    let mut race = rules();
    race.retry = RetryConfig { max: 1, backoff: s(4), ..RetryConfig::default() };
    let opened = opened(client(&network, settings(race)));
    let mut running = opened.batch(batch, &context(), BatchOptions::default()).unwrap();
    let mut order = Vec::new();
    while let Some(settled) = running.next().await {
        order.push((settled.key, network.second(), settled.result.body));
        assert_eq!(running.done(), order.len());
    }
    assert_eq!((order[0].1, order[1].1), (40, 40));
    assert_eq!((order[2].0.as_str(), &order[2].2[..]), ("k1", &b"again"[..]));
}

#[tokio::test(start_paused = true)]
async fn case_30_a_cap_on_twins_loses_no_key() {
    for by_option in [true, false] {
        let network = Network::new();
        let batch = five(&network, vec![vec![says(330, "late"), says(60, "twin")]; 5]);
        let mut capped = settings(rules());
        capped.batch_max_hedges = (!by_option).then_some(2);
        let opened = opened(client(&network, capped));
        let options =
            BatchOptions { max_hedges: by_option.then_some(2), ..BatchOptions::default() };
        let results = opened.batch(batch, &context(), options).unwrap().all().await;
        assert!(results.iter().all(|(_, result)| result.status == 200));
        let counters = opened.client().view()[0].state.counters;
        assert_eq!((counters.hedges, counters.suppressed_for(Reason::BatchCap)), (2, 3));
    }
}

#[tokio::test(start_paused = true)]
async fn at_the_deadline_what_is_done_is_kept() {
    let network = Network::new();
    let mut batch = five(&network, vec![vec![says(10, "x")], vec![], vec![refuses(5, 404)]]);
    batch.deadline_ms = Some(50_000);
    let opened = opened(client(&network, settings(rules())));
    let results = opened.batch(batch, &context(), BatchOptions::default()).unwrap().all().await;
    assert_eq!(network.second(), 50);
    assert_eq!((results[0].1.status, results[0].1.error_class), (200, None));
    assert_eq!((results[1].1.status, results[1].1.error_class), (504, Some("upstream_timeout")));
    assert_eq!((results[2].1.status, results[2].1.error_class), (404, Some("upstream_error")));
    assert_eq!(
        network.open().await,
        opened.client().view()[0].connections.iter().map(|c| c.idle).sum::<usize>()
    );
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_is_dropped_leaves_nothing_running() {
    let network = Network::new();
    let batch = five(&network, vec![vec![silent()]; 5]);
    let opened = opened(client(&network, settings(rules())));
    let mut running = opened.batch(batch, &context(), BatchOptions::default()).unwrap();
    let clock = opened.client().clock();
    assert!(clock.until(clock.now() + s(10), running.next()).await.is_none());
    assert_eq!(network.open().await, 5);
    drop(running);
    assert_eq!((network.open().await, opened.sessions().active()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn bounds_end_a_key_or_a_batch_and_an_unknown_upstream_its_key() {
    let network = Network::new();
    let mut batch = five(&network, vec![vec![says(1, "0123456789")], vec![says(2, "0123456789")]]);
    batch.requests.push(("no".into(), hedgerow_wire::plan::PlannedRequest::default()));
    let mut small = plan_settings();
    small.results_limit = 15;
    let opened = Opened::new(client(&network, settings(rules())), small).unwrap();
    let results =
        opened.batch(batch.clone(), &context(), BatchOptions::default()).unwrap().all().await;
    assert_eq!((results[0].1.status, results[1].1.error_class), (200, Some("upstream_error")));
    assert_eq!((results[2].1.status, results[2].1.error_class), (502, Some("upstream_forbidden")));
    batch.state = vec![b'1'; 2_000].into();
    assert!(opened.batch(batch, &context(), BatchOptions::default()).is_err());
    let open: Vec<_> = (0..4)
        .map(|_| opened.batch(five(&network, vec![]), &context(), BatchOptions::default()))
        .collect();
    assert!(open[2].is_ok() && open[3].is_err(), "three at once");
}
