//! The bounds of a breaker, checked once.
//!
//! Invariant: a [`BreakerConfig`] exists only if every bound in it can work.

use super::window::BUCKETS;
use std::fmt;
use std::time::Duration;

/// The bounds as somebody wrote them. The default is the contract's.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BreakerSettings {
    /// Length of the sliding window.
    pub window: Duration,
    /// Share of failures (over 0, up to 1) from which the circuit opens.
    pub failure_ratio: f64,
    /// With fewer results than this in the window, nothing is judged.
    pub min_throughput: u32,
    /// How long an open circuit stays open.
    pub open: Duration,
    /// Successful probes that close a half-open circuit.
    pub success_threshold: u32,
    /// Probes in flight at once while half-open.
    pub half_open_probes: u32,
    /// A probe that is not settled for this long gives up its place.
    pub probe_timeout: Duration,
    /// No reply at all for this long, with enough owed, opens the circuit. Zero: off.
    pub stall: Duration,
    /// How many replies must be owed for a silence to be a stall.
    pub stall_outstanding: u32,
    /// How long an episode lasts at least before it may be ended early; doubles with relapses.
    pub early_wait: Duration,
}

impl Default for BreakerSettings {
    fn default() -> BreakerSettings {
        BreakerSettings {
            window: Duration::from_secs(10),
            failure_ratio: 0.5,
            min_throughput: 20,
            open: Duration::from_secs(30),
            success_threshold: 2,
            half_open_probes: 1,
            probe_timeout: Duration::from_secs(1),
            stall: Duration::ZERO,
            stall_outstanding: 10,
            early_wait: Duration::from_millis(300),
        }
    }
}

/// What is wrong with a bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConfigError {
    /// The key as the configuration spells it.
    pub key: &'static str,
    /// What would be accepted.
    pub expected: &'static str,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} must be {}", self.key, self.expected)
    }
}

impl std::error::Error for ConfigError {}

/// Bounds that can work.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BreakerConfig {
    settings: BreakerSettings,
    ratio_millionths: u64,
}

/// The unit of the failure ratio: integers, so that 7 of 100 is exactly 0.07.
pub(super) const MILLION: u64 = 1_000_000;

impl BreakerConfig {
    /// Checks the bounds.
    ///
    /// # Errors
    /// Names the first key that cannot work, and what would.
    pub fn new(settings: BreakerSettings) -> Result<BreakerConfig, ConfigError> {
        let wrong = |key, expected| Err(ConfigError { key, expected });
        let ratio_millionths = (settings.failure_ratio * MILLION as f64).round();
        // A ratio that is not a number fails this comparison too.
        if !(ratio_millionths >= 1.0 && settings.failure_ratio <= 1.0) {
            return wrong("failure_ratio", "over 0 and at most 1");
        }
        // A year is beyond every use, and far from where nanoseconds overflow.
        let year = Duration::from_secs(365 * 86_400);
        if settings.window < Duration::from_millis(BUCKETS) || settings.window > year {
            return wrong("window_ms", "at least 10 ms and at most a year");
        }
        if settings.min_throughput == 0 {
            return wrong("min_throughput", "at least 1");
        }
        if settings.open.is_zero() || settings.open > year {
            return wrong("open_ms", "over 0 and at most a year");
        }
        if settings.success_threshold == 0 {
            return wrong("success_threshold", "at least 1");
        }
        if settings.half_open_probes == 0 {
            return wrong("half_open_probes", "at least 1");
        }
        if settings.probe_timeout.is_zero() {
            return wrong("probe_timeout", "over 0");
        }
        if !settings.stall.is_zero() && settings.stall_outstanding == 0 {
            return wrong("stall_outstanding", "at least 1 where stall_ms is set");
        }
        Ok(BreakerConfig { settings, ratio_millionths: ratio_millionths as u64 })
    }

    /// The bounds.
    #[must_use]
    pub fn settings(&self) -> &BreakerSettings {
        &self.settings
    }

    /// The failure ratio in millionths.
    pub(super) fn ratio_millionths(&self) -> u64 {
        self.ratio_millionths
    }

    /// The length of one bucket of the window, in nanoseconds.
    pub(super) fn bucket_nanos(&self) -> u64 {
        (self.settings.window.as_nanos() / u128::from(BUCKETS)) as u64
    }
}

impl Default for BreakerConfig {
    /// The contract's defaults.
    fn default() -> BreakerConfig {
        match BreakerConfig::new(BreakerSettings::default()) {
            Ok(config) => config,
            Err(error) => unreachable!("the defaults can work: {error}"),
        }
    }
}
