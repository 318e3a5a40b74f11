//! Lines on their way to a file or to standard output.
//!
//! Invariant: whoever has a line never waits for the disk. A line is appended to a bounded buffer
//! under a short lock, or dropped and counted; one thread writes whole batches. Only whole lines
//! reach a file while its process lives, even where a write fails half-way.
//! (The idea: the double buffer of a write-ahead log.)

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long the writer gathers lines after the first one, so that a busy gateway does not wake it
/// for each.
const LINGER: Duration = Duration::from_millis(5);
/// Past this many bytes the writer does not wait any longer.
const ENOUGH: usize = 64 << 10;
/// How long the writer leaves a disk alone that has just failed.
const REST: Duration = Duration::from_secs(1);

/// A log could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file cannot be opened for appending.
    #[error("cannot open the log file {}: {source}", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The system gave no thread.
    #[error("cannot start a thread to write the log: {0}")]
    Thread(std::io::Error),
    /// The collector of traces cannot be called.
    #[error("traces cannot be sent: {0}")]
    Traces(String),
}

/// Opens a log file for appending, and makes it where it is missing.
pub(crate) fn open(path: &Path) -> Result<File, OpenError> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = File::options();
    // Lines name clients and paths: not for everyone on the machine.
    options.create(true).append(true).mode(0o640);
    options.open(path).map_err(|source| OpenError::File { path: path.to_owned(), source })
}

type Target = Box<dyn Write + Send>;
/// Writes the line that says how many lines were dropped.
pub(crate) type Report = fn(&mut Vec<u8>, u64);

/// A bounded buffer and the thread that empties it.
pub(crate) struct Sink {
    shared: Arc<Shared>,
    limit: usize,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Tells the writer that there is something to do.
    wake: Condvar,
    /// Tells whoever closes that the writer has ended.
    ended: Condvar,
    dropped: AtomicU64,
    failures: AtomicU64,
}

#[derive(Default)]
struct State {
    filling: Vec<u8>,
    writer: Writer,
    /// A target to go on with.
    replacement: Option<Target>,
    /// Dropped since the last report.
    unreported: u64,
    closing: bool,
    ended: bool,
}

/// What the writer is doing: whether it has to be woken.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Writer {
    #[default]
    Busy,
    /// Waits for a first line.
    Idle,
    /// Has a first line, and waits for more.
    Gathering,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink {
    /// Starts a writer to `target`.
    pub(crate) fn start(
        name: &str,
        target: Target,
        limit: usize,
        report: Option<Report>,
    ) -> Result<Sink, OpenError> {
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || Work { shared: &of_thread, target, report }.run())
            .map_err(OpenError::Thread)?;
        Ok(Sink { shared, limit })
    }

    /// Appends whole lines. False when there was no room and they are dropped.
    pub(crate) fn push(&self, lines: &[u8]) -> bool {
        let mut state = self.shared.lock();
        if state.closing || state.ended {
            // Nobody writes any more, and nobody is to be told.
            return true;
        }
        if state.filling.len() + lines.len() > self.limit {
            state.unreported += 1;
            drop(state);
            self.shared.dropped.fetch_add(1, Relaxed);
            return false;
        }
        state.filling.extend_from_slice(lines);
        let wake = match state.writer {
            Writer::Idle => true,
            Writer::Gathering => state.filling.len() >= ENOUGH,
            Writer::Busy => false,
        };
        if wake {
            // Marked here, so that the lines that follow do not wake it again.
            state.writer = Writer::Busy;
            drop(state);
            self.shared.wake.notify_one();
        }
        true
    }

    /// Lines dropped, in all.
    pub(crate) fn dropped(&self) -> u64 {
        self.shared.dropped.load(Relaxed)
    }

    /// Bytes that wait to be written.
    pub(crate) fn buffered(&self) -> usize {
        self.shared.lock().filling.len()
    }

    /// How many bytes may wait.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Writes that failed, in all.
    pub(crate) fn failures(&self) -> u64 {
        self.shared.failures.load(Relaxed)
    }

    /// Goes on with another target.
    pub(crate) fn replace(&self, target: Target) {
        self.shared.lock().replacement = Some(target);
        self.shared.wake.notify_one();
    }

    /// Writes what is buffered and ends the writer, waiting at most so long.
    pub(crate) fn close(&self, at_most: Duration) {
        let mut state = self.shared.lock();
        state.closing = true;
        self.shared.wake.notify_one();
        let waited = self.shared.ended.wait_timeout_while(state, at_most, |state| !state.ended);
        drop(waited);
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        // The thread ends by itself once it has written what is there.
        self.shared.lock().closing = true;
        self.shared.wake.notify_one();
    }
}

/// The writer's side.
struct Work<'s> {
    shared: &'s Shared,
    target: Target,
    report: Option<Report>,
}

/// The target takes nothing any more.
struct Gone;

impl Work<'_> {
    fn run(mut self) {
        let mut batch = Vec::new();
        while self.gather(&mut batch) {
            if self.write(&batch).is_err() {
                break;
            }
            batch.clear();
            // One burst must not keep its memory for ever.
            batch.shrink_to(4 * ENOUGH);
        }
        let mut state = self.shared.lock();
        state.ended = true;
        state.filling = Vec::new();
        drop(state);
        self.shared.ended.notify_all();
    }

    /// Takes what is to be written. False when there will be nothing more.
    fn gather(&mut self, batch: &mut Vec<u8>) -> bool {
        let mut state = self.shared.lock();
        while state.filling.is_empty() && state.replacement.is_none() && !state.closing {
            state.writer = Writer::Idle;
            state = self.shared.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if !state.closing && state.filling.len() < ENOUGH {
            state.writer = Writer::Gathering;
            let wait = self.shared.wake.wait_timeout(state, LINGER);
            state = wait.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.writer = Writer::Busy;
        std::mem::swap(&mut state.filling, batch);
        let unreported = std::mem::take(&mut state.unreported);
        let replacement = state.replacement.take();
        let closing = state.closing;
        drop(state);
        if let Some(target) = replacement {
            self.target = target;
        }
        if let (Some(report), 1..) = (self.report, unreported) {
            report(batch, unreported);
        }
        !(closing && batch.is_empty())
    }

    /// Writes all of `batch`, however long the target refuses; only lines that are whole on one
    /// target are left behind.
    fn write(&mut self, batch: &[u8]) -> Result<(), Gone> {
        let mut at = 0;
        while at < batch.len() {
            let error = match self.target.write(&batch[at..]) {
                Ok(0) => ErrorKind::WriteZero,
                Ok(count) => {
                    at = (at + count).min(batch.len());
                    continue;
                }
                Err(error) => error.kind(),
            };
            match error {
                ErrorKind::Interrupted => continue,
                // Nobody reads it, and nobody ever will.
                ErrorKind::BrokenPipe => return Err(Gone),
                _ => {}
            }
            self.shared.failures.fetch_add(1, Relaxed);
            if self.rest()? {
                // The torn line is begun again in the new file.
                at = batch[..at].iter().rposition(|&b| b == b'\n').map_or(0, |end| end + 1);
            }
        }
        // A file needs no flush; standard output keeps the end of a line it has not seen whole.
        let _ = self.target.flush();
        Ok(())
    }

    /// Waits before the next try. True when there is another target to try; `Gone` when the
    /// sink is closing, because a disk that refuses must not hold up the shutdown.
    fn rest(&mut self) -> Result<bool, Gone> {
        let state = self.shared.lock();
        let wait = self
            .shared
            .wake
            .wait_timeout_while(state, REST, |state| !state.closing && state.replacement.is_none());
        let mut state = wait.unwrap_or_else(PoisonError::into_inner).0;
        match state.replacement.take() {
            Some(target) => {
                drop(state);
                self.target = target;
                Ok(true)
            }
            None if state.closing => Err(Gone),
            None => Ok(false),
        }
    }
}

#[cfg(test)]
mod tests;
