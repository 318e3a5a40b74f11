//! When a canary is sent, and how many have come back well.
//!
//! Invariant: one canary is in flight, never two, and no two start within an interval, but for those
//! that confirm a good one: they follow after a quarter of it, until there are enough. Every moment
//! that a store which is back is not believed is paid by the party behind the cache. A bad one
//! doubles the interval up to its maximum; a good one takes it back.

use crate::breaker::ConfigError;
use crate::moment::Moment;
use std::time::Duration;

/// A good canary is confirmed after this part of the interval.
const CONFIRMS: u32 = 4;

/// The bounds of the canary. The default is the contract's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CanaryConfig {
    /// From the start of one to the start of the next; a quarter of it behind a good one, until
    /// there are enough of them.
    pub interval: Duration,
    /// The interval never backs up beyond this.
    pub max_interval: Duration,
    /// Good ones in a row that end the episode early.
    pub successes: u32,
    /// Whether they do.
    pub early_close: bool,
}

impl Default for CanaryConfig {
    fn default() -> CanaryConfig {
        CanaryConfig {
            interval: Duration::from_millis(100),
            max_interval: Duration::from_millis(1_000),
            successes: 3,
            early_close: true,
        }
    }
}

impl CanaryConfig {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let wrong = |key, expected| Err(ConfigError { key, expected });
        if self.interval.is_zero() {
            return wrong("interval_ms", "over 0; `canary = false` turns it off");
        }
        if self.max_interval < self.interval {
            return wrong("max_interval_ms", "at least interval_ms");
        }
        if self.successes == 0 {
            return wrong("successes", "at least 1; `early_close = false` turns early ends off");
        }
        Ok(())
    }

    /// How long an episode lasts at least before canaries may end it, without relapses.
    #[must_use]
    pub fn early_wait(&self) -> Duration {
        self.interval.saturating_mul(self.successes)
    }
}

/// The right to send one canary. Settled at most once.
#[must_use = "a canary that is never settled holds the next one up"]
#[derive(PartialEq, Eq, Debug)]
pub struct CanaryPermit {
    generation: u64,
    number: u64,
}

impl CanaryPermit {
    /// The generation of the open state it belongs to.
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }
}

/// The canaries of one open episode.
#[derive(Debug, Default)]
pub(super) struct Canary {
    due: Moment,
    interval: Duration,
    in_flight: Option<u64>,
    last_start: Option<Moment>,
    /// A sign of life came while one was in flight.
    hurried: bool,
    good: u32,
    number: u64,
}

impl Canary {
    /// The canaries of an episode that began at `since`: the first is due after one interval.
    pub(super) fn begin(since: Moment, interval: Duration) -> Canary {
        Canary { due: since + interval, interval, ..Canary::default() }
    }

    pub(super) fn start(
        &mut self,
        now: Moment,
        config: &CanaryConfig,
        timeout: Duration,
        generation: u64,
    ) -> Option<CanaryPermit> {
        if self.in_flight.is_some() && self.lost(now, timeout) {
            self.ended(now, config, false);
        }
        if self.in_flight.is_some() || now < self.due {
            return None;
        }
        self.number += 1;
        self.in_flight = Some(self.number);
        self.last_start = Some(now);
        self.hurried = false;
        Some(CanaryPermit { generation, number: self.number })
    }

    /// False if it was not the one in flight: then it moves nothing.
    pub(super) fn settle(
        &mut self,
        now: Moment,
        config: &CanaryConfig,
        permit: &CanaryPermit,
        good: bool,
    ) -> bool {
        let known = self.in_flight == Some(permit.number);
        if known {
            self.ended(now, config, good);
        }
        known
    }

    pub(super) fn hurry(&mut self, now: Moment, config: &CanaryConfig) {
        if self.in_flight.is_some() {
            self.hurried = true;
        } else {
            self.due = self.due.min(self.soonest(now, config));
        }
    }

    pub(super) fn good_in_a_row(&self) -> u32 {
        self.good
    }

    pub(super) fn next_wake(&self, timeout: Duration) -> Moment {
        match (self.in_flight, self.last_start) {
            (Some(_), Some(start)) => start + timeout,
            _ => self.due,
        }
    }

    fn ended(&mut self, now: Moment, config: &CanaryConfig, good: bool) {
        self.in_flight = None;
        if good {
            self.good = self.good.saturating_add(1);
            self.interval = config.interval;
        } else {
            self.good = 0;
            self.interval = self.interval.saturating_mul(2).min(config.max_interval);
        }
        let confirms = good && self.good < config.successes;
        let pause = if confirms { self.interval / CONFIRMS } else { self.interval };
        let next = self.last_start.unwrap_or(now) + pause;
        self.due = if self.hurried { next.min(self.soonest(now, config)) } else { next };
        self.hurried = false;
    }

    fn soonest(&self, now: Moment, config: &CanaryConfig) -> Moment {
        self.last_start.map_or(now, |start| now.max(start + config.interval))
    }

    fn lost(&self, now: Moment, timeout: Duration) -> bool {
        self.last_start.is_none_or(|start| now.since(start) >= timeout)
    }
}
