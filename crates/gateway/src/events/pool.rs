//! What the pool reports, as events and as counts of restarts.
//!
//! Invariant: one process that ends is one restart, even where it was first asked to end and
//! later seen to exit. A process the gateway ends because it is stopping is none.

use super::{words, write};
use crate::record::Inner;
use hedgerow_policy::observe::{EndReason, Event};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// More processes than can be on their way out at once; beyond it the set is begun anew.
const MOST: usize = 4_096;

/// What has to be remembered of processes to say the right thing about the next event.
#[derive(Default)]
pub(crate) struct Processes(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// Slots that once had a ready worker: the next one is a restart.
    served: BTreeSet<u32>,
    /// Processes that were asked to end and are counted already.
    leaving: BTreeSet<u32>,
}

impl Processes {
    fn with<T>(&self, look: impl FnOnce(&mut Known) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Remembers that `pid` leaves. False when that was known.
    fn leaves(&self, pid: u32) -> bool {
        self.with(|known| {
            if known.leaving.len() >= MOST {
                known.leaving.clear();
            }
            known.leaving.insert(pid)
        })
    }

    /// Forgets `pid`, which is gone. True when it had been counted as leaving.
    fn gone(&self, pid: u32) -> bool {
        self.with(|known| known.leaving.remove(&pid))
    }

    /// Remembers that the slot had a ready worker. True when it had one before.
    fn ready(&self, slot: u32) -> bool {
        self.with(|known| !known.served.insert(slot))
    }
}

/// Writes down one event of the pool.
pub(super) fn record(inner: &Inner, event: &Event<'_>) {
    match *event {
        Event::WorkerStarted { worker, pid } => process(inner, "worker.started", worker, pid),
        Event::WorkerReady { worker, pid, after } => {
            let again = inner.processes.ready(worker);
            let kind = if again { "worker.restarted" } else { "worker.ready" };
            write(inner, kind, |line| {
                line.num("worker_id", worker);
                line.num("pid", pid);
                line.millis("after_ms", after);
            });
        }
        Event::WorkerBootFailed { worker, pid, error } => {
            ended(inner, pid, Some("boot_failed"));
            write(inner, "worker.boot_failed", |line| {
                line.num("worker_id", worker);
                line.num("pid", pid);
                line.message("error", words(inner, error));
            });
        }
        Event::WorkerExited { worker, pid, status } => {
            ended(inner, pid, Some("exit"));
            write(inner, "worker.exited", |line| {
                line.num("worker_id", worker);
                line.num("pid", pid);
                line.str("status", status);
            });
        }
        Event::WorkerKilled { worker, pid, reason } => {
            ended(inner, pid, replaced(reason));
            because(inner, "worker.killed", worker, pid, reason);
        }
        Event::WorkerRetired { worker, pid, reason } => {
            if let (Some(reason), true) = (replaced(reason), inner.processes.leaves(pid)) {
                inner.metrics.restarted(reason);
            }
            let kind = match reason {
                EndReason::MaxRequests => "worker.max_requests_reached",
                _ => "worker.retired",
            };
            because(inner, kind, worker, pid, reason);
        }
        Event::RestartScheduled { worker, delay, failures } => {
            write(inner, "worker.restart_scheduled", |line| {
                line.num("worker_id", worker);
                line.millis("delay_ms", delay);
                line.num("failures", failures);
            });
        }
        Event::WorkerOutput { worker, pid, stderr, line: said } => {
            let kept = write(inner, "worker.output", |line| {
                line.num("worker_id", worker);
                line.num("pid", pid);
                line.str("stream", if stderr { "stderr" } else { "stdout" });
                line.message("line", words(inner, said));
            });
            if !kept {
                inner.metrics.output_dropped();
            }
        }
        Event::LateAnswer { worker, trace } => {
            write(inner, "worker.late_response", |line| {
                line.num("worker_id", worker);
                line.str("trace_id", trace);
            });
        }
        Event::ReloadDone => _ = write(inner, "reload.done", |_| {}),
        Event::ReloadAbandoned { error } => {
            write(inner, "reload.abandoned", |line| line.message("error", words(inner, error)));
        }
        // One line for each request says it already.
        Event::QueueWait | Event::QueueRejected | Event::QueueTimeout => {}
        Event::QueueGranted { .. } => {}
    }
}

/// Counts the end of a process, unless its leaving was counted.
fn ended(inner: &Inner, pid: u32, reason: Option<&'static str>) {
    if inner.processes.gone(pid) {
        return;
    }
    if let Some(reason) = reason {
        inner.metrics.restarted(reason);
    }
}

/// The reason as a restart is counted under it; none where nothing takes the process's place.
fn replaced(reason: EndReason) -> Option<&'static str> {
    (reason != EndReason::Shutdown).then(|| reason.name())
}

fn process(inner: &Inner, kind: &str, worker: u32, pid: u32) {
    write(inner, kind, |line| {
        line.num("worker_id", worker);
        line.num("pid", pid);
    });
}

fn because(inner: &Inner, kind: &str, worker: u32, pid: u32, reason: EndReason) {
    write(inner, kind, |line| {
        line.num("worker_id", worker);
        line.num("pid", pid);
        line.str("reason", reason.name());
    });
}
