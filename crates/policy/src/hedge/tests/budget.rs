//! Cases 16–18: the shared budget.

use super::scene::*;
use crate::hedge::*;

#[test]
fn case_16_a_brown_out_spends_no_more_than_the_window_allows() {
    for spread in [0, 1] {
        let mut up = upstream(rules(hedge()), 2, (0.1, 3));
        let mut keys: Vec<Key> = Vec::new();
        let mut starts: Vec<_> = (0..100).map(|n| at(spread * n)).collect();
        starts.reverse();
        // Arrivals and events in the order of time.
        loop {
            let next = keys.iter().filter_map(Key::next).min();
            let arrival = starts.last().copied();
            match (arrival, next) {
                (Some(arrival), next) if next.is_none_or(|next| arrival <= next) => {
                    starts.pop();
                    keys.push(Key::new(arrival, &mut up, Call::default(), &[ok(400), ok(400)]));
                }
                (_, Some(now)) => keys.iter_mut().for_each(|key| key.step(now, &mut up)),
                (_, None) => break,
            }
        }
        let counters = up.counters;
        assert!((10..=13).contains(&counters.hedges), "{} twins", counters.hedges);
        assert_eq!(counters.suppressed_for(Reason::Budget), 100 - counters.hedges);
        assert_eq!(counters.succeeded, 100);
        assert!(keys.iter().all(|key| key.won().1 == 0), "all the originals answer");
    }
}

#[test]
fn case_17_without_a_budget_the_original_continues() {
    let mut up = upstream(rules(hedge()), 2, (0.0, 0));
    let mut key = Key::new(at(0), &mut up, Call::default(), &[ok(330)]);
    key.run(&mut up);
    assert_eq!((key.won(), key.suppressed), ((330, 0), vec![(100, Reason::Budget)]));
}

#[test]
fn case_18_hedges_and_retries_share_one_budget() {
    let race = RaceConfig { retry: retries(1, &[500]), ..rules(hedge()) };
    let mut up = upstream(race, 2, (0.0, 1));
    let mut key = Key::new(at(0), &mut up, Call::default(), &[answers(500, 5), ok(200)]);
    key.run(&mut up);
    assert_eq!(key.starts[1].1, Role::Retry);
    assert_eq!(key.suppressed.len(), 1);
    assert_eq!(key.suppressed[0].1, Reason::Budget);
    assert_eq!(key.won().1, 1);
}
