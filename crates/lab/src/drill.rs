//! `hedgerow drill`: incidents replayed in virtual time.
//!
//! Invariants:
//! - every decision is taken by the state machines of `hedgerow-policy` that the server runs, never
//!   by a copy; a drill only plays the world around them;
//! - time is virtual and randomness comes from the seed: the same words give the same bytes;
//! - all policies of a drill meet the same arrivals, so that a difference is the policy's.
//!
//! A drill is a model. Its module's head says what it leaves out.

pub mod agenda;
mod brown_out;
pub mod cache_stall;
mod calls;
mod hedge_stall;
pub mod report;
mod workers;

pub use report::{Cell, Report, Table};

use hedgerow_policy::guard::GuardSettings;
use hedgerow_policy::hedge::UpstreamConfig;
use hedgerow_policy::queue::QueueConfig;
use std::fmt;
use std::time::Duration;

/// What was asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// The drill.
    pub name: String,
    /// Policies to compare, in this order; empty: the drill's own choice.
    pub policies: Vec<String>,
    /// Seed of the run.
    pub seed: u64,
    /// Changes to the model.
    pub changes: Changes,
    /// Settings to drill beside the others, as the policy `yours`.
    pub yours: Option<Yours>,
}

/// The settings of a configuration, as far as drills know them.
#[derive(Clone, Debug, PartialEq)]
pub struct Yours {
    /// The guarded cache.
    pub guard: GuardSettings,
    /// The pool.
    pub pool: PoolSettings,
    /// The upstream, if there is one.
    pub upstream: Option<UpstreamConfig>,
}

/// The settings of a pool that a drill can show.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PoolSettings {
    /// How many workers.
    pub size: u32,
    /// The queue in front of them.
    pub queue: QueueConfig,
    /// How long one may take.
    pub read_timeout: Duration,
    /// How long a caller waits.
    pub request_timeout: Duration,
}

/// The name of the policy that is the settings of a configuration.
const YOURS: &str = "yours";

/// Changes to a drill's model; `None`: the drill's own figure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// Queries a second that the dependency serves.
    pub mu: Option<f64>,
    /// How long the dependency stalls.
    pub stall: Option<Duration>,
    /// Requests a second.
    pub rate: Option<f64>,
    /// Number of keys.
    pub keys: Option<u64>,
    /// How long a cached value lives.
    pub ttl: Option<Duration>,
    /// Queries that the dependency's line holds; one more is refused.
    pub line: Option<usize>,
    /// How long the breaker stays open.
    pub open: Option<Duration>,
    /// Length of the drill.
    pub duration: Option<Duration>,
}

impl Changes {
    /// The flags that were given and are not among `known`.
    fn unknown(&self, known: &[&str]) -> Option<&'static str> {
        let given = [
            ("mu", self.mu.is_some()),
            ("stall", self.stall.is_some()),
            ("rate", self.rate.is_some()),
            ("keys", self.keys.is_some()),
            ("ttl", self.ttl.is_some()),
            ("line", self.line.is_some()),
            ("open", self.open.is_some()),
            ("duration", self.duration.is_some()),
        ];
        given
            .into_iter()
            .find(|(name, given)| *given && !known.contains(name))
            .map(|(name, _)| name)
    }
}

/// Why a drill cannot be run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DrillError(String);

impl DrillError {
    pub(crate) fn new(what: impl Into<String>) -> DrillError {
        DrillError(what.into())
    }
}

impl fmt::Display for DrillError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DrillError {}

/// A drill: its name, what it replays, and how.
pub(crate) struct Drill {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// Every policy it knows; those it shows unasked come first.
    pub(crate) policies: &'static [(&'static str, &'static str)],
    /// How many of them it shows unasked.
    pub(crate) shown: usize,
    /// Flags of the model it has.
    pub(crate) flags: &'static [&'static str],
    pub(crate) run: fn(&Request, &[&'static str], &mut Progress<'_>) -> Result<Report, DrillError>,
}

/// Called with what is being worked on, and how far it is, 0 to 1.
pub type Progress<'a> = dyn FnMut(&str, f64) + 'a;

const DRILLS: &[&Drill] = &[
    &cache_stall::DRILL,
    &hedge_stall::DRILL,
    &workers::WORKER_HANG,
    &workers::QUEUE_OVERLOAD,
    &brown_out::DRILL,
];

/// The drills and their policies, for people.
#[must_use]
pub fn list() -> String {
    let mut out = String::new();
    for drill in DRILLS {
        out.push_str(&format!("{}\n    {}\n", drill.name, drill.about));
        let flags: Vec<String> = drill.flags.iter().map(|flag| format!("--{flag}")).collect();
        out.push_str(&format!("    flags: {}\n", flags.join(" ")));
        let rows: Vec<Vec<String>> = drill
            .policies
            .iter()
            .map(|(name, what)| vec![format!("    {name}"), (*what).to_owned()])
            .collect();
        let width = rows.iter().map(|row| row[0].len()).max().unwrap_or(0);
        for row in rows {
            out.push_str(&format!("{:<width$}  {}\n", row[0], row[1]));
        }
        out.push('\n');
    }
    out.push_str("With --config FILE each has one more policy, yours: what that file says.\n");
    out
}

/// Runs a drill.
///
/// # Errors
/// An unknown drill or policy, or a model that cannot be played.
pub fn run(request: &Request, progress: &mut Progress<'_>) -> Result<Report, DrillError> {
    let drill = DRILLS.iter().find(|drill| drill.name == request.name).ok_or_else(|| {
        let names: Vec<&str> = DRILLS.iter().map(|drill| drill.name).collect();
        DrillError(format!("there is no drill {:?}; there are {}", request.name, names.join(", ")))
    })?;
    let rates = [("mu", request.changes.mu), ("rate", request.changes.rate)];
    for (flag, value) in rates {
        if value.is_some_and(|value| !(value > 0.0 && value.is_finite())) {
            return Err(DrillError(format!("--{flag} is a number above 0")));
        }
    }
    if let Some(flag) = request.changes.unknown(drill.flags) {
        let flags: Vec<String> = drill.flags.iter().map(|flag| format!("--{flag}")).collect();
        return Err(DrillError(format!(
            "drill {} has no --{flag}; it has {}",
            drill.name,
            flags.join(", ")
        )));
    }
    let mut policies: Vec<&'static str> = Vec::new();
    for wanted in &request.policies {
        let yours = (YOURS, "");
        let own = request.yours.iter().map(|_| &yours);
        let known = drill.policies.iter().chain(own).find(|(name, _)| name == wanted);
        let Some((name, _)) = known else {
            if wanted == YOURS {
                return Err(DrillError("policy yours is what --config FILE says".to_owned()));
            }
            let names: Vec<&str> = drill.policies.iter().map(|(name, _)| *name).collect();
            return Err(DrillError(format!(
                "drill {} has no policy {wanted:?}; it has {}",
                drill.name,
                names.join(", ")
            )));
        };
        if !policies.contains(name) {
            policies.push(name);
        }
    }
    if policies.is_empty() {
        policies.extend(drill.policies.iter().take(drill.shown).map(|(name, _)| *name));
        policies.extend(request.yours.iter().map(|_| YOURS));
    }
    (drill.run)(request, &policies, progress)
}

/// The upstream of the policy `yours`, where that is among the policies.
fn your_upstream<'r>(
    request: &'r Request,
    policies: &[&'static str],
) -> Result<Option<&'r UpstreamConfig>, DrillError> {
    let yours = request.yours.as_ref().filter(|_| policies.contains(&YOURS));
    match yours.map(|yours| yours.upstream.as_ref()) {
        Some(None) => Err(DrillError("the configuration names no upstream to drill".to_owned())),
        Some(upstream) => Ok(upstream),
        None => Ok(None),
    }
}
