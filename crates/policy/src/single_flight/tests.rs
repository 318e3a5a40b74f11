//! Case 35 in its parts, and every short sequence of events against the rules.

use super::*;
use std::collections::BTreeSet;

type Flights = SingleFlight<&'static str>;

fn roomy() -> Flights {
    SingleFlight::new(SingleFlightConfig::default())
}

fn lead(flights: &mut Flights, key: &'static str) -> Leader {
    match flights.on_ask(&key) {
        Joined::Lead(leader) => leader,
        other => panic!("nobody leads {key} yet, but {other:?}"),
    }
}

fn follow(flights: &mut Flights, key: &'static str) -> Follower {
    match flights.on_ask(&key) {
        Joined::Follow(follower) => follower,
        other => panic!("{key} is in flight, but {other:?}"),
    }
}

#[test]
fn case_35_a_hundred_misses_are_one_fetch() {
    let mut flights = roomy();
    let leader = lead(&mut flights, "k");
    let followers: Vec<Follower> = (0..99).map(|_| follow(&mut flights, "k")).collect();
    let landed = flights.on_answer(leader);
    assert_eq!(landed, Landed { followers, store: Some("k") });
    assert_eq!(flights.snapshot(), SingleFlightSnapshot { flights: 0, detached: 0, followers: 0 });
    let _next = lead(&mut flights, "k");
}

#[test]
fn case_35_a_flight_outlives_its_callers() {
    let mut flights = roomy();
    let leader = lead(&mut flights, "k");
    let only = follow(&mut flights, "k");
    assert!(flights.on_leave(only));
    assert!(!flights.on_leave(only));
    assert_eq!(flights.on_answer(leader), Landed { followers: vec![], store: Some("k") });
}

#[test]
fn case_35_a_dead_leader_is_followed_by_exactly_one() {
    let mut flights = roomy();
    let leader = lead(&mut flights, "k");
    let (a, b, c) =
        (follow(&mut flights, "k"), follow(&mut flights, "k"), follow(&mut flights, "k"));
    assert!(flights.on_leave(a));
    let Succession::Elected(elected, second) = flights.on_leader_died(leader) else {
        panic!("two still wait");
    };
    assert_eq!(elected, b, "the one who waited longest");
    assert!(!flights.on_leave(b), "it leads now");
    let late = follow(&mut flights, "k");
    let landed = flights.on_answer(second);
    assert_eq!(landed, Landed { followers: vec![c, late], store: Some("k") });

    let alone = lead(&mut flights, "k");
    assert_eq!(flights.on_leader_died(alone), Succession::Over);
    let _fresh = lead(&mut flights, "k");
}

#[test]
fn case_35_an_invalidation_detaches_the_flight() {
    let mut flights = roomy();
    let (old, other) = (lead(&mut flights, "k"), lead(&mut flights, "other"));
    let waiting = follow(&mut flights, "k");
    flights.on_invalidate(&"k");
    let new = lead(&mut flights, "k");
    let fresh = follow(&mut flights, "k");
    assert_eq!(flights.on_answer(old), Landed { followers: vec![waiting], store: None });
    assert_eq!(flights.on_answer(new), Landed { followers: vec![fresh], store: Some("k") });
    flights.on_flush();
    assert_eq!(flights.on_answer(other), Landed { followers: vec![], store: None });
}

#[test]
fn who_finds_no_room_fetches_alone() {
    let mut flights = SingleFlight::new(SingleFlightConfig { flights: 1, followers: 1 });
    let leader = lead(&mut flights, "k");
    let _first = follow(&mut flights, "k");
    assert_eq!(flights.on_ask(&"k"), Joined::Alone);
    assert_eq!(flights.on_ask(&"other"), Joined::Alone);
    flights.on_invalidate(&"k");
    assert_eq!(flights.on_ask(&"k"), Joined::Alone, "a detached flight takes its room");
    let _landed = flights.on_answer(leader);
    let _now = lead(&mut flights, "k");
}

/// What the rules say, kept beside the machine: who asked when, and what was invalidated since.
struct World {
    flights: Flights,
    leaders: Vec<(Leader, Rule)>,
    waiting: BTreeSet<Follower>,
}

struct Rule {
    key: &'static str,
    invalidated: bool,
}

const BOUNDS: SingleFlightConfig = SingleFlightConfig { flights: 3, followers: 2 };

impl World {
    fn new() -> World {
        let flights = SingleFlight::new(BOUNDS);
        World { flights, leaders: Vec::new(), waiting: BTreeSet::new() }
    }

    fn step(&mut self, event: usize) {
        let key = if event.is_multiple_of(2) { "a" } else { "b" };
        match event {
            0 | 1 => {
                let current = self.leaders.iter().find(|(_, r)| r.key == key && !r.invalidated);
                match self.flights.on_ask(&key) {
                    Joined::Lead(leader) => {
                        assert!(current.is_none(), "one leader a key");
                        assert!(self.leaders.len() < BOUNDS.flights);
                        self.leaders.push((leader, Rule { key, invalidated: false }));
                    }
                    Joined::Follow(follower) => {
                        let (leader, _) = current.expect("somebody leads");
                        assert_eq!(follower.flight, leader.flight);
                        assert!(self.waiting.insert(follower), "a place is used once");
                    }
                    Joined::Alone => {
                        let full =
                            current.map_or(self.leaders.len() == BOUNDS.flights, |(l, _)| {
                                let waits = self.waiting.iter().filter(|f| f.flight == l.flight);
                                waits.count() == BOUNDS.followers
                            });
                        assert!(full, "alone only where there is no room");
                    }
                }
            }
            2 | 3 if !self.leaders.is_empty() => {
                let at = if event == 2 { 0 } else { self.leaders.len() - 1 };
                let (leader, rule) = self.leaders.remove(at);
                let expected: Vec<Follower> =
                    self.waiting.iter().filter(|f| f.flight == leader.flight).copied().collect();
                let landed = self.flights.on_answer(leader);
                assert_eq!(landed.followers, expected, "all who wait, in order");
                assert_eq!(landed.store, (!rule.invalidated).then_some(rule.key));
                expected.iter().for_each(|f| assert!(self.waiting.remove(f)));
            }
            4 if !self.leaders.is_empty() => {
                let (leader, rule) = self.leaders.remove(0);
                let first = self.waiting.iter().find(|f| f.flight == leader.flight).copied();
                match self.flights.on_leader_died(leader) {
                    Succession::Elected(follower, leader) => {
                        assert_eq!(Some(follower), first, "the one who waited longest");
                        self.waiting.remove(&follower);
                        self.leaders.push((leader, rule));
                    }
                    Succession::Over => assert_eq!(first, None, "nobody is left waiting"),
                }
            }
            5 => {
                if let Some(follower) = self.waiting.pop_last() {
                    assert!(self.flights.on_leave(follower));
                }
            }
            6 => {
                self.flights.on_invalidate(&"a");
                self.leaders.iter_mut().for_each(|(_, r)| r.invalidated |= r.key == "a");
            }
            7 => {
                self.flights.on_flush();
                self.leaders.iter_mut().for_each(|(_, r)| r.invalidated = true);
            }
            _ => {}
        }
        let seen = self.flights.snapshot();
        assert_eq!((seen.flights, seen.followers), (self.leaders.len(), self.waiting.len()));
    }
}

#[test]
fn every_short_sequence_keeps_the_rules() {
    // Eight kinds of event, all sequences of six: a quarter of a million.
    for number in 0..8usize.pow(6) {
        let mut world = World::new();
        let mut rest = number;
        for _ in 0..6 {
            world.step(rest % 8);
            rest /= 8;
        }
    }
}

#[test]
fn long_random_sequences_keep_the_rules() {
    for seed in 0..300 {
        let mut random = crate::jitter::Jitter::new(seed);
        let mut world = World::new();
        for _ in 0..1_000 {
            world.step((random.bits() % 8) as usize);
        }
    }
}
