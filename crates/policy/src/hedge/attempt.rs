//! One attempt of a key, and how it ends.
//!
//! Invariant: an attempt runs, or it was refused (a status that is no answer, its body still to be
//! read should it become the key's), or it has ended with one outcome. It never goes back.

use super::Fault;
use super::config::{Answer, HedgeConfig, Progress, RaceConfig};
use crate::breaker::{self, Permit};
use crate::endpoints::{Endpoint, Role};
use crate::moment::Moment;
use std::time::Duration;

/// The number of an attempt within its key: 0 is the primary.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AttemptId(pub u32);

impl AttemptId {
    /// The number as an index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// How an attempt ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Outcome {
    /// Its response is the key's.
    Won,
    /// Another's is.
    Lost,
    /// It broke, ran into a limit, or its status is no answer.
    Failed,
    /// Nobody waited for it any more.
    Abandoned,
}

impl Outcome {
    /// The outcome as the ledger and metric labels spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Outcome::Won => "won",
            Outcome::Lost => "lost",
            Outcome::Failed => "failed",
            Outcome::Abandoned => "abandoned",
        }
    }
}

/// What may be done about a request whose connection brought no byte of an answer. Each allows what
/// those before it do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Resend {
    /// It is not there to be sent again, or decides nothing any more.
    Never,
    /// It may be sent once more if the server says that it did nothing with it.
    IfUnprocessed,
    /// Also if the connection had been used before, and the server had just given it up.
    IfGivenUp,
}

/// Why an attempt was ended from this side.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Cut {
    /// Another attempt is the answer.
    Lost,
    /// The caller went away.
    Abandoned,
    /// It could not connect in time.
    ConnectTimeout,
    /// Its response did not begin in time.
    FirstDataTimeout,
    /// Its response was silent for too long.
    IdleTimeout,
    /// The deadline, or the limit over all attempts, has passed.
    Deadline,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    Running,
    /// Its status is no answer. `whole`: its body has been read to the end.
    Refused {
        whole: bool,
    },
    Ended(Outcome),
}

#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) id: AttemptId,
    pub(super) role: Role,
    pub(super) endpoint: Endpoint,
    pub(super) started: Moment,
    pub(super) connected: bool,
    /// When a piece of a request body that is still arriving was last sent.
    uploaded: Option<Moment>,
    pub(super) status: Option<u16>,
    pub(super) accepted: bool,
    /// What it wins with.
    pub(super) answer: Answer,
    pub(super) first_data: Option<Moment>,
    /// The last sign of progress, as the hedge counts it.
    progress: Option<Moment>,
    /// The last byte of the response; `None` before its head, and while we do not read.
    flowed: Option<Moment>,
    /// It has gone quiet, and that was counted.
    pub(super) quiet: bool,
    pub(super) phase: Phase,
    /// What the endpoint's breaker gave it; settled as soon as it is known how the endpoint did.
    pub(super) permit: Option<Permit>,
    /// What it broke with.
    pub(super) fault: Option<Fault>,
    pub(super) ended: Option<Moment>,
}

impl Attempt {
    pub(super) fn new(id: AttemptId, role: Role, endpoint: Endpoint, started: Moment) -> Attempt {
        Attempt {
            id,
            role,
            endpoint,
            started,
            connected: false,
            uploaded: None,
            status: None,
            accepted: false,
            answer: Answer::Full,
            first_data: None,
            progress: None,
            flowed: None,
            quiet: false,
            phase: Phase::Running,
            permit: None,
            fault: None,
            ended: None,
        }
    }

    /// What the endpoint's breaker is told: a loser, or one that nobody waited for, is nothing; a
    /// status below 500 shows that the endpoint works.
    pub(super) fn verdict(&self, outcome: Outcome, cut: Option<Cut>) -> breaker::Outcome {
        match (outcome, self.fault, self.status) {
            (Outcome::Won, ..) => breaker::Outcome::Ok,
            (Outcome::Abandoned, ..) if cut == Some(Cut::Deadline) => breaker::Outcome::Timeout,
            (Outcome::Lost | Outcome::Abandoned, ..) => breaker::Outcome::Cancelled,
            (Outcome::Failed, Some(Fault::TimedOut(_)), _) => breaker::Outcome::Timeout,
            (Outcome::Failed, Some(_), _) => breaker::Outcome::Connection,
            (Outcome::Failed, None, Some(status)) if status < 500 => breaker::Outcome::Ok,
            (Outcome::Failed, None, _) => breaker::Outcome::ServerError,
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.phase == Phase::Running
    }

    /// Whether the driver still holds something for it.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Running | Phase::Refused { whole: false })
    }

    pub(super) fn on_upload(&mut self, at: Moment) {
        self.uploaded = self.uploaded.max(Some(at));
    }

    pub(super) fn on_head(&mut self, now: Moment, status: u16, progress: Progress) {
        self.connected = true;
        self.status = Some(status);
        self.on_bytes(now, progress);
    }

    /// Bytes that are no data: a head, a comment, a ping.
    pub(super) fn on_bytes(&mut self, now: Moment, progress: Progress) {
        self.flowed = Some(now);
        if progress == Progress::Bytes {
            self.progress = Some(now);
        }
    }

    pub(super) fn on_data(&mut self, now: Moment) {
        self.flowed = Some(now);
        self.progress = Some(now);
        self.first_data.get_or_insert(now);
    }

    /// From now on its silence counts.
    pub(super) fn on_resumed(&mut self, now: Moment) {
        self.flowed = Some(now);
    }

    /// We do not read: its silence is ours.
    pub(super) fn on_hold(&mut self) {
        self.flowed = None;
    }

    /// When this attempt counts as quiet, if nothing comes before.
    pub(super) fn quiet_at(&self, hedge: &HedgeConfig, after: Option<Duration>) -> Option<Moment> {
        let clock = after.map(|after| self.started + after);
        let idle = hedge.idle.and_then(|idle| {
            let since = match self.progress {
                Some(at) => at,
                None if after.is_none() => self.started,
                None => return None,
            };
            Some(since + idle)
        });
        [clock, idle].into_iter().flatten().min()
    }

    /// The first of its own limits that it will run into.
    pub(super) fn limit(&self, config: &RaceConfig) -> Option<(Moment, Cut)> {
        if !self.is_open() {
            return None;
        }
        let connect = config.connect_timeout.filter(|_| !self.connected);
        let waits = self.is_running() && self.first_data.is_none();
        let first = config.first_data_timeout.filter(|_| waits);
        let idle = config.idle_timeout.zip(self.flowed);
        let limits = [
            connect.map(|limit| (self.started + limit, Cut::ConnectTimeout)),
            // A server may take all of a request before it says anything.
            first.map(|limit| {
                let sent = self.uploaded.unwrap_or(self.started);
                (sent.max(self.started) + limit, Cut::FirstDataTimeout)
            }),
            idle.map(|(limit, since)| (since + limit, Cut::IdleTimeout)),
        ];
        limits.into_iter().flatten().min_by_key(|(at, _)| *at)
    }
}

/// Tests branch whole worlds, and have no breakers in them.
#[cfg(test)]
impl Clone for Attempt {
    fn clone(&self) -> Attempt {
        assert!(self.permit.is_none(), "a permit is settled once");
        Attempt { permit: None, ..*self }
    }
}
