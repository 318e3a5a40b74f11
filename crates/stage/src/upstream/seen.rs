//! What an upstream has received, and what became of it.

use super::http::Request;
use crate::routes::sha1_hex;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Calls remembered one by one.
const RECENT: usize = 1_000;

/// How a call ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ended {
    /// Its answer was written as its script says, however that was.
    Served,
    /// The client closed before that.
    Cancelled,
}

#[derive(Default)]
pub(super) struct Seen(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    received: u64,
    served: u64,
    cancelled: u64,
    connections: u64,
    open: u64,
    paths: BTreeMap<String, u64>,
    recent: VecDeque<Call>,
}

struct Call {
    number: u64,
    path: String,
    peer: u16,
    attempt: String,
    key: String,
    /// SHA-1 of the body; empty: none came.
    body: String,
    ended: Option<Ended>,
}

impl Seen {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn connected(&self) {
        let mut counts = self.counts();
        counts.connections += 1;
        counts.open += 1;
    }

    pub(super) fn disconnected(&self) {
        let mut counts = self.counts();
        counts.open = counts.open.saturating_sub(1);
    }

    /// A call to that path arrived: its number, and which of the calls to its path it is, from 1.
    pub(super) fn received(&self, request: &Request, peer: u16) -> (u64, u64) {
        let path = &request.path;
        let [attempt, key] =
            ["hedgerow-attempt", "idempotency-key"].map(|name| request.header(name).to_owned());
        let body = if request.body.is_empty() { String::new() } else { sha1_hex(&request.body) };
        let mut counts = self.counts();
        counts.received += 1;
        let number = counts.received;
        let of_path = counts.paths.entry(path.to_owned()).or_default();
        *of_path += 1;
        let nth = *of_path;
        if counts.recent.len() >= RECENT {
            counts.recent.pop_front();
        }
        let path = path.to_owned();
        counts.recent.push_back(Call { number, path, peer, attempt, key, body, ended: None });
        (number, nth)
    }

    pub(super) fn ended(&self, number: u64, ended: Ended) {
        let mut counts = self.counts();
        match ended {
            Ended::Served => counts.served += 1,
            Ended::Cancelled => counts.cancelled += 1,
        }
        if let Some(call) = counts.recent.iter_mut().rev().find(|call| call.number == number) {
            call.ended = Some(ended);
        }
    }

    pub(super) fn forget(&self) {
        let mut counts = self.counts();
        *counts = Counts { open: counts.open, ..Counts::default() };
    }

    pub(super) fn to_json(&self) -> Value {
        let counts = self.counts();
        let calls: Vec<Value> = counts
            .recent
            .iter()
            .map(|call| {
                let ended = match call.ended {
                    None => "open",
                    Some(Ended::Served) => "served",
                    Some(Ended::Cancelled) => "cancelled",
                };
                json!({
                    "path": call.path, "peer_port": call.peer, "attempt": call.attempt,
                    "idempotency_key": call.key, "body_sha1": call.body, "ended": ended,
                })
            })
            .collect();
        json!({
            "received": counts.received,
            "served": counts.served,
            "cancelled": counts.cancelled,
            "connections": counts.connections,
            "open_connections": counts.open,
            "paths": counts.paths,
            "calls": calls,
        })
    }
}

impl std::fmt::Debug for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Seen({})", self.counts().received)
    }
}
