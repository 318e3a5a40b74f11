//! `hedgerow drill`: an incident in, what it would have done out.

mod yours;

use std::fs;
use std::path::Path;

use hedgerow_lab::drill::{self, Changes, Request, Yours};

use crate::cli::{ConfigArguments, Drill, Outcome};
use crate::config::Config;
use crate::progress::Progress;

/// The drills there are.
#[must_use]
pub fn list() -> Outcome {
    Outcome { code: 0, output: drill::list(), errors: String::new() }
}

/// Plays the drill, prints its report, and writes what was asked for.
#[must_use]
pub fn run(arguments: &Drill) -> Outcome {
    answer(arguments).unwrap_or_else(|(code, what)| Outcome {
        code,
        output: String::new(),
        errors: format!("hedgerow: {what}\n"),
    })
}

fn answer(arguments: &Drill) -> Result<Outcome, (u8, String)> {
    let model = &arguments.model;
    let request = Request {
        name: arguments.name.clone(),
        policies: arguments.policies.clone(),
        seed: arguments.seed,
        changes: Changes {
            mu: model.mu,
            stall: model.stall,
            rate: model.rate,
            keys: model.keys,
            ttl: model.ttl,
            line: model.line,
            open: model.open,
            duration: model.duration,
        },
        yours: arguments.config.as_deref().map(|file| settings(file, arguments)).transpose()?,
    };
    let mut progress = Progress::new();
    let report = drill::run(&request, &mut |what, share| progress.show(what, share));
    drop(progress);
    let report = report.map_err(|error| (2, error.to_string()))?;
    if let Some(path) = &arguments.csv {
        write(path, &report.csv())?;
    }
    if let Some(path) = &arguments.svg {
        write(path, &report.svg())?;
    }
    let output = if arguments.json { report.json() } else { report.text() };
    Ok(Outcome { code: 0, output, errors: String::new() })
}

/// The settings of a configuration that can be used.
fn settings(file: &Path, arguments: &Drill) -> Result<Yours, (u8, String)> {
    let from = ConfigArguments { file: Some(file.to_path_buf()), flags: Vec::new() };
    let loaded = Config::load(&from).map_err(|report| (2, report.to_string()))?;
    yours::of(&loaded.config, arguments.upstream.as_deref()).map_err(|what| (2, what))
}

fn write(path: &Path, text: &str) -> Result<(), (u8, String)> {
    fs::write(path, text).map_err(|error| (1, format!("cannot write {}: {error}", path.display())))
}
