//! The plan for people.

use super::choose::quantile_name;
use super::{Plan, Row};
use crate::text::{percent, seconds, table, thousands, trimmed};
use std::fmt::Write as _;

pub(super) fn text(plan: &Plan) -> String {
    let mut out = String::new();
    let target = quantile_name(plan.target.quantile);
    let _ = writeln!(
        out,
        "{} samples ({}), target {target}, budget {} extra calls\n",
        thousands(plan.samples as u64),
        plan.source,
        percent(plan.budget)
    );
    let columns = Columns::of(plan, &target);
    let mut rows = vec![columns.cells("no hedge", &plan.baseline)];
    rows.extend(plan.thresholds.iter().map(|row| columns.cells(&label(row), row)));
    if let Some(row) = plan.best.randomised.as_ref().filter(|row| is_random(row)) {
        rows.push(columns.cells(&label(row), row));
    }
    out.push_str(&table(&columns.head(), &rows));
    out.push('\n');
    let range = match plan.target.high {
        Some(high) => format!("between {} and {}", seconds(plan.target.low), seconds(high)),
        None => format!("{} or more, the samples do not show how much", seconds(plan.target.low)),
    };
    let _ = writeln!(out, "{target} now       {} (95 % sure: {range})", seconds(plan.target.now));
    if plan.fan_out.is_some() {
        let _ = match plan.stall_from {
            Some(from) => writeln!(out, "stalled       a call of {} or more", seconds(from)),
            None => writeln!(out, "stalled       no call of this trace stands out"),
        };
    }
    best(&mut out, "best fixed ", plan.best.fixed.as_ref(), plan, &target);
    // A probability of 1 is the fixed threshold again.
    let random = plan.best.randomised.as_ref();
    if plan.best.fixed.is_none() || random.is_some_and(is_random) {
        best(&mut out, "best random", random, plan, &target);
    }
    let _ = writeln!(out, "verdict       {}", plan.verdict);
    for warning in &plan.warnings {
        let _ = writeln!(out, "warning       {warning}");
    }
    out
}

fn best(out: &mut String, name: &str, row: Option<&Row>, plan: &Plan, target: &str) {
    let Some(row) = row else {
        let budget = percent(plan.budget);
        let _ = writeln!(out, "{name}   none within {budget} extra calls lowers {target}");
        return;
    };
    let _ = writeln!(
        out,
        "{name}   {}: {target} {} → {}, mean {} → {}, {} extra calls",
        label(row),
        seconds(plan.baseline.target),
        seconds(row.target),
        seconds(plan.baseline.mean),
        seconds(row.mean),
        percent(row.extra.unwrap_or(0.0)),
    );
}

/// The threshold, and the probability where it is below 1.
fn label(row: &Row) -> String {
    let after = seconds(row.after.unwrap_or(0.0));
    match row.probability.filter(|_| is_random(row)) {
        Some(probability) => format!("{after}, {} of them", percent(probability)),
        None => after,
    }
}

fn is_random(row: &Row) -> bool {
    row.probability.is_some_and(|probability| probability < 1.0)
}

/// Which columns this plan has. One unit for all times, so that they compare at a glance.
struct Columns {
    target: Option<String>,
    milliseconds: bool,
    cost: bool,
    builds: Option<String>,
}

impl Columns {
    fn of(plan: &Plan, target: &str) -> Columns {
        let usual = ["p50", "p95", "p99", "p99.9"].contains(&target);
        Columns {
            target: (!usual).then(|| target.to_owned()),
            milliseconds: plan.baseline.p999 < 10.0,
            cost: plan.thresholds.iter().any(|row| row.cost.is_some()),
            builds: plan.fan_out.map(|calls| format!("stalled builds of {calls}")),
        }
    }

    fn head(&self) -> Vec<&str> {
        let mut head = vec!["after", "extra", "p50", "p95", "p99", "p99.9"];
        head.extend(self.target.as_deref());
        head.extend(["mean", "duplicated"]);
        if self.cost {
            head.push("cost/1,000");
        }
        head.extend(self.builds.as_deref());
        head
    }

    fn cells(&self, label: &str, row: &Row) -> Vec<String> {
        let time = |seconds: f64| match self.milliseconds {
            true => format!("{} ms", trimmed(seconds * 1000.0, 1)),
            false => format!("{} s", trimmed(seconds, 3)),
        };
        let or_dash = |cell: Option<String>| cell.unwrap_or_else(|| "-".to_owned());
        let mut cells = vec![label.to_owned(), or_dash(row.extra.map(percent))];
        cells.extend([row.p50, row.p95, row.p99, row.p999].map(time));
        if self.target.is_some() {
            cells.push(time(row.target));
        }
        cells.push(time(row.mean));
        cells.push(or_dash(row.duplicated.map(time)));
        if self.cost {
            cells.push(or_dash(row.cost.map(|cost| trimmed(cost, 4))));
        }
        if self.builds.is_some() {
            cells.push(or_dash(row.stalled_builds.map(percent)));
        }
        cells
    }
}
