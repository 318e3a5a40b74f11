//! An nginx access log that holds `$request_time`, seconds with three places.
//!
//! A label before it (`rt=`, `request_time=`) is found anywhere in the line; without one, the last
//! number of the form `0.123` is taken, which is where most formats that add the time put it.
//! Lines with a status of 500 or more (499 too: the client left) are failures.

use super::{Input, ReadError, Unit};
use crate::planner::trace::Sample;

const LABELS: [&str; 4] = ["request_time=", "rt=", "request_time:", "rt:"];

/// `… [30/Nov/2029:03:05:00 +0000] "GET / HTTP/1.1" 200 …`
pub(super) fn looks_like(first: &str) -> bool {
    let Some((_, rest)) = first.split_once('[') else { return false };
    let Some((time, rest)) = rest.split_once(']') else { return false };
    time.matches(':').count() >= 3 && rest.contains('"')
}

pub(super) fn read<'t>(lines: impl Iterator<Item = (usize, &'t str)>) -> Result<Input, ReadError> {
    let mut samples = Vec::new();
    let mut failed = 0;
    for (line, row) in lines {
        let error = |what: String| ReadError { line: Some(line), what };
        let word = time(row).ok_or_else(|| {
            error("no $request_time in this line; it looks like 0.123 or rt=0.123".to_owned())
        })?;
        let seconds: f64 = word.parse().map_err(|_| error(format!("{word} is no number")))?;
        let nanos = Unit::Seconds.nanos(seconds).map_err(error)?;
        if status(row).is_some_and(|status| status >= 499) {
            failed += 1;
        } else {
            samples.push(Sample { nanos, censored: false });
        }
    }
    Ok(Input { samples, failed, source: "nginx log, $request_time".to_owned() })
}

fn words(row: &str) -> impl DoubleEndedIterator<Item = &str> {
    row.split([' ', '\t', ',']).map(|word| word.trim_matches(['"', '\'']))
}

fn time(row: &str) -> Option<&str> {
    let labelled = words(row).find_map(|word| {
        let value = LABELS.iter().find_map(|label| word.strip_prefix(label))?;
        Some(value.trim_matches('"')).filter(|value| !value.is_empty())
    });
    labelled.or_else(|| words(row).rev().find(|word| is_time(word)))
}

/// Digits, a point, three digits.
fn is_time(word: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    word.split_once('.').is_some_and(|(whole, rest)| {
        digits(whole.strip_prefix('-').unwrap_or(whole)) && digits(rest) && rest.len() == 3
    })
}

/// The number after the quoted request.
fn status(row: &str) -> Option<u16> {
    let (_, rest) = row.split_once(']')?;
    let (_, rest) = rest.split_once('"')?;
    let (_, rest) = rest.split_once('"')?;
    rest.split_whitespace().next()?.parse().ok()
}
