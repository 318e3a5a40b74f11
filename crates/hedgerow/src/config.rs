//! The configuration: flag before environment before file before default, checked as a whole.
//!
//! Promise: what [`Config`] holds has been validated; nobody behind it parses, defaults or checks
//! again. One run reports every error, each with its place and with what to write instead.
//!
//! The way of a value: `file` defines every key once; `field` reads the document by it; `resolve`
//! gives the values their meaning and finds contradictions; `check` looks at the machine; `lint`
//! warns. [`keys`] derives the flags and variables, [`mod@reference`] the documentation.

mod check;
mod field;
mod file;
mod guess;
pub mod keys;
mod lint;
pub mod machine;
mod model;
pub mod reference;
mod report;
mod resolve;
mod sources;
mod value;

use std::collections::HashSet;

use field::{Printer, Reader, Section as _, Table, comment};
use guess::Guesses;
use lint::Linter;
use machine::{Machine, ThisMachine};
pub use model::*;
pub use report::{Place, Problem, Report, Severity, Source};
use resolve::Resolver;
pub use sources::Sources;
pub(crate) use sources::suggestion;
pub(crate) use value::duration;

/// The file that is used when none is named and it exists.
pub const DEFAULT_FILE: &str = "hedgerow.toml";

/// A configuration that can be used.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// What is useless or risky; no errors.
    pub warnings: Report,
}

/// What reading gave, good or bad.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// The configuration; only to be used if the report has no errors.
    pub config: Config,
    /// Errors and warnings.
    pub report: Report,
    /// The effective configuration as TOML, with the origin of each value; secrets are masked.
    pub effective: String,
}

impl Config {
    /// Reads the configuration that the command line names. May be called again for a reload.
    ///
    /// # Errors
    /// The report of everything that cannot work; the exit code for it is 2.
    pub fn load(arguments: &crate::cli::ConfigArguments) -> Result<Loaded, Report> {
        let reading = read(&Sources::gather(arguments)?, &ThisMachine);
        if reading.report.has_errors() {
            return Err(reading.report);
        }
        Ok(Loaded { config: reading.config, warnings: reading.report })
    }

    /// The same for a command that asks a running gateway: that nothing is said about what to run
    /// is no error.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn load_to_ask(arguments: &crate::cli::ConfigArguments) -> Result<Config, Report> {
        let mut reading = read(&Sources::gather(arguments)?, &ThisMachine);
        reading.report.problems.retain(|problem| problem.place != Place::Default);
        if reading.report.has_errors() {
            return Err(reading.report);
        }
        Ok(reading.config)
    }
}

/// Reads a configuration. Looks at nothing but its arguments.
#[must_use]
pub fn read(sources: &Sources, machine: &dyn Machine) -> Reading {
    let (name, text) = sources.file.clone().unwrap_or_default();
    let mut problems = Vec::new();
    let (mut document, guessed) = sources::parse(&text, &mut problems);
    let syntax = problems.len();
    let broken = syntax > 0;
    let expanded = sources::expand(&mut document, &sources.environment, &mut problems);
    let guesses = Guesses::default();
    let overrides = sources::overrides(sources, &document, &mut problems, &guesses);
    let mut reader = Reader::new(overrides, expanded, problems, guesses);
    let root = Table::new(String::new(), Place::Default, Some(&document));
    let document: file::Document = reader.section(root);

    for (path, (place, _)) in std::mem::take(&mut reader.overrides) {
        let message = format!("`{path}` has no place in this configuration");
        reader.error(place, message, "the table it belongs to is off, or not a table");
    }

    let refused = &reader.refused;
    let guesses = &reader.guesses;
    let mut resolver = Resolver { sources, machine, refused, guesses, problems: Vec::new() };
    let config = resolver.config(&document);
    resolver.machine_has(&document, &config);
    let mut linter = Linter { document: &document, config: &config, warnings: Vec::new() };
    linter.all(&reader.changed);

    let mut problems = reader.problems;
    // What is wrong with a guess is no news: the line has its error.
    let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
    let line = |at: usize| ends.partition_point(|end| *end < at);
    let guessed: HashSet<_> = guessed.iter().map(|span| line(span.start)).collect();
    let mut at = 0;
    problems.retain(|problem| {
        at += 1;
        let Place::File(span) = &problem.place else { return true };
        at <= syntax || !guessed.contains(&line(span.start))
    });
    // After a syntax error whole sections may be missing: what follows from that is noise.
    if !broken {
        problems.extend(resolver.problems);
        problems.extend(linter.warnings);
    }
    let mut secrets = reader.secrets;
    if broken {
        secrets.extend(secret_lines(&text));
    }
    let source = Source { name, text: hide(text, &secrets) };
    let mut printer = Printer::new(&source);
    document.print(&mut printer);
    let mut effective = printer.finish();
    if config.php.app.is_some() {
        let command = shell_words::join(&config.worker.command);
        effective.push_str(&format!("\n# The PHP shorthand runs: {}\n", comment(&command)));
    }
    let mut report = Report { source, problems };
    report.sort();
    Reading { config, report, effective }
}

/// What stands after a secret key and `=` in its line: in a broken document, the only way to know.
fn secret_lines(text: &str) -> Vec<std::ops::Range<usize>> {
    let mut spans = Vec::new();
    for entry in keys::ENTRIES.iter() {
        let keys::Entry::Key { path, secret: true, .. } = entry else { continue };
        let key = path.rsplit('.').next().unwrap_or(path);
        for (at, _) in text.match_indices(key) {
            let rest = &text[at + key.len()..];
            let value = rest.trim_start_matches([' ', '\t', '"', '\'']);
            if value.starts_with('=') {
                let start = text.len() - value.len() + 1;
                let end = value.find('\n').map_or(text.len(), |line| start - 1 + line);
                spans.push(start..end);
            }
        }
    }
    spans
}

/// Replaces secrets by as many `*`, so that a caret under the line still points at the right place.
fn hide(text: String, secrets: &[std::ops::Range<usize>]) -> String {
    let mut bytes = text.into_bytes();
    for secret in secrets {
        let hidden = bytes.get_mut(secret.clone()).unwrap_or_default();
        hidden.iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b'*');
    }
    // Spans of values lie on character borders, so this never changes anything.
    String::from_utf8_lossy(&bytes).into_owned()
}
