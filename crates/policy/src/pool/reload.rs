//! New settings or a new application: a whole new set of workers boots beside the old one.
//!
//! Invariant: until every new worker is ready the old ones serve and nothing of theirs changes;
//! then all slots change over together. One failed boot abandons the whole reload.

use super::slot::Slot;
use super::{Action, Pool, PoolConfig, WorkerId};
use crate::moment::Moment;
use crate::observe::EndReason;

/// A reload under way.
#[derive(Debug)]
pub(super) struct Reload {
    config: PoolConfig,
    load: u64,
    until: Moment,
    workers: Vec<(WorkerId, bool)>,
}

impl Reload {
    pub(super) fn deadline(&self) -> Moment {
        self.until
    }

    pub(super) fn has(&self, worker: WorkerId) -> bool {
        self.workers.iter().any(|(id, _)| *id == worker)
    }
}

impl Pool {
    /// Boots a new set of workers under `config`. Ends in [`Action::ReloadDone`] or
    /// [`Action::ReloadAbandoned`]. Returns the number of the load, or `None` while another reload
    /// is under way or the pool is stopping.
    pub fn on_reload(&mut self, now: Moment, config: PoolConfig) -> Option<u64> {
        if self.reload.is_some() || self.stopping {
            return None;
        }
        let load = self.load + 1;
        let workers: Vec<(WorkerId, bool)> =
            (0..config.size).map(|slot| (self.next_id(slot), false)).collect();
        for &(worker, _) in &workers {
            self.actions.push_back(Action::Start { worker, load });
        }
        let until = now + config.start_timeout;
        self.reload = Some(Reload { config, load, until, workers });
        self.check_invariants();
        Some(load)
    }

    /// Takes a readiness that belongs to the reload. False if it does not.
    pub(super) fn reload_ready(&mut self, now: Moment, worker: WorkerId) -> bool {
        let Some(reload) = self.reload.as_mut() else { return false };
        let Some((_, ready)) = reload.workers.iter_mut().find(|(id, _)| *id == worker) else {
            return false;
        };
        *ready = true;
        if reload.workers.iter().all(|(_, ready)| *ready)
            && let Some(reload) = self.reload.take()
        {
            self.change_over(now, reload);
        }
        true
    }

    pub(super) fn reload_wake(&mut self, now: Moment) {
        if self.reload.as_ref().is_some_and(|r| r.until <= now) {
            self.abandon_reload("a new worker was not ready in time");
        }
    }

    pub(super) fn abandon_reload(&mut self, error: &str) {
        let Some(reload) = self.reload.take() else { return };
        for (worker, _) in reload.workers {
            self.actions.push_back(Action::Kill { worker, reason: EndReason::Reload });
        }
        self.actions.push_back(Action::ReloadAbandoned { error: error.to_owned() });
    }

    fn change_over(&mut self, now: Moment, reload: Reload) {
        for slot in 0..self.config.size {
            if let Some(successor) = self.slots[slot as usize].successor.take() {
                let (worker, reason) = (successor.id, EndReason::Reload);
                self.actions.push_back(Action::Kill { worker, reason });
            }
            self.step_down(slot, EndReason::Reload);
        }
        let starts: Vec<u64> = self.slots.iter().map(|s| s.starts).collect();
        self.config = reload.config;
        self.load = reload.load;
        self.queue.reconfigure(self.config.queue);
        self.slots = (0..self.config.size as usize)
            .map(|i| {
                let mut slot = Slot::new(self.config.backoff, now);
                slot.starts = starts.get(i).map_or(1, |s| s + 1);
                slot
            })
            .collect();
        self.idle.clear();
        for (worker, _) in reload.workers {
            let limit = self.draw_limit();
            self.install(now, worker, limit);
        }
        self.actions.push_back(Action::ReloadDone);
        self.hand_off(now);
    }
}
