//! Cases 1–6, 8, 13–15, 19, 23–25, 43, 44 of cases/hedging.md through real HTTP connections.

use crate::network::{Does, End, Network, Wire, refuses, says, silent, streams};
use hedgerow_policy::failure::Class;
use hedgerow_policy::hedge::{HedgeConfig, Outcome, RaceConfig, RetryConfig, Role};
use hedgerow_upstream::{Body, CallError, CallOptions, Client, Protocol, Response, Settings};
use std::sync::Arc;
use std::time::Duration;

pub(crate) fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) fn hedge() -> HedgeConfig {
    HedgeConfig { after: Some(s(100)), after_quantile: None, ..HedgeConfig::default() }
}

pub(crate) fn settings(race: RaceConfig) -> Settings {
    let mut settings = Settings::new("models", ["http://one", "http://two"]).unwrap();
    settings.race = race;
    settings.budget.burst = 10;
    settings.price_per_call = 0.5;
    settings
}

pub(crate) fn rules() -> RaceConfig {
    RaceConfig { hedge: Some(hedge()), ..RaceConfig::default() }
}

pub(crate) fn client(network: &Arc<Network>, settings: Settings) -> Client {
    Client::builder().dial(Arc::new(Wire(network.clone()))).build([settings]).unwrap()
}

async fn get(client: &Client, path: &str) -> Result<Response, CallError> {
    client.call("models", http::Request::get(path).body(Body::empty()).unwrap()).await
}

async fn body(mut response: Response) -> String {
    String::from_utf8(response.bytes(1 << 20).await.unwrap().to_vec()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn cases_01_and_03_in_time_and_rescued() {
    let network = Network::new();
    network.script("/fast", vec![says(60, "fast")]);
    network.script("/slow", vec![says(330, "first"), says(60, "second")]);
    let client = client(&network, settings(rules()));
    let response = get(&client, "/fast").await.unwrap();
    assert_eq!((network.second(), response.report().attempts), (60, 1));
    assert_eq!((body(response).await.as_str(), network.connections()), ("fast", 1));

    let response = get(&client, "/slow").await.unwrap();
    let report = response.report();
    assert_eq!((network.second(), report.winner), (60 + 160, Some(Role::Hedge)));
    assert_eq!((report.hedged_after, report.attempts), (Some(s(100)), 2));
    assert_eq!(body(response).await, "second");
    let seen = network.seen();
    assert_ne!(seen[1].connection, seen[2].connection, "always over another connection");
    assert_ne!(seen[1].host, seen[2].host, "and elsewhere where there is a place");
    assert_eq!(seen[2].headers["hedgerow-attempt"], "2");
    let ledger = client.ledger().recent();
    let outcomes: Vec<Outcome> = ledger[0].attempts.iter().map(|a| a.outcome).collect();
    assert_eq!(outcomes, [Outcome::Lost, Outcome::Won]);
}

#[tokio::test(start_paused = true)]
async fn case_04_and_02_a_late_original_and_one_at_the_very_moment() {
    let network = Network::new();
    network.script("/late", vec![says(120, "first"), says(60, "second")]);
    network.script("/at", vec![says(100, "first"), says(0, "second")]);
    let client = client(&network, settings(rules()));
    let response = get(&client, "/late").await.unwrap();
    assert_eq!((network.second(), response.report().winner), (120, Some(Role::Primary)));
    assert_eq!(body(response).await, "first");
    let response = get(&client, "/at").await.unwrap();
    assert_eq!(response.report().winner, Some(Role::Primary), "what has arrived comes first");
}

#[tokio::test(start_paused = true)]
async fn cases_05_06_and_08_failures_wait_for_their_twins() {
    let network = Network::new();
    network.script("/five", vec![refuses(110, 500), says(50, "second")]);
    network.script("/six", vec![Does::Closes(110), refuses(30, 503)]);
    network.script("/eight", vec![refuses(110, 400), says(50, "second")]);
    let client = client(&network, settings(rules()));
    let response = get(&client, "/five").await.unwrap();
    assert_eq!((network.second(), body(response).await.as_str()), (150, "second"));

    let error = get(&client, "/six").await.unwrap_err();
    assert_eq!((network.second(), error.failure.class), (150 + 130, Class::UpstreamError));
    assert_eq!((error.report.attempts, error.last_status), (2, Some(503)));
    let entry = &client.ledger().recent()[0];
    assert_eq!(entry.attempts[1].status, Some(503));
    assert!(entry.attempts.iter().all(|a| a.outcome == Outcome::Failed));

    let response = get(&client, "/eight").await.unwrap();
    assert_eq!(response.report().winner, Some(Role::Hedge));
    assert_eq!(network.second(), 280 + 150);
}

#[tokio::test(start_paused = true)]
async fn a_final_refusal_passes_with_its_body() {
    let network = Network::new();
    network.script("/no", vec![refuses(5, 500)]);
    let client = client(&network, settings(rules()));
    let response = get(&client, "/no").await.unwrap();
    assert_eq!((response.status().as_u16(), response.report().winner), (500, None));
    assert_eq!((network.second(), body(response).await.as_str()), (5, "refused"));
    assert_eq!(network.connections(), 1);
    get(&client, "/no").await.unwrap().bytes(100).await.unwrap();
    assert_eq!(network.seen().len(), 2);
}

fn stalls_half_way() -> Does {
    streams("text/plain", vec![(9, "a"), (19, "b")], End::Silence)
}

#[tokio::test(start_paused = true)]
async fn case_13_a_body_that_stalls_is_rescued_and_nothing_is_spliced() {
    let network = Network::new();
    network.script("/x", vec![stalls_half_way(), says(10, "whole")]);
    let idle = HedgeConfig { after: None, idle: Some(s(30)), ..hedge() };
    let race = RaceConfig { hedge: Some(idle), ..RaceConfig::default() };
    let client = client(&network, settings(race));
    let response = get(&client, "/x").await.unwrap();
    assert_eq!((network.second(), response.report().hedged_after), (60, Some(s(50))));
    assert_eq!(body(response).await, "whole");
}

#[tokio::test(start_paused = true)]
async fn case_14_and_43_a_stream_is_passed_on_and_cut_when_it_falls_silent() {
    let network = Network::new();
    let events = vec![(0, ": hello\n\n"), (9, "data: 1\n\n")];
    network.script("/s", vec![streams("text/event-stream", events, End::Silence)]);
    let client = client(&network, settings(rules()));
    let mut response = get(&client, "/s").await.unwrap();
    assert_eq!(network.second(), 10, "committed by its first data, not by a comment");
    assert_eq!(response.next().await.unwrap().unwrap(), ": hello\n\n");
    assert_eq!(response.next().await.unwrap().unwrap(), "data: 1\n\n");
    let failure = response.next().await.unwrap().unwrap_err();
    assert_eq!((failure.class, network.second()), (Class::UpstreamTimeout, 70));
    assert!(response.next().await.is_none());
    assert_eq!(network.open().await, 0, "the connection is closed");
}

#[tokio::test(start_paused = true)]
async fn case_15_and_25_losers_and_callers_that_leave_leave_nothing_open() {
    let network = Network::new();
    network.script("/slow", vec![silent(), says(60, "second")]);
    network.script("/never", vec![silent(), silent()]);
    let client = client(&network, settings(rules()));
    let response = get(&client, "/slow").await.unwrap();
    assert_eq!(network.open().await, 1, "the winner's own");
    body(response).await;
    {
        let call = get(&client, "/never");
        tokio::pin!(call);
        let clock = client.clock();
        let left = clock.until(clock.now() + s(130), &mut call).await;
        assert!(left.is_none() && network.open().await >= 2);
    }
    assert!(network.open().await <= 1, "at most the idle one");
    let view = &client.view()[0];
    assert_eq!((view.state.counters.abandoned, view.state.counters.failed), (1, 0));
    assert!(view.state.endpoints.iter().all(|endpoint| endpoint.pending == 0));
    let entry = &client.ledger().recent()[0];
    assert!(entry.attempts.iter().all(|a| a.outcome == Outcome::Abandoned && a.cost.is_none()));
}

#[tokio::test(start_paused = true)]
async fn case_23_retry_after_is_kept() {
    let network = Network::new();
    let busy = Does::Answers {
        after: 1,
        status: 429,
        headers: vec![("retry-after", "40")],
        pieces: vec![],
        end: End::Complete,
    };
    network.script("/x", vec![busy, says(5, "then")]);
    let mut one = settings(RaceConfig {
        retry: RetryConfig { max: 1, ..RetryConfig::default() },
        ..RaceConfig::default()
    });
    one.endpoints.truncate(1);
    let client = client(&network, one);
    let response = get(&client, "/x").await.unwrap();
    assert_eq!((network.second(), response.report().retries), (46, 1));
    assert_eq!(body(response).await, "then");
}

#[tokio::test(start_paused = true)]
async fn case_24_a_deadline_ends_the_wait() {
    let network = Network::new();
    let client = client(&network, settings(rules()));
    let deadline = client.clock().now() + s(50);
    let options = CallOptions { deadline, ..CallOptions::default() };
    let request = http::Request::get("/never").body(Body::empty()).unwrap();
    let error = client.call_with("models", request, options).await.unwrap_err();
    assert_eq!((error.failure.class, network.second()), (Class::UpstreamTimeout, 50));
    assert_eq!(network.open().await, 0);
}

#[tokio::test(start_paused = true)]
async fn case_44_the_ledger_tells_every_attempt() {
    let network = Network::new();
    network.script("/slow", vec![silent(), says(60, "second")]);
    let client = client(&network, settings(rules()));
    body(get(&client, "/slow").await.unwrap()).await;
    let entry = client.ledger().recent()[0].to_json();
    assert_eq!((&entry["retry"], &entry["winner"]), (&true.into(), &"hedge".into()));
    let [lost, won] = &entry["attempts"].as_array().unwrap()[..] else { panic!() };
    assert_eq!((&lost["role"], &lost["outcome"]), (&"primary".into(), &"lost".into()));
    assert!(lost["cost"].is_null(), "what a cancelled call cost is not known");
    assert_eq!((&won["cost"], &won["bytes"]), (&0.5.into(), &6.into()));
    assert_eq!((&won["start_ms"], &won["end_ms"]), (&100_000.0.into(), &160_000.0.into()));
}

#[tokio::test(start_paused = true)]
async fn over_http2_a_loser_costs_a_stream_and_its_connection_lives() {
    let network = Network::speaking(true);
    network.script("/slow", vec![silent(), says(60, "second")]);
    network.script("/fast", vec![says(1, "fast")]);
    let mut both = settings(rules());
    both.protocol = Protocol::Http2;
    let client = client(&network, both);
    let response = get(&client, "/slow").await.unwrap();
    assert_eq!((network.second(), body(response).await.as_str()), (160, "second"));
    for _ in 0..10 {
        assert_eq!(body(get(&client, "/fast").await.unwrap()).await, "fast");
    }
    assert_eq!((network.connections(), network.open().await), (2, 2));
    let clock = client.clock();
    clock.sleep_until(clock.now() + s(70)).await;
    assert_eq!(network.open().await, 0, "nothing idles for ever");
}

#[tokio::test(start_paused = true)]
async fn over_http2_a_stream_that_was_reset_is_a_failure_and_no_reason_to_connect_anew() {
    let network = Network::speaking(true);
    network.script("/no", vec![Does::Closes(0)]);
    let mut one = settings(rules());
    one.protocol = Protocol::Http2;
    one.endpoints.truncate(1);
    let client = client(&network, one);
    for _ in 0..20 {
        let error = get(&client, "/no").await.unwrap_err();
        assert_eq!(error.failure.class, Class::UpstreamError);
    }
    assert_eq!((network.connections(), network.seen().len()), (1, 20));
}

#[tokio::test(start_paused = true)]
async fn over_http2_a_twin_takes_another_connection_of_the_only_endpoint() {
    let network = Network::speaking(true);
    network.script("/slow", vec![silent(), says(60, "second")]);
    let mut one = settings(rules());
    one.protocol = Protocol::Http2;
    one.endpoints.truncate(1);
    let client = client(&network, one);
    body(get(&client, "/slow").await.unwrap()).await;
    let seen = network.seen();
    assert_ne!(seen[0].connection, seen[1].connection);
}

#[tokio::test(start_paused = true)]
async fn over_http2_a_connection_with_many_resets_takes_no_more() {
    let network = Network::speaking(true);
    let mut one = settings(RaceConfig { total_timeout: Some(s(1)), ..RaceConfig::default() });
    one.protocol = Protocol::Http2;
    one.endpoints.truncate(1);
    let client = client(&network, one);
    for _ in 0..150 {
        get(&client, "/never").await.unwrap_err();
    }
    assert_eq!((network.connections(), network.open().await), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn connections_are_used_again_and_given_up_after_a_while() {
    let network = Network::new();
    network.script("/x", vec![says(0, "x")]);
    let mut one = settings(rules());
    one.endpoints.truncate(1);
    let client = client(&network, one);
    for _ in 0..20 {
        body(get(&client, "/x").await.unwrap()).await;
    }
    assert_eq!((network.connections(), network.open().await), (1, 1));
    let clock = client.clock();
    clock.sleep_until(clock.now() + s(70)).await;
    assert_eq!(network.open().await, 0);
}

#[tokio::test(start_paused = true)]
async fn nobody_there_is_a_failure_that_may_be_retried_elsewhere() {
    let network = Network::new();
    network.script("/x", vec![silent(), says(1, "x")]);
    let mut both = settings(RaceConfig {
        retry: RetryConfig { max: 1, ..RetryConfig::default() },
        ..RaceConfig::default()
    });
    both.endpoints[0] = hedgerow_upstream::Origin::parse("http://nobody").unwrap();
    let client = client(&network, both);
    let post = http::Request::post("/x").body(Body::from("p")).unwrap();
    let response = client.call("models", post).await.unwrap();
    assert_eq!((response.report().winner, network.second()), (Some(Role::Retry), 1));
    let error = client.call("nope", http::Request::new(Body::empty())).await.unwrap_err();
    assert_eq!(error.failure.class, Class::UpstreamForbidden);
}

/// Keeps what it is told.
#[derive(Default)]
struct Told(std::sync::Mutex<Vec<String>>);

impl hedgerow_policy::Observer for Told {
    fn on(&self, event: &hedgerow_policy::Event<'_>) {
        self.0.lock().unwrap().push(format!("{event:?}"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_breaker_sheds_an_upstream_that_fails_and_says_when_to_come_back() {
    let network = Network::new();
    network.script("/no", vec![refuses(0, 503)]);
    let mut one = settings(rules());
    one.endpoints.truncate(1);
    let settings = hedgerow_policy::breaker::BreakerSettings::default();
    one.breaker = Some(hedgerow_policy::breaker::BreakerConfig::new(settings).unwrap());
    let told = Arc::new(Told::default());
    let builder = Client::builder().dial(Arc::new(Wire(network.clone()))).observer(told.clone());
    let client = builder.build([one]).unwrap();
    for _ in 0..20 {
        get(&client, "/no").await.unwrap().bytes(100).await.unwrap();
    }
    let error = get(&client, "/no").await.unwrap_err();
    assert_eq!((error.failure.class, error.report.attempts), (Class::CircuitOpen, 0));
    assert!(error.failure.retry_after_s.is_some_and(|wait| wait >= 25));
    assert_eq!(network.seen().len(), 20);
    let told = told.0.lock().unwrap();
    let count = |what: &str| told.iter().filter(|event| event.contains(what)).count();
    assert_eq!(
        (count("BreakerTransition"), count("KeySettled"), count("AttemptEnded")),
        (1, 21, 20)
    );
}
