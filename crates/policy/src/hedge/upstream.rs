//! What the races of one upstream share: the budget, the digest, the endpoints and the counters.
//!
//! Invariant: attempts = calls + hedges + retries, at every moment.

use super::attempt::Outcome;
use super::config::{HedgeConfig, UpstreamConfig};
use super::start::Reason;
use crate::budget::{self, Budget, BudgetSnapshot};
use crate::digest::{Digest, Quantile, Sample};
use crate::endpoints::{EndpointSnapshot, Endpoints, Role};
use crate::moment::Moment;
use std::time::Duration;

/// Plain counters of an upstream since its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Keys that were started and not shed.
    pub calls: u64,
    /// Attempts of all roles.
    pub attempts: u64,
    /// Twins started.
    pub hedges: u64,
    /// Twins by how they ended: won, lost, failed, abandoned.
    pub hedge_outcomes: [u64; 4],
    /// Twins not started, in the order of [`Reason::ALL`].
    pub suppressed: [u64; Reason::ALL.len()],
    /// Twins that were only observed.
    pub observed: u64,
    /// Retries started.
    pub retries: u64,
    /// Keys settled with a success.
    pub succeeded: u64,
    /// Keys settled with a failure, timeouts included.
    pub failed: u64,
    /// Keys whose caller went away.
    pub abandoned: u64,
    /// Keys refused because every endpoint was shed.
    pub shed: u64,
    /// Microseconds that twins have saved, at least: what is known of calls as long as theirs.
    pub saved_micros: u64,
}

impl Counters {
    /// Twins that ended so.
    #[must_use]
    pub fn hedges_that(&self, outcome: Outcome) -> u64 {
        self.hedge_outcomes[outcome as usize]
    }

    /// Twins not started for that reason.
    #[must_use]
    pub fn suppressed_for(&self, reason: Reason) -> u64 {
        self.suppressed[reason as usize]
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Counters) -> Counters {
        Counters {
            calls: self.calls + other.calls,
            attempts: self.attempts + other.attempts,
            hedges: self.hedges + other.hedges,
            hedge_outcomes: sums(self.hedge_outcomes, other.hedge_outcomes),
            suppressed: sums(self.suppressed, other.suppressed),
            observed: self.observed + other.observed,
            retries: self.retries + other.retries,
            succeeded: self.succeeded + other.succeeded,
            failed: self.failed + other.failed,
            abandoned: self.abandoned + other.abandoned,
            shed: self.shed + other.shed,
            saved_micros: self.saved_micros + other.saved_micros,
        }
    }
}

fn sums<const N: usize>(one: [u64; N], other: [u64; N]) -> [u64; N] {
    std::array::from_fn(|at| one[at] + other[at])
}

/// What the races of one upstream share. One lock around it is enough: no event takes long.
#[derive(Clone, Debug)]
pub struct Upstream {
    pub(super) config: UpstreamConfig,
    pub(super) budget: Budget,
    pub(super) digest: Digest,
    /// The endpoints.
    pub endpoints: Endpoints,
    pub(super) counters: Counters,
    samples: u64,
    looked_up: Option<LookedUp>,
}

#[derive(Clone, Copy, Debug)]
struct LookedUp {
    quantile: f64,
    found: Duration,
    /// The number of the sample with which it is looked up anew.
    until: u64,
}

/// What an upstream shows of itself.
#[derive(Clone, PartialEq, Debug)]
pub struct UpstreamSnapshot {
    /// The counters.
    pub counters: Counters,
    /// The present `after` threshold, if there is one.
    pub threshold: Option<Duration>,
    /// The median, the 95th and the 99th percentile, once something was measured.
    pub quantiles: Option<[Quantile; 3]>,
    /// The budget's window.
    pub budget: BudgetSnapshot,
    /// The endpoints, in order.
    pub endpoints: Vec<EndpointSnapshot>,
}

impl Upstream {
    /// An upstream without a past.
    #[must_use]
    pub fn new(config: UpstreamConfig) -> Upstream {
        Upstream {
            budget: Budget::new(config.budget),
            digest: Digest::new(),
            endpoints: Endpoints::new(config.endpoints, config.demote),
            counters: Counters::default(),
            samples: 0,
            looked_up: None,
            config,
        }
    }

    /// The configuration in force.
    #[must_use]
    pub fn config(&self) -> &UpstreamConfig {
        &self.config
    }

    /// What has been counted since the start.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Everything there is to show.
    pub fn snapshot(&mut self, now: Moment) -> UpstreamSnapshot {
        let race = self.config.race.clone();
        let threshold = race.hedge.as_ref().and_then(|hedge| self.threshold(hedge));
        let window = window(race.hedge.as_ref(), threshold);
        let at = |q| self.digest.quantile(q);
        let quantiles = match (at(0.5), at(0.95), at(0.99)) {
            (Some(a), Some(b), Some(c)) => Some([a, b, c]),
            _ => None,
        };
        UpstreamSnapshot {
            counters: self.counters,
            threshold,
            quantiles,
            budget: self.budget.snapshot(now, window),
            endpoints: self.endpoints.snapshot(now),
        }
    }

    /// The `after` clock of an attempt that starts now.
    ///
    /// A quantile that is beyond what is known gives the longest duration that is, and no less than
    /// the configured threshold: taking the stalls' own length would raise it with every stall.
    pub(super) fn threshold(&mut self, hedge: &HedgeConfig) -> Option<Duration> {
        let Some(q) = hedge.after_quantile else { return hedge.after };
        if self.digest.taken() < u64::from(hedge.min_samples.max(1)) {
            return hedge.after;
        }
        if let Some(known) = self.looked_up
            && known.quantile == q
            && self.samples < known.until
        {
            return Some(known.found.max(hedge.floor));
        }
        let found = match self.digest.quantile(q) {
            Some(Quantile::Is(duration)) => duration,
            Some(Quantile::AtLeast(_)) | None => {
                self.digest.longest().max(hedge.after).unwrap_or(hedge.floor)
            }
        };
        // Looked up anew after one in 32 more samples: that moves no quantile far.
        let kept = self.digest.taken() + self.digest.censored();
        let until = self.samples + 1 + kept / 32;
        self.looked_up = Some(LookedUp { quantile: q, found, until });
        Some(found.max(hedge.floor))
    }

    pub(super) fn sample(&mut self, now: Moment, sample: Sample) {
        self.digest.on_sample(now, sample);
        self.samples += 1;
    }

    pub(super) fn on_start(&mut self, role: Role) {
        self.counters.attempts += 1;
        match role {
            Role::Primary => self.counters.calls += 1,
            Role::Hedge => self.counters.hedges += 1,
            Role::Retry => self.counters.retries += 1,
        }
        self.check_invariants();
    }

    fn check_invariants(&self) {
        let c = &self.counters;
        debug_assert_eq!(c.attempts, c.calls + c.hedges + c.retries, "every attempt has a role");
    }
}

/// The budget's window for calls under these rules.
pub(super) fn window(hedge: Option<&HedgeConfig>, after: Option<Duration>) -> Duration {
    let idle = hedge.and_then(|hedge| hedge.idle);
    budget::window(after.max(idle).unwrap_or_default())
}
