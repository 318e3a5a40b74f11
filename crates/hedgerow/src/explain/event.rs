//! One line of the event log, as far as a story needs it.
//!
//! Invariant: a line with fields that are not known, or without those that are, is read all the
//! same: logs of older and newer versions can be explained.

use serde::{Deserialize, Serialize};

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Event {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) ts: String,
    pub(crate) trace_id: Option<String>,
    pub(crate) request_id: Option<String>,
    pub(crate) method: Option<String>,
    pub(crate) path: Option<String>,
    pub(crate) route: Option<String>,
    pub(crate) remote_addr: Option<String>,
    pub(crate) protocol: Option<String>,
    /// A number for a request, words for a process that ended.
    pub(crate) status: serde_json::Value,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) duration_ms: f64,
    pub(crate) queue_wait_ms: Option<f64>,
    pub(crate) worker_id: Option<u32>,
    pub(crate) worker_pid: Option<u32>,
    pub(crate) receive_ms: Option<f64>,
    pub(crate) queue_ms: Option<f64>,
    pub(crate) worker_ms: Option<f64>,
    pub(crate) calls_ms: Option<f64>,
    pub(crate) send_ms: Option<f64>,
    pub(crate) stream_ms: Option<f64>,
    pub(crate) source_ms: Option<f64>,
    pub(crate) steps: Vec<Step>,
    pub(crate) stream: Option<String>,
    pub(crate) error_class: Option<String>,
    pub(crate) timeout_phase: Option<String>,
    pub(crate) error_message: Option<String>,
    pub(crate) worker_exception: Option<String>,
    pub(crate) upstream: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) age_ms: f64,
    pub(crate) winner: Option<String>,
    pub(crate) hedged_after_ms: Option<f64>,
    /// A list for a call, a number for a request.
    attempts: serde_json::Value,
    pub(crate) endpoint: Option<String>,
    pub(crate) pid: Option<u32>,
    pub(crate) reason: Option<String>,
    pub(crate) after_ms: f64,
    pub(crate) delay_ms: f64,
    pub(crate) name: Option<String>,
    pub(crate) from: Option<String>,
    pub(crate) to: Option<String>,
    pub(crate) gate: Option<String>,
    pub(crate) good: Option<bool>,
    pub(crate) again: bool,
    pub(crate) error: Option<String>,
    pub(crate) line: Option<String>,
}

/// A stage that a request entered.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Step {
    pub(crate) phase: String,
    pub(crate) at_ms: f64,
    pub(crate) worker_id: Option<u32>,
}

/// One attempt of a call.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Attempt {
    pub(crate) role: String,
    pub(crate) endpoint: String,
    pub(crate) start_ms: f64,
    pub(crate) first_data_ms: Option<f64>,
    pub(crate) end_ms: Option<f64>,
    pub(crate) outcome: String,
    pub(crate) status: Option<u16>,
    pub(crate) bytes: u64,
    pub(crate) error: Option<String>,
}

impl Event {
    /// The event of a line; `None` where it is none.
    pub(crate) fn read(line: &[u8]) -> Option<Event> {
        serde_json::from_slice(line).ok()
    }

    /// The attempts of a call.
    pub(crate) fn attempts(&self) -> Vec<Attempt> {
        Vec::<Attempt>::deserialize(&self.attempts).unwrap_or_default()
    }

    pub(crate) fn is(&self, kind: &str) -> bool {
        self.kind == kind
    }

    /// When it was written, in milliseconds since 1970.
    pub(crate) fn at(&self) -> f64 {
        unix_ms(&self.ts).unwrap_or(0.0)
    }

    /// When what it tells of began.
    pub(crate) fn began(&self) -> f64 {
        self.at() - if self.is("upstream.call") { self.age_ms } else { self.duration_ms }
    }

    pub(crate) fn has_id(&self, id: &str) -> bool {
        [&self.trace_id, &self.request_id].into_iter().flatten().any(|own| own == id)
    }

    /// The part of a request before a worker had it.
    pub(crate) fn before_work(&self) -> f64 {
        self.receive_ms.unwrap_or(0.0) + self.queue_ms.or(self.queue_wait_ms).unwrap_or(0.0)
    }
}

/// Milliseconds since 1970 of `2026-11-29T08:15:00.042Z`.
pub(crate) fn unix_ms(ts: &str) -> Option<f64> {
    let number = |from: usize, to: usize| ts.get(from..to)?.parse::<i64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let millis = number(20, 23)?;
    // Days since 1970 (Howard Hinnant, days_from_civil): years begin in March.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) as f64 * 1e3 + millis as f64)
}

/// The same the other way round, for people: `2026-11-29 08:15:00.042`.
pub(crate) fn stamp(unix_ms: f64) -> String {
    // Whole milliseconds, rounded down, as the log has them.
    let all = unix_ms.max(0.0).floor() as i64;
    let (days, of_day) = (all / 86_400_000, all % 86_400_000);
    // The civil date of a day (Howard Hinnant, civil_from_days).
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    let (hour, minute) = (of_day / 3_600_000, of_day / 60_000 % 60);
    let (second, millis) = (of_day / 1_000 % 60, of_day % 1_000);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{millis:03}")
}
