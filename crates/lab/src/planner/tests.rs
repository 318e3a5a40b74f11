use super::*;
use crate::snapshot::same;
use proptest::prelude::*;

/// 95 calls of 60 s and 5 of 330 s.
fn itinerary() -> String {
    "60\n".repeat(95) + &"330\n".repeat(5)
}

fn question() -> Question {
    Question { at: vec![], target: 0.99, budget: 0.05, fan_out: None, cost: None }
}

fn at(seconds: u64) -> Vec<u64> {
    vec![seconds * 1_000_000_000]
}

fn durations(text: &str) -> Result<Input, read::ReadError> {
    read::read(text, read::Wanted::default(), &mut |_| ())
}

fn plan_of(text: &str, question: &Question) -> Plan {
    plan(&durations(text).expect("readable"), question).expect("samples")
}

#[test]
fn case_32_one_call_in_twenty_stalls() {
    let plan = plan_of(&itinerary(), &Question { at: at(100), ..question() });
    let [row] = plan.thresholds.as_slice() else { panic!("just the one that was asked for") };
    assert_eq!(row.extra, Some(0.05));
    assert_eq!((row.p95, row.p99, row.p999), (60.0, 160.0, 330.0));
    assert_eq!((row.mean, row.duplicated), (65.425, Some(3.425)));
    assert_eq!((plan.baseline.p99, plan.baseline.mean), (330.0, 73.5));
    assert!(plan.verdict.starts_with("worth it"), "{}", plan.verdict);
}

#[test]
fn case_33_ties_with_the_threshold_do_not_fire() {
    let text: String = (1..10).map(|ten| format!("{ten}0\n")).collect::<String>() + "1000\n";
    let plan = plan_of(&text, &Question { at: at(90), budget: 0.1, ..question() });
    let row = &plan.thresholds[0];
    assert_eq!(row.extra, Some(0.1));
    assert_eq!((row.p95, row.p99, row.p999), (140.0, 180.0, 1000.0));
    assert_eq!((row.mean, row.duplicated), (67.6, Some(13.6)));
    let asked = Question { at: at(90), budget: 0.1, target: 0.9, ..question() };
    assert_eq!(plan_of(&text, &asked).thresholds[0].target, 90.0);
}

#[test]
fn case_34_a_budget_that_cannot_help_a_fixed_threshold() {
    let plan = plan_of(&itinerary(), &Question { target: 0.95, budget: 0.02, ..question() });
    assert!(plan.warnings[0].contains("p95 < p98"), "{:?}", plan.warnings);
    assert_eq!(plan.best.fixed, None);
    let offered = plan.best.randomised.expect("offered");
    assert_eq!((offered.after, offered.probability), (Some(60.0), Some(0.4)));
    assert!(offered.mean < plan.baseline.mean);
    // On a trace with a slope, it even moves the target.
    let slope: String = (1..=1000).map(|n| format!("{}\n", 1000.0 / f64::from(n))).collect();
    let plan = plan_of(&slope, &Question { target: 0.95, budget: 0.02, ..question() });
    assert!(plan.warnings[0].contains("p95 < p98"));
    let offered = plan.best.randomised.expect("offered");
    assert!(offered.target < plan.baseline.target && offered.probability.expect("below 1") < 1.0);
    assert!(offered.extra.expect("hedged") <= 0.02 + 1e-9);
}

#[test]
fn case_35_builds_of_five() {
    for (target, budget) in [(0.99, 0.05), (0.95, 0.02), (0.999, 0.5)] {
        let asked = Question { at: at(100), fan_out: Some(5), target, budget, ..question() };
        let plan = plan_of(&itinerary(), &asked);
        let stalled = |row: &Row| (row.stalled_builds.expect("asked") * 1e4).round() / 1e4;
        assert_eq!(stalled(&plan.baseline), 0.2262);
        assert_eq!(stalled(&plan.thresholds[0]), 0.0124);
    }
}

#[test]
fn case_36_few_samples() {
    let few = plan_of("1\n2\n3\n", &question());
    assert!(few.warnings[0].starts_with("3 samples cannot show p99: it takes at least 100"));
    assert_eq!(few.target.high, None);
    let enough = plan_of(&itinerary(), &question());
    assert!(!enough.warnings.iter().any(|w| w.contains("cannot show")), "{:?}", enough.warnings);
}

#[test]
fn the_best_fixed_threshold_is_the_earliest_in_the_budget() {
    let plan = plan_of(&itinerary(), &question());
    let best = plan.best.fixed.clone().expect("helps");
    assert_eq!((best.after, best.p99), (Some(60.0), 120.0));
    assert!(plan.thresholds.contains(&best), "it is one of the rows");
    assert!(plan.warnings[0].contains("right behind many calls"), "{:?}", plan.warnings);
}

#[test]
fn not_worth_it_where_every_call_takes_the_same() {
    let plan = plan_of(&"5\n".repeat(200), &question());
    assert!(plan.verdict.starts_with("not worth it"), "{}", plan.verdict);
    assert_eq!((plan.best.fixed.clone(), plan.stall_from), (None, None));
    assert!(!plan.worth_it() && !plan.apply("NAME").contains("[upstream"));
}

#[test]
fn cost_is_that_of_the_extra_calls() {
    let asked = Question { at: at(100), cost: Some(0.04), ..question() };
    assert_eq!(plan_of(&itinerary(), &asked).thresholds[0].cost, Some(2.0));
}

#[test]
fn cut_off_durations_are_said() {
    let text = "60\n".repeat(95) + &">160\n".repeat(5);
    let plan = plan_of(&text, &question());
    assert_eq!((plan.baseline.p95, plan.baseline.p99), (60.0, 160.0));
    assert!(plan.warnings.iter().any(|w| w.contains("5 of 100 durations were cut off")));
}

#[test]
fn slow_calls_in_a_row_are_said() {
    let text: String =
        (0..400).map(|at| if (100..118).contains(&at) { "330\n" } else { "60\n" }).collect();
    let plan = plan_of(&text, &question());
    assert!(plan.warnings.iter().any(|w| w.contains("come in runs")), "{:?}", plan.warnings);
    let text: String = (0..400).map(|at| if at % 20 == 7 { "330\n" } else { "60\n" }).collect();
    let plan = plan_of(&text, &question());
    assert!(!plan.warnings.iter().any(|w| w.contains("come in runs")), "{:?}", plan.warnings);
}

#[test]
fn the_report() {
    let asked = Question { fan_out: Some(5), cost: Some(0.04), ..question() };
    let plan = plan_of(&itinerary(), &asked);
    same("planner/tests/itinerary.txt", &(plan.text() + "\n" + &plan.apply("NAME")));
    assert!(svg(&durations(&itinerary()).expect("readable"), &asked).is_some());
}

#[test]
fn the_members_of_the_json() {
    let plan = plan_of(&itinerary(), &question());
    let json: serde_json::Value = serde_json::from_str(&plan.json()).expect("JSON");
    let members = |value: &serde_json::Value, names: &str| {
        names.split(' ').all(|name| value.get(name).is_some())
    };
    assert!(members(&json, "samples baseline thresholds best verdict warnings"));
    assert!(members(&json["baseline"], "p50 p95 p99 p999 mean stalled_builds"));
    let row = "after extra p50 p95 p99 p999 mean duplicated cost stalled_builds";
    assert!(members(&json["thresholds"][0], row) && members(&json["best"]["fixed"], row));
    assert!(members(&json["best"], "fixed randomised"));
    // Always there for who reads it, also where it is 1.
    assert!(members(&json["best"]["randomised"], "after probability"));
}

/// Every pair, one by one.
fn by_hand(sorted: &[u64], hedge: Hedge) -> (Vec<(u64, f64)>, f64, f64) {
    let n = sorted.len() as f64;
    let (mut results, mut mean, mut duplicated) = (Vec::new(), 0.0, 0.0);
    let mut add = |result: u64, both: u64, weight: f64| {
        results.push((result, weight));
        mean += result as f64 * weight;
        duplicated += both as f64 * weight;
    };
    for &x in sorted {
        for &y in sorted {
            let weight = 1.0 / (n * n);
            if x > hedge.after {
                let result = x.min(hedge.after + y);
                add(result, result - hedge.after, weight * hedge.probability);
                add(x, 0, weight * (1.0 - hedge.probability));
            } else {
                add(x, 0, weight);
            }
        }
    }
    (results, mean / 1e9, duplicated / 1e9)
}

proptest! {
    /// The exact evaluation agrees with trying every pair.
    #[test]
    fn as_by_hand(
        mut samples in prop::collection::vec(0u64..40, 1..24),
        after in 0u64..45,
        probability in prop::sample::select(vec![0.25, 0.5, 1.0]),
        quantile in prop::sample::select(vec![0.3, 0.5, 0.9, 0.95, 0.99]),
    ) {
        samples.sort_unstable();
        let given: Vec<Sample> =
            samples.iter().map(|&nanos| Sample { nanos, censored: false }).collect();
        let trace = Trace::new(&given).expect("samples");
        let hedge = Hedge { after, probability };
        let (mut results, mean, duplicated) = by_hand(&samples, hedge);
        results.sort_by_key(|&(result, _)| result);
        let mut share = 0.0;
        let mut by_rank = None;
        for (result, weight) in results {
            share += weight;
            if share >= quantile - 1e-9 && by_rank.is_none() {
                by_rank = Some(result);
            }
        }
        prop_assert_eq!(Some(trace.hedged_quantile(hedge, quantile)), by_rank);
        let measure = Measure { target: quantile, fan_out: None, cost: None, stall: None };
        let row = trace.row(hedge, measure);
        prop_assert!((row.mean - mean).abs() <= 1.1e-9);
        prop_assert!((row.duplicated.unwrap_or(0.0) - duplicated).abs() <= 1.1e-9);
    }

    /// No hedge within the budget reaches a lower target than the one that was chosen.
    #[test]
    fn the_best_is_the_best(
        samples in prop::collection::vec(1u64..1000, 2..60),
        budget in 0.01f64..1.0,
        target in prop::sample::select(vec![0.5, 0.9, 0.95, 0.99]),
    ) {
        let given: Vec<Sample> =
            samples.iter().map(|&nanos| Sample { nanos, censored: false }).collect();
        let trace = Trace::new(&given).expect("samples");
        let asked = Question { target, budget, ..question() };
        let chosen = choose::choose(&trace, &asked);
        let reached = |hedge: Option<Hedge>| {
            hedge.map_or(trace.quantile(target), |hedge| trace.hedged_quantile(hedge, target))
        };
        for after in 0..1000 {
            let beyond = trace.beyond(after);
            if beyond <= budget {
                let lowest = trace.hedged_quantile(Hedge::fixed(after), target);
                prop_assert!(lowest >= reached(chosen.fixed));
            }
            let probability = (budget / beyond.max(1e-9)).min(1.0);
            let lowest = trace.hedged_quantile(Hedge { after, probability }, target);
            prop_assert!(lowest >= reached(chosen.randomised));
        }
        prop_assert!(reached(chosen.randomised) <= reached(chosen.fixed));
    }
}
