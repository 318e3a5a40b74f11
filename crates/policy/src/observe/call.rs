//! Facts about one call to an upstream.

use crate::hedge::{Outcome, Reason, Role};
use std::time::Duration;

/// What happened to a key and its attempts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CallEvent<'a> {
    /// An attempt was started.
    AttemptStarted {
        /// What it is to its key.
        role: Role,
        /// Where it goes, as configured.
        endpoint: &'a str,
    },
    /// An attempt ended. `outcome` says how; a failure's text is for the log.
    AttemptEnded {
        /// What it was to its key.
        role: Role,
        /// Where it went, as configured.
        endpoint: &'a str,
        /// How it ended.
        outcome: Outcome,
        /// The status it was answered with.
        status: Option<u16>,
        /// What it failed with, where it broke.
        error: Option<&'a str>,
    },
    /// A twin was started.
    HedgeFired {
        /// Time since the key's start.
        after: Duration,
    },
    /// A twin was not started.
    HedgeSuppressed {
        /// Why.
        reason: Reason,
    },
    /// A twin would have been started, but is only observed.
    HedgeObserved,
    /// A retry was put off.
    RetryScheduled {
        /// For how long.
        delay: Duration,
    },
    /// An endpoint is passed over for a while.
    EndpointDemoted {
        /// Which, as configured.
        endpoint: &'a str,
    },
    /// The key is settled.
    KeySettled {
        /// Whose success it is; `None`: it failed, or nobody waited for it.
        winner: Option<Role>,
        /// Time since the key's start.
        duration: Duration,
        /// Attempts started for it.
        attempts: u32,
        /// When the first twin was started.
        hedged_after: Option<Duration>,
    },
    /// Nothing runs for the key any more: all that was done for it.
    KeyOver {
        /// What its caller calls it (the key of a batch, the name of a plan).
        key: Option<&'a str>,
        /// The method of its request.
        method: &'a str,
        /// The trace context its caller gave it, as it stood in the request.
        traceparent: Option<&'a str>,
        /// Time since the key's start.
        age: Duration,
        /// Time from its start until it was settled.
        duration: Duration,
        /// Whose success it is; `None`: it failed, or nobody waited for it.
        winner: Option<Role>,
        /// When the first twin was started.
        hedged_after: Option<Duration>,
        /// Its attempts in the order of their start.
        attempts: &'a [AttemptFacts<'a>],
    },
    /// A frame or a row of a plan's stream could not be read.
    PlanDecodeFailed {
        /// What was wrong.
        error: &'a str,
    },
}

/// One attempt that is over; times are since the key's start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AttemptFacts<'a> {
    /// What it was to its key.
    pub role: Role,
    /// Where it went, as configured.
    pub endpoint: &'a str,
    /// The span it was sent as, where its caller gave a trace context.
    pub span: Option<u64>,
    /// Its start.
    pub start: Duration,
    /// The first data of its response.
    pub first_data: Option<Duration>,
    /// Its end.
    pub end: Option<Duration>,
    /// How it ended.
    pub outcome: Outcome,
    /// The status it was answered with.
    pub status: Option<u16>,
    /// Bytes of its response's body that were read.
    pub bytes: u64,
    /// What it failed with, where it broke.
    pub error: Option<&'a str>,
}
