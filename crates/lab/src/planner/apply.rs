//! The lines of the configuration that follow from a plan.
//!
//! Invariant: what is printed is TOML, whatever the verdict: remarks are comments. The configuration
//! knows no probability: where the best hedge has one, the lines say what to do instead.

use super::Plan;
use crate::text::{percent, trimmed};
use std::fmt::Write as _;

/// The lines for the upstream of that name.
pub(super) fn lines(plan: &Plan, upstream: &str) -> String {
    let mut out = format!("# {}\n", plan.verdict);
    for warning in &plan.warnings {
        let _ = writeln!(out, "# warning: {warning}");
    }
    let Some(hedge) = plan.chosen else { return out };
    // Later rather than earlier: an answer in the same millisecond wins.
    let after = hedge.after.div_ceil(1_000_000).max(1);
    let ratio = trimmed(plan.budget, 4);
    if hedge.probability < 1.0 {
        let _ = writeln!(
            out,
            "# Started with a probability of {}: the budget does that here, by refusing the rest.",
            percent(hedge.probability)
        );
    }
    let _ = writeln!(out, "[upstream.{upstream}]");
    let _ = writeln!(out, "hedge = {{ after_ms = {after}, answer = \"full\" }}");
    let _ = writeln!(out, "budget = {{ ratio = {ratio}, burst = 3 }}");
    out
}
