//! Starts, readiness, ends and planned replacements of workers.
//!
//! Invariant: of the planned replacements by request count or memory at most a quarter of the
//! slots (at least one) are under way together, each with its successor booted first.

use super::slot::{Present, State, Successor};
use super::{Action, Pool, WorkerId};
use crate::moment::Moment;
use crate::observe::EndReason;
use std::time::Duration;

impl Pool {
    /// A worker says it is ready, or its socket accepts.
    pub fn on_ready(&mut self, now: Moment, worker: WorkerId) {
        if self.reload_ready(now, worker) {
            return self.check_invariants();
        }
        let limit = self.draw_limit();
        let Some(slot) = self.slot_mut(worker) else { return };
        if let Some(present) = slot.present_is(worker) {
            if !matches!(present.state, State::Starting { .. }) {
                return;
            }
        } else if let Some(successor) = slot.successor.filter(|s| s.id == worker) {
            self.step_down(worker.slot, successor.reason);
        } else {
            return;
        }
        self.install(now, worker, limit);
        self.plan_replacements(now);
        self.hand_off(now);
        self.check_invariants();
    }

    /// A worker said that it cannot boot.
    pub fn on_boot_failed(&mut self, now: Moment, worker: WorkerId, error: &str) {
        if self.is_booting(worker) {
            self.actions.push_back(Action::Kill { worker, reason: EndReason::Fault });
            self.boot_failed(now, worker, error);
        }
        self.check_invariants();
    }

    /// A process ended by itself. `clean`: by its own decision, with exit code 0.
    pub fn on_exit(&mut self, now: Moment, worker: WorkerId, clean: bool) {
        if self.is_booting(worker) {
            self.boot_failed(now, worker, "exited before it was ready");
            return self.check_invariants();
        }
        if let Some(at) = self.retiring.iter().position(|(id, _)| *id == worker) {
            self.retiring.swap_remove(at);
            self.in_flight -= 1;
        } else if let Some(slot) = self.slots.get_mut(worker.slot as usize)
            && let Some(&mut present) = slot.present_is(worker)
        {
            slot.present = None;
            let healthy_for = now - present.ready_since;
            if present.state == State::Busy {
                // Its exchange sees the broken connection: a fault of that request, replaced at
                // once, whichever of the two is noticed first.
                self.in_flight -= 1;
                self.replace_now(now, worker.slot);
            } else {
                self.idle.retain(|&s| s != worker.slot);
                if clean && present.served > 0 {
                    self.replace_now(now, worker.slot);
                } else {
                    self.replace_later(now, worker.slot, healthy_for);
                }
            }
        }
        self.check_invariants();
    }

    /// A worker's resident memory, measured between requests.
    pub fn on_rss(&mut self, now: Moment, worker: WorkerId, bytes: u64) {
        let limit = self.config.max_rss;
        let Some(slot) = self.slot_mut(worker) else { return };
        if limit > 0 && bytes > limit && slot.due.is_none() && slot.present_is(worker).is_some() {
            slot.due = Some((EndReason::MaxRss, now));
            self.plan_replacements(now);
        }
        self.check_invariants();
    }

    /// Replaces the worker of one slot, its successor first; starts it now if it is backing off.
    /// False if there is no such slot.
    pub fn on_restart(&mut self, now: Moment, slot: u32) -> bool {
        let Some(place) = self.slots.get_mut(slot as usize) else { return false };
        place.backoff.reset();
        match place.present.map(|p| p.state) {
            None if !self.stopping => self.start(now, slot),
            Some(State::Idle | State::Busy) => {
                place.due = Some((EndReason::Restart, now));
                self.plan_replacements(now);
            }
            _ => {}
        }
        self.check_invariants();
        true
    }

    /// Replaces every worker.
    pub fn on_restart_all(&mut self, now: Moment) {
        for slot in 0..self.config.size {
            self.on_restart(now, slot);
        }
    }

    /// Time has come: starts that are due, boots that took too long.
    pub fn on_wake(&mut self, now: Moment) {
        self.woken = self.woken.max(now);
        self.reload_wake(now);
        for slot in 0..self.config.size {
            let place = &self.slots[slot as usize];
            if let Some(Present { id, state: State::Starting { until }, .. }) = place.present
                && until <= now
            {
                self.start_timed_out(now, id);
            }
            let place = &self.slots[slot as usize];
            if let Some(Successor { id, until, .. }) = place.successor
                && until <= now
            {
                self.start_timed_out(now, id);
            }
            if self.slots[slot as usize].start_at.is_some_and(|at| at <= now) {
                self.start(now, slot);
            }
        }
        self.plan_replacements(now);
        self.check_invariants();
    }

    /// No further starts: idle workers end now, busy ones after their request.
    pub fn on_stop(&mut self, _now: Moment) {
        self.stopping = true;
        self.abandon_reload("the gateway is stopping");
        for slot in 0..self.config.size {
            self.step_down(slot, EndReason::Shutdown);
            let place = &mut self.slots[slot as usize];
            (place.start_at, place.due) = (None, None);
        }
        self.check_invariants();
    }

    /// It ran past a timeout or broke its exchange.
    pub(super) fn on_misbehaved(&mut self, now: Moment, worker: WorkerId, reason: EndReason) {
        self.actions.push_back(Action::Kill { worker, reason });
        self.slots[worker.slot as usize].present = None;
        if self.config.supervised {
            self.replace_now(now, worker.slot);
        } else {
            self.replace_later(now, worker.slot, Duration::ZERO);
        }
    }

    /// It answered, and is about to exit.
    pub(super) fn on_last_answer(&mut self, now: Moment, worker: WorkerId) {
        self.actions.push_back(Action::Retire { worker, reason: EndReason::Fault });
        self.slots[worker.slot as usize].present = None;
        self.replace_now(now, worker.slot);
    }

    /// Starts a worker in an empty slot.
    pub(super) fn start(&mut self, now: Moment, slot: u32) {
        let (load, until) = (self.load, now + self.config.start_timeout);
        let id = self.next_id(slot);
        let place = &mut self.slots[slot as usize];
        place.start_at = None;
        place.due = None;
        place.since = now;
        place.starts += 1;
        place.present = Some(Present {
            id,
            state: State::Starting { until },
            ready_since: now,
            served: 0,
            limit: 0,
        });
        self.actions.push_back(Action::Start { worker: id, load });
    }

    /// The named worker takes its slot, ready.
    pub(super) fn install(&mut self, now: Moment, id: WorkerId, limit: u64) {
        let place = &mut self.slots[id.slot as usize];
        place.present =
            Some(Present { id, state: State::Idle, ready_since: now, served: 0, limit });
        (place.successor, place.start_at, place.due, place.since) = (None, None, None, now);
        self.idle.push(id.slot);
        self.ever_ready = true;
        self.boot_error = None;
    }

    /// The present worker of a slot leaves it: at once if idle, after its request if busy.
    pub(super) fn step_down(&mut self, slot: u32, reason: EndReason) {
        let place = &mut self.slots[slot as usize];
        if self.stopping
            && let Some(successor) = place.successor.take()
        {
            self.actions.push_back(Action::Kill { worker: successor.id, reason });
        }
        let Some(present) = place.present.take() else { return };
        let worker = present.id;
        match present.state {
            State::Starting { .. } => self.actions.push_back(Action::Kill { worker, reason }),
            State::Busy => self.retiring.push((worker, reason)),
            State::Idle => {
                self.idle.retain(|&s| s != slot);
                self.actions.push_back(Action::Retire { worker, reason });
            }
        }
    }

    /// The slot has lost its worker and gets the next one at once: the successor that is booting
    /// already, or a new one.
    fn replace_now(&mut self, now: Moment, slot: u32) {
        if !self.take_successor(now, slot) && !self.stopping {
            self.start(now, slot);
        }
    }

    /// The same, after the delay of the backoff.
    fn replace_later(&mut self, now: Moment, slot: u32, healthy_for: Duration) {
        if self.take_successor(now, slot) || self.stopping {
            return;
        }
        let delay = self.delay(slot, healthy_for);
        if delay.is_zero() {
            return self.start(now, slot);
        }
        let place = &mut self.slots[slot as usize];
        place.start_at = Some(now + delay);
        place.due = None;
        place.since = now;
    }

    fn delay(&mut self, slot: u32, healthy_for: Duration) -> Duration {
        let jitter = self.jitter.ratio();
        let backoff = &mut self.slots[slot as usize].backoff;
        let delay = backoff.on_failure(healthy_for, jitter);
        let failures = backoff.failures();
        if !delay.is_zero() {
            self.actions.push_back(Action::Postponed { slot, delay, failures });
        }
        delay
    }

    fn take_successor(&mut self, now: Moment, slot: u32) -> bool {
        let place = &mut self.slots[slot as usize];
        let Some(Successor { id, until, .. }) = place.successor.take() else { return false };
        place.due = None;
        place.since = now;
        let state = State::Starting { until };
        place.present = Some(Present { id, state, ready_since: now, served: 0, limit: 0 });
        true
    }

    fn is_booting(&mut self, worker: WorkerId) -> bool {
        if self.reload.as_ref().is_some_and(|r| r.has(worker)) {
            return true;
        }
        let Some(slot) = self.slot_mut(worker) else { return false };
        let starting =
            slot.present_is(worker).is_some_and(|p| matches!(p.state, State::Starting { .. }));
        starting || slot.successor.is_some_and(|s| s.id == worker)
    }

    fn start_timed_out(&mut self, now: Moment, worker: WorkerId) {
        self.actions.push_back(Action::Kill { worker, reason: EndReason::StartTimeout });
        self.boot_failed(now, worker, "was not ready in time");
    }

    fn boot_failed(&mut self, now: Moment, worker: WorkerId, error: &str) {
        if self.reload.as_ref().is_some_and(|r| r.has(worker)) {
            return self.abandon_reload(error);
        }
        let slot = worker.slot;
        let place = &mut self.slots[slot as usize];
        if place.successor.is_some_and(|s| s.id == worker) {
            let reason = place.successor.take().map_or(EndReason::Restart, |s| s.reason);
            let delay = self.delay(slot, Duration::ZERO);
            self.slots[slot as usize].due = Some((reason, now + delay));
            self.plan_replacements(now);
        } else {
            place.present = None;
            self.boot_error = Some(error.to_owned());
            self.replace_later(now, slot, Duration::ZERO);
        }
    }

    pub(super) fn draw_limit(&mut self) -> u64 {
        let max = self.config.max_requests;
        if max == 0 {
            return 0;
        }
        let fewer = self.config.max_requests_jitter.clamp(0.0, 1.0) * self.jitter.ratio();
        ((max as f64 * (1.0 - fewer)) as u64).max(1)
    }

    /// Starts successors for slots that want one, within the bound on how many at once.
    pub(super) fn plan_replacements(&mut self, now: Moment) {
        if self.stopping {
            return;
        }
        let bound = (self.config.size as usize / 4).max(1);
        let asked = |reason| matches!(reason, EndReason::Restart | EndReason::Reload);
        let mut running = self
            .slots
            .iter()
            .filter(|s| s.successor.is_some_and(|successor| !asked(successor.reason)))
            .count();
        for slot in 0..self.config.size {
            let place = &self.slots[slot as usize];
            let Some((reason, at)) = place.due else { continue };
            if at > now || place.successor.is_some() || !place.is_ready() {
                continue;
            }
            if !asked(reason) {
                if running >= bound {
                    continue;
                }
                running += 1;
            }
            let (load, until) = (self.load, now + self.config.start_timeout);
            let id = self.next_id(slot);
            let place = &mut self.slots[slot as usize];
            place.successor = Some(Successor { id, until, reason });
            place.due = None;
            place.starts += 1;
            self.actions.push_back(Action::Start { worker: id, load });
        }
    }
}
