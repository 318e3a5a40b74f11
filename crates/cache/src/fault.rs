//! Why the store gave no answer.
//!
//! Invariant: a fault says whether the store may have carried out what it was asked. Nothing is ever
//! sent a second time unless it was [`Fault::unsent`].

use bytes::Bytes;

/// A call to the store without a usable answer.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// No answer by the caller's deadline. It may be carried out yet.
    #[error("the store did not answer in time")]
    Timeout,
    /// The connection was lost while the answer was owed. It may have been carried out.
    #[error("the connection to the store was lost: {0}")]
    Lost(String),
    /// There is no connection. Nothing was sent.
    #[error("no connection to the store: {0}")]
    Unconnected(String),
    /// So much waits to be sent, or to be answered, that no more is taken. Nothing was sent.
    #[error("too much is waiting for the store")]
    Busy,
    /// The store answered that it cannot serve (`LOADING`, `OOM`, `READONLY`, …), or with an error
    /// that a value cannot have. The text is the store's.
    #[error("the store answered {}", .0.escape_ascii())]
    Answered(Bytes),
    /// The store's bytes are not the protocol, or not the answer to what was asked.
    #[error("the store broke the protocol: {0}")]
    Protocol(String),
}

impl Fault {
    /// Whether it is certain that the store was not asked.
    #[must_use]
    pub fn unsent(&self) -> bool {
        matches!(self, Fault::Unconnected(_) | Fault::Busy)
    }
}
