//! The measured durations, sorted, and what a hedge would have made of them.
//!
//! Invariant: durations are whole nanoseconds and all sums are integers, so that `t + y` compared
//! with `x` is exact and the figures do not depend on the order of the file. See the head of
//! [`super`] for the formulas.

use serde::Serialize;

/// Comparing a share with a quantile forgives the quantile its binary fraction: no trace is so
/// long that one of its samples weighs less.
const EXACT: f64 = 1e-13;

/// One measured duration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// Nanoseconds.
    pub nanos: u64,
    /// It was cut off there: the true duration is this or longer.
    pub censored: bool,
}

/// A hedge: after `after` nanoseconds a twin is started with `probability`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Hedge {
    /// Nanoseconds after the start of the call.
    pub after: u64,
    /// How often the twin is started when the time has come, 0 to 1.
    pub probability: f64,
}

impl Hedge {
    /// No hedge at all.
    pub const NONE: Hedge = Hedge { after: 0, probability: 0.0 };

    /// A hedge that is always started.
    #[must_use]
    pub const fn fixed(after: u64) -> Hedge {
        Hedge { after, probability: 1.0 }
    }
}

/// What a hedge makes of the trace. Times in seconds.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// The threshold; absent for the baseline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<f64>,
    /// How often the twin is started; only where the planner was free to choose it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    /// Extra calls a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra: Option<f64>,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// The target's quantile.
    pub target: f64,
    /// Mean.
    pub mean: f64,
    /// Seconds a call during which two attempts run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicated: Option<f64>,
    /// Cost of the extra calls per 1,000 calls; null where no cost was given.
    pub cost: Option<f64>,
    /// Share of builds in which at least one call stalls; null where no fan-out was given.
    pub stalled_builds: Option<f64>,
}

/// What rows are worked out for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measure {
    /// Quantile to improve.
    pub target: f64,
    /// Calls that one build waits for.
    pub fan_out: Option<u32>,
    /// Cost of one call.
    pub cost: Option<f64>,
    /// A call stalls from this many nanoseconds on; `None`: none does.
    pub stall: Option<u64>,
}

/// Measured durations. Never empty.
#[derive(Clone, Debug)]
pub struct Trace {
    sorted: Vec<u64>,
    /// `sums[i]`: the sum of the first `i`.
    sums: Vec<u128>,
    censored: Vec<u64>,
}

impl Trace {
    /// A trace of these samples, in any order. `None` where there are none.
    #[must_use]
    pub fn new(samples: &[Sample]) -> Option<Trace> {
        if samples.is_empty() {
            return None;
        }
        let mut sorted: Vec<u64> = samples.iter().map(|sample| sample.nanos).collect();
        sorted.sort_unstable();
        let mut sums = Vec::with_capacity(sorted.len() + 1);
        sums.push(0);
        let mut sum = 0u128;
        for &nanos in &sorted {
            sum += u128::from(nanos);
            sums.push(sum);
        }
        let mut censored: Vec<u64> =
            samples.iter().filter(|sample| sample.censored).map(|sample| sample.nanos).collect();
        censored.sort_unstable();
        Some(Trace { sorted, sums, censored })
    }

    /// How many samples there are.
    #[must_use]
    pub fn samples(&self) -> usize {
        self.sorted.len()
    }

    /// Samples that are lower bounds, in order.
    #[must_use]
    pub fn censored(&self) -> &[u64] {
        &self.censored
    }

    /// The samples in order.
    #[must_use]
    pub fn sorted(&self) -> &[u64] {
        &self.sorted
    }

    fn n(&self) -> f64 {
        self.sorted.len() as f64
    }

    /// How many are at most `nanos`.
    #[must_use]
    pub fn at_most(&self, nanos: u64) -> usize {
        self.sorted.partition_point(|&sample| sample <= nanos)
    }

    /// How many are below `nanos`.
    #[must_use]
    pub fn below(&self, nanos: u64) -> usize {
        self.sorted.partition_point(|&sample| sample < nanos)
    }

    /// Share of calls still running at `nanos`.
    #[must_use]
    pub fn beyond(&self, nanos: u64) -> f64 {
        (self.samples() - self.at_most(nanos)) as f64 / self.n()
    }

    /// The smallest sample that at least the share `quantile` does not exceed.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> u64 {
        self.hedged_quantile(Hedge::NONE, quantile)
    }

    /// P(R ≤ `nanos`).
    fn done(&self, hedge: Hedge, nanos: u64) -> f64 {
        let alone = self.at_most(nanos);
        let twin = nanos.checked_sub(hedge.after).map_or(0, |left| self.at_most(left));
        self.either(hedge.probability, alone, twin)
    }

    /// P(R < `nanos`).
    #[must_use]
    pub fn done_before(&self, hedge: Hedge, nanos: u64) -> f64 {
        let alone = self.below(nanos);
        let twin = nanos.checked_sub(hedge.after).map_or(0, |left| self.below(left));
        self.either(hedge.probability, alone, twin)
    }

    fn either(&self, probability: f64, alone: usize, twin: usize) -> f64 {
        let (n, alone, twin) = (self.n(), alone as f64, twin as f64);
        (alone * n + probability * (n - alone) * twin) / (n * n)
    }

    /// Whether the hedge brings the quantile below `nanos`.
    #[must_use]
    pub fn reaches(&self, hedge: Hedge, quantile: f64, nanos: u64) -> bool {
        self.done_before(hedge, nanos) >= quantile - EXACT
    }

    /// The quantile of R. R takes values of the trace, and values of the trace after the threshold.
    #[must_use]
    pub fn hedged_quantile(&self, hedge: Hedge, quantile: f64) -> u64 {
        let reached = |nanos: u64| self.done(hedge, nanos) >= quantile - EXACT;
        let last = self.samples() - 1;
        let alone = self.sorted.partition_point(|&sample| !reached(sample)).min(last);
        let alone = self.sorted[alone];
        if hedge.probability <= 0.0 {
            return alone;
        }
        let later = |sample: u64| sample.saturating_add(hedge.after);
        let twin = self.sorted.partition_point(|&sample| !reached(later(sample)));
        self.sorted.get(twin).map_or(alone, |&sample| alone.min(later(sample)))
    }

    /// Sums over all pairs (x, y) with x beyond the threshold: seconds saved, seconds duplicated.
    fn pairs(&self, after: u64) -> (u128, u128) {
        let n = self.samples();
        let (mut saved, mut duplicated) = (0u128, 0u128);
        let mut faster = 0;
        for &x in &self.sorted[self.at_most(after)..] {
            let left = x - after;
            while faster < n && self.sorted[faster] < left {
                faster += 1;
            }
            let twins = self.sums[faster];
            saved += u128::from(left) * faster as u128 - twins;
            duplicated += twins + u128::from(left) * (n - faster) as u128;
        }
        (saved, duplicated)
    }

    /// Mean of R in seconds.
    #[must_use]
    pub fn mean(&self, hedge: Hedge) -> f64 {
        let (saved, _) = self.pairs(hedge.after);
        self.mean_from(hedge, saved)
    }

    fn mean_from(&self, hedge: Hedge, saved: u128) -> f64 {
        let alone = self.sums[self.samples()] as f64 / self.n();
        in_seconds(alone - hedge.probability * saved as f64 / (self.n() * self.n()))
    }

    /// Everything there is to say about a hedge; [`Hedge::NONE`] gives the baseline.
    #[must_use]
    pub fn row(&self, hedge: Hedge, measure: Measure) -> Row {
        let quantile = |quantile| seconds(self.hedged_quantile(hedge, quantile));
        let hedged = hedge.probability > 0.0;
        let (saved, duplicated) = if hedged { self.pairs(hedge.after) } else { (0, 0) };
        let extra = rounded(hedge.probability * self.beyond(hedge.after));
        let duplicated = hedge.probability * duplicated as f64 / (self.n() * self.n());
        let calls = measure.fan_out.map(f64::from);
        let stall_free = measure.stall.map_or(1.0, |from| self.done_before(hedge, from));
        Row {
            after: hedged.then(|| seconds(hedge.after)),
            probability: None,
            extra: hedged.then_some(extra),
            p50: quantile(0.5),
            p95: quantile(0.95),
            p99: quantile(0.99),
            p999: quantile(0.999),
            target: quantile(measure.target),
            mean: self.mean_from(hedge, saved),
            duplicated: hedged.then(|| in_seconds(duplicated)),
            cost: measure.cost.filter(|_| hedged).map(|cost| rounded(cost * extra * 1000.0)),
            stalled_builds: calls.map(|calls| rounded(1.0 - stall_free.powf(calls))),
        }
    }
}

/// Nanoseconds as seconds.
pub(crate) fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

/// Nanoseconds with a fraction as seconds of whole nanoseconds.
fn in_seconds(nanos: f64) -> f64 {
    nanos.round() / 1e9
}

/// Without the last digits of a binary fraction.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 1e12).round() / 1e12
}
