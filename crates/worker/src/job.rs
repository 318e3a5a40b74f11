//! One request as the pool takes it.

use bytes::{Bytes, BytesMut};
use hedgerow_policy::Deadline;
use hedgerow_wire::capabilities::Capabilities;
use hedgerow_wire::request::{EncodeError, Sent};
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

/// A request body that has been read in full.
#[derive(Debug)]
pub enum Body {
    /// Held in memory.
    Memory(Bytes),
    /// Spooled to an unlinked file of this many bytes, read from its start.
    File(File, u64),
}

impl Body {
    /// Bytes in the body.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Body::Memory(bytes) => bytes.len() as u64,
            Body::File(_, len) => *len,
        }
    }

    /// Whether there is no byte in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Writes the request frame once the worker, and so what it understands, is known.
///
/// The gateway implements it over its request; the worker's capabilities decide the body's form.
pub trait Head: Send + Sync {
    /// Appends the frame to `out`. Says whether the body's raw bytes must follow it.
    ///
    /// # Errors
    /// When the request does not fit what this worker understands (the client gets a 413).
    fn encode(
        &self,
        body: &Body,
        capabilities: Capabilities,
        out: &mut BytesMut,
    ) -> Result<Sent, EncodeError>;
    /// The id the worker must echo.
    fn id(&self) -> &str;

    /// Whether the answer may be a step of the dispatch strategy: it was asked for one.
    fn asks_for_a_step(&self) -> bool {
        false
    }
}

/// A request to be exchanged with a worker.
pub struct Job {
    /// Writes the frame.
    pub head: Arc<dyn Head>,
    /// The body, read in full.
    pub body: Body,
    /// Ends the wait for an answer: the request's own bound.
    pub deadline: Deadline,
    /// In place of the pool's read timeout, for this request.
    pub read_timeout: Option<Duration>,
    /// In place of the pool's stream idle timeout, for this request.
    pub stream_idle_timeout: Option<Duration>,
    /// Whether the caller takes more than the head of the answer. Where it does not, the worker is
    /// free before the caller hears of it.
    pub wants_body: bool,
}

impl Job {
    /// A request under the pool's own timeouts.
    #[must_use]
    pub fn new(head: Arc<dyn Head>, body: Body, deadline: Deadline) -> Job {
        Job {
            head,
            body,
            deadline,
            read_timeout: None,
            stream_idle_timeout: None,
            wants_body: true,
        }
    }
}
