//! What happens when, in virtual time.
//!
//! Invariant: events come out in the order of their moments, and those of one moment in the order in
//! which they were put in, timers last. So a run depends on nothing but its input.

use hedgerow_policy::Moment;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Above every number an event without it can have.
const TIMER: u64 = 1 << 63;

/// Events that lie ahead.
#[derive(Debug)]
pub struct Agenda<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    next: u64,
}

#[derive(Debug)]
struct Entry<E> {
    at: Moment,
    number: u64,
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl<E> Default for Agenda<E> {
    fn default() -> Self {
        Agenda { heap: BinaryHeap::new(), next: 0 }
    }
}

impl<E> Agenda<E> {
    /// Puts an event in.
    pub fn put(&mut self, at: Moment, event: E) {
        self.heap.push(Reverse(Entry { at, number: self.next, event }));
        self.next += 1;
    }

    /// Puts a timer in: of one moment, what arrives comes before what is due.
    pub fn put_timer(&mut self, at: Moment, event: E) {
        self.heap.push(Reverse(Entry { at, number: self.next | TIMER, event }));
        self.next += 1;
    }

    /// When the next event is.
    #[must_use]
    pub fn next_at(&self) -> Option<Moment> {
        self.heap.peek().map(|Reverse(entry)| entry.at)
    }

    /// Takes the next event.
    pub fn take(&mut self) -> Option<(Moment, E)> {
        self.heap.pop().map(|Reverse(entry)| (entry.at, entry.event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_moment_and_then_by_turn() {
        let mut agenda = Agenda::default();
        for (at, name) in [(2, "c"), (1, "a"), (2, "d"), (1, "b")] {
            agenda.put(Moment::from_millis(at), name);
        }
        agenda.put_timer(Moment::from_millis(1), "timer");
        agenda.put(Moment::from_millis(1), "late");
        let order: Vec<_> = std::iter::from_fn(|| agenda.take()).map(|(_, name)| name).collect();
        assert_eq!(order, ["a", "b", "late", "timer", "c", "d"]);
        assert_eq!(agenda.next_at(), None);
    }
}
