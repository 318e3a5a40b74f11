//! What of the events the dashboard lists.
//!
//! Invariant: what can happen with every request is a curve, never a line here.

use super::words;
use crate::history::Move;
use crate::record::Inner;
use crate::wall;
use hedgerow_policy::observe::{CacheEvent, CallEvent, EndReason, Event};
use hedgerow_policy::repair::GateChange;

/// Keeps the event, if it is worth a line.
pub(super) fn keep(inner: &Inner, event: &Event<'_>) {
    let note = |kind, worker, detail: &str| {
        inner.history.happenings().event(wall::now().unix_millis(), kind, worker, detail);
    };
    let ended = |kind, worker, reason: EndReason| {
        if reason != EndReason::Shutdown {
            note(kind, Some(worker), reason.name());
        }
    };
    match *event {
        Event::WorkerReady { worker, .. } => note("worker.ready", Some(worker), ""),
        Event::WorkerBootFailed { worker, error, .. } => {
            note("worker.boot_failed", Some(worker), words(inner, error));
        }
        Event::WorkerExited { worker, status, .. } => note("worker.exited", Some(worker), status),
        Event::WorkerKilled { worker, reason, .. } => ended("worker.killed", worker, reason),
        Event::WorkerRetired { worker, reason, .. } => ended("worker.retired", worker, reason),
        Event::RestartScheduled { worker, delay, .. } => {
            let delay = format!("{} ms", delay.as_millis());
            note("worker.restart_scheduled", Some(worker), &delay);
        }
        Event::ReloadDone => note("reload.done", None, ""),
        Event::ReloadAbandoned { error } => note("reload.abandoned", None, words(inner, error)),
        Event::Call { upstream, event: CallEvent::EndpointDemoted { endpoint }, .. } => {
            note("upstream.endpoint_demoted", None, &format!("{upstream} {endpoint}"));
        }
        Event::BreakerTransition { name, transition } => {
            inner.history.happenings().moved(Move {
                n: 0,
                at: wall::now().unix_millis(),
                name: name.to_owned(),
                from: transition.from.name(),
                to: transition.to.name(),
                cause: transition.cause.name(),
                episode: transition.episode,
                calls: transition.counts.calls,
                failures: transition.counts.failures,
            });
        }
        Event::Cache(ref event) => cache(inner, event, note),
        _ => {}
    }
}

fn cache(inner: &Inner, event: &CacheEvent<'_>, note: impl Fn(&'static str, Option<u32>, &str)) {
    match *event {
        CacheEvent::Repair { change: GateChange::Shut } => note("cache.repair", None, "shut"),
        CacheEvent::Repair { change: GateChange::Proven } => note("cache.repair", None, "proven"),
        CacheEvent::Connected { database, again: true, .. } => {
            note("cache.connected", None, &format!("database {database}"));
        }
        CacheEvent::Lost { error, .. } => note("cache.lost", None, words(inner, error)),
        CacheEvent::JournalOverflowed { database } => {
            note("cache.journal_overflowed", None, &format!("database {database}"));
        }
        CacheEvent::JournalFileFailed { error } => {
            note("cache.journal_failed", None, words(inner, error));
        }
        _ => {}
    }
}

/// Somebody did something through the admin listener.
pub(super) fn action(inner: &Inner, action: &str, target: &str) {
    let detail = format!("{action} {target}");
    inner.history.happenings().event(wall::now().unix_millis(), "admin.action", None, &detail);
}
