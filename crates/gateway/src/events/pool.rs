//! What the pool reports, as events and as counts of restarts.
//!
//! Invariant: one process that ends is one restart, even where it was first asked to end and
//! later seen to exit, or failed to
//! boot and was then killed. A process the gateway ends because it is stopping is none.

use super::{words, write, write_as};
use crate::facts::{Fields, Key};
use crate::record::Inner;
use crate::wall;
use hedgerow_policy::observe::{EndReason, Event};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// More ended processes than are remembered; beyond it the set is begun anew.
const MOST: usize = 4_096;

/// What has to be remembered of processes to say the right thing about the next event.
#[derive(Default)]
pub(crate) struct Processes(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// Slots that once had a ready worker: the next one is a restart.
    served: BTreeSet<u32>,
    /// Processes whose end is counted already.
    ended: BTreeSet<u32>,
}

impl Processes {
    fn with<T>(&self, look: impl FnOnce(&mut Known) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A new process has this number, whatever had it before.
    fn started(&self, pid: u32) {
        self.with(|known| known.ended.remove(&pid));
    }

    /// The process ends. False when that was known. What never had a number is always news.
    fn ends(&self, pid: u32) -> bool {
        if pid == 0 {
            return true;
        }
        self.with(|known| {
            if known.ended.len() >= MOST {
                known.ended.clear();
            }
            known.ended.insert(pid)
        })
    }

    /// The slot has a ready worker. True when it had one before.
    fn ready(&self, slot: u32) -> bool {
        self.with(|known| !known.served.insert(slot))
    }
}

/// Writes down one event of the pool.
pub(super) fn record(inner: &Inner, event: &Event<'_>) {
    match *event {
        Event::WorkerStarted { worker, pid } => {
            inner.processes.started(pid);
            write(inner, &"worker.started", |line| {
                line.num(&"worker_id", worker);
                line.num(&"pid", pid);
            });
        }
        Event::WorkerReady { worker, pid, after } => {
            let again = inner.processes.ready(worker);
            let kind: Key = if again { &"worker.restarted" } else { &"worker.ready" };
            write(inner, kind, |line| {
                line.num(&"worker_id", worker);
                line.num(&"pid", pid);
                line.millis(&"after_ms", after);
            });
        }
        Event::WorkerBootFailed { worker, pid, error } => {
            ended(inner, pid, Some("boot_failed"));
            write(inner, &"worker.boot_failed", |line| {
                line.num(&"worker_id", worker);
                line.num(&"pid", pid);
                line.message(&"error", words(inner, error));
            });
        }
        Event::WorkerExited { worker, pid, status } => {
            ended(inner, pid, Some("exit"));
            write(inner, &"worker.exited", |line| {
                line.num(&"worker_id", worker);
                line.num(&"pid", pid);
                line.str(&"status", status);
            });
        }
        Event::WorkerKilled { worker, pid, reason } => {
            ended(inner, pid, replaced(reason));
            because(inner, &"worker.killed", worker, pid, reason);
        }
        Event::WorkerRetired { worker, pid, reason } => {
            ended(inner, pid, replaced(reason));
            let kind: Key = match reason {
                EndReason::MaxRequests => &"worker.max_requests_reached",
                _ => &"worker.retired",
            };
            because(inner, kind, worker, pid, reason);
        }
        Event::RestartScheduled { worker, delay, failures } => {
            write(inner, &"worker.restart_scheduled", |line| {
                line.num(&"worker_id", worker);
                line.millis(&"delay_ms", delay);
                line.num(&"failures", failures);
            });
        }
        Event::WorkerOutput { worker, pid, stderr, line: said } => {
            let kept = write_as(inner, &"worker.output", wall::now(), None, |line| {
                line.num(&"worker_id", worker);
                line.num(&"pid", pid);
                line.str(&"stream", if stderr { "stderr" } else { "stdout" });
                line.message(&"line", words(inner, said));
            });
            if !kept {
                inner.metrics.output_dropped();
            }
        }
        // Its place among the lines says it already.
        Event::WorkerOutputDropped { .. } => {}
        Event::LateAnswer { worker, trace } => {
            write(inner, &"worker.late_response", |line| {
                line.num(&"worker_id", worker);
                line.str(&"trace_id", trace);
            });
        }
        Event::ReloadDone => _ = write(inner, &"reload.done", |_| {}),
        Event::ReloadAbandoned { error } => {
            write(inner, &"reload.abandoned", |line| line.message(&"error", words(inner, error)));
        }
        // One line for each request says it already.
        Event::QueueWait | Event::QueueRejected | Event::QueueTimeout => {}
        Event::QueueGranted { .. } => {}
        Event::Call { upstream, trace, ref event } => {
            super::calls::record(inner, upstream, trace, event);
        }
        Event::BreakerTransition { .. } | Event::Cache(_) => super::cache::record(inner, event),
    }
}

/// Counts the end of a process once, under the reason that came first.
fn ended(inner: &Inner, pid: u32, reason: Option<&'static str>) {
    if let (true, Some(reason)) = (inner.processes.ends(pid), reason) {
        inner.metrics.restarted(reason);
    }
}

/// The reason as a restart is counted under it; none where nothing takes the process's place.
fn replaced(reason: EndReason) -> Option<&'static str> {
    (reason != EndReason::Shutdown).then(|| reason.name())
}

fn because(inner: &Inner, kind: Key, worker: u32, pid: u32, reason: EndReason) {
    write(inner, kind, |line| {
        line.num(&"worker_id", worker);
        line.num(&"pid", pid);
        line.str(&"reason", reason.name());
    });
}
