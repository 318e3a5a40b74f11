//! The calls of a request, with each attempt.

use super::event::{Attempt, Event};
use super::print::ms;
use serde::Serialize;

/// Calls that are told one by one; the rest is counted.
const TOLD: usize = 6;

/// One call.
#[derive(Debug, Serialize)]
pub(crate) struct Call {
    pub(crate) upstream: String,
    pub(crate) key: Option<String>,
    pub(crate) method: Option<String>,
    /// Since the request came.
    pub(crate) start_ms: f64,
    pub(crate) duration_ms: f64,
    pub(crate) hedged_after_ms: Option<f64>,
    pub(crate) retries: usize,
    /// Whose success it is; none: it failed.
    pub(crate) winner: Option<String>,
    pub(crate) attempts: Vec<Attempt>,
}

impl Call {
    pub(crate) fn of(event: Event, start: f64) -> Call {
        let attempts = event.attempts();
        Call {
            start_ms: (event.began() - start).max(0.0),
            upstream: event.upstream.unwrap_or_default(),
            key: event.key,
            method: event.method,
            duration_ms: event.duration_ms,
            hedged_after_ms: event.hedged_after_ms,
            retries: attempts.iter().filter(|attempt| attempt.role == "retry").count(),
            winner: event.winner,
            attempts,
        }
    }

    fn is_plain(&self) -> bool {
        self.winner.is_some() && self.attempts.len() == 1
    }

    /// What there is to say of it in one line, and of its attempts in one line each.
    pub(crate) fn told(&self) -> (String, Vec<String>) {
        let key = self.key.as_ref().map(|key| format!(" for {key:?}")).unwrap_or_default();
        let mut text = format!("{}{key}", self.upstream);
        if self.attempts.is_empty() {
            text.push_str(": not called, every endpoint was shed");
            return (text, Vec::new());
        }
        text.push_str(&match &self.winner {
            Some(_) if self.is_plain() => {
                let attempt = &self.attempts[0];
                let whole = attempt.end_ms.filter(|end| *end > self.duration_ms + 1.0);
                let whole = whole.map(|end| format!(", all of it after {}", ms(end)));
                let whole = whole.unwrap_or_default();
                format!(": {} after {}{whole}", status(attempt), ms(self.duration_ms))
            }
            Some(winner) => format!(": the {winner} answered after {}", ms(self.duration_ms)),
            None => format!(": no success after {}", ms(self.duration_ms)),
        });
        if let Some(after) = self.hedged_after_ms {
            text.push_str(&format!(", hedged after {}", ms(after)));
        }
        if self.retries > 0 {
            text.push_str(&format!(", {} retried", self.retries));
        }
        let lines = if self.is_plain() { Vec::new() } else { self.attempts() };
        (text, lines)
    }

    fn attempts(&self) -> Vec<String> {
        let roles = self.attempts.iter().map(|attempt| attempt.role.len()).max().unwrap_or(0);
        let lines = self.attempts.iter().map(|attempt| {
            let first = match attempt.first_data_ms {
                Some(at) => format!("first data at {}", ms(at)),
                None => "no data".to_owned(),
            };
            let end = attempt.end_ms.map(|at| format!(", end at {}", ms(at))).unwrap_or_default();
            let outcome = match (attempt.outcome.as_str(), &attempt.error) {
                ("lost", _) => "superseded".to_owned(),
                ("failed", Some(error)) => format!("failed: {error}"),
                (outcome, _) => outcome.to_owned(),
            };
            let status = attempt.status.map(|s| format!(", {s}")).unwrap_or_default();
            format!(
                "{:roles$}  {}  start {}, {first}{end}{status}: {outcome}",
                attempt.role,
                attempt.endpoint,
                ms(attempt.start_ms),
            )
        });
        lines.collect()
    }
}

fn status(attempt: &Attempt) -> String {
    attempt.status.map_or_else(|| attempt.outcome.clone(), |status| status.to_string())
}

/// Which calls are told one by one: those that were hedged, retried or failed, then the slowest, in
/// the order of their begin; and how many are not.
pub(crate) fn chosen(calls: &[Call]) -> (Vec<&Call>, usize) {
    let mut order: Vec<&Call> = calls.iter().collect();
    let weight = |call: &Call| (call.is_plain(), -call.duration_ms);
    order.sort_by(|a, b| {
        let (a, b) = (weight(a), weight(b));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
    let rest = order.len().saturating_sub(TOLD);
    order.truncate(TOLD);
    order.sort_by(|a, b| a.start_ms.total_cmp(&b.start_ms));
    (order, rest)
}
