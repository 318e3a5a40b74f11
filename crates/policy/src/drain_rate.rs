//! How fast requests leave, and so when a refused client should come back.
//!
//! Invariant: the advice is whole seconds from 1 to 30 (RFC 9110, 10.2.3), computed from what was
//! measured over the last seconds; with nothing measured it is 1.

use crate::moment::Moment;
use std::time::Duration;

const SLICE: Duration = Duration::from_secs(1);
const SLICES: u64 = 10;
const MAX_SECONDS: u64 = 30;

/// Counts completions in one-second slices of the last ten seconds.
#[derive(Clone, Debug, Default)]
pub struct DrainRate {
    counts: [u32; SLICES as usize],
    newest: u64,
    oldest_seen: Option<u64>,
}

impl DrainRate {
    /// Nothing measured yet.
    #[must_use]
    pub fn new() -> DrainRate {
        DrainRate::default()
    }

    /// One request left its worker.
    pub fn on_done(&mut self, now: Moment) {
        let slice = self.advance(now);
        self.oldest_seen.get_or_insert(slice);
        let count = &mut self.counts[(slice % SLICES) as usize];
        *count = count.saturating_add(1);
    }

    /// Seconds until `ahead` requests have left, from 1 to 30.
    pub fn retry_after(&mut self, now: Moment, ahead: usize) -> u32 {
        let slice = self.advance(now);
        let done: u64 = self.counts.iter().map(|&c| u64::from(c)).sum();
        if done == 0 {
            // Never measured: come back soon. Measured before and nothing now: a standstill.
            return if self.oldest_seen.is_some() { MAX_SECONDS as u32 } else { 1 };
        }
        let span = self.oldest_seen.map_or(1, |o| (slice.saturating_sub(o) + 1).min(SLICES));
        let seconds = (ahead as u64 + 1).saturating_mul(span).div_ceil(done);
        seconds.clamp(1, MAX_SECONDS) as u32
    }

    fn advance(&mut self, now: Moment) -> u64 {
        let slice = now.as_nanos() / SLICE.as_nanos() as u64;
        if slice > self.newest {
            let gap = (slice - self.newest).min(SLICES);
            for step in 1..=gap {
                self.counts[((self.newest + step) % SLICES) as usize] = 0;
            }
            if gap == SLICES {
                self.counts = Default::default();
            }
            self.newest = slice;
        }
        self.newest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advises_from_the_measured_rate() {
        let mut rate = DrainRate::new();
        assert_eq!(rate.retry_after(Moment::from_millis(10), 50), 1);
        for i in 0..20 {
            rate.on_done(Moment::from_millis(i * 500));
        }
        // Two a second, 9 ahead and this one: five seconds.
        assert_eq!(rate.retry_after(Moment::from_millis(9_999), 9), 5);
        assert_eq!(rate.retry_after(Moment::from_millis(9_999), 10_000), 30);
        assert_eq!(rate.retry_after(Moment::from_millis(60_000), 0), 30);
    }
}
