//! How many replies are awaited, and how long nothing at all has been heard.
//!
//! Invariant: silence is counted from the later of the last sign and the moment something began to
//! be owed; where nothing is owed there is no silence. It is over all connections to one store:
//! one that answers shows that the store does.

use crate::breaker::BreakerConfig;
use crate::moment::Moment;
use crate::sync::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Owed {
    owed: AtomicU64,
    since: AtomicU64,
    /// Nanoseconds of silence that make a stall; zero: off.
    stall: AtomicU64,
    outstanding: AtomicU64,
    /// Enough has come to be owed for a silence to count: somebody should set a timer.
    stirred: AtomicBool,
}

impl Owed {
    pub(super) fn new(config: &BreakerConfig) -> Owed {
        let owed = Owed {
            owed: AtomicU64::new(0),
            since: AtomicU64::new(0),
            stall: AtomicU64::new(0),
            outstanding: AtomicU64::new(0),
            stirred: AtomicBool::new(false),
        };
        owed.reconfigure(config);
        owed
    }

    pub(super) fn reconfigure(&self, config: &BreakerConfig) {
        let bounds = config.settings();
        let stall = u64::try_from(bounds.stall.as_nanos()).unwrap_or(u64::MAX);
        self.outstanding.store(u64::from(bounds.stall_outstanding), Ordering::Relaxed);
        self.stall.store(stall, Ordering::Relaxed);
    }

    pub(super) fn on_sent(&self, now: Moment, commands: u64) {
        let before = self.owed.fetch_add(commands, Ordering::AcqRel);
        if before == 0 {
            self.since.fetch_max(now.as_nanos(), Ordering::AcqRel);
        }
        let enough = self.outstanding.load(Ordering::Relaxed);
        if before < enough && before + commands >= enough {
            self.stirred.store(true, Ordering::Relaxed);
        }
    }

    pub(super) fn on_heard(&self, now: Moment, replies: u64) {
        // The sign first: nobody may see fewer owed beside an older silence and more beside it.
        self.since.fetch_max(now.as_nanos(), Ordering::AcqRel);
        self.on_lost(replies);
    }

    pub(super) fn on_lost(&self, replies: u64) {
        let less = |owed: u64| Some(owed.saturating_sub(replies));
        let _ = self.owed.fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
    }

    pub(super) fn owed(&self) -> u64 {
        self.owed.load(Ordering::Acquire)
    }

    /// How many are owed and since when nothing was heard, if that is a stall.
    pub(super) fn stalled(&self, now: Moment) -> Option<(u64, Moment)> {
        let at = self.next_wake()?;
        let since = Moment::from_nanos(self.since.load(Ordering::Acquire));
        (now >= at).then(|| (self.owed(), since))
    }

    /// When the present silence becomes a stall, if enough is owed.
    pub(super) fn next_wake(&self) -> Option<Moment> {
        let stall = self.stall.load(Ordering::Relaxed);
        let enough = self.outstanding.load(Ordering::Relaxed);
        (stall > 0 && self.owed() >= enough.max(1)).then(|| {
            Moment::from_nanos(self.since.load(Ordering::Acquire)) + Duration::from_nanos(stall)
        })
    }

    pub(super) fn stirred(&self) -> bool {
        self.stirred.load(Ordering::Relaxed)
    }

    pub(super) fn seen(&self) {
        self.stirred.store(false, Ordering::Relaxed);
    }
}
