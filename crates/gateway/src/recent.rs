//! The newest events, in memory: what `/admin/events` shows, whether or not a log is written.
//!
//! Invariant: bounded in bytes. What is out of the ordinary (failures, workers, circuits) has half
//! of the room for itself, so that a flood of requests that went well does not push it out. Lines
//! that workers print are not kept: they are many, and belong to no request.

use crate::facts::{Event, Facts};
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

/// Events, oldest first: when the newer block is full it becomes the older one, which is let go. So
/// an event costs a copy and no memory of its own.
#[derive(Default)]
struct Half {
    older: Facts,
    newer: Facts,
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

    /// Keeps what was taken down.
    pub(crate) fn push(&self, facts: &Facts, kind: Kind) {
        let most = self.limit / 4;
        if facts.bytes() > most {
            return;
        }
        let mut half = match kind {
            Kind::Usual => &self.usual,
            Kind::Notable => &self.notable,
        }
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
        let before = half.bytes();
        if half.newer.bytes() + facts.bytes() > most {
            half.turn();
        }
        half.newer.extend(facts);
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

    /// The lines of the events for which `take` holds, in the order of their time stamps, as they
    /// stand in a log of lines of at most `limit` bytes.
    pub(crate) fn lines(&self, limit: usize, take: impl Fn(&Event<'_>) -> bool) -> Vec<u8> {
        let mut all = Facts::default();
        for half in [&self.notable, &self.usual] {
            // Copied under the lock, looked at after it: requests write here.
            let half = half.lock().unwrap_or_else(PoisonError::into_inner);
            all.extend(&half.older);
            all.extend(&half.newer);
        }
        let mut taken: Vec<Event<'_>> = all.events().filter(take).collect();
        // Stable: events of one millisecond stay in their order.
        taken.sort_by_key(|event| event.at.unix_millis());
        let mut lines = Vec::new();
        taken.iter().for_each(|event| event.write(&mut lines, limit));
        lines
    }
}

impl Half {
    fn bytes(&self) -> usize {
        self.older.bytes() + self.newer.bytes()
    }

    fn turn(&mut self) {
        std::mem::swap(&mut self.older, &mut self.newer);
        self.newer.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{self, Fields, Key};
    use crate::wall::Stamp;

    fn event(kind: Key, ms: u64, id: &str) -> Facts {
        facts::with_facts(4096, |facts| {
            facts.begin(kind, Stamp::at_millis(1_796_000_000_000 + ms));
            facts.str(&"trace_id", id);
            facts.clone()
        })
    }

    fn line(event: &Facts) -> Vec<u8> {
        let mut line = Vec::new();
        event.events().for_each(|event| event.write(&mut line, 4096));
        line
    }

    #[test]
    fn memory_is_bounded_and_what_is_notable_stays() {
        let recent = Recent::new(4_000);
        recent.push(&event(&"worker.killed", 0, "old"), Kind::Notable);
        for n in 1..999 {
            recent.push(&event(&"http.request", n, &format!("t{n}")), Kind::Usual);
            assert!(recent.bytes() <= 4_000);
        }
        let all = String::from_utf8(recent.lines(4096, |_| true)).unwrap();
        assert!(all.starts_with("{\"type\":\"worker.killed\""), "{all}");
        assert!(all.contains("t998") && !all.contains("t900\""));
        // Half of the half is there at the least.
        assert!(recent.bytes() > 1_000 && all.lines().count() > 1_000 / 80);
    }

    #[test]
    fn lines_come_in_the_order_of_time_and_only_those_asked_for() {
        let recent = Recent::new(1 << 20);
        recent.push(&event(&"http.request", 2, "a"), Kind::Usual);
        recent.push(&event(&"http.request", 3, "ab"), Kind::Notable);
        recent.push(&event(&"hedge.fired", 1, "a"), Kind::Notable);
        let taken = recent.lines(4096, |event| event.belongs("a"));
        let expected = [event(&"hedge.fired", 1, "a"), event(&"http.request", 2, "a")];
        assert_eq!(taken, expected.map(|event| line(&event)).concat());
    }

    #[test]
    fn without_room_nothing_is_kept() {
        let recent = Recent::new(0);
        recent.push(&event(&"x", 0, "a"), Kind::Notable);
        assert!(!recent.is_on() && recent.bytes() == 0);
    }
}
