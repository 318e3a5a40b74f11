//! The breaker against a plain statement of its rules, step by step: every short sequence of
//! events, and long random ones.

use super::*;
use crate::jitter::Jitter;

/// The rules, with all history kept and nothing clever.
struct Model {
    settings: BreakerSettings,
    state: State,
    generation: u64,
    since: u64,
    episode: u64,
    /// Results of this generation: when, and whether it failed.
    results: Vec<(u64, bool)>,
    /// Probes of this generation that hold a place: their serial number and since when.
    probes: Vec<(u64, u64)>,
    good: u32,
}

/// A permit as the model sees it.
#[derive(Clone, Copy)]
struct Held {
    generation: u64,
    probe: Option<u64>,
}

impl Model {
    fn new(settings: BreakerSettings) -> Model {
        Model {
            settings,
            state: State::Closed,
            generation: 1,
            since: 0,
            episode: 0,
            results: Vec::new(),
            probes: Vec::new(),
            good: 0,
        }
    }

    fn go(&mut self, now: u64, state: State) {
        self.state = state;
        self.generation += 1;
        self.since = now;
        self.episode += u64::from(state == State::Open);
        self.results.clear();
        self.probes.clear();
        self.good = 0;
    }

    fn time_passes(&mut self, now: u64) {
        let millis = |d: Duration| d.as_millis() as u64;
        if self.state == State::Open && now >= self.since + millis(self.settings.open) {
            self.go(now, State::HalfOpen);
        }
        let timeout = millis(self.settings.probe_timeout);
        self.probes.retain(|(_, granted)| now < granted + timeout);
    }

    fn admit(&mut self, now: u64, serial: u64) -> Option<Held> {
        self.time_passes(now);
        let probe = match self.state {
            State::Closed => None,
            State::HalfOpen if self.probes.len() < self.settings.half_open_probes as usize => {
                self.probes.push((serial, now));
                Some(serial)
            }
            _ => return None,
        };
        Some(Held { generation: self.generation, probe })
    }

    fn settle(&mut self, now: u64, held: Held, outcome: Outcome) {
        if held.generation != self.generation {
            return;
        }
        if let Some(serial) = held.probe {
            self.time_passes(now);
            let Some(at) = self.probes.iter().position(|(s, _)| *s == serial) else { return };
            self.probes.remove(at);
            self.good += u32::from(!outcome.is_failure() && !outcome.is_nothing());
            if outcome.is_failure() {
                self.go(now, State::Open);
            } else if self.good == self.settings.success_threshold {
                self.go(now, State::Closed);
            }
            return;
        }
        if outcome.is_nothing() {
            return;
        }
        self.results.push((now, outcome.is_failure()));
        let (calls, failures) = self.counts(now);
        let enough = calls >= u64::from(self.settings.min_throughput);
        if enough && failures as f64 >= self.settings.failure_ratio * calls as f64 {
            self.go(now, State::Open);
        }
    }

    /// What is in the window: the bucket of now and the nine before.
    fn counts(&self, now: u64) -> (u64, u64) {
        let width = self.settings.window.as_millis() as u64 / 10;
        let inside = |at: u64| now / width - at / width < 10;
        let recent = self.results.iter().filter(|(at, _)| inside(*at));
        recent.fold((0, 0), |(calls, failures), (_, f)| (calls + 1, failures + u64::from(*f)))
    }
}

/// Breaker and model side by side, with the permits that are out.
struct Pair {
    breaker: Breaker,
    model: Model,
    now: u64,
    out: Vec<(Permit, Held)>,
    serial: u64,
}

impl Pair {
    fn new(settings: BreakerSettings) -> Pair {
        let (breaker, model) = (breaker(settings), Model::new(settings));
        Pair { breaker, model, now: 0, out: Vec::new(), serial: 0 }
    }

    fn admit(&mut self) {
        self.serial += 1;
        let held = self.model.admit(self.now, self.serial);
        match (self.breaker.admit(ms(self.now)), held) {
            (Admission::Admitted(permit), Some(held)) => {
                assert_eq!(permit.is_probe(), held.probe.is_some());
                self.out.push((permit, held));
            }
            (Admission::Shed(_), None) => {}
            (machine, model) => panic!("{machine:?}, but by the rules {}", model.is_some()),
        }
    }

    fn settle(&mut self, at: usize, outcome: Outcome) {
        if self.out.is_empty() {
            return;
        }
        let (permit, held) = self.out.remove(at % self.out.len());
        self.breaker.settle(ms(self.now), permit, outcome);
        self.model.settle(self.now, held, outcome);
    }

    fn wait(&mut self, millis: u64) {
        self.now += millis;
    }

    fn wake(&mut self) {
        self.breaker.on_wake(ms(self.now));
        self.model.time_passes(self.now);
        if let Some(wake) = self.breaker.next_wake() {
            assert!(wake > ms(self.now), "a wake in the past would spin");
        }
    }

    fn check(&self) {
        let (seen, model) = (self.breaker.snapshot(ms(self.now)), &self.model);
        let expected =
            Circuit { state: model.state, generation: model.generation, since: ms(model.since) };
        assert_eq!(seen.circuit, expected);
        assert_eq!(self.breaker.circuit(), expected);
        assert_eq!(seen.episode, model.episode);
        assert_eq!(seen.probes_in_flight as usize, model.probes.len());
        assert!(seen.probes_in_flight <= model.settings.half_open_probes);
        if model.state == State::Closed {
            let (calls, failures) = model.counts(self.now);
            assert_eq!(seen.counts, Counts { calls, failures });
        }
    }
}

fn small() -> BreakerSettings {
    let millis = Duration::from_millis;
    BreakerSettings {
        window: millis(100),
        min_throughput: 2,
        open: millis(70),
        success_threshold: 2,
        probe_timeout: millis(40),
        ..BreakerSettings::default()
    }
}

#[test]
fn every_short_sequence_follows_the_rules() {
    // Eight kinds of event, all sequences of seven: two million.
    for number in 0..8u64.pow(7) {
        let mut pair = Pair::new(small());
        let mut rest = number;
        for _ in 0..7 {
            match rest % 8 {
                0 => pair.admit(),
                1 => pair.settle(0, Outcome::Ok),
                2 => pair.settle(0, Outcome::Timeout),
                3 => pair.settle(usize::MAX, Outcome::Timeout),
                4 => pair.settle(0, Outcome::Cancelled),
                5 => drop(pair.out.pop()),
                6 => pair.wait(35),
                _ => {
                    pair.wait(70);
                    pair.wake();
                }
            }
            rest /= 8;
        }
        pair.check();
    }
}

const OUTCOMES: [Outcome; 9] = [
    Outcome::Ok,
    Outcome::Miss,
    Outcome::Refused,
    Outcome::WriteDenied,
    Outcome::Shed,
    Outcome::Timeout,
    Outcome::Connection,
    Outcome::ServerError,
    Outcome::Cancelled,
];

#[test]
fn long_random_sequences_follow_the_rules() {
    for seed in 0..400 {
        println!("seed {seed}");
        let mut random = Jitter::new(seed);
        let mut draw = move |below: u64| random.bits() % below;
        let settings = BreakerSettings {
            min_throughput: 1 + draw(12) as u32,
            // Quarters, so that the model's floats are exact.
            failure_ratio: (1 + draw(4)) as f64 / 4.0,
            success_threshold: 1 + draw(4) as u32,
            half_open_probes: 1 + draw(3) as u32,
            ..small()
        };
        let mut pair = Pair::new(settings);
        let mostly_good = draw(2) == 0;
        for _ in 0..3_000 {
            match draw(10) {
                0..=3 => pair.admit(),
                4..=7 => {
                    let outcome = OUTCOMES[draw(9) as usize];
                    let outcome = if mostly_good && draw(3) > 0 { Outcome::Ok } else { outcome };
                    pair.settle(draw(64) as usize, outcome);
                }
                8 => pair.wait(draw(25)),
                _ => pair.wake(),
            }
            pair.check();
        }
    }
}
