//! A request arrives: a worker, a place in the queue, or a refusal; and the permit's end.
//!
//! Invariant: nobody waits while a worker is idle, and nobody is queued for workers that cannot
//! come soon.

use super::slot::State;
use super::{Action, Outcome, Permit, Pool, WorkerId};
use crate::deadline::Deadline;
use crate::failure::{At, Class, Failure, Phase};
use crate::moment::Moment;
use crate::observe::EndReason;
use crate::queue::{Queue, Ticket, Waiting};
use std::time::Duration;

/// The answer to an arrival.
#[derive(PartialEq, Eq, Debug)]
pub enum Admission {
    /// A worker at once.
    Granted(Permit),
    /// A place in the queue; an [`Action::Grant`] follows, or the wait ends at `until`.
    Queued(Waiting),
    /// Neither.
    Refused(Refusal),
}

/// Why a request gets no worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RefusalKind {
    /// No worker of this load has been ready yet, and a boot has failed.
    NotBooted,
    /// All are busy and there is no queue.
    Busy,
    /// All that once were ready are down.
    Down,
    /// The queue is full.
    QueueFull,
    /// The wait is over.
    Expired,
    /// The pool is stopping.
    Stopping,
}

/// A refusal, with when to come back (whole seconds).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// Why.
    pub kind: RefusalKind,
    /// Advice from the measured drain rate, 1–30 s.
    pub retry_after_s: u32,
    /// What the failed boot said, for the log.
    pub detail: Option<String>,
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        let failure = match refusal.kind {
            RefusalKind::NotBooted => {
                let why = refusal.detail.unwrap_or_default();
                return Failure::new(
                    Class::WorkerRuntimeError,
                    At::Worker,
                    format!("the application could not boot: {why}"),
                );
            }
            RefusalKind::Busy => Failure::new(
                Class::WorkerPoolExhausted,
                At::Queue,
                "every worker is busy and there is no queue",
            ),
            RefusalKind::Down => {
                Failure::new(Class::WorkerPoolExhausted, At::Queue, "every worker is down")
            }
            RefusalKind::QueueFull => {
                Failure::new(Class::WorkerQueueFull, At::Queue, "the queue is full")
            }
            RefusalKind::Expired => {
                return Failure::new(
                    Class::WorkerQueueTimeout,
                    At::Queue,
                    "waited in the queue and no worker came in time",
                )
                .in_phase(Phase::Queue);
            }
            RefusalKind::Stopping => {
                Failure::new(Class::Draining, At::Gateway, "the gateway is stopping")
            }
        };
        failure.retry_after(refusal.retry_after_s)
    }
}

impl Pool {
    /// A request arrives and may wait until `deadline`, at most for the queue's timeout.
    pub fn on_arrive(&mut self, now: Moment, deadline: Deadline) -> Admission {
        self.on_arrive_with(now, deadline, None)
    }

    /// The same with a `patience` of its own in place of the queue's timeout; where there is no
    /// queue it opens none, and a patience of zero is not to wait.
    pub fn on_arrive_with(
        &mut self,
        now: Moment,
        deadline: Deadline,
        patience: Option<Duration>,
    ) -> Admission {
        let admission = if self.stopping {
            self.refuse(now, RefusalKind::Stopping)
        } else if let Some(slot) = self.idle.pop() {
            Admission::Granted(self.grant(now, slot))
        } else if !self.ever_ready && self.boot_error.is_some() {
            self.refuse(now, RefusalKind::NotBooted)
        } else if self.slots.iter().all(|s| s.present.is_none()) {
            self.refuse(now, RefusalKind::Down)
        } else if !self.queue.enabled() || patience.is_some_and(|p| p.is_zero()) {
            self.refuse(now, RefusalKind::Busy)
        } else {
            match self.queue.on_arrive(now, deadline, patience) {
                Some(waiting) => Admission::Queued(waiting),
                None => self.refuse(now, RefusalKind::QueueFull),
            }
        };
        self.check_invariants();
        admission
    }

    /// A request goes on that had a worker before: it is no arrival, so it waits in front of the queue
    /// and whatever its capacity, until `deadline`.
    pub fn on_resume(&mut self, now: Moment, deadline: Deadline) -> Admission {
        self.go_on(now, |queue| queue.on_resume(now, deadline))
    }

    /// A stream wants its next step: it waits in its turn, whatever the queue's capacity, until
    /// `deadline`.
    pub fn on_step(&mut self, now: Moment, deadline: Deadline) -> Admission {
        self.go_on(now, |queue| queue.on_step(now, deadline))
    }

    fn go_on(&mut self, now: Moment, wait: impl FnOnce(&mut Queue) -> Waiting) -> Admission {
        let admission = if self.stopping {
            self.refuse(now, RefusalKind::Stopping)
        } else if let Some(slot) = self.idle.pop() {
            Admission::Granted(self.grant(now, slot))
        } else {
            Admission::Queued(wait(&mut self.queue))
        };
        self.check_invariants();
        admission
    }

    /// A worker for a request whose first worker could not be reached: an idle one, or nothing.
    /// It may not wait: what it asks for is a second chance, not a second place in the queue.
    pub fn on_second_try(&mut self, now: Moment) -> Option<Permit> {
        let slot = if self.stopping { None } else { self.idle.pop() }?;
        Some(self.grant(now, slot))
    }

    /// A waiter gave up its place: its client left. False if it has been granted meanwhile.
    pub fn on_leave(&mut self, ticket: Ticket) -> bool {
        self.queue.on_leave(ticket)
    }

    /// The refusal of a waiter whose time is over.
    pub fn on_expired(&mut self, now: Moment, ticket: Ticket) -> Refusal {
        self.queue.on_leave(ticket);
        self.refusal(now, RefusalKind::Expired)
    }

    /// The use of a permit has ended. A permit of a worker that has lost its slot ends that worker.
    #[expect(clippy::needless_pass_by_value, reason = "a permit is settled once")]
    pub fn settle(&mut self, now: Moment, permit: Permit, outcome: Outcome) {
        let worker = permit.worker;
        if let Some(at) = self.retiring.iter().position(|(id, _)| *id == worker) {
            let (_, reason) = self.retiring.swap_remove(at);
            self.left(now, outcome);
            self.actions.push_back(match outcome {
                Outcome::TimedOut => Action::Kill { worker, reason: EndReason::Timeout },
                Outcome::Fault => Action::Kill { worker, reason: EndReason::Fault },
                _ => Action::Retire { worker, reason },
            });
        } else if self.slot_mut(worker).and_then(|s| s.present_is(worker)).is_some() {
            self.left(now, outcome);
            self.settle_present(now, worker, outcome);
        }
        self.check_invariants();
    }

    fn settle_present(&mut self, now: Moment, worker: WorkerId, outcome: Outcome) {
        match outcome {
            Outcome::TimedOut => return self.on_misbehaved(now, worker, EndReason::Timeout),
            Outcome::Fault => return self.on_misbehaved(now, worker, EndReason::Fault),
            Outcome::DoneLast => return self.on_last_answer(now, worker),
            Outcome::Done | Outcome::Unused => {}
        }
        let supervised = self.config.supervised;
        let Some(slot) = self.slots.get_mut(worker.slot as usize) else { return };
        let Some(present) = slot.present.as_mut() else { return };
        present.state = State::Idle;
        slot.since = now;
        if outcome == Outcome::Done {
            present.served += 1;
            if !supervised {
                slot.backoff.reset();
            }
            if present.limit > 0 && present.served >= present.limit && slot.due.is_none() {
                slot.due = Some((EndReason::MaxRequests, now));
            }
        }
        let due = slot.due.is_some();
        self.idle.push(worker.slot);
        if due {
            self.plan_replacements(now);
        }
        self.hand_off(now);
    }

    /// Gives idle workers to those who wait, in order.
    pub(super) fn hand_off(&mut self, now: Moment) {
        while let Some(&slot) = self.idle.last() {
            let Some((ticket, waited)) = self.queue.on_free(now) else { return };
            self.idle.pop();
            let permit = self.grant(now, slot);
            self.actions.push_back(Action::Grant { ticket, permit, waited });
        }
    }

    fn grant(&mut self, now: Moment, slot: u32) -> Permit {
        self.in_flight += 1;
        self.rate.on_start(now);
        let place = &mut self.slots[slot as usize];
        place.since = now;
        // The idle stack holds idle slots only, so there is a present worker.
        let worker = place.present.as_mut().map_or(WorkerId { slot, generation: 0 }, |p| {
            p.state = State::Busy;
            p.id
        });
        Permit { worker, granted: now }
    }

    pub(super) fn left(&mut self, now: Moment, outcome: Outcome) {
        self.in_flight -= 1;
        if outcome != Outcome::Unused {
            self.rate.on_done(now, self.in_flight > 0);
        }
    }

    fn refuse(&mut self, now: Moment, kind: RefusalKind) -> Admission {
        Admission::Refused(self.refusal(now, kind))
    }

    fn refusal(&mut self, now: Moment, kind: RefusalKind) -> Refusal {
        let ahead = self.queue.depth() + self.in_flight;
        let detail = match kind {
            RefusalKind::NotBooted => self.boot_error.clone(),
            _ => None,
        };
        Refusal { kind, retry_after_s: self.rate.retry_after(now, ahead), detail }
    }
}
