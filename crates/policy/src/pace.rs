//! When a stream that is asked for step by step is asked again.
//!
//! Invariant: a step that brought something is followed at once: how fast its client takes it sets
//! the pace. Steps that bring nothing are further and further apart, so that a quiet stream costs
//! next to nothing, and one that brings nothing for the longest silence is over.

use crate::moment::Moment;
use std::time::Duration;

/// The bounds of the pace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PaceConfig {
    /// Pause after the first step that brought nothing; it doubles with each further one.
    pub first: Duration,
    /// No pause is longer.
    pub longest: Duration,
    /// Longest time without anything brought.
    pub silence: Duration,
}

impl PaceConfig {
    /// Pauses of 20 ms to 1 s, and silence of at most `silence`.
    #[must_use]
    pub const fn new(silence: Duration) -> PaceConfig {
        let (first, longest) = (Duration::from_millis(20), Duration::from_secs(1));
        PaceConfig { first, longest, silence }
    }
}

/// What follows a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Follow {
    /// The next step, after this pause.
    After(Duration),
    /// Nothing: it was silent for too long.
    Silent,
}

/// The pace of one stream.
#[derive(Clone, Debug)]
pub struct Pace {
    config: PaceConfig,
    empty: u32,
    last: Moment,
}

impl Pace {
    /// The pace of a stream that begins now.
    #[must_use]
    pub const fn new(config: PaceConfig, now: Moment) -> Pace {
        Pace { config, empty: 0, last: now }
    }

    /// A step was answered, and `brought` says whether with anything.
    pub fn on_step(&mut self, now: Moment, brought: bool) -> Follow {
        if brought {
            (self.empty, self.last) = (0, now);
            return Follow::After(Duration::ZERO);
        }
        let left = self.config.silence.saturating_sub(now - self.last);
        if left.is_zero() {
            return Follow::Silent;
        }
        let doublings = self.empty.min(31);
        self.empty = self.empty.saturating_add(1);
        let pause = self.config.first.saturating_mul(1 << doublings);
        // The last step falls on the end of the silence and not beyond it.
        Follow::After(pause.min(self.config.longest).min(left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CONFIG: PaceConfig = PaceConfig::new(Duration::from_secs(4));

    fn ms(n: u64) -> Moment {
        Moment::from_millis(n)
    }

    #[test]
    fn empty_steps_are_further_and_further_apart_until_the_silence_is_too_long() {
        let mut pace = Pace::new(CONFIG, Moment::START);
        let (mut now, mut pauses) = (Moment::START, Vec::new());
        while let Follow::After(pause) = pace.on_step(now, false) {
            pauses.push(pause.as_millis());
            now = now + pause;
        }
        assert_eq!(pauses, [20, 40, 80, 160, 320, 640, 1_000, 1_000, 740]);
        assert_eq!(now, ms(4_000));
    }

    #[test]
    fn what_is_brought_starts_over() {
        let mut pace = Pace::new(CONFIG, Moment::START);
        for _ in 0..5 {
            pace.on_step(ms(10), false);
        }
        assert_eq!(pace.on_step(ms(3_999), true), Follow::After(Duration::ZERO));
        assert_eq!(pace.on_step(ms(4_000), false), Follow::After(Duration::from_millis(20)));
        assert_eq!(pace.on_step(ms(7_999), false), Follow::Silent);
    }

    proptest! {
        #[test]
        fn never_a_hot_loop_and_never_over_the_silence(steps in prop::collection::vec(any::<bool>(), 1..200)) {
            let mut pace = Pace::new(CONFIG, Moment::START);
            let (mut now, mut last) = (Moment::START, Moment::START);
            for brought in steps {
                if brought {
                    last = now;
                }
                match pace.on_step(now, brought) {
                    Follow::After(pause) => {
                        prop_assert!(brought || !pause.is_zero());
                        prop_assert!(pause <= CONFIG.longest);
                        now = now + pause;
                        prop_assert!(now - last <= CONFIG.silence);
                    }
                    Follow::Silent => {
                        prop_assert!(now - last >= CONFIG.silence);
                        return Ok(());
                    }
                }
            }
        }
    }
}
