//! The reference of all metrics, made from the catalogue.

use super::catalogue::{Bound, Metric, PARTS};
use std::fmt::Write as _;

const HEAD: &str = "\
# Metrics

This page is made from the program: `hedgerow docs metrics > docs/metrics.md`.

`GET /metrics` at the admin address, as Prometheus reads it (OpenMetrics where it asks for that). A
histogram has the series `_bucket`, `_sum` and `_count`; its bounds go from 1 ms to 5 minutes. Names
keep their meaning; new ones may come. Labels are chosen by the program and its configuration, never by a
client, so there are as many series as there are upstreams, whatever is sent.

A dashboard for Grafana ([deploy/grafana/hedgerow.json](../deploy/grafana/hedgerow.json)) and alert
rules ([deploy/prometheus/alerts.yml](../deploy/prometheus/alerts.yml)) use these names and no others.
";

const BOUNDS: &str = "
## What is bounded, and how close it is

Everything that can grow has a limit. The first gauge divided by the second says how full it is.

| what | now | limit | set by | beyond it |
| --- | --- | --- | --- | --- |
";

/// `docs/metrics.md`
#[must_use]
pub fn metrics_reference() -> String {
    let mut out = HEAD.to_owned();
    for part in PARTS {
        let _ = writeln!(out, "\n## {}\n\n{}\n", part.title, part.about);
        out.push_str("| name | type | labels | |\n| --- | --- | --- | --- |\n");
        part.metrics.iter().for_each(|metric| row(metric, &mut out));
    }
    out.push_str(BOUNDS);
    PARTS.iter().flat_map(|part| part.bounds).for_each(|bound| bound_row(bound, &mut out));
    out
}

fn row(metric: &Metric, out: &mut String) {
    let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
    let (name, kind) = (metric.full_name(), metric.kind.name());
    let _ = writeln!(out, "| `{name}` | {kind} | {} | {} |", labels.join(" "), metric.help);
}

fn bound_row(bound: &Bound, out: &mut String) {
    let key = bound.set_by;
    let set_by = match key.split_once(['.', ' ']) {
        Some(_) if key.starts_with(char::is_lowercase) => match key.find([' ', ',']) {
            Some(at) => format!("`{}`{}", &key[..at], &key[at..]),
            None => format!("`{key}`"),
        },
        _ => format!("{key}, fixed"),
    };
    let beyond = bound.beyond.map_or_else(String::new, |m| format!("`{}`", m.full_name()));
    let (held, limit) = (bound.held.full_name(), bound.limit.full_name());
    let _ = writeln!(out, "| {} | `{held}` | `{limit}` | {set_by} | {beyond} |", bound.what);
}
