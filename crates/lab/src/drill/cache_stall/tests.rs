use super::*;
use crate::drill::{Changes, run};
use crate::snapshot::same;
use std::collections::BTreeMap;
use std::hash::{Hash as _, Hasher as _};

fn request(mu: f64, policies: &[&str]) -> Request {
    Request {
        name: "cache-stall".to_owned(),
        policies: policies.iter().map(|&name| name.to_owned()).collect(),
        seed: 1,
        changes: Changes { mu: Some(mu), ..Changes::default() },
        yours: None,
    }
}

fn report(request: &Request) -> Report {
    run(request, &mut |_, _| ()).expect("the drill can be played")
}

/// A small incident: seconds to play, and every policy comes through it.
fn small(policies: &[&str]) -> Request {
    let changes = Changes {
        rate: Some(200.0),
        keys: Some(500),
        ttl: Some(Duration::from_secs(20)),
        duration: Some(Duration::from_secs(160)),
        ..Changes::default()
    };
    Request { changes, ..request(100.0, policies) }
}

fn summaries(report: &Report) -> BTreeMap<String, Vec<Cell>> {
    let row = |row: &Vec<Cell>| match &row[0] {
        Cell::Text(policy) => (policy.clone(), row[1..].to_vec()),
        other => panic!("{other:?}"),
    };
    report.summary.rows.iter().map(row).collect()
}

fn back(cells: &[Cell]) -> Option<f64> {
    match cells[4] {
        Cell::Seconds(seconds) => Some(seconds),
        _ => None,
    }
}

fn count(cell: &Cell) -> u64 {
    match cell {
        Cell::Count(count) => *count,
        other => panic!("{other:?}"),
    }
}

/// Case 36, and the shape of the incident where the database collapses.
#[test]
fn case_36_full_recovers_and_plain_never_does() {
    let report = report(&request(400.0, &[]));
    let of = summaries(&report);
    let failed = |policy: &str| count(&of[policy][1]);
    assert!(back(&of["full"]).expect("it recovers") <= 16.0);
    assert!((3_000..8_000).contains(&failed("full")));
    assert!((3_000..8_000).contains(&failed("none+late")));
    assert!((10_000..14_000).contains(&failed("none")));
    for policy in ["plain", "strict", "canary"] {
        assert_eq!(back(&of[policy]), None, "{policy}");
        assert!(failed(policy) > 1_000_000, "{policy}");
    }
    // The control made every stalled read wait; the guard only those of the first moment.
    assert!(count(&of["none+late"][5]) > 20 * count(&of["full"][5]));
}

#[test]
fn where_the_database_copes() {
    let report = report(&request(2_500.0, &[]));
    let of = summaries(&report);
    let within = |policy: &str, from: f64, to: f64| {
        let back = back(&of[policy]).expect("it recovers");
        assert!((from..=to).contains(&back), "{policy} after {back} s");
    };
    within("none", 6.0, 8.0);
    within("none+late", 6.0, 8.0);
    within("plain", 50.0, 75.0);
    within("strict", 50.0, 75.0);
    within("canary", 29.0, 33.0);
    within("port", 6.0, 12.0);
    within("full", 6.0, 12.0);
    assert!(of.values().all(|cells| count(&cells[1]) == 0), "nobody fails");
}

#[test]
fn every_request_is_counted_once() {
    let report = report(&small(&[]));
    for row in &report.details.rows {
        let [requests, hits, misses, sheds, timeouts] =
            [2, 3, 4, 5, 6].map(|column| count(&row[column]));
        assert_eq!(hits + misses + sheds + timeouts, requests, "{row:?}");
        assert!(count(&row[11]) <= count(&row[10]) + 1, "landed only what was tried: {row:?}");
    }
    assert_eq!(report.details.rows.len(), 7 * 160);
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let request = small(&["none", "plain", "full"]);
    let (first, again) = (report(&request), report(&request));
    assert_eq!(first.csv(), again.csv());
    assert_eq!(
        (first.svg(), first.json(), first.text()),
        (again.svg(), again.json(), again.text())
    );
    let other = Request { seed: 2, ..request };
    assert_ne!(report(&other).csv(), first.csv());
}

#[test]
fn no_request_pays_while_the_circuit_is_open() {
    let report = report(&small(&["full"]));
    let timeouts: Vec<u64> = report.details.rows.iter().map(|row| count(&row[6])).collect();
    assert_eq!(timeouts[..100].iter().sum::<u64>(), 0);
    assert_eq!(timeouts[101..].iter().sum::<u64>(), 0, "a moment, then none");
}

/// FNV-1a, which does not change with the toolchain.
struct Fnv(u64);

impl std::hash::Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// Case 50: the drill runs the product's own policies. Every figure here follows from what
/// `policy::guard` decides, so a changed repair rule changes it: one that lets a second repair
/// through after the first has failed, one that forgets the trial, one that never ends early.
/// `repair_rule.rs` in the tests of this crate mutates the rule and looks. Where a rule was changed
/// on purpose, look at the table and write the new figures here.
#[test]
fn case_50_the_repair_rule_is_in_the_figures() {
    let report = report(&small(&["strict", "canary", "port", "full"]));
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    report.csv().hash(&mut hash);
    let hash = format!("{:016x}\n", hash.finish());
    same("drill/cache_stall/tests/small.txt", &(report.summary.text() + &hash));
}

#[test]
fn what_cannot_be_played_is_refused() {
    let refusal =
        |request: &Request| run(request, &mut |_, _| ()).expect_err("refused").to_string();
    let short = Changes { duration: Some(Duration::from_secs(50)), ..Changes::default() };
    assert!(refusal(&Request { changes: short, ..request(400.0, &[]) }).contains("--duration"));
    let heavy = Changes { rate: Some(1e9), ..Changes::default() };
    assert!(refusal(&Request { changes: heavy, ..request(400.0, &[]) }).contains("--rate"));
    let many = Changes { keys: Some(u64::MAX), ..Changes::default() };
    assert!(refusal(&Request { changes: many, ..request(400.0, &[]) }).contains("--keys"));
    assert!(refusal(&request(0.0, &[])).contains("--mu"));
    assert!(refusal(&request(400.0, &["fast"])).contains("no policy \"fast\""));
    let unknown = Request { name: "flood".to_owned(), ..request(400.0, &[]) };
    assert!(refusal(&unknown).contains("no drill \"flood\""));
}
