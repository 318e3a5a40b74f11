//! The cache-stall incident: a cache stalls for some seconds, and what the policy in front of it
//! makes of that.
//!
//! The world: keys asked for by Zipf(1.0) in a Poisson stream; a cache whose entries live `ttl`;
//! a store that answers nothing from t = 100 s on for `stall`; a database that serves `mu` queries a
//! second, one after the other, from a bounded line, and does the work even for callers who have
//! left. The decisions are those of [`hedgerow_policy::guard::Guard`], of
//! [`hedgerow_policy::breaker::Breaker`] for `plain`, and of
//! [`hedgerow_policy::single_flight::SingleFlight`] for who fetches.
//!
//! A save that its caller gave up on is executed when the store wakes, as real stores do. Only the
//! guard's connection is replaced once it has been silent for the liveness timeout: then such saves
//! are ended at the store, and their keys, being in doubt, are removed.
//!
//! What it leaves out: evictions, purges, more than one connection, and the time a caller spends on
//! anything but waiting.

mod gate;
mod outcome;
mod tape;
mod world;

#[cfg(test)]
mod tests;

use super::report::{Cell, Report, Table};
use super::{Drill, DrillError, Progress, Request};
use hedgerow_policy::guard::GuardSettings;
use outcome::{Second, Summary};
use std::time::Duration;

pub(crate) static DRILL: Drill = Drill {
    name: "cache-stall",
    about: "a cache stalls for seconds; what its breaker does to the database",
    policies: &[
        ("none", "no breaker: a deadline of 100 ms and nothing else"),
        ("none+late", "no breaker; coalescing, late fills, a database queue of 200 (the control)"),
        ("plain", "the bare breaker: sheds reads and writes for its open time"),
        ("strict", "repair while open; the first failed repair ends the episode's attempts"),
        ("canary", "strict, and a canary re-opens the gate when the store answers"),
        ("port", "canary, and three good ones end the episode: what the RESP port does alone"),
        ("full", "port with coalescing, late fills and a database queue of 200"),
        ("plain+late", "plain with coalescing, late fills and a database queue of 200"),
        ("strict+late", "strict with the same"),
        ("canary+late", "canary with the same"),
    ],
    shown: 7,
    flags: &["mu", "stall", "rate", "keys", "ttl", "line", "open", "duration"],
    run,
};

/// When the store stalls.
pub(crate) const STALL_AT: Duration = Duration::from_secs(100);

/// Queries that the database's line holds: for longer than a caller waits, so that it works for some
/// who have left.
const LINE: usize = 600;

/// The same with policies that bound it: nobody waits in vain.
const BOUNDED_LINE: usize = 200;

/// Arrivals a drill may have: what fits in memory on any machine.
const MOST: f64 = 30e6;

/// The model's figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Queries a second that the database serves.
    pub mu: f64,
    /// How long the store stalls.
    pub stall: Duration,
    /// Requests a second.
    pub rate: f64,
    /// Number of keys.
    pub keys: u32,
    /// How long an entry lives.
    pub ttl: Duration,
    /// Length of the drill.
    pub duration: Duration,
    /// Queries the database's line holds, where nothing bounds it further.
    pub line: usize,
    /// The same for policies that bound it.
    pub bounded_line: usize,
    /// How long a caller waits for the database.
    pub patience: Duration,
    /// How long the store takes for an answer.
    pub latency: Duration,
    /// The guard's settings; its canary is the policy's to leave out.
    pub guard: GuardSettings,
    /// Those of the policy `yours`, canary and all.
    pub yours: Option<GuardSettings>,
}

impl Model {
    /// The incident's figures, with changes.
    ///
    /// # Errors
    /// A model that cannot be played.
    pub fn new(request: &Request) -> Result<Model, DrillError> {
        let changes = &request.changes;
        let mut guard = GuardSettings::default();
        if let Some(open) = changes.open {
            guard.breaker.open = open;
        }
        let model = Model {
            mu: changes.mu.unwrap_or(400.0),
            stall: changes.stall.unwrap_or(Duration::from_secs(6)),
            rate: changes.rate.unwrap_or(2_000.0),
            keys: u32::try_from(changes.keys.unwrap_or(20_000))
                .ok()
                .filter(|&keys| (1..=10_000_000).contains(&keys))
                .ok_or_else(|| DrillError::new("--keys is 1 to 10000000"))?,
            ttl: changes.ttl.unwrap_or(Duration::from_secs(60)),
            duration: changes.duration.unwrap_or(Duration::from_secs(700)),
            line: changes.line.unwrap_or(LINE),
            bounded_line: changes.line.unwrap_or(BOUNDED_LINE),
            patience: Duration::from_secs(1),
            latency: Duration::from_millis(1),
            guard,
            yours: request.yours.as_ref().map(|yours| yours.guard),
        };
        model.check()
    }

    fn check(self) -> Result<Model, DrillError> {
        let least = STALL_AT + self.stall + Duration::from_secs(20);
        if self.duration < least {
            return Err(DrillError::new(format!(
                "--duration has to be {} s at least: the stall begins after {} s, and what follows is \
                 the point",
                least.as_secs_f64().ceil(),
                STALL_AT.as_secs()
            )));
        }
        if self.rate * self.duration.as_secs_f64() > MOST {
            return Err(DrillError::new(format!(
                "--rate times --duration is {:.0} requests; a drill has {MOST} at most",
                self.rate * self.duration.as_secs_f64()
            )));
        }
        if !(0.001..=1e9).contains(&self.mu) {
            return Err(DrillError::new("--mu is 0.001 to 1000000000 queries a second"));
        }
        if self.ttl.is_zero() || self.stall.is_zero() || self.guard.breaker.open.is_zero() {
            return Err(DrillError::new("--ttl, --stall and --open are more than 0"));
        }
        Ok(self)
    }
}

fn run(
    request: &Request,
    policies: &[&'static str],
    progress: &mut Progress<'_>,
) -> Result<Report, DrillError> {
    let model = Model::new(request)?;
    let tape = tape::Tape::record(&model, request.seed);
    let mut results: Vec<(&'static str, Vec<Second>, Summary)> = Vec::new();
    for &policy in policies {
        let rules = gate::Rules::of(policy);
        let seconds =
            world::World::new(&model, &tape, rules)?.run(&mut |share| progress(policy, share));
        let summary = Summary::of(&model, &seconds);
        results.push((policy, seconds, summary));
    }
    Ok(report(request, &model, &results))
}

fn report(
    request: &Request,
    model: &Model,
    results: &[(&'static str, Vec<Second>, Summary)],
) -> Report {
    let seconds = |time: Duration| Cell::Seconds(time.as_secs_f64());
    let changed = !matches!((model.line, model.bounded_line), (LINE, BOUNDED_LINE));
    let changed_line = changed.then_some(("line", Cell::Count(model.line as u64)));
    let mut details = Table { columns: outcome::COLUMNS.to_vec(), rows: Vec::new() };
    for (policy, rows, _) in results {
        let row = |(at, second): (usize, &Second)| second.cells(policy, at);
        details.rows.extend(rows.iter().enumerate().map(row));
    }
    Report {
        drill: "cache-stall",
        seed: request.seed,
        model: [
            ("mu", Cell::Number(model.mu)),
            ("stall", seconds(model.stall)),
            ("rate", Cell::Number(model.rate)),
            ("keys", Cell::Count(u64::from(model.keys))),
            ("ttl", seconds(model.ttl)),
            ("open", seconds(model.guard.breaker.open)),
            ("duration", seconds(model.duration)),
        ]
        .into_iter()
        .chain(changed_line)
        .collect(),
        glimpse: Some((
            "requests that were no hit, by second (every second and column: --csv)".to_owned(),
            outcome::glimpse(model, results),
        )),
        summary: Table {
            columns: Summary::COLUMNS.to_vec(),
            rows: results.iter().map(|(policy, _, summary)| summary.cells(policy)).collect(),
        },
        notes: outcome::notes(results),
        details,
        charts: outcome::charts(model, results),
    }
}
