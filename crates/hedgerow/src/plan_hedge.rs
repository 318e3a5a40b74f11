//! `hedgerow plan hedge`: a file in, a plan out.

use std::fs;

use hedgerow_lab::planner::{Question, plan, read, svg};

use crate::cli::{Outcome, PlanHedge, Unit};
use crate::progress::Progress;

/// Reads the file, prints the plan and draws the curve.
#[must_use]
pub fn run(arguments: &PlanHedge) -> Outcome {
    answer(arguments).unwrap_or_else(|(code, what)| Outcome {
        code,
        output: String::new(),
        errors: format!("hedgerow: {what}\n"),
    })
}

fn answer(arguments: &PlanHedge) -> Result<Outcome, (u8, String)> {
    let file = arguments.file.display();
    let bytes =
        fs::read(&arguments.file).map_err(|error| (2, format!("cannot read {file}: {error}")))?;
    // Whatever a log holds beside the durations need not be UTF-8.
    let text = String::from_utf8_lossy(&bytes);
    let unit = match arguments.unit {
        Unit::Seconds => read::Unit::Seconds,
        Unit::Milliseconds => read::Unit::Milliseconds,
    };
    let wanted = read::Wanted {
        unit,
        column: arguments.column.as_deref(),
        upstream: arguments.upstream.as_deref(),
    };
    let mut progress = Progress::new();
    let input = read::read(&text, wanted, &mut |share| progress.show("reading", share))
        .map_err(|error| (2, format!("{file}: {error}")))?;
    let nanos = |at: &std::time::Duration| u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
    let question = Question {
        at: arguments.at.iter().map(nanos).collect(),
        target: arguments.target,
        budget: arguments.budget,
        fan_out: arguments.fan_out,
        cost: arguments.cost,
    };
    progress.show("working it out", 1.0);
    let plan = plan(&input, &question)
        .ok_or_else(|| (2, format!("{file}: line 1: the file holds no duration")))?;
    if let Some(path) = &arguments.svg
        && let Some(picture) = svg(&input, &question)
    {
        fs::write(path, picture)
            .map_err(|error| (1, format!("cannot write {}: {error}", path.display())))?;
    }
    drop(progress);
    let output = match (arguments.json, arguments.apply) {
        (true, _) => plan.json(),
        (false, true) => plan.apply(arguments.upstream.as_deref().unwrap_or("NAME")),
        (false, false) => plan.text(),
    };
    Ok(Outcome { code: 0, output, errors: String::new() })
}
