//! What the policy decided, done.
//!
//! Invariant: nothing here waits; a process is started by a task of its own, and a kill is one
//! system call.

use super::{Inner, PoolError, State};
use crate::process::look_after;
use crate::settings::Source;
use crate::worker::{End, Worker};
use hedgerow_policy::observe::Event;
use hedgerow_policy::pool::{Action, WorkerId};
use std::sync::Arc;

impl Inner {
    /// Carries out everything the policy has queued, and what follows from that.
    pub(super) fn carry_out(self: &Arc<Self>, state: &mut State) {
        let mut told = false;
        while let Some(action) = state.policy.next_action() {
            // A grant changes neither when the policy wants to be woken nor what anybody waits for.
            told |= !matches!(action, Action::Grant { .. });
            match action {
                Action::Start { worker, load } => self.start_worker(state, worker, load),
                Action::Kill { worker, reason } => {
                    self.end_worker(state, worker, End::Kill(reason));
                }
                Action::Retire { worker, reason } => {
                    self.end_worker(state, worker, End::Retire(reason));
                }
                Action::Grant { ticket, permit, waited } => {
                    let seed = state.seed(permit, waited);
                    let refused = match state.waiters.remove(&ticket) {
                        Some(waiter) => waiter.send(seed).err(),
                        None => Some(seed),
                    };
                    if let Some(seed) = refused {
                        let unused = hedgerow_policy::pool::Outcome::Unused;
                        state.policy.settle(self.clock.now(), seed.permit, unused);
                    }
                }
                Action::Postponed { slot, delay, failures } => {
                    self.observer.on(&Event::RestartScheduled { worker: slot, delay, failures });
                }
                Action::ReloadDone => {
                    if let Some(newest) = state.loads.last_key_value().map(|(n, _)| *n) {
                        state.loads.retain(|n, _| *n == newest);
                    }
                    self.reload_ended(state, Ok(()));
                }
                Action::ReloadAbandoned { error } => {
                    if let Some(newest) = state.loads.last_key_value().map(|(n, _)| *n) {
                        state.loads.remove(&newest);
                    }
                    self.reload_ended(state, Err(error));
                }
            }
        }
        if told {
            self.replan.notify_one();
            self.progress.send_replace(());
        }
    }

    fn start_worker(self: &Arc<Self>, state: &mut State, id: WorkerId, load: u64) {
        let Some(load) = state.loads.get(&load).cloned() else { return };
        match &load.settings.source {
            Source::Supervised(launch) => {
                let socket = load.directory.socket(id);
                let worker = Arc::new(Worker::new(id, socket, load.settings.clone()));
                state.workers.insert(id, worker.clone());
                state.processes += 1;
                let (pool, launch) = (self.clone(), launch.clone());
                // The task holds the directory: it is removed after the last socket in it.
                let directory = load.directory.clone();
                tokio::spawn(async move {
                    look_after(pool, worker, launch).await;
                    drop(directory);
                });
            }
            Source::Sockets(sockets) => {
                let Some(socket) = sockets.get(id.slot as usize).cloned() else { return };
                let worker = Arc::new(Worker::new(id, socket, load.settings.clone()));
                state.workers.insert(id, worker);
                // Somebody else starts it; whether it is there shows when it is connected to.
                state.policy.on_ready(self.clock.now(), id);
            }
        }
    }

    fn end_worker(&self, state: &mut State, id: WorkerId, end: End) {
        let Some(worker) = state.workers.remove(&id) else { return };
        let pid = worker.pid().unwrap_or(0);
        if pid != 0 {
            self.observer.on(&match end {
                End::Kill(reason) => Event::WorkerKilled { worker: id.slot, pid, reason },
                End::Retire(reason) => Event::WorkerRetired { worker: id.slot, pid, reason },
            });
        }
        worker.end(end);
    }

    fn reload_ended(&self, state: &mut State, result: Result<(), String>) {
        match &result {
            Ok(()) => self.observer.on(&Event::ReloadDone),
            Err(error) => self.observer.on(&Event::ReloadAbandoned { error }),
        }
        if let Some(waiting) = state.reload.take() {
            let _ = waiting.send(result.map_err(PoolError::Abandoned));
        }
    }
}
