//! Cases 19–22, 26–30, 37, 38, 42, 44: which keys get a twin, batches, learning, endpoints.

use super::scene::*;
use crate::breaker::{Breaker, BreakerConfig, BreakerSettings, State as Circuit};
use crate::digest::{Quantile, Sample};
use crate::hedge::*;
use crate::moment::Moment;
use std::sync::Arc;

fn with(call: Call) -> Key {
    play(rules(hedge()), call, &[ok(330), ok(60)]).0
}

#[test]
fn case_19_unsafe_requests_are_not_doubled_unless_somebody_says_so() {
    let key = with(Call { repeatable: repeatable("POST", false), ..Call::default() });
    assert_eq!((key.won(), key.start_seconds()), ((330, 0), vec![0]));
    assert_eq!(key.suppressed, [(100, Reason::Unsafe)]);
    let key = with(Call { repeatable: repeatable("POST", true), ..Call::default() });
    assert_eq!(key.won(), (160, 1));
    let opted = HedgeConfig { non_idempotent: true, ..hedge() };
    let call = Call { repeatable: repeatable("PATCH", false), ..Call::default() };
    assert_eq!(play(rules(opted), call, &[ok(330), ok(60)]).0.won(), (160, 1));
    assert!(repeatable("GET", false) && repeatable("PUT", false) && !repeatable("get", false));
}

#[test]
fn cases_20_and_21_a_body_that_is_not_at_hand_cannot_be_sent_twice() {
    for body in [Replay::Lost, Replay::Arriving] {
        let key = with(Call { body, ..Call::default() });
        assert_eq!((key.won(), key.suppressed), ((330, 0), vec![(100, Reason::Body)]));
    }
    assert_eq!(with(Call { body: Replay::Whole, ..Call::default() }).won(), (160, 1));
}

#[test]
fn a_call_may_ask_not_to_be_hedged() {
    let key = with(Call { hedging: false, ..Call::default() });
    assert_eq!((key.won(), key.suppressed), ((330, 0), vec![(100, Reason::Disabled)]));
}

#[test]
fn case_22_there_are_no_endpoints_but_the_upstreams_own() {
    let mut up = upstream(rules(hedge()), 2, (1.0, 100));
    for round in 0..50 {
        let mut key = Key::new(at(round), &mut up, Call::default(), &[silent(), ok(60)]);
        key.run(&mut up);
        assert!(key.starts.iter().all(|(.., endpoint)| *endpoint < 2));
        assert_ne!(key.starts[0].2, key.starts[1].2, "the twin goes elsewhere");
    }
}

#[test]
fn case_26_configured_until_there_are_samples_then_learned_and_never_below_the_floor() {
    let learns = HedgeConfig { after_quantile: Some(0.95), ..hedge() };
    let mut up = upstream(rules(learns.clone()), 2, (0.0, 10));
    assert_eq!(up.threshold(&learns), Some(s(100)));
    for n in 0..20 {
        assert_eq!(up.threshold(&learns), Some(s(100)), "after {n} samples");
        up.sample(at(0), Sample::Took(s(7)));
    }
    assert_eq!(up.threshold(&learns), Some(s(7)));
    let mut key = Key::new(at(0), &mut up, Call::default(), &[ok(330), ok(7)]);
    key.run(&mut up);
    assert_eq!((key.start_seconds(), key.won()), (vec![0, 7], (14, 1)));

    let mut up = upstream(rules(learns.clone()), 2, (0.0, 10));
    (0..20).for_each(|_| up.sample(at(0), Sample::Took(s(0))));
    assert_eq!(up.threshold(&learns), Some(learns.floor));

    // With nothing configured there is no clock until there are samples.
    let bare = HedgeConfig { after: None, ..learns };
    let mut up = upstream(rules(bare), 2, (0.0, 10));
    let mut key = Key::new(at(0), &mut up, Call::default(), &[ok(500)]);
    key.run(&mut up);
    assert_eq!(key.won(), (500, 0));
}

#[test]
fn case_27_stalls_that_lost_do_not_teach_that_calls_are_fast() {
    let learns = HedgeConfig { after_quantile: Some(0.95), ..hedge() };
    let mut up = upstream(rules(learns.clone()), 2, (0.0, 100));
    for _ in 0..95 {
        up.sample(at(0), Sample::Took(s(60)));
    }
    for _ in 0..5 {
        up.sample(at(0), Sample::Censored(s(160)));
    }
    assert_eq!(up.threshold(&learns), Some(s(60)));
    let shown = up.snapshot(at(0)).quantiles.unwrap();
    assert_eq!(shown[1], Quantile::Is(s(60)));
    assert_eq!(shown[2].to_string(), ">=160");
}

#[test]
fn a_quantile_beyond_what_is_known_does_not_climb_with_the_stalls() {
    // A tenth of the calls stalls: the 95th percentile is unknown, and each stall that lost says
    // "at least the threshold and a healthy call's time". Taking that for the threshold would
    // raise it without end.
    let learns = HedgeConfig { after_quantile: Some(0.95), ..hedge() };
    let mut up = upstream(rules(learns.clone()), 2, (1.0, 100));
    let mut now = Moment::START;
    for n in 0..500 {
        let first = if n % 10 == 0 { silent() } else { ok(60) };
        let mut key = Key::new(now, &mut up, Call::default(), &[first, ok(60)]);
        key.run(&mut up);
        now = now + s(200);
    }
    assert_eq!(up.threshold(&learns), Some(s(100)));
}

fn batch(scripts: &[Vec<Script>], cap: Option<u32>) -> (Vec<Key>, Upstream) {
    let mut up = upstream(rules(hedge()), 2, (0.0, 10));
    let cap = cap.map(|twins| Arc::new(HedgeCap::new(twins)));
    let call = || Call { cap: cap.clone(), ..Call::default() };
    let mut keys: Vec<Key> =
        scripts.iter().map(|scripts| Key::new(at(0), &mut up, call(), scripts)).collect();
    run_all(&mut keys, &mut up);
    (keys, up)
}

#[test]
fn case_28_a_batch_is_as_slow_as_its_slowest_key_with_its_twin() {
    let mut scripts: Vec<Vec<Script>> = vec![vec![ok(60)]; 5];
    scripts[3] = vec![ok(330), ok(60)];
    let (keys, up) = batch(&scripts, None);
    let seconds: Vec<u64> = keys.iter().map(|key| key.won().0).collect();
    assert_eq!(seconds, [60, 60, 60, 160, 60]);
    assert_eq!(up.counters.attempts, 6);
}

#[test]
fn case_29_a_key_that_is_being_retried_is_not_settled_and_holds_up_nobody() {
    let race = RaceConfig { retry: retries(1, &[503]), ..rules(hedge()) };
    let mut up = upstream(race, 2, (0.0, 10));
    let scripts = [vec![ok(60)], vec![answers(503, 20), ok(60)], vec![ok(40)]];
    let mut keys: Vec<Key> =
        scripts.iter().map(|scripts| Key::new(at(0), &mut up, Call::default(), scripts)).collect();
    run_all(&mut keys, &mut up);
    assert_eq!((keys[0].won(), keys[2].won()), ((60, 0), (40, 0)));
    assert!(keys[1].won().0 >= 83, "{:?}", keys[1].verdict);
}

#[test]
fn case_30_a_cap_on_the_batch_loses_no_key() {
    let (keys, up) = batch(&vec![vec![ok(330), ok(60)]; 5], Some(2));
    let mut seconds: Vec<u64> = keys.iter().map(|key| key.won().0).collect();
    seconds.sort_unstable();
    assert_eq!(seconds, [160, 160, 330, 330, 330]);
    assert_eq!(up.counters.hedges, 2);
    assert_eq!(up.counters.suppressed_for(Reason::BatchCap), 3);
    assert!(keys.iter().all(|key| key.suppressed.iter().all(|(second, _)| *second == 100)));
}

#[test]
fn case_37_observing_makes_no_extra_call() {
    let observes = HedgeConfig { mode: HedgeMode::Observe, ..hedge() };
    let mut up = upstream(rules(observes), 2, (0.1, 3));
    let mut observed = 0;
    for n in 0..100 {
        let script = if n % 20 == 7 { ok(330) } else { ok(60) };
        let mut key = Key::new(at(0), &mut up, Call::default(), &[script]);
        key.run(&mut up);
        observed += key.observed;
        assert_eq!(key.won().1, 0);
    }
    let counters = up.counters;
    assert_eq!((observed, counters.observed, counters.attempts), (5, 5, 100));
    assert!(up.endpoints.snapshot(at(0)).iter().all(|e| e.hedged_in_row == 0));
}

#[test]
fn case_38_hedged_against_three_times_in_a_row_means_elsewhere_though_it_won() {
    let mut up = upstream(rules(hedge()), 2, (1.0, 10));
    (0..2).for_each(|_| _ = up.endpoints.on_quiet(at(0), 0));
    let mut key = Key::new(at(0), &mut up, Call::default(), &[ok(110), ok(60)]);
    assert_eq!(key.starts[0].2, 0);
    key.run(&mut up);
    assert_eq!(key.won(), (110, 0), "it won, late");
    for second in 111..130 {
        let mut key = Key::new(at(second), &mut up, Call::default(), &[ok(0)]);
        key.run(&mut up);
        assert_eq!(key.starts[0].2, 1, "demoted until 130, second {second}");
    }
    let mut homes = Vec::new();
    for second in 130..134 {
        let mut key = Key::new(at(second), &mut up, Call::default(), &[ok(0)]);
        key.run(&mut up);
        homes.push(key.starts[0].2);
    }
    assert!(homes.contains(&0), "the cooldown is over: {homes:?}");
}

#[test]
fn case_42_a_stalled_endpoint_attracts_no_calls() {
    // Endpoint 0 never answers, endpoint 1 takes a second; one call every five seconds.
    let calls = |demote_after: u32| {
        let config = UpstreamConfig {
            race: Arc::new(rules(HedgeConfig { after: Some(s(2)), ..hedge() })),
            budget: crate::budget::BudgetConfig { ratio: 1.0, burst: 100 },
            demote: crate::endpoints::DemoteConfig { after: demote_after, cooldown: s(1_000) },
            endpoints: 2,
        };
        let mut up = Upstream::new(config);
        let mut to_stalled = 0;
        for n in 0..50 {
            let now = at(5 * n);
            let home = Key::new(now, &mut up.clone(), Call::default(), &[]).starts[0].2;
            let scripts = if home == 0 { [silent(), ok(1)] } else { [ok(1), silent()] };
            let mut key = Key::new(now, &mut up, Call::default(), &scripts);
            key.run(&mut up);
            assert!(key.won().0 > 0);
            to_stalled += usize::from(home == 0);
        }
        to_stalled
    };
    assert_eq!(calls(3), 3);
    assert_eq!(calls(0), 50, "without demotion it attracts them all");
}

#[test]
fn case_44_the_report_names_every_attempt() {
    let report = with(Call::default()).race.report();
    assert_eq!(report.winner, Some(Role::Hedge));
    assert_eq!((report.attempts.len(), report.retries), (2, 0));
    let [primary, hedge] = &report.attempts[..] else { panic!() };
    assert_eq!((primary.role, primary.start, primary.end), (Role::Primary, s(0), Some(s(160))));
    assert_eq!((hedge.role, hedge.start, hedge.end), (Role::Hedge, s(100), Some(s(160))));
    assert_eq!((hedge.first_data, hedge.status), (Some(s(160)), Some(200)));
}

/// Two endpoints behind breakers that open after twenty failures out of twenty.
fn guarded(race: RaceConfig) -> (Upstream, Vec<Arc<Breaker>>) {
    let settings = BreakerSettings { failure_ratio: 1.0, ..BreakerSettings::default() };
    let config = BreakerConfig::new(settings).unwrap();
    let breakers: Vec<_> = (0..2).map(|_| Arc::new(Breaker::new(config, at(0)))).collect();
    let mut up = upstream(race, 2, (1.0, 100));
    up.endpoints.guard_with(breakers.clone());
    (up, breakers)
}

#[test]
fn endpoints_that_fail_are_shed_and_a_key_without_any_is_refused_at_once() {
    let (mut up, breakers) = guarded(rules(hedge()));
    for _ in 0..40 {
        let mut key = Key::new(at(1), &mut up, Call::default(), &[answers(503, 0)]);
        key.step(at(1), &mut up);
    }
    assert!(breakers.iter().all(|b| b.state() == Circuit::Open));
    let key = Key::new(at(2), &mut up, Call::default(), &[]);
    assert_eq!(key.failed(), (2, Verdict::Shed { until: at(31) }));
    assert_eq!((key.starts.len(), up.counters.shed), (0, 1));
}

#[test]
fn losers_and_leavers_and_refusals_of_the_request_say_nothing_against_an_endpoint() {
    let (mut up, breakers) = guarded(rules(hedge()));
    for _ in 0..40 {
        // The original stalls and loses; then a caller leaves; then a 404.
        let mut key = Key::new(at(0), &mut up, Call::default(), &[silent(), ok(1)]);
        key.step(at(100), &mut up);
        key.step(at(101), &mut up);
        assert_eq!(key.won(), (101, 1));
        let mut key = Key::new(at(101), &mut up, Call::default(), &[silent()]);
        key.cancel(at(101), &mut up);
        Key::new(at(101), &mut up, Call::default(), &[answers(404, 0)]).step(at(101), &mut up);
    }
    assert!(breakers.iter().all(|b| b.state() == Circuit::Closed));
}
