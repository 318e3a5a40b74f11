//! The guard and a store that stalls, in virtual time: cases 3, 40 (its half that is decided
//! here) and 45. The store answers within a millisecond, or when it wakes.

use super::*;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

const DEADLINE: u64 = 100;

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// A call settles: its number.
    Settle(u64),
    /// A canary settles.
    Canary { good: bool },
    /// A reply that its caller no longer waits for.
    Late,
}

#[derive(Default, Debug)]
struct Tally {
    reads_shed: u64,
    reads_timed_out: u64,
    /// Request repairs sent, by episode, and those that failed.
    sent: BTreeMap<u64, u64>,
    failed: BTreeMap<u64, u64>,
    landed: u64,
    canaries: u64,
    early_ends: Vec<u64>,
    closed_at: Vec<u64>,
}

struct Play {
    guard: Guard,
    /// Whether the store answers at a millisecond.
    up: fn(u64) -> bool,
    due: BinaryHeap<Reverse<(u64, Due)>>,
    calls: BTreeMap<u64, (Permit, u64, Outcome)>,
    canary: Option<CanaryPermit>,
    number: u64,
    tally: Tally,
}

impl Play {
    fn new(settings: GuardSettings, up: fn(u64) -> bool) -> Play {
        let (due, calls) = (BinaryHeap::new(), BTreeMap::new());
        let tally = Tally::default();
        Play { guard: guard(settings), up, due, calls, canary: None, number: 0, tally }
    }

    /// When the store answers what is sent at `now`.
    fn answers_at(&self, now: u64) -> u64 {
        (now..now + 120_000).find(|at| (self.up)(*at)).map_or(u64::MAX, |at| at + 1)
    }

    fn send(&mut self, now: u64, permit: Permit) {
        self.guard.on_sent(ms(now), 1);
        self.number += 1;
        let answer = self.answers_at(now);
        let in_time = answer <= now + DEADLINE;
        let outcome = if in_time { Outcome::Ok } else { Outcome::Timeout };
        let episode = self.guard.snapshot(ms(now)).breaker.episode;
        self.calls.insert(self.number, (permit, episode, outcome));
        self.due.push(Reverse((answer.min(now + DEADLINE), Due::Settle(self.number))));
        if !in_time {
            self.due.push(Reverse((answer, Due::Late)));
        }
    }

    fn settle(&mut self, now: u64, number: u64) {
        let (permit, episode, outcome) = self.calls.remove(&number).unwrap();
        let failed = outcome == Outcome::Timeout;
        if !failed {
            self.guard.on_heard(ms(now), 1);
        }
        match permit.role() {
            Role::Repair if failed => *self.tally.failed.entry(episode).or_default() += 1,
            Role::Repair => self.tally.landed += 1,
            _ => self.tally.reads_timed_out += u64::from(failed),
        }
        self.guard.settle(ms(now), permit, outcome);
    }

    fn beside_the_traffic(&mut self, now: u64) {
        while self.due.peek().is_some_and(|Reverse((at, _))| *at <= now) {
            let Some(Reverse((_, due))) = self.due.pop() else { break };
            match due {
                Due::Settle(number) => self.settle(now, number),
                Due::Canary { good } => {
                    let permit = self.canary.take().unwrap();
                    if good {
                        self.guard.on_heard(ms(now), 1);
                    }
                    if self.guard.settle_canary(ms(now), permit, good) {
                        self.tally.early_ends.push(now);
                    }
                }
                Due::Late => {
                    self.guard.on_heard(ms(now), 1);
                    self.guard.on_sign_of_life(ms(now));
                }
            }
        }
        self.guard.on_wake(ms(now));
        if let Some(permit) = self.guard.canary_due(ms(now)) {
            self.guard.on_sent(ms(now), 1);
            self.tally.canaries += 1;
            self.canary = Some(permit);
            let answer = self.answers_at(now);
            let good = answer <= now + DEADLINE;
            self.due.push(Reverse((answer.min(now + DEADLINE), Due::Canary { good })));
            if !good {
                self.due.push(Reverse((answer, Due::Late)));
            }
        }
        while let Some(told) = self.guard.next_transition() {
            if told.to == State::Closed {
                self.tally.closed_at.push(now);
            }
        }
    }

    /// One millisecond: what is due, then so many reads and writes.
    fn step(&mut self, now: u64, reads: u64, writes: u64) {
        self.beside_the_traffic(now);
        for _ in 0..reads {
            match self.guard.read(ms(now)) {
                ReadDecision::Call(permit) => self.send(now, permit),
                ReadDecision::Shed => self.tally.reads_shed += 1,
            }
        }
        for _ in 0..writes {
            if let WriteDecision::Call(permit) = self.guard.write(ms(now)) {
                if permit.role() == Role::Repair {
                    let episode = self.guard.snapshot(ms(now)).breaker.episode;
                    *self.tally.sent.entry(episode).or_default() += 1;
                }
                self.send(now, permit);
            }
        }
    }
}

#[test]
fn case_03_a_dead_store_gets_one_request_repair_an_episode() {
    for settings in [touchy(), strict()] {
        let mut play = Play::new(settings, |_| false);
        play.step(0, 1, 0);
        for now in 1..=100 {
            play.step(now, 0, 0);
        }
        assert_eq!(play.guard.state(), State::Open);
        for now in 101..30_100 {
            play.step(now, 0, 1);
        }
        assert_eq!(play.tally.sent, BTreeMap::from([(1, 1)]), "of 30,000 saves");
        assert!(play.tally.canaries <= 35, "{} canaries", play.tally.canaries);
        assert_eq!(play.tally.canaries == 0, settings.canary.is_none());
    }
}

#[test]
fn case_40_a_stall_of_six_seconds_ends_when_the_store_is_back() {
    // 600 requests a second, each a read and, where it misses, a save of what the database gave.
    let mut play = Play::new(GuardSettings::default(), |now| !(10_000..16_000).contains(&now));
    for now in 0..40_000 {
        play.step(now, 3 * u64::from(now % 5 == 0), 3 * u64::from(now % 5 == 0));
    }
    let tally = &play.tally;
    assert_eq!(tally.early_ends.len(), 1, "{tally:?}");
    let end = tally.early_ends[0];
    assert!((16_000..16_500).contains(&end), "ended at {end}");
    // A quarter of a second of calls had gone out before the stall was seen.
    assert!(tally.reads_timed_out <= 600 * 2 / 4, "{tally:?}");
    assert_eq!(tally.failed.values().sum::<u64>(), 1, "one repair found out: {tally:?}");
    assert!(tally.landed > 0, "repairs landed before the circuit closed: {tally:?}");
}

#[test]
fn case_45_a_flapping_store_is_believed_ever_more_rarely() {
    for (writes_every, phase) in [(1, 0), (3, 1), (10, 5), (50, 7)] {
        let mut play = Play::new(GuardSettings::default(), |now| (now / 1_000).is_multiple_of(2));
        for now in 0..60_000 {
            let writes = u64::from((now + phase) % writes_every == 0);
            play.step(now, 1, writes);
        }
        let tally = &play.tally;
        // One at most finds out that the store was down when the circuit opened, and few that it
        // went down again: those that set out within a tenth of the deadline.
        let few = 10u64.div_ceil(writes_every);
        for (&episode, &failed) in &tally.failed {
            assert!(failed <= 1 + few, "{failed} timeouts in episode {episode}: {tally:?}");
        }
        assert!(tally.failed.len() as u64 <= play.guard.snapshot(ms(60_000)).breaker.episode);
        let between: Vec<u64> = tally.early_ends.windows(2).map(|w| w[1] - w[0]).collect();
        assert!(between.windows(2).all(|w| w[1] >= w[0]), "ever rarer: {:?}", tally.early_ends);
        assert!(tally.early_ends.len() <= 7, "{:?}", tally.early_ends);
    }
}
