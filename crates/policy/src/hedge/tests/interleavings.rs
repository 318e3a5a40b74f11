//! Case 39: every order in which things can happen to a small key, and ten thousand random ones.

use super::scene::{at, head, retries, rules, s, upstream};
use crate::hedge::*;
use crate::jitter::Jitter;
use crate::moment::Moment;

/// A key, its upstream, and what is known from outside.
#[derive(Clone)]
struct World {
    now: Moment,
    race: Race,
    up: Upstream,
    /// Open, as a driver would know it.
    open: Vec<bool>,
    settled: Option<Verdict>,
    started: usize,
}

#[derive(Clone, Copy, Debug)]
enum Happens {
    Good(u32),
    Bad(u32),
    Data(u32),
    End(u32),
    Breaks(u32),
    Overflow(u32),
    Timer,
    Cancel,
}

impl World {
    fn new(answer: Answer, deadline: Moment) -> World {
        let hedge = HedgeConfig {
            after: Some(s(100)),
            after_quantile: None,
            idle: Some(s(30)),
            max: 2,
            answer,
            ..HedgeConfig::default()
        };
        let race = RaceConfig { retry: retries(1, &[500]), ..rules(hedge) };
        let mut up = upstream(race, 2, (0.0, 2));
        let call = Call { deadline, ..Call::default() };
        let race = Race::new(at(0), &mut up, call);
        let mut world = World { now: at(0), race, up, open: vec![], settled: None, started: 0 };
        world.carry_out();
        world
    }

    fn carry_out(&mut self) {
        while let Some(action) = self.race.next_action() {
            match action {
                Action::Start { attempt, .. } => {
                    assert!(self.settled.is_none(), "nothing starts for a settled key");
                    assert_eq!(attempt.index(), self.open.len());
                    self.open.push(true);
                    self.started += 1;
                    self.race.on_connected(attempt);
                }
                Action::Cancel { attempt, .. } => {
                    assert!(std::mem::take(&mut self.open[attempt.index()]), "ended once");
                }
                Action::Settle(verdict) => {
                    assert!(self.settled.is_none(), "exactly one settlement");
                    if let Verdict::Failed { .. } = verdict {
                        assert!(self.race.over());
                    }
                    self.settled = Some(verdict);
                }
                Action::Hedged { .. }
                | Action::Suppressed(_)
                | Action::Observed
                | Action::RetryAt(_)
                | Action::Demoted(_) => {}
            }
        }
        let pending: u32 = self.up.endpoints.snapshot(self.now).iter().map(|e| e.pending).sum();
        let open = self.open.iter().filter(|open| **open).count();
        assert_eq!(pending as usize, open, "the books and the driver agree");
    }

    fn happen(&mut self, what: Happens) {
        let (now, race, up) = (self.now, &mut self.race, &mut self.up);
        match what {
            Happens::Good(id) => race.on_head(now, up, AttemptId(id), head(200, None)),
            Happens::Bad(id) => race.on_head(now, up, AttemptId(id), head(500, None)),
            Happens::Data(id) => race.on_data(now, up, AttemptId(id), true),
            Happens::Overflow(id) => race.on_overflow(now, up, AttemptId(id)),
            Happens::End(id) => {
                self.open[id as usize] = false;
                race.on_end(now, up, AttemptId(id));
            }
            Happens::Breaks(id) => {
                self.open[id as usize] = false;
                race.on_failed(now, up, AttemptId(id), Fault::Broken);
            }
            Happens::Timer => {
                if let Some(next) = race.next_wake() {
                    self.now = self.now.max(next);
                    race.on_wake(self.now, up);
                }
            }
            Happens::Cancel => race.on_cancel(now, up),
        }
        self.race.check_invariants();
        self.carry_out();
    }

    /// What may happen, as far as a driver can see.
    fn possible(&self) -> Vec<Happens> {
        let mut all = Vec::new();
        for (index, _) in self.open.iter().enumerate().filter(|(_, open)| **open) {
            let id = index as u32;
            if self.race.attempts[index].status.is_none() {
                all.extend([Happens::Good(id), Happens::Bad(id), Happens::Breaks(id)]);
            } else {
                let overflow = Happens::Overflow(id);
                all.extend([Happens::Data(id), Happens::End(id), Happens::Breaks(id), overflow]);
            }
        }
        if self.race.next_wake().is_some() {
            all.push(Happens::Timer);
        }
        all.push(Happens::Cancel);
        all
    }

    fn at_rest(&self) {
        assert!(self.race.over() && self.settled.is_some(), "settled");
        assert!(self.open.iter().all(|open| !open), "no leak");
        assert_eq!(self.race.next_wake(), None);
        let c = self.up.counters;
        assert_eq!(c.attempts as usize, self.started);
        assert_eq!(c.hedges, c.hedge_outcomes.iter().sum::<u64>(), "every twin has an outcome");
        assert_eq!(c.succeeded + c.failed + c.abandoned, 1, "one key, counted once");
    }
}

fn explore(world: &World, depth: usize, seen: &mut u64) {
    *seen += 1;
    if world.race.over() {
        return world.at_rest();
    }
    if depth == 0 {
        // From everywhere there is a way out: the caller leaves.
        let mut world = world.clone();
        world.happen(Happens::Cancel);
        return world.at_rest();
    }
    for what in world.possible() {
        let mut next = world.clone();
        next.happen(what);
        explore(&next, depth - 1, seen);
    }
}

#[test]
fn case_39_every_interleaving_of_a_small_key_settles_once() {
    let mut seen = 0;
    for answer in [Answer::Full, Answer::FirstData, Answer::Headers] {
        for deadline in [Moment::NEVER, at(150)] {
            explore(&World::new(answer, deadline), 6, &mut seen);
        }
    }
    assert!(seen > 20_000, "only {seen} states");
}

#[test]
fn case_39_ten_thousand_random_interleavings_settle_once_each() {
    for seed in 0..10_000 {
        let mut random = Jitter::new(seed);
        let answer = [Answer::Full, Answer::FirstData, Answer::Headers][(seed % 3) as usize];
        let mut world = World::new(answer, if seed % 2 == 0 { at(400) } else { Moment::NEVER });
        for _ in 0..60 {
            if world.race.over() {
                break;
            }
            let possible = world.possible();
            // The caller rarely leaves.
            let among = if random.ratio() < 0.95 { possible.len() - 1 } else { possible.len() };
            let choice = (random.ratio() * among as f64) as usize;
            world.now = world.now + s((random.ratio() * 8.0) as u64);
            world.happen(possible[choice.min(possible.len() - 1)]);
        }
        if !world.race.over() {
            world.happen(Happens::Cancel);
        }
        world.at_rest();
    }
}
