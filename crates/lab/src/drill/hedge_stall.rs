//! An itinerary of keyed calls to a service that is usually quick and now and then silent: what a
//! twin, or giving up and trying again, makes of the whole.
//!
//! The world: a build waits for N calls that start together; builds follow one another so that one
//! call starts every two seconds on average. A call takes 60 s and shows
//! progress every 10 s; one in twenty says nothing for `stall` and answers then, and so may its twin.
//! In the brown-out every call does. The races and the budget are those of
//! [`hedgerow_policy::hedge`].
//!
//! Checked against closed forms: of builds of N calls, 1 − 0.95^N meet a stall if nothing is done,
//! and 1 − (1 − 0.05²)^N if a silent call has one twin.

#[cfg(test)]
mod tests;

use super::calls::{Done, Script, Service, Step, Who, play};
use super::report::{Cell, Report, Table};
use super::{Drill, DrillError, Progress, Request, your_upstream};
use crate::chart::{Chart, Curve};
use crate::text::percent;
use hedgerow_policy::Moment;
use hedgerow_policy::budget::BudgetConfig;
use hedgerow_policy::endpoints::DemoteConfig;
use hedgerow_policy::hedge::{HedgeConfig, RaceConfig, RetryConfig, UpstreamConfig};
use hedgerow_policy::jitter::Jitter;
use std::sync::Arc;
use std::time::Duration;

pub(crate) static DRILL: Drill = Drill {
    name: "hedge-stall",
    about: "builds of N calls, one call in twenty silent for minutes; and a brown-out of all",
    policies: &[
        ("wait", "no limit, no twin"),
        ("timeout", "120 s without a sign, then another try, three at most; within the budget"),
        ("hedge", "a twin after 100 s, within the budget (10 % and 3 more)"),
        ("idle", "a twin after 30 s without progress, within the budget"),
        ("timeout+unlimited", "timeout without a budget"),
        ("hedge+unlimited", "hedge without a budget"),
        ("idle+unlimited", "idle without a budget"),
    ],
    shown: 7,
    flags: &["keys", "stall"],
    run,
};

const USUAL: Duration = Duration::from_secs(60);
const PROGRESS: Duration = Duration::from_secs(10);
const HEDGE_AFTER: Duration = Duration::from_secs(100);
const IDLE: Duration = Duration::from_secs(30);
const TIMEOUT: Duration = Duration::from_secs(120);
/// One attempt in so many stalls.
const ONE_IN: f64 = 20.0;
/// Calls of one run, in builds of whatever size.
const CALLS: usize = 20_000;
/// Between the calls of a run, on average.
const PACE: Duration = Duration::from_secs(2);
/// What a call costs.
const PRICE: f64 = 0.04;

/// Whether all is as usual but for the stalls, or everything is slow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Weather {
    Stalls,
    BrownOut,
}

/// An attempt's lot follows from its place, so that all policies meet the same.
struct Itinerary {
    seed: u64,
    weather: Weather,
    stall: Duration,
}

impl Itinerary {
    fn stalls(&self, who: Who) -> bool {
        let place = (who.call as u64) << 8 | u64::from(who.attempt);
        let lot = Jitter::new(self.seed ^ place.wrapping_mul(0x9e37_79b9_7f4a_7c15)).ratio();
        self.weather == Weather::BrownOut || lot < 1.0 / ONE_IN
    }
}

impl Service for Itinerary {
    fn sent(&mut self, _now: Moment, who: Who) -> Option<Script> {
        if self.stalls(who) {
            return Some([Step::Head, Step::Data, Step::End].map(|step| (self.stall, step)).into());
        }
        let mut script = vec![(PROGRESS, Step::Head)];
        let signs = (1..).map(|sign| PROGRESS * sign).take_while(|at| *at < USUAL);
        script.extend(signs.map(|at| (at, Step::Data)));
        script.push((USUAL, Step::End));
        Some(script)
    }

    fn ended(&mut self, _now: Moment, _who: Who) -> Option<(Who, Script)> {
        None
    }

    fn cancelled(&mut self, _who: Who) {}
}

fn upstream(policy: &str, yours: Option<&UpstreamConfig>) -> UpstreamConfig {
    if let Some(yours) = yours.filter(|_| policy == "yours") {
        return yours.clone();
    }
    let (name, limited) = match policy.strip_suffix("+unlimited") {
        Some(name) => (name, false),
        None => (policy, true),
    };
    let hedge = |after, idle| {
        Some(HedgeConfig { after, after_quantile: None, idle, ..HedgeConfig::default() })
    };
    let race = RaceConfig {
        hedge: match name {
            "hedge" => hedge(Some(HEDGE_AFTER), None),
            "idle" => hedge(None, Some(IDLE)),
            _ => None,
        },
        retry: RetryConfig { max: if name == "timeout" { 3 } else { 0 }, ..RetryConfig::default() },
        first_data_timeout: (name == "timeout").then_some(TIMEOUT),
        // A healthy call may be silent for minutes: nothing else ends it.
        connect_timeout: None,
        idle_timeout: None,
        ..RaceConfig::default()
    };
    let budget = match limited {
        true => BudgetConfig { ratio: 0.1, burst: 3 },
        false => BudgetConfig { ratio: 1e6, burst: u32::MAX },
    };
    UpstreamConfig {
        race: Arc::new(race),
        budget,
        // One service, however many endpoints: a demotion would only hide what the race does.
        demote: DemoteConfig { after: 0, cooldown: Duration::ZERO },
        endpoints: 2,
    }
}

/// One build.
struct Build {
    took: Duration,
    attempts: u32,
    stalled: bool,
    failed: bool,
}

fn builds(config: UpstreamConfig, service: &mut Itinerary, size: usize) -> Vec<Build> {
    let starts = (0..CALLS / size).map(|at| Moment::START + PACE * (at * size) as u32);
    let arrivals: Vec<Moment> = starts.flat_map(|at| std::iter::repeat_n(at, size)).collect();
    let stall = service.stall;
    let (done, _) = play(config, &arrivals, None, service);
    let took = |call: &Done| call.ended.since(call.started);
    let build = |calls: &[Done]| Build {
        took: calls.iter().map(took).max().unwrap_or_default(),
        attempts: calls.iter().map(|call| call.attempts).sum(),
        stalled: calls.iter().any(|call| took(call) >= stall),
        failed: calls.iter().any(|call| !call.answered),
    };
    done.chunks(size).map(build).collect()
}

/// What the share of stalled builds should be.
fn closed_form(policy: &str, size: usize) -> Option<f64> {
    let call = match policy {
        "wait" => 1.0 / ONE_IN,
        "hedge" | "idle" | "hedge+unlimited" | "idle+unlimited" => (1.0 / ONE_IN).powi(2),
        _ => return None,
    };
    Some(1.0 - (1.0 - call).powf(size as f64))
}

const COLUMNS: [&str; 12] = [
    "policy",
    "weather",
    "calls_each",
    "builds",
    "p50",
    "p95",
    "max",
    "failed",
    "attempts",
    "cost",
    "stalled",
    "closed_form",
];

fn row(policy: &str, weather: Weather, size: usize, builds: &[Build]) -> Vec<Cell> {
    let mut times: Vec<Duration> = builds.iter().map(|build| build.took).collect();
    times.sort_unstable();
    let quantile = |share: f64| {
        let rank = (times.len() as f64 * share).ceil() as usize;
        let time = times.get(rank.saturating_sub(1)).copied().unwrap_or_default();
        Cell::Seconds(time.as_secs_f64())
    };
    let attempts: u64 = builds.iter().map(|build| u64::from(build.attempts)).sum();
    let count = |what: fn(&Build) -> bool| builds.iter().filter(|build| what(build)).count();
    let closed = closed_form(policy, size).filter(|_| weather == Weather::Stalls);
    vec![
        Cell::Text(policy.to_owned()),
        Cell::Text(if weather == Weather::Stalls { "stalls" } else { "brown-out" }.to_owned()),
        Cell::Count(size as u64),
        Cell::Count(builds.len() as u64),
        quantile(0.5),
        quantile(0.95),
        quantile(1.0),
        Cell::Count(count(|build| build.failed) as u64),
        Cell::Count(attempts),
        Cell::Number(attempts as f64 * PRICE),
        Cell::Share(count(|build| build.stalled) as f64 / builds.len().max(1) as f64),
        closed.map_or(Cell::Nothing, Cell::Share),
    ]
}

fn run(
    request: &Request,
    policies: &[&'static str],
    progress: &mut Progress<'_>,
) -> Result<Report, DrillError> {
    let stall = request.changes.stall.unwrap_or(Duration::from_secs(330));
    if stall <= TIMEOUT || stall > Duration::from_secs(86_400) {
        return Err(DrillError::new("--stall has to be more than 120 s and at most a day"));
    }
    let yours = your_upstream(request, policies)?;
    let sizes = match request.changes.keys {
        None => vec![5, 20],
        Some(keys @ 1..=1_000) => vec![keys as usize],
        Some(_) => return Err(DrillError::new("--keys is 1 to 1000 calls a build")),
    };
    let mut scenes: Vec<(Weather, usize)> =
        sizes.iter().map(|&size| (Weather::Stalls, size)).collect();
    scenes.extend(sizes.first().map(|&size| (Weather::BrownOut, size)));
    let mut report = Report {
        drill: "hedge-stall",
        seed: request.seed,
        model: vec![
            ("usual", Cell::Seconds(USUAL.as_secs_f64())),
            ("stall", Cell::Seconds(stall.as_secs_f64())),
            ("stalls", Cell::Share(1.0 / ONE_IN)),
            ("a call every", Cell::Seconds(PACE.as_secs_f64())),
            ("price", Cell::Number(PRICE)),
        ],
        glimpse: None,
        summary: Table { columns: COLUMNS.to_vec(), rows: Vec::new() },
        notes: notes(stall),
        details: Table {
            columns: vec![
                "policy",
                "weather",
                "calls_each",
                "build",
                "seconds",
                "attempts",
                "stalled",
            ],
            rows: Vec::new(),
        },
        charts: Vec::new(),
    };
    let total = scenes.len() * policies.len();
    for (at, &(weather, size)) in scenes.iter().enumerate() {
        let mut curves = Vec::new();
        for (number, &policy) in policies.iter().enumerate() {
            progress(policy, (at * policies.len() + number) as f64 / total as f64);
            let mut service = Itinerary { seed: request.seed, weather, stall };
            let builds = builds(upstream(policy, yours), &mut service, size);
            let summary = row(policy, weather, size, &builds);
            for (number, build) in builds.iter().enumerate() {
                report.details.rows.push(vec![
                    summary[0].clone(),
                    summary[1].clone(),
                    summary[2].clone(),
                    Cell::Count(number as u64),
                    Cell::Seconds(build.took.as_secs_f64()),
                    Cell::Count(u64::from(build.attempts)),
                    Cell::Count(u64::from(build.stalled)),
                ]);
            }
            report.summary.rows.push(summary);
            curves.push(curve(policy, &builds));
        }
        let what = if weather == Weather::Stalls { "one in twenty stalls" } else { "brown-out" };
        report.charts.push(Chart {
            title: format!("Time of a build of {size} calls, {what}"),
            x: "share of builds, %".to_owned(),
            y: "seconds".to_owned(),
            curves,
            mark: None,
        });
    }
    Ok(report)
}

/// Build time by the share of builds that take no longer.
fn curve(policy: &str, builds: &[Build]) -> Curve {
    let mut times: Vec<f64> = builds.iter().map(|build| build.took.as_secs_f64()).collect();
    times.sort_unstable_by(f64::total_cmp);
    let last = times.len().saturating_sub(1);
    let point = |percent: usize| (percent as f64, times.get(last * percent / 100).copied());
    let points = (0..=100).map(point).filter_map(|(x, y)| Some((x, y?))).collect();
    Curve { name: policy.to_owned(), points }
}

fn notes(stall: Duration) -> Vec<String> {
    vec![
        format!(
            "stalled: builds in which a call took {} s or more. Closed form: 1 − (1 − p)^N with p = {} \
             for wait, and its square where a silent call has a twin.",
            stall.as_secs(),
            percent(1.0 / ONE_IN)
        ),
        "In the brown-out nothing helps, because every twin is as slow; the budget decides what trying \
         costs. A timeout gives up calls that would have been answered."
            .to_owned(),
    ]
}
