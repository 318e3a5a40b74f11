//! The trade-off as a picture: how low the target comes for how many extra calls.

use super::Question;
use super::choose::{quantile_name, randomised};
use super::trace::{Hedge, Trace, seconds};
use crate::chart::{Chart, Curve, svg as draw};

/// Budgets along the curve.
const STEPS: u32 = 40;

/// Thresholds a budget's search looks at: a picture needs no more.
const LOOKED_AT: usize = 400;

pub(super) fn svg(trace: &Trace, question: &Question) -> String {
    let target = quantile_name(question.target);
    let step = trace.samples().div_ceil(LOOKED_AT).max(1);
    let mut candidates: Vec<u64> = std::iter::once(0)
        .chain(trace.sorted().iter().copied().step_by(step))
        .chain(trace.sorted().last().copied())
        .collect();
    candidates.dedup();
    // Twice the budget that was asked for, so that one sees what more would buy.
    let most = (2.0 * question.budget).clamp(0.02, 1.0);
    let budgets = (0..=STEPS).map(|at| most * f64::from(at) / f64::from(STEPS));
    let mut fixed = Vec::new();
    let mut random = Vec::new();
    for budget in budgets {
        let x = budget * 100.0;
        let earliest = candidates.iter().find(|&&after| trace.beyond(after) <= budget + 1e-12);
        let at = earliest.map_or(Hedge::NONE, |&after| Hedge::fixed(after));
        fixed.push((x, seconds(trace.hedged_quantile(at, question.target))));
        let at = randomised(trace, &candidates, question.target, budget).unwrap_or(Hedge::NONE);
        random.push((x, seconds(trace.hedged_quantile(at, question.target))));
    }
    let curve = |name: &str, points| Curve { name: name.to_owned(), points };
    draw(&[Chart {
        title: format!("{target} by budget ({} samples)", trace.samples()),
        x: "extra calls, %".to_owned(),
        y: format!("{target}, s"),
        curves: vec![curve("fixed", fixed), curve("randomised", random)],
        mark: None,
    }])
}
