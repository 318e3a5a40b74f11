//! NDJSON, Hedgerow's event log, and its ledger (`GET /admin/usage`).
//!
//! Of an event log, the `http.request` events count, unless `--column` asks for another member. Of
//! the ledger, the attempts count: each is a call of its own, from its start to its end. An attempt
//! that was cancelled lasted at least that long (it is censored); one that failed is a failure.

use super::{Input, NAMES, ReadError, Unit, lines, sample, shown, unit_of};
use crate::planner::trace::Sample;
use serde_json::{Map, Value};

type Object = Map<String, Value>;

/// Whether the line is the beginning of JSON and not of something else with a bracket.
pub(super) fn begins(first: &str) -> bool {
    let mut rest = first[1..].trim_start().chars();
    matches!(rest.next(), None | Some('"' | '{' | '}' | ']'))
}

/// Outcomes of attempts that were cut off by somebody else's answer.
const CUT_OFF: [&str; 5] = ["cancelled", "superseded", "lost", "abandoned", "client_closed"];

/// Outcomes of attempts that answered.
const ANSWERED: [&str; 4] = ["ok", "won", "success", "late"];

pub(super) fn read(text: &str, unit: Unit, column: Option<&str>) -> Result<Input, ReadError> {
    if let Ok(Value::Object(document)) = serde_json::from_str::<Value>(text)
        && let Some(Value::Array(keys)) = document.get("recent")
    {
        return ledger(keys.iter().filter_map(Value::as_object), 1);
    }
    let mut input = Input { samples: Vec::new(), failed: 0, source: String::new() };
    for (line, row) in lines(text) {
        let error = |what: String| ReadError { line, what };
        let value: Value =
            serde_json::from_str(row).map_err(|e| error(format!("this is no JSON: {e}")))?;
        let Value::Object(object) = value else {
            return Err(error("expected an object in this line".to_owned()));
        };
        if object.get("attempts").is_some_and(Value::is_array) && column.is_none() {
            let found = ledger(std::iter::once(&object), line)?;
            input.samples.extend(found.samples);
            input.failed += found.failed;
            input.source = found.source;
            continue;
        }
        // The event log says what each line is about.
        let kind = object.get("type").and_then(Value::as_str);
        if kind.is_some_and(|kind| kind != "http.request") && column.is_none() {
            continue;
        }
        let (name, value) = member(&object, column).map_err(error)?;
        let sample = number(name, value, unit).map_err(error)?;
        if failed(&object) {
            input.failed += 1;
            continue;
        }
        if input.source.is_empty() {
            let kind = kind.map_or("NDJSON", |_| "event log, http.request");
            input.source = format!("{kind}, member {name}");
        }
        input.samples.push(sample);
    }
    Ok(input)
}

fn member<'a>(object: &'a Object, column: Option<&'a str>) -> Result<(&'a str, &'a Value), String> {
    let found = match column {
        Some(column) => {
            let inner = |value: Option<&'a Value>, name| value.and_then(|v: &Value| v.get(name));
            let mut names = column.split('.');
            let first = names.next().and_then(|name| object.get(name));
            names.fold(first, inner).map(|value| (column, value))
        }
        None => NAMES.iter().find_map(|&name| Some((name, object.get(name)?))),
    };
    found.ok_or_else(|| {
        let wanted = column.map_or_else(|| "for a duration".to_owned(), shown);
        format!("there is no member {wanted} in this line; name one with --column")
    })
}

fn number(name: &str, value: &Value, unit: Unit) -> Result<Sample, String> {
    let unit = unit_of(name.rsplit('.').next().unwrap_or(name), unit);
    match value {
        Value::Number(number) => {
            let number = number.as_f64().unwrap_or(f64::NAN);
            Ok(Sample { nanos: unit.nanos(number)?, censored: false })
        }
        Value::String(text) => sample(text, unit),
        _ => Err(format!("{name} is no number: {}", shown(&value.to_string()))),
    }
}

/// A status of 499 or more, or a class of failure.
fn failed(object: &Object) -> bool {
    let status = object.get("status").and_then(Value::as_u64);
    let class = object.get("error_class").and_then(Value::as_str);
    status.is_some_and(|status| status >= 499) || class.is_some_and(|class| !class.is_empty())
}

fn ledger<'a>(keys: impl Iterator<Item = &'a Object>, line: usize) -> Result<Input, ReadError> {
    let mut input = Input { samples: Vec::new(), failed: 0, source: "ledger, attempts".to_owned() };
    let attempts = keys.filter_map(|key| key.get("attempts")?.as_array()).flatten();
    for attempt in attempts {
        let time = |name: &str| attempt.get(name).and_then(Value::as_f64);
        let (Some(start), Some(end)) = (time("start_ms"), time("end_ms")) else { continue };
        let nanos = Unit::Milliseconds
            .nanos(end - start)
            .map_err(|what| ReadError { line, what: format!("an attempt: {what}") })?;
        let outcome = attempt.get("outcome").and_then(Value::as_str).unwrap_or_default();
        if CUT_OFF.contains(&outcome) {
            input.samples.push(Sample { nanos, censored: true });
        } else if ANSWERED.contains(&outcome) {
            input.samples.push(Sample { nanos, censored: false });
        } else {
            input.failed += 1;
        }
    }
    Ok(input)
}
