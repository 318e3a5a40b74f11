//! What a second held, and what the seconds add up to.

use super::{Scene, TROUBLE_AT};
use crate::chart::{Chart, Curve};
use crate::drill::report::{Cell, Table};
use std::time::Duration;

/// One second of one policy. Failures by their class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Second {
    pub(super) requests: u64,
    pub(super) answered: u64,
    pub(super) timeouts: u64,
    pub(super) exhausted: u64,
    pub(super) queue_full: u64,
    pub(super) queue_timeouts: u64,
    pub(super) kills: u64,
}

pub(super) const COLUMNS: [&str; 9] = [
    "policy",
    "second",
    "requests",
    "answered",
    "timeout",
    "worker_pool_exhausted",
    "worker_queue_full",
    "worker_queue_timeout",
    "kills",
];

impl Second {
    pub(super) fn cells(&self, policy: &str, at: usize) -> Vec<Cell> {
        let counts = [
            at as u64,
            self.requests,
            self.answered,
            self.timeouts,
            self.exhausted,
            self.queue_full,
            self.queue_timeouts,
            self.kills,
        ];
        let policy = std::iter::once(Cell::Text(policy.to_owned()));
        policy.chain(counts.into_iter().map(Cell::Count)).collect()
    }

    pub(super) fn failed(&self) -> u64 {
        self.timeouts + self.exhausted + self.queue_full + self.queue_timeouts
    }
}

/// What the seconds of a policy add up to.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Summary {
    pub(super) total: Second,
    pub(super) p50: Option<Duration>,
    pub(super) p99: Option<Duration>,
    pub(super) back: Option<u64>,
}

impl Summary {
    pub(super) const COLUMNS: [&str; 11] = [
        "policy",
        "requests",
        "answered",
        "timeout",
        "pool_exhausted",
        "queue_full",
        "queue_timeout",
        "kills",
        "p50",
        "p99",
        "back_after",
    ];

    pub(super) fn of(scene: &Scene, seconds: &[Second], mut waits: Vec<Duration>) -> Summary {
        let mut total = Second::default();
        for second in seconds {
            total.requests += second.requests;
            total.answered += second.answered;
            total.timeouts += second.timeouts;
            total.exhausted += second.exhausted;
            total.queue_full += second.queue_full;
            total.queue_timeouts += second.queue_timeouts;
            total.kills += second.kills;
        }
        waits.sort_unstable();
        let quantile = |share: f64| {
            let rank = (waits.len() as f64 * share).ceil() as usize;
            waits.get(rank.saturating_sub(1)).copied()
        };
        let whole = (scene.duration.as_secs() as usize).min(seconds.len());
        let trouble = (TROUBLE_AT.as_secs() as usize).min(whole);
        let back = back(&seconds[..trouble], &seconds[trouble..whole]);
        Summary { total, p50: quantile(0.5), p99: quantile(0.99), back }
    }

    pub(super) fn cells(&self, policy: &str) -> Vec<Cell> {
        let time = |time: Option<Duration>| {
            let millis = |time: Duration| format!("{:.0} ms", time.as_secs_f64() * 1000.0);
            time.map_or(Cell::Nothing, |time| Cell::Text(millis(time)))
        };
        let total = &self.total;
        let mut cells = vec![Cell::Text(policy.to_owned())];
        cells.extend(
            [
                total.requests,
                total.answered,
                total.timeouts,
                total.exhausted,
                total.queue_full,
                total.queue_timeouts,
                total.kills,
            ]
            .map(Cell::Count),
        );
        cells.extend([time(self.p50), time(self.p99)]);
        cells.push(self.back.map_or(Cell::Never, |back| Cell::Seconds(back as f64)));
        cells
    }
}

/// Seconds until the last one in which clearly more failed than used to; `None`: that was the end.
fn back(before: &[Second], after: &[Second]) -> Option<u64> {
    let sum = |what: fn(&Second) -> u64| before.iter().map(what).sum::<u64>();
    let usual = sum(Second::failed) as f64 / sum(|second| second.requests).max(1) as f64;
    // Twice the usual share, one in a hundred, and three that chance may add.
    let bad = |second: &Second| {
        second.failed() as f64 > (2.0 * usual + 0.01) * second.requests as f64 + 3.0
    };
    let last = after.iter().rposition(bad).map_or(0, |at| at + 1);
    (last < after.len()).then_some(last as u64)
}

type Results = [(&'static str, Vec<Second>, Summary)];

/// Seconds around the trouble.
pub(super) fn glimpse(scene: &Scene, results: &Results) -> Table {
    let (from, to) = (scene.trouble.0.as_secs(), scene.trouble.1.as_secs());
    let mut table = Table { columns: vec!["second"], rows: Vec::new() };
    table.columns.extend(results.iter().map(|(policy, ..)| *policy));
    let end = (to + 4).min(scene.duration.as_secs());
    let step = ((to - from) / 10).max(1);
    for at in (from.saturating_sub(2)..end)
        .filter(|at| *at < from || *at >= to || (at - from).is_multiple_of(step))
    {
        let mut row = vec![Cell::Count(at)];
        row.extend(results.iter().map(|(_, seconds, _)| {
            seconds.get(at as usize).map_or(Cell::Nothing, |second| Cell::Count(second.answered))
        }));
        table.rows.push(row);
    }
    table
}

pub(super) fn charts(scene: &Scene, results: &Results) -> Vec<Chart> {
    let chart = |title: &str, what: fn(&Second) -> u64| Chart {
        title: title.to_owned(),
        x: "seconds".to_owned(),
        y: "a second".to_owned(),
        curves: results
            .iter()
            .map(|(policy, seconds, _)| Curve {
                name: (*policy).to_owned(),
                points: seconds
                    .iter()
                    .enumerate()
                    .map(|(at, second)| (at as f64, what(second) as f64))
                    .collect(),
            })
            .collect(),
        mark: Some((
            scene.trouble.0.as_secs_f64(),
            scene.trouble.1.as_secs_f64(),
            "trouble".to_owned(),
        )),
    };
    vec![
        chart("Requests answered", |second| second.answered),
        chart("Requests failed", Second::failed),
    ]
}
