//! The gate against a plain statement of its rules: after every event the whole history of the
//! episode is told anew, and says whether a write may go. Every short sequence, and long random
//! ones. The cases by number are in `guard/tests`.

use super::*;
use crate::jitter::Jitter;

const DEADLINE: u64 = 100;

/// What happened in one state of the circuit, with when, in milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Told {
    Granted(u64, u64),
    Failed(u64),
    /// Landed, after so long.
    Landed(u64, Option<u64>),
    NeverSent(u64),
    CanaryGood,
    CanaryBad(u64),
}

/// What the rules make of a history at `now`: the gate, and whether a write may go.
fn rules(history: &[Told], now: u64) -> (GateState, bool) {
    // Where the present phase of the gate began; results of attempts from before do not count.
    let mut begin = 0;
    let (mut proven, mut shut, mut trial, mut for_good, mut round_trip) =
        (false, false, false, false, 0);
    for (at, told) in history.iter().enumerate() {
        let phase = &history[begin..at];
        let counts =
            |number| phase.iter().any(|t| matches!(t, Told::Granted(n, _) if *n == number));
        let is_out = |told: &Told, then: u64| match *told {
            Told::Granted(n, since) => !settled(&history[..at], n) && then - since < 2 * DEADLINE,
            _ => false,
        };
        match *told {
            Told::Failed(number) if counts(number) => {
                (shut, for_good, trial, proven, begin) = (true, trial, false, false, at + 1);
            }
            Told::Landed(number, took) if counts(number) => {
                proven = true;
                round_trip = took.unwrap_or(round_trip);
            }
            Told::CanaryGood if shut && !for_good => {
                (shut, trial, begin) = (false, true, at + 1);
            }
            // Withdrawn, unless somebody is at it.
            Told::CanaryBad(then) if trial && !proven && !phase.iter().any(|t| is_out(t, then)) => {
                (shut, trial, begin) = (true, false, at + 1);
            }
            _ => {}
        }
    }
    let places = history[begin..].iter().filter_map(|told| match *told {
        Told::Granted(n, when) if !settled(history, n) && now - when < 2 * DEADLINE => Some(when),
        _ => None,
    });
    let oldest = places.min();
    let may = match (shut, proven) {
        (true, _) => false,
        (_, false) => oldest.is_none(),
        (_, true) => oldest.is_none_or(|when| now - when < (4 * round_trip).clamp(10, 50)),
    };
    let gate = match (shut, trial && !proven) {
        (true, _) => GateState::Closed,
        (_, true) => GateState::Trial,
        _ => GateState::Open,
    };
    (gate, may)
}

/// Whether an attempt has given its place back. One whose caller left has not.
fn settled(history: &[Told], number: u64) -> bool {
    history.iter().any(|told| match *told {
        Told::Failed(n) | Told::Landed(n, _) | Told::NeverSent(n) => n == number,
        _ => false,
    })
}

struct World {
    repair: Repair,
    circuit: Circuit,
    config: RepairConfig,
    now: u64,
    history: Vec<Told>,
    /// Attempts that are out: number, since when, in which generation.
    out: Vec<(Attempt, u64, u64, u64)>,
    canaries: Vec<u64>,
    number: u64,
}

impl World {
    fn new(canary: bool) -> World {
        let call_timeout = Duration::from_millis(DEADLINE);
        let config = RepairConfig { call_timeout, canary: canary.then(CanaryConfig::default) };
        let circuit = Circuit { state: State::Open, generation: 2, since: Moment::START };
        let (history, out, canaries) = (Vec::new(), Vec::new(), Vec::new());
        World {
            repair: Repair::new(config),
            circuit,
            config,
            now: 0,
            history,
            out,
            canaries,
            number: 0,
        }
    }

    fn now(&self) -> Moment {
        Moment::from_millis(self.now)
    }

    fn write(&mut self) {
        let (_, may) = rules(&self.history, self.now);
        let attempt = self.repair.on_write(self.now(), self.circuit);
        assert_eq!(attempt.is_some(), may, "at {}: {:?}", self.now, self.history);
        if let Some(attempt) = attempt {
            self.number += 1;
            self.history.push(Told::Granted(self.number, self.now));
            self.out.push((attempt, self.number, self.now, self.circuit.generation));
        }
    }

    fn settle(&mut self, at: usize, outcome: Outcome) {
        if self.out.is_empty() {
            return;
        }
        let (attempt, number, since, generation) = self.out.remove(at % self.out.len());
        if generation == self.circuit.generation {
            // One that had lost its place tells nothing of how long a round trip is.
            let took = Some(self.now - since).filter(|took| *took < 2 * DEADLINE);
            self.history.extend(match outcome {
                Outcome::Cancelled => None,
                Outcome::Shed => Some(Told::NeverSent(number)),
                _ if outcome.is_failure() => Some(Told::Failed(number)),
                _ => Some(Told::Landed(number, took)),
            });
        }
        let before = self.repair.gate(self.circuit);
        self.repair.settle(self.now(), self.circuit, attempt, outcome);
        if generation != self.circuit.generation {
            assert_eq!(self.repair.gate(self.circuit), before, "of another episode");
        }
    }

    fn canary(&mut self, good: bool) {
        let Some(permit) = self.repair.on_canary_due(self.now(), self.circuit) else { return };
        assert!(self.config.canary.is_some() && self.circuit.state == State::Open);
        assert!(self.canaries.last().is_none_or(|last| self.now >= last + 25), "never two at once");
        self.canaries.push(self.now);
        self.repair.settle_canary(self.now(), self.circuit, permit, good);
        self.history.push(if good { Told::CanaryGood } else { Told::CanaryBad(self.now) });
    }

    fn next_state(&mut self, state: State) {
        self.circuit.generation += 1;
        self.circuit = Circuit { state, since: self.now(), ..self.circuit };
        self.history.clear();
    }

    fn check(&mut self) {
        let (gate, _) = rules(&self.history, self.now);
        assert_eq!(self.repair.gate(self.circuit), gate, "at {}: {:?}", self.now, self.history);
    }

    fn step(&mut self, event: u64) {
        match event {
            0 | 1 => self.write(),
            2 => self.settle(0, Outcome::Ok),
            3 => self.settle(0, Outcome::Timeout),
            4 => self.settle(usize::MAX, Outcome::Timeout),
            5 => self.settle(0, Outcome::Cancelled),
            6 => self.canary(true),
            7 => self.canary(false),
            8 => self.now += 10,
            9 => self.now += 200,
            10 => self.settle(usize::MAX, Outcome::Refused),
            11 => self.settle(0, Outcome::Shed),
            12 => self.next_state(State::HalfOpen),
            _ => self.next_state(State::Open),
        }
        self.check();
    }
}

#[test]
fn every_short_sequence_follows_the_rules() {
    // Nine kinds of event, all sequences of six: half a million, with a canary and without.
    for canary in [true, false] {
        for number in 0..9u64.pow(6) {
            let mut world = World::new(canary);
            let mut rest = number;
            for _ in 0..6 {
                world.step(rest % 9 + 1);
                rest /= 9;
            }
        }
    }
}

#[test]
fn long_random_sequences_follow_the_rules() {
    for seed in 0..1_000 {
        println!("seed {seed}");
        let mut random = Jitter::new(seed);
        let mut world = World::new(seed % 4 != 0);
        for _ in 0..600 {
            // The states of the circuit change rarely, or nothing ever happens in one.
            let event = random.bits() % 13;
            let event = if event == 12 && !random.bits().is_multiple_of(8) { 0 } else { event };
            world.step(event + u64::from(event == 12 && random.bits().is_multiple_of(2)));
        }
    }
}
