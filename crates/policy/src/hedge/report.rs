//! What a race tells the ledger.

use super::attempt::{AttemptId, Outcome, Phase};
use super::{Race, Role};
use crate::endpoints::Endpoint;
use crate::moment::Moment;
use std::time::Duration;

/// One attempt, in times since the key's start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AttemptReport {
    /// What it was to its key.
    pub role: Role,
    /// Where it went.
    pub endpoint: Endpoint,
    /// Its start.
    pub start: Duration,
    /// The first data of its response.
    pub first_data: Option<Duration>,
    /// Its end.
    pub end: Option<Duration>,
    /// The status it was answered with.
    pub status: Option<u16>,
    /// How it ended; `None` while it is under way.
    pub outcome: Option<Outcome>,
}

/// A key and its attempts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RaceReport {
    /// The attempts in the order of their start.
    pub attempts: Vec<AttemptReport>,
    /// Whose success is the key's.
    pub winner: Option<Role>,
    /// When the first twin was started.
    pub hedged_after: Option<Duration>,
    /// Retries started.
    pub retries: u32,
}

/// How a race went so far, in short.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Summary {
    /// Attempts that were started.
    pub attempts: u32,
    /// What the attempt was that the key's result comes from.
    pub winner: Option<Role>,
    /// When the first twin was started, since the key's start.
    pub hedged_after: Option<Duration>,
    /// How many attempts were retries.
    pub retries: u32,
}

impl Race {
    /// What has happened so far.
    #[must_use]
    pub fn report(&self) -> RaceReport {
        let since = |at: Moment| at.since(self.started);
        let attempts = self.attempts.iter().map(|a| AttemptReport {
            role: a.role,
            endpoint: a.endpoint,
            start: since(a.started),
            first_data: a.first_data.map(since),
            end: a.ended.map(since),
            status: a.status,
            outcome: match a.phase {
                Phase::Running => self.winner.filter(|id| *id == a.id).map(|_| Outcome::Won),
                Phase::Refused { .. } => Some(Outcome::Failed),
                Phase::Ended(outcome) => Some(outcome),
            },
        });
        let Summary { winner, hedged_after, retries, .. } = self.summary();
        RaceReport { attempts: attempts.collect(), winner, hedged_after, retries }
    }

    /// The same in short.
    #[must_use]
    pub fn summary(&self) -> Summary {
        Summary {
            attempts: self.attempts.len() as u32,
            winner: self.winner.map(|id: AttemptId| self.attempts[id.index()].role),
            hedged_after: self.hedged_after,
            retries: self.attempts.iter().filter(|a| a.role == Role::Retry).count() as u32,
        }
    }
}
