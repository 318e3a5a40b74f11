//! How fast requests leave, and so when a refused client should come back.
//!
//! Invariant: the advice is whole seconds from 1 to 30 (RFC 9110, 10.2.3), computed from what was
//! measured over the last ten seconds. At a standstill it is as long as the standstill has lasted.

use crate::moment::Moment;

const SLICE_NANOS: u64 = 1_000_000_000;
const SLICES: u64 = 10;
const MAX_SECONDS: u64 = 30;

/// Counts completions in one-second slices of the last ten seconds.
#[derive(Clone, Debug, Default)]
pub struct DrainRate {
    counts: [u32; SLICES as usize],
    newest: u64,
    first: Option<u64>,
    waiting_since: Option<Moment>,
}

impl DrainRate {
    /// Nothing measured yet.
    #[must_use]
    pub fn new() -> DrainRate {
        DrainRate::default()
    }

    /// A request got its worker.
    pub fn on_start(&mut self, now: Moment) {
        self.waiting_since.get_or_insert(now);
    }

    /// A request left its worker; `others` are still with theirs.
    pub fn on_done(&mut self, now: Moment, others: bool) {
        let slice = self.advance(now);
        self.first.get_or_insert(slice);
        let count = &mut self.counts[(slice % SLICES) as usize];
        *count = count.saturating_add(1);
        self.waiting_since = others.then_some(now);
    }

    /// Seconds until `ahead` requests and the one that asks have left, from 1 to 30.
    pub fn retry_after(&mut self, now: Moment, ahead: usize) -> u32 {
        let slice = self.advance(now);
        let done: u64 = self.counts.iter().map(|&c| u64::from(c)).sum();
        let seconds = if done == 0 {
            self.waiting_since.map_or(1, |since| now.since(since).as_secs())
        } else {
            let span = self.first.map_or(1, |f| (slice.saturating_sub(f) + 1).min(SLICES));
            (ahead as u64).saturating_add(1).saturating_mul(span).div_ceil(done)
        };
        seconds.clamp(1, MAX_SECONDS) as u32
    }

    fn advance(&mut self, now: Moment) -> u64 {
        let slice = now.as_nanos() / SLICE_NANOS;
        let gap = slice.saturating_sub(self.newest).min(SLICES);
        for step in 1..=gap {
            self.counts[((self.newest + step) % SLICES) as usize] = 0;
        }
        self.newest = self.newest.max(slice);
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
            rate.on_done(Moment::from_millis(i * 500), true);
        }
        // Two a second, nine ahead and this one: five seconds.
        assert_eq!(rate.retry_after(Moment::from_millis(9_999), 9), 5);
        assert_eq!(rate.retry_after(Moment::from_millis(9_999), 10_000), 30);
    }

    #[test]
    fn at_a_standstill_the_advice_grows_with_it() {
        let mut rate = DrainRate::new();
        rate.on_start(Moment::from_millis(1_000));
        assert_eq!(rate.retry_after(Moment::from_millis(8_000), 0), 7);
        assert_eq!(rate.retry_after(Moment::from_millis(90_000), 0), 30);
        rate.on_done(Moment::from_millis(90_000), false);
        assert_eq!(rate.retry_after(Moment::from_millis(200_000), 0), 1);
    }

    #[test]
    fn old_slices_weigh_nothing() {
        let mut rate = DrainRate::new();
        for _ in 0..1_000 {
            rate.on_done(Moment::from_millis(0), false);
        }
        rate.on_done(Moment::from_millis(60_000), false);
        assert_eq!(rate.retry_after(Moment::from_millis(60_000), 0), 10);
    }
}
