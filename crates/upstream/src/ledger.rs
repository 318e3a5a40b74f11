//! What calls have cost: every key, every attempt, its role and its outcome.
//!
//! Invariants: memory is bounded (the newest keys, and one sum for each upstream); a call never
//! waits for the ledger's file, a line that finds no room is counted as dropped; and what a
//! cancelled attempt cost is not known, so it is not written as a number.

use crate::settings::SettingsError;
use crate::upstream::Upstream;
use hedgerow_policy::hedge::{Outcome, RaceReport, Role};
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Lines that may wait to be written.
const WAITING: usize = 1024;

/// How much is remembered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LedgerConfig {
    /// Keys remembered.
    pub recent: usize,
    /// A file to which each key is appended as a line of JSON. It grows until somebody moves it away
    /// and says so ([`Ledger::reopen`]).
    pub file: Option<PathBuf>,
}

impl Default for LedgerConfig {
    fn default() -> LedgerConfig {
        LedgerConfig { recent: 200, file: None }
    }
}

/// One key.
#[derive(Clone, PartialEq, Debug)]
pub struct KeyEntry {
    /// What its caller calls it (the key of a batch, the name of a plan).
    pub key: Option<Arc<str>>,
    /// The upstream.
    pub upstream: Arc<str>,
    /// The trace of the request that it belongs to.
    pub trace: Arc<str>,
    /// When it was over, in seconds of Unix time.
    pub ended_at: f64,
    /// Time until it was settled.
    pub duration: Duration,
    /// Whose success it is.
    pub winner: Option<Role>,
    /// It had a twin.
    pub hedged: bool,
    /// Its attempts in the order of their start.
    pub attempts: Vec<AttemptEntry>,
}

/// One attempt; times are since the key's start.
#[derive(Clone, PartialEq, Debug)]
pub struct AttemptEntry {
    /// What it was to its key.
    pub role: Role,
    /// Where it went.
    pub endpoint: Arc<str>,
    /// Its start.
    pub start: Duration,
    /// The first data of its response.
    pub first_data: Option<Duration>,
    /// Its end.
    pub end: Option<Duration>,
    /// How it ended.
    pub outcome: Outcome,
    /// What it was answered.
    pub status: Option<u16>,
    /// Bytes of its response's body that were read.
    pub bytes: u64,
    /// What it cost; `None`: not known.
    pub cost: Option<f64>,
}

/// The sums of one upstream.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Totals {
    /// Keys that are over.
    pub keys: u64,
    /// The cost of attempts that were answered.
    pub cost: f64,
    /// Attempts whose cost is not known.
    pub cost_unknown: u64,
}

/// The ledger. See the module's head.
pub struct Ledger {
    recent_limit: usize,
    kept: Mutex<Kept>,
    file: Option<FileEnd>,
    dropped: AtomicU64,
}

/// This side of the thread that writes the file.
struct FileEnd {
    path: PathBuf,
    /// `None` once it is closed.
    lines: Mutex<Option<SyncSender<Item>>>,
    /// Nothing comes out of it; it ends with the thread.
    ended: Mutex<Receiver<()>>,
}

enum Item {
    Line(String),
    /// Go on with this file.
    File(File),
}

#[derive(Default)]
struct Kept {
    recent: VecDeque<KeyEntry>,
    totals: HashMap<Arc<str>, Totals>,
}

impl KeyEntry {
    pub(crate) fn new(
        upstream: &Upstream,
        key: Option<Arc<str>>,
        trace: Arc<str>,
        duration: Duration,
        race: &RaceReport,
        bytes: impl Iterator<Item = u64>,
    ) -> KeyEntry {
        let price = upstream.settings.price_per_call;
        let attempts = race.attempts.iter().zip(bytes).map(|(attempt, bytes)| {
            let outcome = attempt.outcome.unwrap_or(Outcome::Abandoned);
            let answered = attempt.status.is_some() && outcome != Outcome::Lost;
            AttemptEntry {
                role: attempt.role,
                endpoint: upstream.urls[attempt.endpoint].clone(),
                start: attempt.start,
                first_data: attempt.first_data,
                end: attempt.end,
                outcome,
                status: attempt.status,
                bytes,
                cost: (price > 0.0 && answered).then_some(price),
            }
        });
        KeyEntry {
            key,
            upstream: upstream.name.clone(),
            trace,
            ended_at: hedgerow_clock::unix_seconds(),
            duration,
            winner: race.winner,
            hedged: race.hedged_after.is_some(),
            attempts: attempts.collect(),
        }
    }

    /// The entry as the admin page and the file have it. A hedged key carries `"retry": true`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let ms = |duration: Duration| duration.as_micros() as f64 / 1e3;
        let attempts: Vec<Value> = self
            .attempts
            .iter()
            .map(|attempt| {
                json!({
                    "role": attempt.role.name(),
                    "endpoint": &*attempt.endpoint,
                    "start_ms": ms(attempt.start),
                    "first_data_ms": attempt.first_data.map(ms),
                    "end_ms": attempt.end.map(ms),
                    "outcome": attempt.outcome.name(),
                    "status": attempt.status,
                    "bytes": attempt.bytes,
                    "cost": attempt.cost,
                })
            })
            .collect();
        let mut entry = json!({
            "key": self.key.as_deref(),
            "upstream": &*self.upstream,
            "trace_id": &*self.trace,
            "ended_at": self.ended_at,
            "duration_ms": ms(self.duration),
            "winner": self.winner.map(Role::name),
            "attempts": attempts,
        });
        if self.hedged {
            entry["retry"] = true.into();
        }
        entry
    }
}

impl Ledger {
    /// An empty ledger.
    ///
    /// # Errors
    /// When its file cannot be written.
    pub fn new(config: LedgerConfig) -> Result<Ledger, SettingsError> {
        let file = match config.file {
            None => None,
            Some(path) => {
                let refused = |error: io::Error| refused(&path, &error);
                let file = open(&path).map_err(refused)?;
                let (lines, waiting) = sync_channel(WAITING);
                let (writing, ended) = channel();
                let writer = std::thread::Builder::new().name("hedgerow-ledger".to_owned());
                let write = move || {
                    write_lines(file, &waiting);
                    drop::<std::sync::mpsc::Sender<()>>(writing);
                };
                writer.spawn(write).map_err(refused)?;
                let (lines, ended) = (Mutex::new(Some(lines)), Mutex::new(ended));
                Some(FileEnd { path, lines, ended })
            }
        };
        let kept = Mutex::new(Kept::default());
        Ok(Ledger { recent_limit: config.recent, kept, file, dropped: AtomicU64::new(0) })
    }

    /// The newest keys, the newest first.
    #[must_use]
    pub fn recent(&self) -> Vec<KeyEntry> {
        self.kept().recent.iter().rev().cloned().collect()
    }

    /// How many keys are remembered, and may be.
    #[must_use]
    pub fn remembered(&self) -> (usize, usize) {
        (self.kept().recent.len(), self.recent_limit)
    }

    /// The sums of an upstream.
    #[must_use]
    pub fn totals(&self, upstream: &str) -> Totals {
        self.kept().totals.get(upstream).copied().unwrap_or_default()
    }

    /// Lines that found no room on their way to the file.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Goes on with a file opened anew, so that one that was moved away is let go.
    ///
    /// # Errors
    /// When it cannot be opened: the old one is written on.
    pub fn reopen(&self) -> Result<(), SettingsError> {
        let Some(end) = &self.file else { return Ok(()) };
        let file = open(&end.path).map_err(|error| refused(&end.path, &error))?;
        if let Some(lines) = &*end.lines() {
            let _ = lines.try_send(Item::File(file));
        }
        Ok(())
    }

    /// Writes what waits and ends the writer, waiting for the disk at most so long. Keys that come
    /// later are not written. Blocks the thread that calls it.
    pub fn close(&self, at_most: Duration) {
        let Some(end) = &self.file else { return };
        drop(end.lines().take());
        let ended = end.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = ended.recv_timeout(at_most);
    }

    pub(crate) fn record(&self, entry: KeyEntry) {
        if let Some(end) = &self.file
            && let Some(lines) = &*end.lines()
            && lines.try_send(Item::Line(entry.to_json().to_string())).is_err()
        {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        let mut kept = self.kept();
        let totals = kept.totals.entry(entry.upstream.clone()).or_default();
        totals.keys += 1;
        for attempt in &entry.attempts {
            match attempt.cost {
                Some(cost) => totals.cost += cost,
                None => totals.cost_unknown += 1,
            }
        }
        if self.recent_limit > 0 {
            if kept.recent.len() >= self.recent_limit {
                kept.recent.pop_front();
            }
            kept.recent.push_back(entry);
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Ledger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ledger({} keys)", self.kept().recent.len())
    }
}

impl FileEnd {
    fn lines(&self) -> MutexGuard<'_, Option<SyncSender<Item>>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

fn refused(path: &Path, error: &io::Error) -> SettingsError {
    SettingsError::Ledger { path: path.display().to_string(), reason: error.to_string() }
}

/// Writes what waits, then flushes; a disk that is full loses lines, not calls.
fn write_lines(file: File, waiting: &Receiver<Item>) {
    let mut out = BufWriter::new(file);
    while let Ok(item) = waiting.recv() {
        let mut next = Some(item);
        while let Some(item) = next {
            match item {
                Item::Line(line) => _ = writeln!(out, "{line}"),
                Item::File(file) => {
                    let _ = out.flush();
                    out = BufWriter::new(file);
                }
            }
            next = waiting.try_recv().ok();
        }
        let _ = out.flush();
    }
}
