//! An upstream with so many places, and a line in front of them.
//!
//! Invariant: a place is taken until the attempt in it has come to its own end, whether anybody still
//! listens or not; one that waits and is cancelled leaves the line.

use super::{PLACES, SLOWER, Scene};
use crate::drill::calls::{Script, Service, Step, Who};
use hedgerow_policy::Moment;
use hedgerow_policy::jitter::Jitter;
use std::collections::VecDeque;
use std::time::Duration;

/// What a second brought.
#[derive(Clone, Copy, Default)]
pub(super) struct Load {
    pub(super) attempts: u64,
    pub(super) line: u64,
}

pub(super) struct Places {
    seed: u64,
    /// The mean time of a call when all is well.
    usual: f64,
    trouble: (Moment, Moment),
    busy: usize,
    line: VecDeque<Who>,
    pub(super) loads: Vec<Load>,
}

impl Places {
    pub(super) fn new(scene: &Scene, seed: u64) -> Places {
        Places {
            seed,
            usual: PLACES as f64 / scene.mu,
            trouble: scene.trouble,
            busy: 0,
            line: VecDeque::new(),
            loads: vec![Load::default(); scene.duration.as_secs_f64().ceil() as usize],
        }
    }

    /// How long it takes follows from its place in the tape, so that all policies meet the same.
    fn serve(&mut self, now: Moment, who: Who) -> Script {
        self.busy += 1;
        let place = (who.call as u64) << 8 | u64::from(who.attempt);
        let lot = Jitter::new(self.seed ^ place.wrapping_mul(0x9e37_79b9_7f4a_7c15)).ratio();
        let slow = (self.trouble.0..self.trouble.1).contains(&now);
        let takes = self.usual * (0.5 + lot) * if slow { SLOWER } else { 1.0 };
        let takes = Duration::from_secs_f64(takes);
        [Step::Head, Step::Data, Step::End].map(|step| (takes, step)).into()
    }

    fn count(&mut self, now: Moment, what: impl FnOnce(&mut Load)) {
        if let Some(load) = self.loads.get_mut((now.as_nanos() / 1_000_000_000) as usize) {
            what(load);
        }
    }
}

impl Service for Places {
    fn sent(&mut self, now: Moment, who: Who) -> Option<Script> {
        self.count(now, |load| load.attempts += 1);
        if self.busy < PLACES {
            return Some(self.serve(now, who));
        }
        self.line.push_back(who);
        let line = self.line.len() as u64;
        self.count(now, |load| load.line = load.line.max(line));
        None
    }

    fn ended(&mut self, now: Moment, _who: Who) -> Option<(Who, Script)> {
        self.busy -= 1;
        let next = self.line.pop_front()?;
        Some((next, self.serve(now, next)))
    }

    fn cancelled(&mut self, who: Who) {
        if let Some(at) = self.line.iter().position(|waiting| *waiting == who) {
            self.line.remove(at);
        }
    }
}
