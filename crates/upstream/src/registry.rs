//! The plans and batches that are open.
//!
//! Invariant: never more than the bound; one is open exactly as long as its guard lives.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One open plan or batch, as the admin page shows it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Session {
    /// Its number.
    pub id: u64,
    /// The request it belongs to.
    pub request_id: String,
    /// That request's trace.
    pub trace_id: String,
    /// What the worker calls it.
    pub name: String,
    /// `http`, `fixture` or `batch`.
    pub transport: &'static str,
    /// The codec.
    pub codec: &'static str,
    /// The mapper.
    pub mapper: &'static str,
    /// `text` or `sse`.
    pub stream_type: &'static str,
    /// The upstream, or the host of a bare URL.
    pub source: String,
    /// When it was opened, in seconds of Unix time.
    pub started_at_unix: f64,
}

/// The open ones, and how many there were.
#[derive(Debug)]
pub struct Sessions {
    max_open: usize,
    open: Mutex<BTreeMap<u64, Session>>,
    opened: AtomicU64,
}

/// Keeps a session open.
#[derive(Debug)]
pub(crate) struct Opening {
    id: u64,
    sessions: Arc<Sessions>,
}

impl Sessions {
    /// None open; at most `max_open` at once.
    #[must_use]
    pub fn new(max_open: usize) -> Arc<Sessions> {
        let (open, opened) = (Mutex::new(BTreeMap::new()), AtomicU64::new(0));
        Arc::new(Sessions { max_open, open, opened })
    }

    /// How many are open.
    #[must_use]
    pub fn active(&self) -> usize {
        self.open().len()
    }

    /// How many may be open.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.max_open
    }

    /// How many have been opened since the start.
    #[must_use]
    pub fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    /// The open ones in the order of their opening, `limit` after the first `offset`.
    #[must_use]
    pub fn list(&self, offset: usize, limit: usize) -> Vec<Session> {
        self.open().values().skip(offset).take(limit).cloned().collect()
    }

    pub(crate) fn open_one(self: &Arc<Self>, mut session: Session) -> Option<Opening> {
        let mut open = self.open();
        if open.len() >= self.max_open {
            return None;
        }
        let id = self.opened.fetch_add(1, Ordering::Relaxed) + 1;
        session.id = id;
        session.started_at_unix = hedgerow_clock::unix_seconds();
        open.insert(id, session);
        Some(Opening { id, sessions: self.clone() })
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<u64, Session>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.sessions.open().remove(&self.id);
    }
}
