//! The best thresholds within a budget, and whether they are worth having.
//!
//! Invariant: `--at` narrows the choice to those thresholds; the rest of the answer follows the
//! same rules.

use super::trace::{Hedge, Row, Trace, seconds};
use super::{Best, Question};
use crate::text::{percent, seconds as time};
use std::cmp::Ordering;

/// The target must fall by this share to be worth a second call.
const WORTH: f64 = 0.1;

/// Of thresholds that bring the target to the same value, so many are compared by their mean.
const TIED: usize = 512;

/// Rounding never costs a threshold its place in the budget.
const SLACK: f64 = 1e-12;

/// The best of each kind.
#[derive(Clone, Debug)]
pub(super) struct Chosen {
    pub(super) fixed: Option<Hedge>,
    pub(super) randomised: Option<Hedge>,
}

pub(super) fn choose(trace: &Trace, question: &Question) -> Chosen {
    let candidates = candidates(trace, question);
    let now = trace.quantile(question.target);
    // The earliest that the budget allows: see the module's head for why that is the best.
    let fixed = candidates
        .iter()
        .copied()
        .find(|&after| trace.beyond(after) <= question.budget + SLACK)
        .map(Hedge::fixed)
        .filter(|&hedge| trace.beyond(hedge.after) > 0.0)
        .filter(|&hedge| trace.reaches(hedge, question.target, now));
    let randomised = randomised(trace, &candidates, question.target, question.budget);
    Chosen { fixed, randomised }
}

/// Thresholds in order: those that were asked for, or else zero and every value of the trace.
fn candidates(trace: &Trace, question: &Question) -> Vec<u64> {
    let mut candidates = question.at.clone();
    if candidates.is_empty() {
        candidates.push(0);
        candidates.extend_from_slice(trace.sorted());
    }
    candidates.sort_unstable();
    candidates.dedup();
    candidates
}

/// The hedge at `after` that spends the whole budget.
fn spend(trace: &Trace, after: u64, budget: f64) -> Option<Hedge> {
    let beyond = trace.beyond(after);
    let probability = if beyond <= budget + SLACK { 1.0 } else { budget / beyond };
    (beyond > 0.0 && probability > 0.0).then_some(Hedge { after, probability })
}

/// The lowest target; of those that tie, the lowest mean, and of those the latest.
pub(super) fn randomised(
    trace: &Trace,
    candidates: &[u64],
    target: f64,
    budget: f64,
) -> Option<Hedge> {
    let hedges = || candidates.iter().filter_map(|&after| spend(trace, after, budget));
    let mut lowest = trace.quantile(target);
    for hedge in hedges() {
        if trace.reaches(hedge, target, lowest) {
            lowest = trace.hedged_quantile(hedge, target);
        }
    }
    // None is lower than the lowest, so whoever reaches anything up to it has it.
    let tied: Vec<Hedge> =
        hedges().filter(|&hedge| trace.reaches(hedge, target, lowest.saturating_add(1))).collect();
    let step = tied.len().div_ceil(TIED).max(1);
    let by_mean = tied.into_iter().step_by(step).map(|hedge| (hedge, trace.mean(hedge)));
    let order = |a: &(Hedge, f64), b: &(Hedge, f64)| {
        b.1.partial_cmp(&a.1).unwrap_or(Ordering::Equal).then(a.0.after.cmp(&b.0.after))
    };
    by_mean.max_by(order).map(|(hedge, _)| hedge)
}

/// Thresholds worth a row: quantiles, and round numbers from the median to the end.
pub(super) fn grid(trace: &Trace) -> Vec<u64> {
    const ROUND: [u64; 6] = [10, 15, 20, 30, 50, 70];
    let mut rows: Vec<u64> =
        [0.5, 0.75, 0.9, 0.95, 0.98, 0.99].iter().map(|&q| trace.quantile(q)).collect();
    let from = trace.quantile(0.9).max(1);
    let to = trace.sorted().last().copied().unwrap_or(0);
    let mut round = Vec::new();
    let mut scale = 1u64;
    while let Some(next) = scale.checked_mul(10) {
        round.extend(ROUND.iter().filter_map(|&digit| digit.checked_mul(scale)));
        scale = next;
    }
    let round: Vec<u64> = round.into_iter().filter(|&at| from < at && at < to).take(6).collect();
    rows.extend(round);
    // The last value cannot be outlived; a hedge there never fires.
    rows.retain(|&after| after < to);
    rows.sort_unstable();
    rows.dedup();
    rows
}

/// The sentence, and the hedge to apply where it says to.
pub(super) fn verdict(
    baseline: &Row,
    chosen: &Chosen,
    best: &Best,
    question: &Question,
) -> (String, Option<Hedge>) {
    let target = quantile_name(question.target);
    let now = baseline.target;
    let lowers = |row: &&Row| row.target <= now * (1.0 - WORTH);
    let fixed = best.fixed.as_ref().filter(lowers);
    // A probability is worth its trouble only where it beats the fixed threshold by as much again.
    let beats = |row: &&Row| {
        row.probability.is_some_and(|probability| probability < 1.0)
            && fixed.is_none_or(|f| row.target <= f.target * (1.0 - WORTH))
    };
    let randomised = best.randomised.as_ref().filter(lowers).filter(beats);
    if let Some(row) = randomised {
        let share = row.probability.map_or_else(String::new, |probability| {
            format!(" with a probability of {}", percent(probability))
        });
        return (worth(row, &target, now, &share), chosen.randomised);
    }
    if let Some(row) = fixed {
        return (worth(row, &target, now, ""), chosen.fixed);
    }
    let budget = percent(question.budget);
    let reason = match best.randomised.as_ref().map_or(now, |row| row.target) {
        lowest if lowest < now => format!(
            "the best hedge within {budget} extra calls brings {target} from {} to {} only",
            time(now),
            time(lowest)
        ),
        _ => format!("no hedge within {budget} extra calls lowers {target} from {}", time(now)),
    };
    (format!("not worth it: {reason}"), None)
}

fn worth(row: &Row, target: &str, now: f64, share: &str) -> String {
    format!(
        "worth it: a hedge after {}{share} brings {target} from {} to {} for {} extra calls",
        time(row.after.unwrap_or(0.0)),
        time(now),
        time(row.target),
        percent(row.extra.unwrap_or(0.0)),
    )
}

/// `p99` of 0.99.
pub(super) fn quantile_name(quantile: f64) -> String {
    format!("p{}", crate::text::trimmed(quantile * 100.0, 4))
}

/// The smallest threshold the budget allows, in seconds.
pub(super) fn earliest(trace: &Trace, budget: f64) -> f64 {
    let at = trace.sorted().iter().find(|&&after| trace.beyond(after) <= budget + SLACK);
    seconds(at.copied().unwrap_or(0))
}
