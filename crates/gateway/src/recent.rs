//! The newest events, in memory: what `/admin/events` shows, whether or not a log is written.
//!
//! Invariant: bounded in bytes. What is out of the ordinary (failures, workers, circuits) has half
//! of the room for itself, so that a flood of requests that went well does not push it out. Lines
//! that workers print are not kept: they are many, and belong to no request.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Which half a line goes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A request or a call that went well.
    Usual,
    /// Anything else.
    Notable,
}

/// The newest lines. See the module's head.
pub(crate) struct Recent {
    usual: Mutex<Half>,
    notable: Mutex<Half>,
    limit: usize,
    bytes: AtomicUsize,
}

/// Lines, oldest first: when the newer block is full it becomes the older one, which is let go. So a
/// line costs a copy and no memory of its own.
#[derive(Default)]
struct Half {
    older: Vec<u8>,
    newer: Vec<u8>,
}

impl Recent {
    /// Keeps at most so many bytes; none keeps nothing.
    pub(crate) fn new(limit: usize) -> Recent {
        let (usual, notable) = (Mutex::default(), Mutex::default());
        Recent { usual, notable, limit, bytes: AtomicUsize::new(0) }
    }

    /// Whether anything is kept at all.
    pub(crate) const fn is_on(&self) -> bool {
        self.limit > 0
    }

    /// Keeps one whole line.
    pub(crate) fn push(&self, line: &[u8], kind: Kind) {
        let most = self.limit / 4;
        if line.len() > most {
            return;
        }
        let mut half = match kind {
            Kind::Usual => &self.usual,
            Kind::Notable => &self.notable,
        }
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
        let before = half.bytes();
        if half.newer.len() + line.len() > most {
            half.turn();
        }
        half.newer.extend_from_slice(line);
        let after = half.bytes();
        drop(half);
        self.bytes.fetch_add(after, Relaxed);
        self.bytes.fetch_sub(before, Relaxed);
    }

    /// Bytes kept now.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// Bytes kept at most.
    pub(crate) const fn limit(&self) -> usize {
        self.limit
    }

    /// The lines for which `take` holds, in the order of their time stamps, as they stand in the log.
    pub(crate) fn lines(&self, mut take: impl FnMut(&[u8]) -> bool) -> Vec<u8> {
        let mut all = Vec::new();
        for half in [&self.notable, &self.usual] {
            // Copied under the lock, looked at after it: requests write here.
            let half = half.lock().unwrap_or_else(PoisonError::into_inner);
            all.extend_from_slice(&half.older);
            all.extend_from_slice(&half.newer);
        }
        let lines = all.split_inclusive(|&byte| byte == b'\n').filter(|line| take(line));
        let mut lines: Vec<&[u8]> = lines.collect();
        // Stable: lines of one millisecond stay in their order.
        lines.sort_by_key(|line| stamp(line));
        lines.concat()
    }
}

impl Half {
    fn bytes(&self) -> usize {
        self.older.len() + self.newer.len()
    }

    fn turn(&mut self) {
        std::mem::swap(&mut self.older, &mut self.newer);
        self.newer.clear();
    }
}

/// The time stamp of an event's line, which is its second field.
fn stamp(line: &[u8]) -> &[u8] {
    const FIELD: &[u8] = b",\"ts\":\"";
    let at = line.windows(FIELD.len()).position(|window| window == FIELD);
    at.and_then(|at| line.get(at + FIELD.len()..)?.get(..24)).unwrap_or_default()
}

/// Whether the line is of a type that begins with `prefix`.
pub(crate) fn is_of(line: &[u8], prefix: &str) -> bool {
    line.strip_prefix(b"{\"type\":\"").is_some_and(|rest| rest.starts_with(prefix.as_bytes()))
}

/// Whether the line belongs to the trace or the request of that id.
pub(crate) fn belongs(line: &[u8], id: &str) -> bool {
    ["\"trace_id\":\"", "\"request_id\":\""].iter().any(|field| {
        let mut rest = line;
        while let Some(at) = rest.windows(field.len()).position(|w| w == field.as_bytes()) {
            rest = rest.get(at + field.len()..).unwrap_or_default();
            let value = rest.strip_prefix(id.as_bytes());
            if value.is_some_and(|after| after.first() == Some(&b'"')) {
                return true;
            }
        }
        false
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(kind: &str, ms: usize, id: &str) -> Vec<u8> {
        let ts = format!("2026-11-29T08:15:00.{ms:03}Z");
        format!("{{\"type\":\"{kind}\",\"ts\":\"{ts}\",\"trace_id\":\"{id}\"}}\n").into_bytes()
    }

    #[test]
    fn memory_is_bounded_and_what_is_notable_stays() {
        let recent = Recent::new(4_000);
        recent.push(&line("worker.killed", 0, "old"), Kind::Notable);
        for n in 1..999 {
            recent.push(&line("http.request", n, &format!("t{n}")), Kind::Usual);
            assert!(recent.bytes() <= 4_000);
        }
        let all = String::from_utf8(recent.lines(|_| true)).unwrap();
        assert_eq!(all.len(), recent.bytes());
        assert!(all.starts_with("{\"type\":\"worker.killed\""), "{all}");
        assert!(all.contains("t998") && !all.contains("t900\""));
        // Half of the half is there at the least.
        assert!(all.len() > 1_000);
    }

    #[test]
    fn lines_come_in_the_order_of_time_and_only_those_asked_for() {
        let recent = Recent::new(1 << 20);
        recent.push(&line("http.request", 2, "a"), Kind::Usual);
        recent.push(&line("http.request", 3, "ab"), Kind::Notable);
        recent.push(&line("hedge.fired", 1, "a"), Kind::Notable);
        let taken = recent.lines(|line| belongs(line, "a"));
        assert_eq!(taken, [line("hedge.fired", 1, "a"), line("http.request", 2, "a")].concat());
        assert!(is_of(&taken, "hedge.") && !is_of(&taken, "http."));
    }

    #[test]
    fn without_room_nothing_is_kept() {
        let recent = Recent::new(0);
        recent.push(b"x\n", Kind::Notable);
        assert!(!recent.is_on() && recent.bytes() == 0);
    }
}
