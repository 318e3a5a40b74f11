//! How long to wait before a worker that keeps failing is started again.
//!
//! Invariant: only crashes and failed starts count; each doubles the delay up to the maximum. A
//! failure after at least `reset_after` of health forgets the earlier ones and costs no delay.
//! Jitter is an argument, so equal inputs give equal delays.

use std::time::Duration;

/// The bounds of the delay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BackoffConfig {
    /// Delay after the first failure.
    pub base: Duration,
    /// No delay is longer.
    pub max: Duration,
    /// Healthy time that forgets earlier failures.
    pub reset_after: Duration,
}

/// Counts failures in a row and turns them into delays.
#[derive(Clone, Debug)]
pub struct Backoff {
    config: BackoffConfig,
    failures: u32,
}

impl Backoff {
    /// A backoff without history.
    #[must_use]
    pub fn new(config: BackoffConfig) -> Backoff {
        Backoff { config, failures: 0 }
    }

    /// A crash or a failed start, after `healthy_for` of health. Returns the delay until the next
    /// start. `jitter` in 0–1 shortens the delay by up to a quarter, so that workers that fell
    /// together do not rise together.
    pub fn on_failure(&mut self, healthy_for: Duration, jitter: f64) -> Duration {
        if healthy_for >= self.config.reset_after {
            self.failures = 0;
            return Duration::ZERO;
        }
        self.failures = self.failures.saturating_add(1);
        let doublings = (self.failures - 1).min(31);
        let delay = self.config.base.saturating_mul(1 << doublings).min(self.config.max);
        delay.mul_f64(1.0 - 0.25 * jitter.clamp(0.0, 1.0))
    }

    /// Forgets earlier failures: a load or a restart somebody asked for.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// Failures in a row.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: BackoffConfig = BackoffConfig {
        base: Duration::from_millis(500),
        max: Duration::from_millis(8_000),
        reset_after: Duration::from_secs(10),
    };

    #[test]
    fn doubles_to_the_maximum_and_forgets_after_health() {
        let mut backoff = Backoff::new(CONFIG);
        let delays: Vec<u128> =
            (0..6).map(|_| backoff.on_failure(Duration::ZERO, 0.0).as_millis()).collect();
        assert_eq!(delays, [500, 1_000, 2_000, 4_000, 8_000, 8_000]);
        assert_eq!(backoff.on_failure(Duration::from_secs(10), 0.0), Duration::ZERO);
        assert_eq!(backoff.on_failure(Duration::ZERO, 0.0).as_millis(), 500);
    }

    #[test]
    fn jitter_only_shortens_and_no_count_overflows() {
        let mut backoff = Backoff::new(CONFIG);
        for _ in 0..100 {
            let delay = backoff.on_failure(Duration::ZERO, 1.0);
            assert!(delay <= CONFIG.max && delay >= CONFIG.base.mul_f64(0.75));
        }
    }
}
