//! What hedges and retries may spend together, so that a brown-out never doubles the load.
//!
//! Invariant: at every moment at which something is spent, no more has been spent in the window that
//! ends there than `ratio` × the calls started in it + `burst`. A refusal only suppresses the new
//! attempt; what runs lives on. Memory is bounded: the window is kept in slices, and a slice that
//! lies across the window's edge counts with what it spent and without its calls, so rounding can
//! only refuse. (The idea: Finagle's retry budget, with a window instead of a leaking bucket, so
//! that the bound can be stated and checked.)

use crate::moment::Moment;
use std::collections::VecDeque;
use std::time::Duration;

/// The shortest window.
pub const MIN_WINDOW: Duration = Duration::from_secs(10);

/// Slices of one window.
const FINE: u32 = 32;
/// Slices kept; beyond, the two oldest become one.
const KEPT: usize = 48;

/// How much may be spent.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BudgetConfig {
    /// Extra attempts for each call started in the window.
    pub ratio: f64,
    /// And this many more.
    pub burst: u32,
}

/// The calls and extra attempts of the recent past. See the module's head.
#[derive(Clone, Debug)]
pub struct Budget {
    config: BudgetConfig,
    slices: VecDeque<Slice>,
}

#[derive(Clone, Copy, Debug)]
struct Slice {
    first: Moment,
    last: Moment,
    calls: u32,
    spent: u32,
}

/// What a budget shows of itself.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct BudgetSnapshot {
    /// Calls that count in the window.
    pub calls: u64,
    /// Extra attempts that count in the window.
    pub spent: u64,
    /// Extra attempts that may be started right now.
    pub left: u64,
}

/// The window for twins that are started after `threshold`: long enough that the calls which made
/// them necessary are in it.
#[must_use]
pub fn window(threshold: Duration) -> Duration {
    threshold.saturating_mul(2).max(MIN_WINDOW)
}

impl Budget {
    /// A budget of which nothing is spent.
    #[must_use]
    pub fn new(config: BudgetConfig) -> Budget {
        Budget { config, slices: VecDeque::new() }
    }

    /// A call starts; `window` decides how finely it is remembered.
    pub fn on_call(&mut self, now: Moment, window: Duration) {
        let slice = self.slice(now, window);
        slice.calls = slice.calls.saturating_add(1);
    }

    /// Spends one extra attempt, if the window that ends now has it.
    #[must_use]
    pub fn try_spend(&mut self, now: Moment, window: Duration) -> bool {
        if self.snapshot(now, window).left == 0 {
            return false;
        }
        let slice = self.slice(now, window);
        slice.spent = slice.spent.saturating_add(1);
        self.check_invariants(now, window);
        true
    }

    /// What counts in the window that ends now.
    #[must_use]
    pub fn snapshot(&self, now: Moment, window: Duration) -> BudgetSnapshot {
        let (mut calls, mut spent) = (0u64, 0u64);
        for slice in &self.slices {
            if slice.first + window > now {
                calls += u64::from(slice.calls);
            }
            if slice.last + window > now {
                spent += u64::from(slice.spent);
            }
        }
        // A hair above, so that 0.1 × 30 is 3.
        let allowed =
            self.config.ratio.max(0.0) * calls as f64 + f64::from(self.config.burst) + 1e-9;
        BudgetSnapshot { calls, spent, left: (allowed as u64).saturating_sub(spent) }
    }

    fn slice(&mut self, now: Moment, window: Duration) -> &mut Slice {
        let fresh = self.slices.back().is_none_or(|last| now >= last.first + window / FINE);
        if fresh {
            self.slices.push_back(Slice { first: now, last: now, calls: 0, spent: 0 });
            if self.slices.len() > KEPT
                && let Some(oldest) = self.slices.pop_front()
                && let Some(next) = self.slices.front_mut()
            {
                next.first = oldest.first;
                next.calls = next.calls.saturating_add(oldest.calls);
                next.spent = next.spent.saturating_add(oldest.spent);
            }
        }
        let last = self.slices.len() - 1;
        let slice = &mut self.slices[last];
        slice.last = slice.last.max(now);
        slice
    }

    fn check_invariants(&self, now: Moment, window: Duration) {
        if cfg!(debug_assertions) {
            let BudgetSnapshot { calls, spent, .. } = self.snapshot(now, window);
            let allowed = self.config.ratio.max(0.0) * calls as f64 + f64::from(self.config.burst);
            assert!(spent as f64 <= allowed + 1e-6, "spent {spent} of {allowed}");
            assert!(self.slices.len() <= KEPT, "bounded");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(n: u64) -> Moment {
        Moment::from_millis(n)
    }

    const TEN: Duration = Duration::from_secs(10);

    #[test]
    fn the_window_follows_the_threshold() {
        assert_eq!(window(Duration::from_millis(200)), TEN);
        assert_eq!(window(Duration::from_secs(100)), Duration::from_secs(200));
    }

    #[test]
    fn what_was_spent_comes_back_with_time_and_calls() {
        let mut budget = Budget::new(BudgetConfig { ratio: 0.5, burst: 1 });
        assert!(budget.try_spend(ms(0), TEN));
        assert!(!budget.try_spend(ms(0), TEN));
        budget.on_call(ms(1_000), TEN);
        budget.on_call(ms(1_000), TEN);
        assert!(budget.try_spend(ms(1_000), TEN), "two calls earn one");
        assert!(!budget.try_spend(ms(9_999), TEN));
        assert!(budget.try_spend(ms(11_500), TEN), "the first is out of the window");
    }

    #[test]
    fn without_ratio_and_burst_nothing_is_ever_spent() {
        let mut budget = Budget::new(BudgetConfig { ratio: 0.0, burst: 0 });
        for n in 0..1_000 {
            budget.on_call(ms(n), TEN);
            assert!(!budget.try_spend(ms(n), TEN));
        }
    }

    proptest! {
        /// The bound itself, against a plain list; and that rounding does not cost more than a
        /// sixteenth of the window.
        #[test]
        fn never_more_than_the_window_allows(
            ops in proptest::collection::vec((0u8..5, 0u64..900), 1..400),
            ratio in 0.0f64..1.0, burst in 0u32..5, threshold in 1u64..20_000,
        ) {
            let window = window(Duration::from_millis(threshold));
            let mut budget = Budget::new(BudgetConfig { ratio, burst });
            let (mut now, mut calls, mut spends) = (ms(0), Vec::new(), Vec::<Moment>::new());
            for (op, step) in ops {
                now = now + Duration::from_millis(step);
                if op < 3 {
                    budget.on_call(now, window);
                    calls.push(now);
                    continue;
                }
                let within = |list: &[Moment], span: Duration| {
                    list.iter().filter(|at| **at + span > now).count() as f64
                };
                let edge = window / 16;
                if budget.try_spend(now, window) {
                    spends.push(now);
                    let allowed = ratio * within(&calls, window) + f64::from(burst);
                    prop_assert!(within(&spends, window) <= allowed + 1e-6);
                } else {
                    let allowed = ratio * within(&calls, window - edge) + f64::from(burst);
                    prop_assert!(within(&spends, window + edge) + 1.0 > allowed - 1e-6);
                }
            }
        }
    }
}
