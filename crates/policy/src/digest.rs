//! How long calls take: quantiles of recent durations, of which some are only known to be longer.
//!
//! Invariants:
//! - a call that was cut off (a loser, a failure) is *censored*: it says "at least so long". It is
//!   never taken for a duration, so a stall that lost cannot pull a quantile down;
//! - a quantile beyond what is known is reported as "at least", never as a number;
//! - memory is bounded: six slices of 1,024 buckets, whatever is measured. A bucket is at most 1/32
//!   of its value wide, and what is reported of it is the longest duration that really occurred.
//!
//! (Kaplan and Meier, "Nonparametric estimation from incomplete observations", 1958, over the
//! log-linear buckets of Tene's `HdrHistogram`.)

use crate::moment::Moment;
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

const BUCKETS: usize = 1024;
/// 2^36 µs: nineteen hours. What is longer counts as that.
const LONGEST: u64 = (1 << 36) - 1;
const SLICES: usize = 6;
/// A slice is closed when it is this old and full enough.
const SLICE_AGE: Duration = Duration::from_secs(30);
const SLICE_SAMPLES: u64 = 100;

/// One measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sample {
    /// It took so long.
    Took(Duration),
    /// It was cut off after so long, for a reason of its own.
    Censored(Duration),
}

/// A quantile as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Quantile {
    /// This duration.
    Is(Duration),
    /// Longer than anything known; at least this.
    AtLeast(Duration),
}

impl Quantile {
    /// The duration, or the bound from below.
    #[must_use]
    pub fn at_least(self) -> Duration {
        match self {
            Quantile::Is(duration) | Quantile::AtLeast(duration) => duration,
        }
    }
}

impl fmt::Display for Quantile {
    /// Seconds: `60`, `0.25`, or `>=160`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if matches!(self, Quantile::AtLeast(_)) {
            f.write_str(">=")?;
        }
        write!(f, "{}", self.at_least().as_micros() as f64 / 1e6)
    }
}

/// The digest. See the module's head.
#[derive(Clone, Debug)]
pub struct Digest {
    /// The newest is last.
    slices: VecDeque<Slice>,
    total: Counts,
}

#[derive(Clone, Debug)]
struct Counts {
    took: Box<[u32]>,
    censored: Box<[u32]>,
    taken: u64,
    cut: u64,
}

#[derive(Clone, Debug)]
struct Slice {
    opened: Moment,
    counts: Counts,
    /// In each bucket the longest that occurred, above the bucket's lower edge.
    above: Box<[u32]>,
    longest: u64,
}

impl Digest {
    /// Nothing measured.
    #[must_use]
    pub fn new() -> Digest {
        Digest { slices: VecDeque::new(), total: Counts::new() }
    }

    /// Takes a measurement.
    pub fn on_sample(&mut self, now: Moment, sample: Sample) {
        let full = |slice: &Slice| {
            now.since(slice.opened) >= SLICE_AGE && slice.counts.taken >= SLICE_SAMPLES
        };
        if self.slices.back().is_none_or(full) {
            self.slices.push_back(Slice::new(now));
            if self.slices.len() > SLICES
                && let Some(oldest) = self.slices.pop_front()
            {
                self.total.subtract(&oldest.counts);
            }
        }
        let last = self.slices.len() - 1;
        let slice = &mut self.slices[last];
        let duration = match sample {
            Sample::Took(duration) | Sample::Censored(duration) => duration,
        };
        let micros = u64::try_from(duration.as_micros()).unwrap_or(LONGEST).min(LONGEST);
        let bucket = bucket(micros);
        slice.longest = slice.longest.max(micros);
        let took = matches!(sample, Sample::Took(_));
        if took {
            let above = (micros - floor(bucket)) as u32;
            slice.above[bucket] = slice.above[bucket].max(above);
        }
        slice.counts.add(bucket, took);
        self.total.add(bucket, took);
    }

    /// Durations known in full.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.total.taken
    }

    /// Measurements that were cut off.
    #[must_use]
    pub fn censored(&self) -> u64 {
        self.total.cut
    }

    /// The duration within which a share `q` (0–1) of the calls is done; `None` without a sample.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<Quantile> {
        let longest = self.slices.iter().map(|s| s.longest).max()?;
        let goal = 1.0 - q + 1e-9;
        let mut surviving = 1.0;
        let mut at_risk = self.total.taken + self.total.cut;
        for bucket in 0..BUCKETS {
            let took = u64::from(self.total.took[bucket]);
            if took > 0 {
                surviving *= 1.0 - took as f64 / at_risk as f64;
                if surviving <= goal {
                    return Some(Quantile::Is(self.longest_in(bucket)));
                }
            }
            at_risk = at_risk.saturating_sub(took + u64::from(self.total.censored[bucket]));
            if at_risk == 0 {
                break;
            }
        }
        Some(Quantile::AtLeast(Duration::from_micros(longest)))
    }

    /// How much longer a call that has taken `so_far` would take in the mean, as far as durations
    /// beyond that are known; what is not known counts as nothing.
    #[must_use]
    pub fn mean_residual(&self, so_far: Duration) -> Duration {
        let from = u64::try_from(so_far.as_micros()).unwrap_or(LONGEST).min(LONGEST);
        let mut at_risk = self.total.taken + self.total.cut;
        let (mut surviving, mut known, mut rest) = (1.0, 0.0, 0.0);
        for bucket in 0..BUCKETS {
            let took = u64::from(self.total.took[bucket]);
            if took > 0 {
                let ends = surviving * took as f64 / at_risk as f64;
                let at = floor(bucket);
                if at > from {
                    known += ends;
                    rest += ends * (at - from) as f64;
                }
                surviving -= ends;
            }
            at_risk = at_risk.saturating_sub(took + u64::from(self.total.censored[bucket]));
            if at_risk == 0 {
                break;
            }
        }
        // What survives beyond everything known may take any time: at least none.
        let all = known + surviving.max(0.0);
        if all > 0.0 { Duration::from_micros((rest / all) as u64) } else { Duration::ZERO }
    }

    /// The longest duration known in full.
    #[must_use]
    pub fn longest(&self) -> Option<Duration> {
        let bucket = (0..BUCKETS).rev().find(|&b| self.total.took[b] > 0)?;
        Some(self.longest_in(bucket))
    }

    fn longest_in(&self, bucket: usize) -> Duration {
        let here = self.slices.iter().filter(|s| s.counts.took[bucket] > 0);
        let above = here.map(|s| s.above[bucket]).max().unwrap_or(0);
        Duration::from_micros(floor(bucket) + u64::from(above))
    }
}

impl Default for Digest {
    fn default() -> Digest {
        Digest::new()
    }
}

impl Counts {
    fn new() -> Counts {
        let zeros = || vec![0; BUCKETS].into_boxed_slice();
        Counts { took: zeros(), censored: zeros(), taken: 0, cut: 0 }
    }

    fn add(&mut self, bucket: usize, took: bool) {
        let count = if took { &mut self.took[bucket] } else { &mut self.censored[bucket] };
        // One that is full stands still, and its slice with it: the sums must stay in step.
        if *count < u32::MAX {
            *count += 1;
            if took { self.taken += 1 } else { self.cut += 1 }
        }
    }

    fn subtract(&mut self, other: &Counts) {
        for (mine, theirs) in self.took.iter_mut().zip(&other.took) {
            *mine = mine.saturating_sub(*theirs);
        }
        for (mine, theirs) in self.censored.iter_mut().zip(&other.censored) {
            *mine = mine.saturating_sub(*theirs);
        }
        self.taken = self.taken.saturating_sub(other.taken);
        self.cut = self.cut.saturating_sub(other.cut);
    }
}

impl Slice {
    fn new(opened: Moment) -> Slice {
        let above = vec![0; BUCKETS].into_boxed_slice();
        Slice { opened, counts: Counts::new(), above, longest: 0 }
    }
}

/// Sixty-four buckets of one microsecond, then thirty-two for each doubling.
fn bucket(micros: u64) -> usize {
    if micros < 64 {
        return micros as usize;
    }
    let shift = 63 - micros.leading_zeros() - 5;
    (32 * shift as usize + (micros >> shift) as usize).min(BUCKETS - 1)
}

/// The least value of a bucket.
fn floor(bucket: usize) -> u64 {
    if bucket < 64 {
        return bucket as u64;
    }
    let shift = bucket / 32 - 1;
    ((bucket - 32 * shift) as u64) << shift
}

#[cfg(test)]
mod tests;
