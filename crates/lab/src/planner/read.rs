//! Durations out of whatever holds them.
//!
//! The first line that is not empty decides: a JSON object or list is NDJSON, Hedgerow's event log
//! or its ledger; a line with a bracketed time is an nginx log; a line with a separator, or a word
//! that names a duration, is CSV; all else is one number a line.
//!
//! Invariant: no input makes this panic, and every refusal names the line, or the flag that asks for
//! what is not in the file. A duration is finite and
//! not negative; a number without a unit is in the unit that its column's name says (`_ms`), else in
//! the one that was asked for.

mod csv;
mod json;
mod nginx;
mod plain;

use super::trace::Sample;
use std::collections::BTreeSet;
use std::fmt;

/// Unit of bare numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Unit {
    /// Seconds.
    #[default]
    Seconds,
    /// Milliseconds.
    Milliseconds,
    /// Microseconds.
    Microseconds,
}

/// What was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Input {
    /// The durations, in the order of the file.
    pub samples: Vec<Sample>,
    /// Calls that ended in a failure; they are not among the samples.
    pub failed: usize,
    /// Where the durations were found, for the head of the report.
    pub source: String,
}

/// Why a file cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReadError {
    /// The line, from 1; `None`: what was asked for does not fit the file as a whole.
    pub line: Option<usize>,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        f.write_str(&self.what)
    }
}

impl std::error::Error for ReadError {}

/// Longer than any call: thirty years.
const LONGEST: f64 = 1e9;

impl Unit {
    fn in_seconds(self) -> f64 {
        match self {
            Self::Seconds => 1.0,
            Self::Milliseconds => 1e-3,
            Self::Microseconds => 1e-6,
        }
    }

    /// A number in this unit as whole nanoseconds.
    fn nanos(self, number: f64) -> Result<u64, String> {
        if number.is_nan() {
            return Err("NaN is no duration".to_owned());
        }
        if number < 0.0 {
            return Err(format!("{number} is negative; a duration is 0 or more"));
        }
        let seconds = number * self.in_seconds();
        if seconds > LONGEST {
            return Err(format!("{number} is longer than any call"));
        }
        Ok((number * (self.in_seconds() * 1e9)).round() as u64)
    }
}

/// A number, perhaps with a unit, perhaps with a sign that it was cut off: `>160`, `160+`.
fn sample(text: &str, unit: Unit) -> Result<Sample, String> {
    let word = text.trim();
    let bare = word.strip_prefix(">=").or_else(|| word.strip_prefix('>')).unwrap_or(word);
    let bare = bare.strip_suffix('+').unwrap_or(bare);
    let censored = bare.len() != word.len();
    let (number, unit) =
        [("ms", Unit::Milliseconds), ("us", Unit::Microseconds), ("s", Unit::Seconds)]
            .into_iter()
            .find_map(|(suffix, unit)| Some((bare.strip_suffix(suffix)?, unit)))
            .unwrap_or((bare, unit));
    let number: f64 = number.trim().parse().map_err(|_| format!("{} is no number", shown(word)))?;
    Ok(Sample { nanos: unit.nanos(number)?, censored })
}

/// What somebody wrote, in quotes and not too long.
fn shown(word: &str) -> String {
    let short: String = word.chars().take(40).collect();
    let rest = if short.len() < word.len() { "…" } else { "" };
    format!("{:?}", short + rest)
}

/// Lines that hold something, with their numbers from 1.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(at, line)| (at + 1, line.trim()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// The same, and how far they are is told at times.
fn told<'t>(text: &'t str, progress: &mut Progress<'_>) -> impl Iterator<Item = (usize, &'t str)> {
    let start = text.as_ptr() as usize;
    lines(text).inspect(move |(number, line)| {
        if number.is_multiple_of(EVERY) {
            let read = line.as_ptr() as usize - start;
            progress(read as f64 / text.len().max(1) as f64);
        }
    })
}

/// Names that mean a duration, the surest first.
const NAMES: [&str; 16] = [
    "duration",
    "duration_ms",
    "duration_s",
    "duration_us",
    "duration_seconds",
    "seconds",
    "latency",
    "latency_ms",
    "latency_s",
    "elapsed",
    "elapsed_ms",
    "request_time",
    "response_time",
    "time_ms",
    "time_taken",
    "ms",
];

/// The unit that a column's name says.
fn unit_of(name: &str, otherwise: Unit) -> Unit {
    let name = name.to_ascii_lowercase();
    let ends = |words: &[&str]| {
        words.iter().any(|word| {
            name == *word || name.strip_suffix(word).is_some_and(|name| name.ends_with('_'))
        })
    };
    if ends(&["ms", "millis", "milliseconds"]) {
        Unit::Milliseconds
    } else if ends(&["us", "micros", "microseconds"]) {
        Unit::Microseconds
    } else if ends(&["s", "sec", "secs", "seconds"]) || name == "request_time" {
        Unit::Seconds
    } else {
        otherwise
    }
}

/// What to take from a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wanted<'w> {
    /// Unit of numbers that do not say theirs.
    pub unit: Unit,
    /// The CSV column or JSON member to take; `None`: one whose name means a duration.
    pub column: Option<&'w str>,
    /// Calls to this upstream alone, of an event log or a ledger; `None`: to all.
    pub upstream: Option<&'w str>,
}

/// Called with the share of the file that is read, 0 to 1.
pub type Progress<'a> = dyn FnMut(f64) + 'a;

/// Lines between two words about the progress.
const EVERY: usize = 10_000;

/// Reads the durations in `text`.
///
/// # Errors
/// The first line that is not what the file seems to hold, or line 1 of a file without durations;
/// an upstream that nothing in the file is about.
pub fn read(
    text: &str,
    wanted: Wanted<'_>,
    progress: &mut Progress<'_>,
) -> Result<Input, ReadError> {
    let Wanted { unit, column, upstream } = wanted;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Some((number, first)) = lines(text).next() else {
        return Err(ReadError { line: Some(1), what: "the file holds no duration".to_owned() });
    };
    let input = if first.starts_with(['{', '[']) && json::begins(first) {
        json::read(text, wanted, progress)
    } else if upstream.is_some() {
        let what = "--upstream is for Hedgerow's event log and its ledger; this is neither";
        return Err(ReadError { line: None, what: what.to_owned() });
    } else if nginx::looks_like(first) {
        nginx::read(told(text, progress))
    } else if csv::looks_like(first, column) {
        csv::read(first, told(text, progress), unit, column)
    } else {
        plain::read(told(text, progress), unit)
    }?;
    if input.samples.is_empty() {
        let (line, what) = match (input.failed, upstream) {
            (0, None) => (Some(number), "the file holds no duration".to_owned()),
            (0, Some(name)) => (None, no_call_to(name, &json::upstreams(text))),
            (failed, _) => (None, format!("none of the {failed} calls in the file succeeded")),
        };
        return Err(ReadError { line, what });
    }
    Ok(input)
}

/// That nothing in the file is about that upstream, and what is in it instead.
fn no_call_to(name: &str, there: &BTreeSet<String>) -> String {
    const MOST: usize = 20;
    let mut names = there.iter().take(MOST).map(|name| shown(name)).collect::<Vec<_>>().join(", ");
    if there.len() > MOST {
        names.push_str(&format!(" and {} more", there.len() - MOST));
    }
    let here = match there.len() {
        0 => "no call to any upstream".to_owned(),
        _ => format!("calls to {names}"),
    };
    format!("--upstream {}: the file holds {here}", shown(name))
}

#[cfg(test)]
mod tests;
