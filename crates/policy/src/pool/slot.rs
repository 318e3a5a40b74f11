//! One place for a worker, and what stands in it.
//!
//! Invariant: a slot has a present worker, or a time at which the next is started; never both,
//! and neither only once the pool is stopping.

use super::WorkerId;
use crate::backoff::{Backoff, BackoffConfig};
use crate::moment::Moment;
use crate::observe::EndReason;

/// What a slot is doing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SlotPhase {
    /// A worker boots.
    Starting,
    /// A worker waits for a request.
    Idle,
    /// A worker has a request.
    Busy,
    /// Nothing runs; the next start is put off.
    BackingOff,
}

impl SlotPhase {
    /// The phase as metric labels and pages spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            SlotPhase::Starting => "starting",
            SlotPhase::Idle => "idle",
            SlotPhase::Busy => "busy",
            SlotPhase::BackingOff => "backing_off",
        }
    }
}

/// What one slot shows of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlotSnapshot {
    /// The slot's number.
    pub slot: u32,
    /// The present worker.
    pub worker: Option<WorkerId>,
    /// What it does.
    pub phase: SlotPhase,
    /// Since when.
    pub since: Moment,
    /// Requests the present worker has served.
    pub served: u64,
    /// Workers this slot has had before.
    pub restarts: u64,
    /// A planned replacement is wanted or under way.
    pub replacing: bool,
    /// When the next start is due, while backing off.
    pub next_start: Option<Moment>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    Starting { until: Moment },
    Idle,
    Busy,
}

/// The worker in a slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Present {
    pub(super) id: WorkerId,
    pub(super) state: State,
    pub(super) ready_since: Moment,
    pub(super) served: u64,
    /// Requests after which it is replaced; 0: never.
    pub(super) limit: u64,
}

/// A worker that boots beside the present one, to take its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Successor {
    pub(super) id: WorkerId,
    pub(super) until: Moment,
    pub(super) reason: EndReason,
}

#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) present: Option<Present>,
    pub(super) successor: Option<Successor>,
    /// When the next worker is started, while there is none.
    pub(super) start_at: Option<Moment>,
    /// A planned replacement that is wanted, and not before when.
    pub(super) due: Option<(EndReason, Moment)>,
    pub(super) backoff: Backoff,
    pub(super) since: Moment,
    pub(super) starts: u64,
}

impl Slot {
    pub(super) fn new(backoff: BackoffConfig, now: Moment) -> Slot {
        Slot {
            present: None,
            successor: None,
            start_at: None,
            due: None,
            backoff: Backoff::new(backoff),
            since: now,
            starts: 0,
        }
    }

    pub(super) fn phase(&self) -> SlotPhase {
        match self.present.map(|p| p.state) {
            Some(State::Starting { .. }) => SlotPhase::Starting,
            Some(State::Idle) => SlotPhase::Idle,
            Some(State::Busy) => SlotPhase::Busy,
            None => SlotPhase::BackingOff,
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.phase() == SlotPhase::Idle
    }

    pub(super) fn is_busy(&self) -> bool {
        self.phase() == SlotPhase::Busy
    }

    pub(super) fn is_ready(&self) -> bool {
        self.is_idle() || self.is_busy()
    }

    /// The present worker, if it is the one named.
    pub(super) fn present_is(&mut self, id: WorkerId) -> Option<&mut Present> {
        self.present.as_mut().filter(|p| p.id == id)
    }

    pub(super) fn next_wake(&self) -> Option<Moment> {
        let booting = match self.present.map(|p| p.state) {
            Some(State::Starting { until }) => Some(until),
            _ => None,
        };
        let due = self.due.map(|(_, at)| at);
        [booting, self.start_at, self.successor.map(|s| s.until), due].into_iter().flatten().min()
    }

    pub(super) fn snapshot(&self, slot: u32) -> SlotSnapshot {
        SlotSnapshot {
            slot,
            worker: self.present.map(|p| p.id),
            phase: self.phase(),
            since: self.since,
            served: self.present.map_or(0, |p| p.served),
            restarts: self.starts.saturating_sub(1),
            replacing: self.due.is_some() || self.successor.is_some(),
            next_start: self.start_at,
        }
    }

    pub(super) fn check_invariants(&self, stopping: bool) {
        assert!(
            stopping || self.present.is_some() != self.start_at.is_some(),
            "a worker, or a time for the next one"
        );
        assert!(
            self.successor.is_none() || self.present.is_some(),
            "a successor has somebody to succeed"
        );
    }
}
