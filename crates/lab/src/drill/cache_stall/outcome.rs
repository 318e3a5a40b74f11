//! What a second held, and what the seconds add up to.

use super::{Model, STALL_AT};
use crate::chart::{Chart, Curve};
use crate::drill::report::{Cell, Table};

/// One second of one policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Second {
    pub(super) requests: u64,
    pub(super) hits: u64,
    pub(super) misses: u64,
    pub(super) sheds: u64,
    pub(super) cache_timeouts: u64,
    pub(super) db_arrivals: u64,
    pub(super) db_served: u64,
    pub(super) failed: u64,
    pub(super) repairs_tried: u64,
    pub(super) repairs_landed: u64,
    pub(super) repairs_refused: u64,
    pub(super) canaries: u64,
    /// Store calls a request waited for until their deadline. Not a column.
    pub(super) paid: u64,
}

/// The columns of the CSV.
pub(super) const COLUMNS: [&str; 14] = [
    "policy",
    "second",
    "requests",
    "hits",
    "misses",
    "sheds",
    "cache_timeouts",
    "db_arrivals",
    "db_served",
    "failed",
    "repairs_tried",
    "repairs_landed",
    "repairs_refused",
    "canaries",
];

impl Second {
    pub(super) fn cells(&self, policy: &str, at: usize) -> Vec<Cell> {
        let counts = [
            at as u64,
            self.requests,
            self.hits,
            self.misses,
            self.sheds,
            self.cache_timeouts,
            self.db_arrivals,
            self.db_served,
            self.failed,
            self.repairs_tried,
            self.repairs_landed,
            self.repairs_refused,
            self.canaries,
        ];
        let policy = std::iter::once(Cell::Text(policy.to_owned()));
        policy.chain(counts.into_iter().map(Cell::Count)).collect()
    }

    /// Requests that had to be served without the cache.
    pub(super) fn no_hit(&self) -> u64 {
        self.requests - self.hits
    }
}

/// What the seconds of a policy add up to.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Summary {
    /// Requests a second that are no hit, before the stall.
    pub(super) baseline: f64,
    pub(super) failed: u64,
    /// Failed in the worst sixty seconds in a row.
    pub(super) worst_minute: u64,
    /// Most queries a second that came to the database.
    pub(super) peak_db: u64,
    /// Seconds from the stall's start until things are as before, and stay so for ten.
    pub(super) back: Option<u64>,
    /// Store calls that requests waited for until their deadline.
    pub(super) paid: u64,
    /// Saves tried while the circuit was open, and those that landed.
    pub(super) repairs: (u64, u64),
}

/// "As before": not more than this times the baseline.
const NORMAL: f64 = 1.25;

/// For so many seconds in a row.
const LASTING: usize = 10;

impl Summary {
    pub(super) const COLUMNS: [&str; 9] = [
        "policy",
        "baseline_misses",
        "failed",
        "worst_minute",
        "peak_db_arrivals",
        "back_after",
        "timeouts_paid",
        "repairs_tried",
        "repairs_landed",
    ];

    pub(super) fn of(model: &Model, seconds: &[Second]) -> Summary {
        let stall = STALL_AT.as_secs() as usize;
        let before = &seconds[..stall.min(seconds.len())];
        let no_hits: u64 = before.iter().map(Second::no_hit).sum();
        let baseline = no_hits as f64 / before.len().max(1) as f64;
        let sum = |what: fn(&Second) -> u64| seconds.iter().map(what).sum::<u64>();
        let failed: Vec<u64> = seconds.iter().map(|second| second.failed).collect();
        let minute = failed.len().min(60);
        // The last second may be a part of one.
        let whole = model.duration.as_secs() as usize;
        let after = &seconds[stall.min(whole)..whole];
        let normal = |second: &Second| second.no_hit() as f64 <= NORMAL * baseline;
        let back = after.windows(LASTING).position(|ten| ten.iter().all(normal));
        Summary {
            baseline,
            failed: failed.iter().sum(),
            worst_minute: failed
                .windows(minute)
                .map(|minute| minute.iter().sum())
                .max()
                .unwrap_or(0),
            peak_db: seconds.iter().map(|second| second.db_arrivals).max().unwrap_or(0),
            back: back.map(|at| at as u64),
            paid: sum(|second| second.paid),
            repairs: (sum(|second| second.repairs_tried), sum(|second| second.repairs_landed)),
        }
    }

    pub(super) fn cells(&self, policy: &str) -> Vec<Cell> {
        vec![
            Cell::Text(policy.to_owned()),
            Cell::Number(self.baseline.round()),
            Cell::Count(self.failed),
            Cell::Count(self.worst_minute),
            Cell::Count(self.peak_db),
            self.back.map_or(Cell::Never, |back| Cell::Seconds(back as f64)),
            Cell::Count(self.paid),
            Cell::Count(self.repairs.0),
            Cell::Count(self.repairs.1),
        ]
    }
}

type Results = [(&'static str, Vec<Second>, Summary)];

/// The seconds that tell the story: every one around the stall, then fewer and fewer.
pub(super) fn glimpse(model: &Model, results: &Results) -> Table {
    let stall = STALL_AT.as_secs();
    let over = stall + model.stall.as_secs_f64().ceil() as u64;
    let end = model.duration.as_secs();
    let close = (stall.saturating_sub(2)..=over + 4)
        .chain((over + 5)..over + 30)
        .filter(|at| *at <= over + 4 || (at - over).is_multiple_of(5));
    let far = (over + 30..end).filter(|at| (at - over).is_multiple_of(30)).take(4);
    let later = (over + 180..end).filter(|at| (at - over).is_multiple_of(180));
    let mut table = Table { columns: vec!["second"], rows: Vec::new() };
    table.columns.extend(results.iter().map(|(policy, ..)| *policy));
    for at in close.chain(far).chain(later).filter(|at| *at < end) {
        let mut row = vec![Cell::Count(at)];
        row.extend(results.iter().map(|(_, seconds, _)| {
            seconds.get(at as usize).map_or(Cell::Nothing, |second| Cell::Count(second.no_hit()))
        }));
        table.rows.push(row);
    }
    table
}

/// What to read out of it: the two findings, where this run shows them.
pub(super) fn notes(results: &Results) -> Vec<String> {
    let of = |name: &str| results.iter().find(|(policy, ..)| *policy == name).map(|r| &r.2);
    let mut notes = vec![format!(
        "back after: seconds from the stall's start until requests that are no hit stay within \
         {NORMAL} × baseline for {LASTING} s."
    )];
    // Counts of a Poisson stream differ by chance: three standard deviations.
    let baseline = results.first().map_or(0.0, |result| result.2.baseline);
    if (NORMAL - 1.0) * baseline < 3.0 * baseline.sqrt() {
        notes.push(format!(
            "A baseline of {baseline:.0} a second is small: what is within {NORMAL} of it is partly \
             chance. A higher --rate shows more."
        ));
    }
    if let (Some(plain), Some(strict)) = (of("plain"), of("strict"))
        && strict.repairs.1 == 0
        && plain.repairs.1 == 0
    {
        notes.push(
            "strict is no better than plain here: the stall that opened the circuit also failed its \
             first repair."
                .to_owned(),
        );
        if let Some(canary) = of("canary") {
            notes.push(match canary.repairs.1 {
                0 => "canary opened the gate again, but nothing came to repair with: the database \
                      had collapsed, and no answer was in time to be saved. Late fills and an early \
                      end are what full adds."
                    .to_owned(),
                landed => format!(
                    "canary opened the gate again: {} repairs landed.",
                    crate::text::thousands(landed)
                ),
            });
        }
    }
    if let (Some(control), Some(full)) = (of("none+late"), of("full"))
        && control.back.is_some()
        && full.back.is_some()
    {
        notes.push(format!(
            "On database load alone none+late does as well as full. What the breaker buys is the \
             callers' time: {} store calls waited for until their deadline against {}.",
            crate::text::thousands(control.paid),
            crate::text::thousands(full.paid)
        ));
    }
    notes
}

/// The curves: requests without a hit, failures, and the database's load.
pub(super) fn charts(model: &Model, results: &Results) -> Vec<Chart> {
    let stall = STALL_AT.as_secs_f64();
    let shown = stall + model.stall.as_secs_f64() + 114.0;
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
                    .filter(|(at, _)| *at >= stall - 20.0 && *at <= shown)
                    .collect(),
            })
            .collect(),
        mark: Some((stall, stall + model.stall.as_secs_f64(), "stall".to_owned())),
    };
    vec![
        chart("Requests that were no hit", Second::no_hit),
        chart("Failed requests", |second| second.failed),
        chart("Queries that came to the database", |second| second.db_arrivals),
    ]
}
