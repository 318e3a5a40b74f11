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
    /// A frame or a row of a plan's stream could not be read.
    PlanDecodeFailed {
        /// What was wrong.
        error: &'a str,
    },
}
