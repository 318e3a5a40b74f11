//! Durations in buckets.
//!
//! Invariant: an observation is two atomic additions and no lock; the count is the sum of the
//! buckets, so that a page never shows one that contradicts the other.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Upper bounds in microseconds: from an answer out of memory to the longest stall that is worth
/// telling apart.
const BOUNDS: [u64; 17] = [
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    30_000_000,
    60_000_000,
    120_000_000,
    300_000_000,
];

/// A histogram with fixed bounds.
pub(crate) struct Histogram {
    buckets: [AtomicU64; BOUNDS.len() + 1],
    /// In microseconds: nanoseconds of ten thousand streams at once would wrap within weeks.
    sum: AtomicU64,
}

/// What a histogram holds, as the Prometheus client takes it.
pub(crate) struct Reading {
    pub(crate) sum_seconds: f64,
    pub(crate) count: u64,
    pub(crate) buckets: Vec<(f64, u64)>,
}

impl Histogram {
    pub(crate) fn new() -> Histogram {
        Histogram { buckets: std::array::from_fn(|_| AtomicU64::new(0)), sum: AtomicU64::new(0) }
    }

    pub(crate) fn observe(&self, value: Duration) {
        let micros = u64::try_from(value.as_micros()).unwrap_or(u64::MAX);
        let at = BOUNDS.iter().position(|&bound| micros <= bound).unwrap_or(BOUNDS.len());
        if let Some(bucket) = self.buckets.get(at) {
            bucket.fetch_add(1, Relaxed);
        }
        self.sum.fetch_add(micros, Relaxed);
    }

    /// How many fell into each bucket.
    pub(crate) fn counts(&self) -> Vec<u64> {
        self.buckets.iter().map(|bucket| bucket.load(Relaxed)).collect()
    }

    #[allow(clippy::cast_precision_loss, reason = "microseconds fit an f64 for 285 years")]
    pub(crate) fn read(&self) -> Reading {
        let bounds = BOUNDS.iter().map(|&bound| bound as f64 / 1e6).chain([f64::INFINITY]);
        let counts = self.buckets.iter().map(|bucket| bucket.load(Relaxed));
        let buckets: Vec<(f64, u64)> = bounds.zip(counts).collect();
        Reading {
            sum_seconds: self.sum.load(Relaxed) as f64 / 1e6,
            count: buckets.iter().map(|&(_, count)| count).sum(),
            buckets,
        }
    }
}

/// A quantile of what the buckets counted, in milliseconds, as if each bucket were filled evenly.
/// Past the last bound it is that bound; zero where nothing was counted.
#[allow(clippy::cast_precision_loss, reason = "counts of a second")]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "five minutes at most")]
pub(crate) fn quantile_ms(counts: &[u64], quantile: f64) -> u64 {
    let total: u64 = counts.iter().sum();
    if total == 0 {
        return 0;
    }
    let wanted = quantile.clamp(0.0, 1.0) * total as f64;
    let (mut below, mut lower) = (0.0, 0);
    for (&count, &upper) in counts.iter().zip(&BOUNDS) {
        let count = count as f64;
        if count > 0.0 && below + count >= wanted {
            let part = (wanted - below) / count;
            let micros = lower as f64 + part * (upper - lower) as f64;
            return (micros / 1e3).ceil() as u64;
        }
        below += count;
        lower = upper;
    }
    lower / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_its_own_bucket() {
        let histogram = Histogram::new();
        for millis in [0, 1, 2, 300_000, 300_001] {
            histogram.observe(Duration::from_millis(millis));
        }
        let reading = histogram.read();
        let filled: Vec<_> = reading.buckets.iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(filled, [&(0.001, 2), &(0.0025, 1), &(300.0, 1), &(f64::INFINITY, 1)]);
        assert_eq!(reading.count, 5);
        assert!((reading.sum_seconds - 600.004).abs() < 1e-9);
    }
}
