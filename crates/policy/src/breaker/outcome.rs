//! The words of the breaker: the states of a circuit, and how a call can end.
//!
//! Invariant: an outcome counts for the party, against it, or not at all; which, is said here and
//! nowhere else.

/// The three states of a circuit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum State {
    /// Calls go through and are counted.
    Closed,
    /// A few calls go through, as probes.
    HalfOpen,
    /// No call goes through.
    Open,
}

impl State {
    /// The state as the admin pages and event lines spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            State::Closed => "closed",
            State::HalfOpen => "half_open",
            State::Open => "open",
        }
    }

    /// The state as the metric `breaker_state` shows it: 0 closed, 1 half-open, 2 open.
    #[must_use]
    pub const fn gauge(self) -> u8 {
        match self {
            State::Closed => 0,
            State::HalfOpen => 1,
            State::Open => 2,
        }
    }
}

/// How an admitted call ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Outcome {
    /// An answer.
    Ok,
    /// An answer: there is nothing under that key. A success of the store.
    Miss,
    /// An answer: the store would not take it (a lease that is over, NX on a key that is there).
    /// A success of the store.
    Refused,
    /// The store answers, but takes no writes now (OOM, READONLY, MISCONF). The write failed; the
    /// store is reachable, so it says nothing against reads and stops no later write.
    WriteDenied,
    /// Never sent: something else shed it. Nothing at all.
    Shed,
    /// No answer within the call's deadline.
    Timeout,
    /// The connection could not be made, or was lost.
    Connection,
    /// The answer says that the party cannot serve (LOADING, a 5xx).
    ServerError,
    /// The caller went away. Nothing at all.
    Cancelled,
}

impl Outcome {
    /// Whether it counts against the party.
    #[must_use]
    pub const fn is_failure(self) -> bool {
        matches!(self, Outcome::Timeout | Outcome::Connection | Outcome::ServerError)
    }

    /// Whether it counts neither for nor against the party.
    #[must_use]
    pub const fn is_nothing(self) -> bool {
        matches!(self, Outcome::Shed | Outcome::Cancelled)
    }

    /// The outcome as metric labels spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Outcome::Ok => "ok",
            Outcome::Miss => "miss",
            Outcome::Refused => "refused",
            Outcome::Shed => "shed",
            Outcome::Timeout => "timeout",
            Outcome::Connection => "connection",
            Outcome::WriteDenied | Outcome::ServerError => "server_error",
            Outcome::Cancelled => "cancelled",
        }
    }
}
