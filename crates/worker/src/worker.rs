//! One worker as the pool knows it while it lives: its socket, its process, what it can do.
//!
//! Invariant: a `Worker` stands for one [`WorkerId`] and is dropped, with its kept connection, when
//! the pool gives that worker up; nothing of it is handed to a successor.

use crate::settings::Settings;
use hedgerow_policy::observe::EndReason;
use hedgerow_policy::pool::WorkerId;
use hedgerow_wire::capabilities::Capabilities;
use rustix::process::{Pid, Signal, kill_process_group};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::UnixStream;
use tokio::sync::Notify;

/// One worker.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) id: WorkerId,
    pub(crate) socket: PathBuf,
    pub(crate) settings: Arc<Settings>,
    capabilities: AtomicU8,
    kept: Mutex<Option<UnixStream>>,
    process: Mutex<Process>,
    /// Wakes the task that looks after the process.
    pub(crate) ordered: Notify,
}

#[derive(Debug, Default)]
struct Process {
    pid: Option<u32>,
    end: Option<End>,
}

/// How the pool wants the process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// At once.
    Kill(EndReason),
    /// Asked to end, and killed after the grace time.
    Retire(EndReason),
}

impl Worker {
    pub(crate) fn new(id: WorkerId, socket: PathBuf, settings: Arc<Settings>) -> Worker {
        Worker {
            id,
            socket,
            settings,
            capabilities: AtomicU8::new(0),
            kept: Mutex::new(None),
            process: Mutex::new(Process::default()),
            ordered: Notify::new(),
        }
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        let bits = self.capabilities.load(Ordering::Relaxed);
        Capabilities {
            keep_alive: bits & 1 != 0,
            raw_body: bits & 2 != 0,
            cancel: bits & 4 != 0,
            lean: bits & 8 != 0,
        }
    }

    pub(crate) fn announce(&self, set: Capabilities) {
        let bits = u8::from(set.keep_alive)
            | u8::from(set.raw_body) << 1
            | u8::from(set.cancel) << 2
            | u8::from(set.lean) << 3;
        self.capabilities.store(bits, Ordering::Relaxed);
    }

    /// The connection that was kept after the last exchange.
    pub(crate) fn take_kept(&self) -> Option<UnixStream> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn keep(&self, connection: UnixStream) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(connection);
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.process().pid
    }

    /// The process runs. Returns how it is to be ended, if that was decided meanwhile.
    pub(crate) fn started(&self, pid: u32) -> Option<End> {
        let mut process = self.process();
        process.pid = Some(pid);
        process.end
    }

    /// The process is gone and its number means nothing any more.
    pub(crate) fn gone(&self) {
        self.process().pid = None;
    }

    /// Orders the end of the process. A kill reaches its group before this returns.
    pub(crate) fn end(&self, end: End) {
        let mut process = self.process();
        process.end = Some(end);
        if let (End::Kill(_), Some(pid)) = (end, process.pid) {
            kill_group(pid);
        }
        drop(process);
        self.ordered.notify_one();
    }

    pub(crate) fn ordered_end(&self) -> Option<End> {
        self.process().end
    }

    fn process(&self) -> std::sync::MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Kills the process group that `pid` leads. Only while that process has not been reaped: until
/// then the kernel gives the number to nobody else.
pub(crate) fn kill_group(pid: u32) {
    signal_group(pid, Signal::KILL);
}

/// Sends `signal` to the process group that `pid` leads; the same condition holds.
pub(crate) fn signal_group(pid: u32, signal: Signal) {
    if let Some(group) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, signal);
    }
}
