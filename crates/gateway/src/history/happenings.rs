//! What happened that no curve shows: a worker that was killed, a circuit that moved.
//!
//! Invariant: both lists are bounded, and moves of circuits have one of their own, so that a worker
//! that dies every second does not push them out. Words of an application are cut, and stand in
//! `detail` alone.

use serde::Serialize;
use std::collections::VecDeque;

/// Of each list.
const KEPT: usize = 256;
/// Characters of a detail.
const DETAIL: usize = 160;

/// Something that happened.
#[derive(Clone, Serialize, PartialEq, Eq, Debug)]
pub(crate) struct Happening {
    /// Its number.
    pub(crate) n: u64,
    /// When, in milliseconds since 1970.
    pub(crate) at: u64,
    /// What, as the event log spells it.
    pub(crate) kind: &'static str,
    /// The worker's number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) worker: Option<u32>,
    /// A reason, an error, a target.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) detail: String,
}

/// A circuit moved.
#[derive(Clone, Serialize, PartialEq, Eq, Debug)]
pub(crate) struct Move {
    pub(crate) n: u64,
    pub(crate) at: u64,
    /// Whose.
    pub(crate) name: String,
    pub(crate) from: &'static str,
    pub(crate) to: &'static str,
    pub(crate) cause: &'static str,
    pub(crate) episode: u64,
    pub(crate) calls: u64,
    pub(crate) failures: u64,
}

/// The newest of both.
#[derive(Default)]
pub(crate) struct Happenings {
    next: u64,
    events: VecDeque<Happening>,
    moves: VecDeque<Move>,
}

impl Happenings {
    /// Adds one. Its number is given here.
    pub(crate) fn event(&mut self, at: u64, kind: &'static str, worker: Option<u32>, detail: &str) {
        let detail = detail.chars().take(DETAIL).collect();
        let n = self.number();
        push(&mut self.events, Happening { n, at, kind, worker, detail });
    }

    /// Adds a move of a circuit.
    pub(crate) fn moved(&mut self, told: Move) {
        let n = self.number();
        push(&mut self.moves, Move { n, ..told });
    }

    /// Those not older than `since`, the newest `most` of each, oldest first.
    pub(crate) fn since(&self, since: u64, most: usize) -> (Vec<Happening>, Vec<Move>) {
        let events = self.events.iter().filter(|event| event.at >= since);
        let moves = self.moves.iter().filter(|moved| moved.at >= since);
        (newest(events.cloned(), most), newest(moves.cloned(), most))
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

fn push<T>(list: &mut VecDeque<T>, item: T) {
    if list.len() >= KEPT {
        list.pop_front();
    }
    list.push_back(item);
}

fn newest<T>(items: impl Iterator<Item = T>, most: usize) -> Vec<T> {
    let mut items: Vec<T> = items.collect();
    items.drain(..items.len().saturating_sub(most));
    items
}
