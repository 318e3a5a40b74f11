//! What the person at the terminal, or the reader of the service's journal, has to know at once.
//!
//! Invariant: lines go to standard error from a thread of their own behind a bounded channel. A
//! terminal that takes nothing costs lines, which are counted, never a request.

use hedgerow_gateway::record::Recorder;
use hedgerow_policy::breaker::State;
use hedgerow_policy::observe::CacheEvent;
use hedgerow_policy::{Event, Observer};
use std::borrow::Cow;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{SyncSender, sync_channel};

/// Lines that may wait for the terminal.
const WAITING: usize = 1024;

/// Passes every event on and says the ones a person has to know.
pub struct Narrator {
    next: Recorder,
    lines: SyncSender<String>,
    dropped: Arc<AtomicU64>,
    /// Whether what a program says of itself is masked.
    redact: bool,
}

impl Narrator {
    /// One in front of `next`. With `redact`, what workers print and say is masked.
    ///
    /// # Errors
    /// When its thread cannot be started.
    pub fn new(next: Recorder, redact: bool) -> std::io::Result<Narrator> {
        let (lines, waiting) = sync_channel::<String>(WAITING);
        let dropped = Arc::new(AtomicU64::new(0));
        let lost = dropped.clone();
        std::thread::Builder::new().name("narrator".into()).spawn(move || {
            for line in waiting {
                let mut out = std::io::stderr().lock();
                let lost = lost.swap(0, Relaxed);
                if lost > 0 {
                    let _ = writeln!(out, "hedgerow: {lost} lines were dropped");
                }
                let _ = writeln!(out, "{line}");
            }
        })?;
        Ok(Narrator { next, lines, dropped, redact })
    }

    /// Says a line of its own.
    pub fn say(&self, line: String) {
        if self.lines.try_send(line).is_err() {
            self.dropped.fetch_add(1, Relaxed);
            self.next.terminal_line_dropped();
        }
    }
}

impl Observer for Narrator {
    fn on(&self, event: &Event<'_>) {
        self.next.on(event);
        if let Some(line) = line(event, self.redact) {
            self.say(line);
        }
    }
}

fn line(event: &Event<'_>, redact: bool) -> Option<String> {
    let shown = |said| if redact { Cow::Borrowed("[redacted]") } else { shown(said) };
    Some(match event {
        Event::WorkerBootFailed { worker, error, .. } => {
            format!("hedgerow: worker {worker} could not boot: {}", shown(error))
        }
        Event::WorkerExited { worker, pid, status } => {
            format!("hedgerow: worker {worker} (pid {pid}) {status}")
        }
        Event::WorkerKilled { worker, pid, reason } if is_fault(*reason) => {
            format!("hedgerow: worker {worker} (pid {pid}) was killed: {}", reason.name())
        }
        Event::RestartScheduled { worker, delay, failures } => {
            let (ms, s) = (delay.as_millis(), if *failures == 1 { "" } else { "s" });
            format!("hedgerow: worker {worker} rests for {ms} ms ({failures} failure{s} in a row)")
        }
        Event::WorkerOutput { worker, line, .. } => format!("[worker {worker}] {}", shown(line)),
        Event::Cache(CacheEvent::Lost { database, error }) => {
            format!("hedgerow: cache, database {database}: {}", shown(error))
        }
        Event::Cache(CacheEvent::Connected { database, again, order_guaranteed }) => {
            let how = match (again, order_guaranteed) {
                (_, false) => {
                    "connected, but the store does not allow CLIENT KILL: order is not guaranteed"
                }
                (true, true) => "connected again",
                (false, true) => return None,
            };
            format!("hedgerow: cache, database {database}: {how}")
        }
        Event::BreakerTransition { name, transition } => {
            let state = match transition.to {
                State::Open => "open",
                State::Closed => "closed",
                State::HalfOpen => return None,
            };
            format!("hedgerow: the circuit of {name} is {state}: {}", transition.cause.name())
        }
        Event::ReloadDone => "hedgerow: reloaded".to_owned(),
        Event::ReloadAbandoned { error } => {
            format!("hedgerow: reload abandoned, the old workers serve on: {error}")
        }
        _ => return None,
    })
}

/// What a program said, with its control characters escaped: some of them would have the terminal do
/// things. A tab is none of those.
fn shown(said: &str) -> Cow<'_, str> {
    let harmless = |c: char| !c.is_control() || c == '\t';
    if said.chars().all(harmless) {
        return Cow::Borrowed(said);
    }
    let escape = |c: char| if harmless(c) { c.to_string() } else { c.escape_default().to_string() };
    Cow::Owned(said.chars().map(escape).collect())
}

fn is_fault(reason: hedgerow_policy::observe::EndReason) -> bool {
    use hedgerow_policy::observe::EndReason;
    matches!(reason, EndReason::Timeout | EndReason::Fault | EndReason::StartTimeout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_worker_prints_cannot_move_the_cursor() {
        let said = "a\tb \u{1b}[2J\u{9b}31m gr\u{fc}n\r";
        let event = Event::WorkerOutput { worker: 1, pid: 2, stderr: true, line: said };
        let expected = "[worker 1] a\tb \\u{1b}[2J\\u{9b}31m gr\u{fc}n\\r";
        assert_eq!(line(&event, false).as_deref(), Some(expected));
        assert_eq!(line(&event, true).as_deref(), Some("[worker 1] [redacted]"));
    }
}
