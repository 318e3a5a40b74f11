//! `hedgerow check`: everything that can be said about a configuration without starting it.

use super::CheckArguments;
use crate::config::machine::{Machine, ThisMachine};
use crate::config::{Severity, Sources, read};

/// What to print, and the exit code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// 0, or 2 where there is an error (with `--strict`, a warning).
    pub code: u8,
    /// For standard output.
    pub output: String,
    /// For standard error.
    pub errors: String,
}

/// Reads the configuration that the arguments name, and judges it.
#[must_use]
pub fn check(arguments: &CheckArguments) -> Outcome {
    match Sources::gather(&arguments.config) {
        Ok(sources) => judge(arguments, &sources, &ThisMachine),
        Err(report) => Outcome { code: 2, errors: report.to_string(), ..Outcome::default() },
    }
}

/// The same of sources that are at hand.
#[must_use]
pub fn judge(arguments: &CheckArguments, sources: &Sources, machine: &dyn Machine) -> Outcome {
    let reading = read(sources, machine);
    let count =
        |severity| reading.report.problems.iter().filter(|p| p.severity == severity).count();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    let bad = errors > 0 || (arguments.strict && warnings > 0);
    let mut outcome = Outcome {
        code: if bad { 2 } else { 0 },
        output: if arguments.print { reading.effective } else { String::new() },
        errors: reading.report.to_string(),
    };
    let several = |n: usize, what| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    match (errors, warnings) {
        (0, 0) => {}
        (0, n) => outcome.errors.push_str(&format!("{}\n", several(n, "warning"))),
        (n, 0) => outcome.errors.push_str(&format!("{}\n", several(n, "error"))),
        (n, w) => {
            let line = format!("{}, {}\n", several(n, "error"), several(w, "warning"));
            outcome.errors.push_str(&line);
        }
    }
    // With --print the output is TOML, and stays TOML.
    if !bad && !arguments.print {
        outcome.output.push_str("ok\n");
    }
    outcome
}
