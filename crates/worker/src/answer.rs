//! What comes back from a worker, as the gateway takes it.

use bytes::Bytes;
use hedgerow_policy::Failure;
use hedgerow_wire::stream::{Chunk, StreamStart};
use tokio::sync::mpsc;

/// A worker's answer to one request.
#[derive(Debug)]
pub enum Answer {
    /// A response.
    Response(Response),
    /// A stream that has begun.
    Stream(Stream),
    /// A plan, as the worker's JSON: the worker is free already.
    Plan(Bytes),
    /// A batch, as the worker's JSON: the worker is free already.
    Batch(Bytes),
    /// A step of the dispatch strategy, as the worker's JSON: the worker is free already. Only where
    /// one was asked for (see [`crate::Head::asks_for_a_step`]).
    Dispatch(Bytes),
}

/// A response: head, and body at once or in pieces.
#[derive(Debug)]
pub struct Response {
    /// Status and headers. Its `body` is moved to `content`; what a worker reports of a failure of
    /// its own has become a `Failure` and is not here.
    pub head: hedgerow_wire::answer::Response,
    /// The body.
    pub content: Content,
}

/// A response body.
#[derive(Debug)]
pub enum Content {
    /// All of it.
    Full(Bytes),
    /// `length` bytes in pieces. An `Err` ends it early: the response must be aborted.
    Pieces {
        /// How many bytes come in all.
        length: u64,
        /// The pieces. Closed without an error before the last: the client took nothing for too
        /// long, and was given up.
        pieces: mpsc::Receiver<Result<Bytes, Failure>>,
    },
}

/// A direct stream of a worker.
#[derive(Debug)]
pub struct Stream {
    /// Status, kind and headers.
    pub start: StreamStart,
    /// What follows. It ends with `End` or `Failed`; closed without either, the client took nothing
    /// for too long, and was given up.
    pub items: mpsc::Receiver<StreamItem>,
}

/// One thing that follows the start of a stream.
#[derive(Debug)]
pub enum StreamItem {
    /// A chunk.
    Chunk(Chunk),
    /// The worker reported an error, or the exchange broke.
    Failed(Failure),
    /// The stream is complete.
    End,
}
