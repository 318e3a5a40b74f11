//! A pool of workers under trouble, through [`hedgerow_policy::pool::Pool`]: `worker-hang` and
//! `queue-overload`.
//!
//! The world: a Poisson stream of requests; workers that take 10 to 30 ms for one, and 200 ms to
//! boot. In `worker-hang` one request in ten needs a service that hangs for a while; in
//! `queue-overload` twice as many requests come for a while as the workers can answer. A caller waits
//! five seconds. What it leaves out: bodies, streams, crashes, and the callers' own retries.

mod outcome;
mod world;

#[cfg(test)]
mod tests;

use super::report::{Cell, Report, Table};
use super::{Drill, DrillError, PoolSettings, Progress, Request};
use hedgerow_policy::queue::QueueConfig;
use outcome::{Second, Summary};
use std::time::Duration;

pub(crate) static WORKER_HANG: Drill = Drill {
    name: "worker-hang",
    about: "a service that one request in ten needs hangs; how many workers hang with it",
    policies: &[
        ("wait", "no read timeout: a worker waits as long as the service does"),
        ("timeout-3s", "a worker that says nothing for 3 s is killed and replaced"),
        ("timeout-300ms", "the same after 300 ms"),
        ("timeout-3s+queue", "3 s, and a queue of 64 that waits 500 ms"),
        (
            "plan",
            "3 s and the queue, and the slow part is a plan: the worker is free in milliseconds",
        ),
    ],
    shown: 5,
    flags: &["stall", "rate", "duration"],
    run: hang,
};

pub(crate) static QUEUE_OVERLOAD: Drill = Drill {
    name: "queue-overload",
    about: "twice the requests that the workers can answer; what the queue does with them",
    policies: &[
        ("no-queue", "a request that finds no idle worker is refused at once"),
        ("queue-16", "16 may wait, 500 ms at most"),
        ("queue-64", "64 may wait, 500 ms at most"),
        ("queue-1000", "1000 may wait, as long as their callers do"),
    ],
    shown: 4,
    flags: &["stall", "rate", "duration"],
    run: overload,
};

/// When the trouble begins.
const TROUBLE_AT: Duration = Duration::from_secs(20);

/// Requests a drill may have.
const MOST: f64 = 5e6;

/// The world's figures, but for the policy.
#[derive(Clone, Debug)]
pub(super) struct Scene {
    pub(super) workers: u32,
    pub(super) rate: f64,
    pub(super) duration: Duration,
    /// From when to when there is trouble.
    pub(super) trouble: (Duration, Duration),
    /// Share of requests that need the service which hangs in that time.
    pub(super) hanging: f64,
    /// How many times the rate arrives in that time.
    pub(super) surge: f64,
    /// How long a caller waits.
    pub(super) patience: Duration,
    pub(super) boot: Duration,
}

/// What a policy's name stands for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) queue: QueueConfig,
    pub(super) read_timeout: Option<Duration>,
    /// The worker hands the slow part back and is free.
    pub(super) plan: bool,
}

const QUEUE: QueueConfig = queue(64, 500);

const fn queue(capacity: usize, millis: u64) -> QueueConfig {
    QueueConfig { capacity, timeout: Duration::from_millis(millis) }
}

impl Rules {
    fn of(policy: &str, yours: Option<PoolSettings>) -> Rules {
        if let Some(yours) = yours.filter(|_| policy == "yours") {
            let read_timeout = Some(yours.read_timeout);
            return Rules { queue: yours.queue, read_timeout, plan: false };
        }
        let short = Some(Duration::from_millis(300));
        let usual = Some(Duration::from_secs(3));
        let rules = |queue, read_timeout, plan| Rules { queue, read_timeout, plan };
        match policy {
            "wait" => rules(QueueConfig::NONE, None, false),
            "timeout-300ms" => rules(QueueConfig::NONE, short, false),
            "timeout-3s+queue" | "queue-64" => rules(QUEUE, usual, false),
            "plan" => rules(QUEUE, usual, true),
            "queue-16" => rules(queue(16, 500), usual, false),
            "queue-1000" => rules(queue(1_000, 60_000), usual, false),
            _ => rules(QueueConfig::NONE, usual, false),
        }
    }
}

fn scene(request: &Request, rate: f64, stall: u64) -> Result<Scene, DrillError> {
    let changes = &request.changes;
    let yours = request.yours.as_ref().map(|yours| yours.pool);
    // All policies have the workers of the configuration, and so the same capacity.
    let workers = yours.map_or(4, |pool| pool.size).clamp(1, 10_000);
    let rate = rate / 4.0 * f64::from(workers);
    let stall = changes.stall.unwrap_or(Duration::from_secs(stall));
    let duration = changes.duration.unwrap_or(Duration::from_secs(60));
    let rate = changes.rate.unwrap_or(rate);
    if duration < TROUBLE_AT + stall {
        return Err(DrillError::new(format!(
            "--duration has to be {} s at least: the trouble begins after {} s",
            (TROUBLE_AT + stall).as_secs_f64().ceil(),
            TROUBLE_AT.as_secs()
        )));
    }
    if rate * duration.as_secs_f64() > MOST {
        return Err(DrillError::new(format!(
            "--rate times --duration is too many requests; a drill has {MOST} at most"
        )));
    }
    Ok(Scene {
        workers,
        rate,
        duration,
        trouble: (TROUBLE_AT, TROUBLE_AT + stall),
        hanging: 0.0,
        surge: 1.0,
        patience: yours.map_or(Duration::from_secs(5), |pool| pool.request_timeout),
        boot: Duration::from_millis(200),
    })
}

fn hang(
    request: &Request,
    policies: &[&'static str],
    progress: &mut Progress<'_>,
) -> Result<Report, DrillError> {
    let scene = Scene { hanging: 0.1, ..scene(request, 100.0, 10)? };
    Ok(play("worker-hang", request, &scene, policies, progress))
}

fn overload(
    request: &Request,
    policies: &[&'static str],
    progress: &mut Progress<'_>,
) -> Result<Report, DrillError> {
    let mut scene = scene(request, 400.0, 10)?;
    // The rate is that of the surge; before and after it is half of what the workers can answer.
    (scene.rate, scene.surge) = (scene.rate / 4.0, 4.0);
    Ok(play("queue-overload", request, &scene, policies, progress))
}

fn play(
    drill: &'static str,
    request: &Request,
    scene: &Scene,
    policies: &[&'static str],
    progress: &mut Progress<'_>,
) -> Report {
    let tape = world::record(scene, request.seed);
    let mut results: Vec<(&'static str, Vec<Second>, Summary)> = Vec::new();
    for (at, &policy) in policies.iter().enumerate() {
        progress(policy, at as f64 / policies.len() as f64);
        let rules = Rules::of(policy, request.yours.as_ref().map(|yours| yours.pool));
        let (seconds, waits) = world::World::new(scene, rules, request.seed).run(&tape);
        let summary = Summary::of(scene, &seconds, waits);
        results.push((policy, seconds, summary));
    }
    let mut details = Table { columns: outcome::COLUMNS.to_vec(), rows: Vec::new() };
    for (policy, seconds, _) in &results {
        let row = |(at, second): (usize, &Second)| second.cells(policy, at);
        details.rows.extend(seconds.iter().enumerate().map(row));
    }
    let time = |time: Duration| Cell::Seconds(time.as_secs_f64());
    Report {
        drill,
        seed: request.seed,
        model: vec![
            ("workers", Cell::Count(u64::from(scene.workers))),
            ("rate", Cell::Number(scene.rate)),
            ("surge", Cell::Number(scene.rate * scene.surge)),
            ("stall", time(scene.trouble.1 - scene.trouble.0)),
            ("duration", time(scene.duration)),
        ],
        glimpse: Some((
            "requests answered, by second (every second and column: --csv)".to_owned(),
            outcome::glimpse(scene, &results),
        )),
        summary: Table {
            columns: Summary::COLUMNS.to_vec(),
            rows: results.iter().map(|(policy, _, summary)| summary.cells(policy)).collect(),
        },
        notes: vec![
            "p50 and p99 are of answered requests that came in trouble; back after: seconds from its \
             start until no more fail than before it, for good."
                .to_owned(),
        ],
        details,
        charts: outcome::charts(scene, &results),
    }
}
