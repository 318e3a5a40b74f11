//! Bytes that many holders may hold together.
//!
//! Invariants:
//! - each holder has a first part of its own that nobody counts, so what is small always finds a place;
//! - of what is asked for beyond it, no more is granted than the limit for all: who asks when it is
//!   used up is refused, and what others hold stays theirs;
//! - a holder that keeps more than its own part and has not moved for the patience, while somebody
//!   was refused, has to let go: who stands still cannot use up what is there for all.
//!
//! Thread-safe. A holder that stays within its own part touches nothing that others touch.

#[cfg(all(test, hedgerow_loom))]
mod loom_tests;
#[cfg(all(test, not(hedgerow_loom)))]
mod tests;

use crate::moment::Moment;
use crate::sync::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// How much may be held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllowanceConfig {
    /// Bytes beyond their own parts, of all holders together.
    pub limit: u64,
    /// Bytes that each holder has for itself.
    pub own: u64,
    /// How long a holder may stand still while others are refused.
    pub patience: Duration,
}

/// What all holders share.
#[derive(Debug)]
pub struct Allowance {
    config: AllowanceConfig,
    beyond: AtomicU64,
    refused: AtomicU64,
}

/// An allowance at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllowanceShown {
    /// Bytes held beyond the holders' own parts.
    pub beyond: u64,
    /// How many may be.
    pub limit: u64,
    /// How often somebody was refused.
    pub refused: u64,
}

/// What one holder holds. Give it all back before it is dropped: [`Holding::end`].
#[derive(Debug, Default)]
pub struct Holding {
    bytes: u64,
    /// When it is looked at again.
    watched: Option<Moment>,
    /// Refusals of all, when it was looked at last.
    refused: u64,
}

impl Allowance {
    /// One of which nothing is held.
    #[must_use]
    pub fn new(config: AllowanceConfig) -> Allowance {
        Allowance { config, beyond: AtomicU64::new(0), refused: AtomicU64::new(0) }
    }

    /// How much of it is held.
    #[must_use]
    pub fn snapshot(&self) -> AllowanceShown {
        AllowanceShown {
            beyond: self.beyond.load(Relaxed),
            limit: self.config.limit,
            refused: self.refused.load(Relaxed),
        }
    }

    fn beyond_own(&self, bytes: u64) -> u64 {
        bytes.saturating_sub(self.config.own)
    }

    fn claim(&self, more: u64) -> bool {
        let fits = |held: u64| held.checked_add(more).filter(|sum| *sum <= self.config.limit);
        let claimed = self.beyond.fetch_update(Relaxed, Relaxed, fits).is_ok();
        if !claimed {
            self.refused.fetch_add(1, Relaxed);
        }
        claimed
    }
}

impl Holding {
    /// Asks for so many more. Refused, it holds what it held.
    #[must_use]
    pub fn ask(&mut self, of: &Allowance, more: u64) -> bool {
        let bytes = self.bytes.saturating_add(more);
        let claim = of.beyond_own(bytes) - of.beyond_own(self.bytes);
        let granted = claim == 0 || of.claim(claim);
        if granted {
            self.bytes = bytes;
        }
        granted
    }

    /// What was held became more or less by itself: a reply was written in another way, a command
    /// was taken. This is never refused.
    pub fn became(&mut self, of: &Allowance, was: u64, is: u64) {
        let bytes = self.bytes.saturating_sub(was).saturating_add(is);
        let (before, now) = (of.beyond_own(self.bytes), of.beyond_own(bytes));
        if now > before {
            of.beyond.fetch_add(now - before, Relaxed);
        } else if now < before {
            of.beyond.fetch_sub(before - now, Relaxed);
        }
        self.bytes = bytes;
    }

    /// Bytes it holds.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// When to look whether it stands still. `None`: it holds no more than its own part.
    pub fn next_wake(&mut self, now: Moment, of: &Allowance) -> Option<Moment> {
        if of.beyond_own(self.bytes) == 0 {
            self.watched = None;
        } else if self.watched.is_none() {
            self.watched = Some(now + of.config.patience);
            self.refused = of.refused.load(Relaxed);
        }
        self.watched
    }

    /// Whether it has to let go. To be asked at [`Holding::next_wake`]; `moved`: it has taken or
    /// brought something since it was asked last.
    #[must_use]
    pub fn on_wake(&mut self, now: Moment, of: &Allowance, moved: bool) -> bool {
        if self.watched.is_none_or(|at| now < at) {
            return false;
        }
        let refused = of.refused.load(Relaxed);
        let overstays = !moved && refused != self.refused && of.beyond_own(self.bytes) > 0;
        self.watched = None;
        overstays
    }

    /// Gives everything back.
    pub fn end(&mut self, of: &Allowance) {
        self.became(of, self.bytes, 0);
    }
}
