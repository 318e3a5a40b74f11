//! NDJSON, Hedgerow's event log, and its ledger (`GET /admin/usage`).
//!
//! Of an event log, the `upstream.call` events count, which are lines of the ledger; where there are
//! none, the `http.request` events. `--upstream` takes one upstream's calls, `--column` a member of
//! whatever events have it. Of the ledger, the attempts count: each is a call of its own, from its
//! start to its end. An attempt that was cancelled lasted at least that long (it is censored); one
//! that failed is a failure.

use super::{Input, NAMES, Progress, ReadError, Unit, Wanted, sample, shown, told, unit_of};
use crate::planner::trace::Sample;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

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

pub(super) fn read(
    text: &str,
    wanted: Wanted<'_>,
    progress: &mut Progress<'_>,
) -> Result<Input, ReadError> {
    let Wanted { unit, column, upstream } = wanted;
    let whole = text.trim_start();
    // A log of many lines is no document: its first line is.
    if whole.lines().next().is_none_or(|first| serde_json::from_str::<Value>(first).is_err())
        && let Ok(Value::Object(document)) = serde_json::from_str::<Value>(whole)
        && let Some(Value::Array(keys)) = document.get("recent")
    {
        return usage(keys, upstream);
    }
    let mut calls = Input { samples: Vec::new(), failed: 0, source: String::new() };
    let mut requests = calls.clone();
    for (line, row) in told(text, progress) {
        let error = |what: String| ReadError { line: Some(line), what };
        let value: Value =
            serde_json::from_str(row).map_err(|e| error(format!("this is no JSON: {e}")))?;
        let Value::Object(object) = value else {
            return Err(error("expected an object in this line".to_owned()));
        };
        if let Some(Value::Array(keys)) = object.get("recent") {
            return usage(keys, upstream);
        }
        if upstream.is_some() && !is_of(&object, upstream) {
            continue;
        }
        // The event log says what each line is about.
        let kind = object.get("type").and_then(Value::as_str);
        if object.get("attempts").is_some_and(Value::is_array) && column.is_none() {
            attempts(&object, &mut calls).map_err(error)?;
            if calls.source.is_empty() {
                let source = kind.map_or("ledger", |_| "event log, upstream.call");
                calls.source = format!("{source}, attempts{}", named(upstream));
            }
            continue;
        }
        if kind.is_some_and(|kind| kind != "http.request") && column.is_none() {
            continue;
        }
        let (name, value) = match member(&object, column) {
            Err(_) if kind.is_some() && column.is_some() => continue,
            found => found.map_err(error)?,
        };
        let sample = number(name, value, unit).map_err(error)?;
        if failed(&object) {
            requests.failed += 1;
            continue;
        }
        if requests.source.is_empty() {
            let kind = kind.map_or("NDJSON", |_| "event log, http.request");
            requests.source = format!("{kind}, member {name}");
        }
        requests.samples.push(sample);
    }
    let called = calls.failed > 0 || !calls.samples.is_empty();
    Ok(if called { calls } else { requests })
}

/// The upstreams that the file holds calls to.
pub(super) fn upstreams(text: &str) -> BTreeSet<String> {
    let whole = serde_json::from_str::<Value>(text.trim_start());
    let rows = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let rows: Vec<Value> = whole.map_or_else(|_| rows.collect(), |document| vec![document]);
    let keys = rows.iter().flat_map(|row| match row.get("recent").and_then(Value::as_array) {
        Some(keys) => keys.as_slice(),
        None => std::slice::from_ref(row),
    });
    // Events that are about a call and are none have a type, and no attempts.
    let is_call = |row: &&Value| row.get("type").is_none() || row.get("attempts").is_some();
    let calls = keys.filter(is_call);
    let names = calls.filter_map(|call| call.get("upstream").and_then(Value::as_str));
    names.map(str::to_owned).collect()
}

/// What `GET /admin/usage` says of its newest keys.
fn usage(keys: &[Value], upstream: Option<&str>) -> Result<Input, ReadError> {
    let source = format!("ledger, attempts{}", named(upstream));
    let mut input = Input { samples: Vec::new(), failed: 0, source };
    for key in keys.iter().filter_map(Value::as_object).filter(|key| is_of(key, upstream)) {
        attempts(key, &mut input).map_err(|what| ReadError { line: Some(1), what })?;
    }
    Ok(input)
}

/// Whether a line or a key is about that upstream; any is, where none was named.
fn is_of(object: &Object, upstream: Option<&str>) -> bool {
    upstream.is_none_or(|name| object.get("upstream").and_then(Value::as_str) == Some(name))
}

fn named(upstream: Option<&str>) -> String {
    upstream.map_or_else(String::new, |name| format!(" of upstream {name}"))
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

/// The attempts of one key.
fn attempts(key: &Object, to: &mut Input) -> Result<(), String> {
    for attempt in key.get("attempts").and_then(Value::as_array).into_iter().flatten() {
        let time = |name: &str| attempt.get(name).and_then(Value::as_f64);
        let (Some(start), Some(end)) = (time("start_ms"), time("end_ms")) else { continue };
        let nanos = Unit::Milliseconds.nanos(end - start);
        let nanos = nanos.map_err(|what| format!("an attempt: {what}"))?;
        let outcome = attempt.get("outcome").and_then(Value::as_str).unwrap_or_default();
        if CUT_OFF.contains(&outcome) {
            to.samples.push(Sample { nanos, censored: true });
        } else if ANSWERED.contains(&outcome) {
            to.samples.push(Sample { nanos, censored: false });
        } else {
            to.failed += 1;
        }
    }
    Ok(())
}
