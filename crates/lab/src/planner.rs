//! `hedgerow plan hedge`: what a hedge would buy and cost, worked out exactly on measured durations.
//!
//! A call lasts X. If it still runs at t, a twin is started with probability q (1: always); the
//! twin lasts Y, and the first answer is the call's. X and Y are independent draws from the trace.
//! With F(s) the share of samples that are at most s:
//!
//! - R = X if X ≤ t (an answer in the same tick as the timer wins), else min(X, t + Y)
//! - P(R ≤ s) = F(s) for s < t, else F(s) + q (1 − F(s)) F(s − t)
//! - quantile k: the smallest s with P(R ≤ s) ≥ k (nearest rank, no interpolation)
//! - extra = q P(X > t), calls a call
//! - mean = E\[X\] − q E\[X − min(X, t + Y); X > t\]
//! - duplicated = q E\[min(X − t, Y); X > t\]: seconds a call during which two attempts run; the
//!   loser is cancelled when the winner answers
//! - cost = 1,000 × extra × the cost of one call
//! - a call *stalls* when it lasts at least S; a build of N calls stalls when one of its calls does:
//!   1 − P(R < S)^N. S is a property of the trace and not of the hedge, so that rows compare: the
//!   smallest sample that is neither below the target's quantile nor below twice the median. No such
//!   sample: nothing stalls.
//!
//! At q = 1 an earlier threshold is never slower, for any pair (X, Y). So the best fixed threshold
//! of a budget B is the smallest t with P(X > t) ≤ B, a value of the trace; it cannot move a
//! quantile that lies at or before it. The best randomised one is searched: at each value t of the
//! trace with q = min(1, B / P(X > t)), the whole budget.
//!
//! Sources: Dean and Barroso, "The tail at scale", CACM 2013 (hedge after a high percentile, and the
//! fan-out). Joshi, Soljanin and Wornell, "Efficient redundancy techniques for latency reduction in
//! cloud systems", 2017 (what a second copy saves and costs depends on the shape of the tail).
//! Kaler, He and Elnikety, "Optimal reissue policies for reducing tail latency", SPAA 2017 (one
//! reissue at t with probability q is as good as any number of them, and its search).
//!
//! What the model does not know: a twin that meets the same trouble as its primary. Where slow calls
//! come in runs, the figures are too good; a warning says so.

mod apply;
mod choose;
mod curve;
pub mod read;
mod show;
mod trace;
mod warn;

#[cfg(test)]
mod tests;

pub use trace::{Hedge, Measure, Row, Sample, Trace};

use read::Input;
use serde::Serialize;

/// What was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// Thresholds to look at, in nanoseconds; empty: the planner chooses.
    pub at: Vec<u64>,
    /// Quantile to improve, above 0 and below 1.
    pub target: f64,
    /// Extra calls a call, 0 to 1.
    pub budget: f64,
    /// Calls that one build waits for.
    pub fan_out: Option<u32>,
    /// Cost of one call.
    pub cost: Option<f64>,
}

/// The target's quantile without a hedge, and how well the samples show it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Target {
    /// The quantile.
    pub quantile: f64,
    /// Where it lies, in seconds.
    pub now: f64,
    /// A range that holds the true one in at least 95 of 100 traces of this length, made of order
    /// statistics: no shape is assumed. No upper end: the trace is too short to show it.
    pub low: f64,
    /// The upper end.
    pub high: Option<f64>,
}

/// The best thresholds within the budget.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Best {
    /// The best that is always started; null where none within the budget lowers the target.
    pub fixed: Option<Row>,
    /// The best that is started with a probability.
    pub randomised: Option<Row>,
}

/// The answer. Times in seconds.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Plan {
    /// How many samples there were.
    pub samples: usize,
    /// Where they were found in the file.
    pub source: String,
    /// The target today.
    pub target: Target,
    /// The budget.
    pub budget: f64,
    /// A call stalls from here on; null: nothing in this trace does.
    pub stall_from: Option<f64>,
    /// Without a hedge.
    pub baseline: Row,
    /// With one, by threshold.
    pub thresholds: Vec<Row>,
    /// The best within the budget.
    pub best: Best,
    /// Whether to do it, in a sentence that begins with `worth it` or `not worth it`.
    pub verdict: String,
    /// What to know before believing the figures.
    pub warnings: Vec<String>,
    #[serde(skip)]
    fan_out: Option<u32>,
    #[serde(skip)]
    chosen: Option<Hedge>,
}

/// Works out the plan. `None` where there are no samples, which [`read::read`] never returns.
#[must_use]
pub fn plan(input: &Input, question: &Question) -> Option<Plan> {
    let trace = Trace::new(&input.samples)?;
    let measure = Measure {
        target: question.target,
        fan_out: question.fan_out,
        cost: question.cost,
        stall: stall_from(&trace, question.target),
    };
    let chosen = choose::choose(&trace, question);
    let mut at = if question.at.is_empty() { choose::grid(&trace) } else { question.at.clone() };
    at.extend(chosen.fixed.map(|hedge| hedge.after));
    at.sort_unstable();
    at.dedup();
    let row = |hedge| trace.row(hedge, measure);
    let baseline = row(Hedge::NONE);
    let random =
        |hedge: Hedge| Row { probability: Some(trace::rounded(hedge.probability)), ..row(hedge) };
    let best = Best { fixed: chosen.fixed.map(row), randomised: chosen.randomised.map(random) };
    let (verdict, applied) = choose::verdict(&baseline, &chosen, &best, question);
    Some(Plan {
        samples: trace.samples(),
        source: input.source.clone(),
        target: warn::target(&trace, question.target),
        budget: question.budget,
        stall_from: measure.stall.map(trace::seconds),
        thresholds: at.into_iter().map(|after| row(Hedge::fixed(after))).collect(),
        warnings: warn::warnings(&trace, input, question, &chosen),
        baseline,
        best,
        verdict,
        fan_out: question.fan_out,
        chosen: applied,
    })
}

fn stall_from(trace: &Trace, target: f64) -> Option<u64> {
    let least = trace.quantile(target).max(trace.quantile(0.5).saturating_mul(2));
    trace.sorted().get(trace.below(least)).copied().filter(|&nanos| nanos > 0)
}

impl Plan {
    /// The plan as JSON.
    #[must_use]
    pub fn json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// The plan for people.
    #[must_use]
    pub fn text(&self) -> String {
        show::text(self)
    }

    /// The lines of the configuration that follow from it, for the upstream of that name.
    #[must_use]
    pub fn apply(&self, upstream: &str) -> String {
        apply::lines(self, upstream)
    }

    /// Whether the verdict is to do it.
    #[must_use]
    pub fn worth_it(&self) -> bool {
        self.chosen.is_some()
    }
}

/// The trade-off of target against extra calls as SVG.
#[must_use]
pub fn svg(input: &Input, question: &Question) -> Option<String> {
    Some(curve::svg(&Trace::new(&input.samples)?, question))
}
