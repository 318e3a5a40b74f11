//! What a call says of itself, beside its answer.

use hedgerow_policy::failure::Failure;
use hedgerow_policy::hedge::Role;
use std::fmt;
use std::time::Duration;

/// How a call came about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Attempts started; zero where every endpoint was shed.
    pub attempts: u32,
    /// Whose success it is; `None`: it failed.
    pub winner: Option<Role>,
    /// When the first twin was started.
    pub hedged_after: Option<Duration>,
    /// Retries started.
    pub retries: u32,
    /// Time from the call to its answer.
    pub duration: Duration,
}

/// A call that got no response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallError {
    /// What went wrong.
    pub failure: Failure,
    /// How it came about.
    pub report: Report,
    /// The last status that an attempt was answered with, if any was.
    pub last_status: Option<u16>,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.failure.fmt(f)
    }
}

impl std::error::Error for CallError {}
