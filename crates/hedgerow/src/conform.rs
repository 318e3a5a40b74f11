//! The worker's side of the contract as a list of requirements that any worker program can be held
//! to: `hedgerow conform -- WORKER COMMAND`.
//!
//! The first tier asks nothing of the application. The second needs the routes under `/conform`,
//! which an application offers by answering `GET /conform` with `{"conform":1}`; the worker
//! libraries each come with one.
//!
//! Promise: every requirement is one sentence and one verdict, they do not depend on each other's
//! outcome, and a worker that does not answer costs a bounded wait, never a hang.

mod application;
mod bodies;
mod client;
mod connections;
mod program;
mod report;
mod requirement;
mod steps;

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use crate::progress::Progress;
use program::Program;
use requirement::{Requirement, Row, Subject};

/// How long a worker may take for anything that is asked of it.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs every requirement against the program and prints the table, line by line.
///
/// Exit codes: 0 if none failed, 1 if one did, 2 if the program could not be started.
pub async fn run(command: Vec<String>) -> ExitCode {
    // A reader of the table who has gone is no reason to stop: there is the exit code.
    let print = |text: &str| drop(std::io::stdout().write_all(text.as_bytes()));
    let mut progress = Progress::at_once();
    let each = move |step: Step<'_>| match step {
        Step::Begins(requirement, share) => progress.show(requirement.sentence, share),
        Step::Is(row) => {
            progress.clear();
            print(&report::row(row));
        }
    };
    // The suite waits as a client waits, by blocking: it has nothing else to do meanwhile.
    match tokio::task::spawn_blocking(move || suite(&command, PATIENCE, each)).await {
        Ok(Ok(rows)) => {
            print(&report::count(&rows));
            ExitCode::from(u8::from(report::failures(&rows) > 0))
        }
        Ok(Err(reason)) => {
            let _ = writeln!(std::io::stderr(), "hedgerow conform: {reason}");
            ExitCode::from(2)
        }
        Err(_) => ExitCode::from(1),
    }
}

/// How far the suite is.
enum Step<'s> {
    /// This one is looked at now; so much is done, 0 to 1.
    Begins(&'s Requirement, f64),
    /// And this is what was seen.
    Is(&'s Row),
}

/// Every requirement with its verdict, or why there is nothing to hold to them.
fn suite(
    command: &[String],
    patience: Duration,
    mut each: impl FnMut(Step<'_>),
) -> Result<Vec<Row>, String> {
    let mut subject = Subject::start(Program::new(command)?, patience)?;
    let all = requirements().count();
    let judge = |(at, requirement)| {
        each(Step::Begins(requirement, at as f64 / all as f64));
        let row = subject.check(requirement);
        each(Step::Is(&row));
        row
    };
    Ok(requirements().enumerate().map(judge).collect())
}

/// All of them, in the order of the table. Those that end the worker come last.
fn requirements() -> impl Iterator<Item = &'static Requirement> {
    let tiers = [
        connections::READINESS,
        connections::FRAMES,
        bodies::REQUIREMENTS,
        connections::LIFETIME,
        application::REQUIREMENTS,
        steps::REQUIREMENTS,
        connections::STOP,
    ];
    tiers.into_iter().flatten()
}

#[cfg(test)]
mod tests;
