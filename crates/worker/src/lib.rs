//! Application processes: a supervised pool, and the exchange of one request with one worker.
//!
//! Invariant: a worker that ran past a timeout, broke an exchange, or whose state is unknown is
//! never given another request. Whether to grant, queue, refuse, replace or back off is decided by
//! `hedgerow_policy::pool`; this crate starts, kills, connects, writes and reads.
//!
//! ```text
//! Pool::acquire(deadline) -> Lease      a worker, or a place in the queue and then a worker
//! Lease::exchange(job)    -> Answer     the frames of one request; the lease settles itself
//! ```

pub mod answer;
pub mod guard;
pub mod job;
mod output;
pub mod pool;
mod process;
mod readiness;
mod rss;
pub mod settings;
pub mod snapshot;
mod spawn;
mod transport;
mod worker;

pub use answer::{Answer, Content, Response, Stream, StreamItem};
pub use guard::Guard;
pub use hedgerow_clock::Clock;
pub use job::{Body, Head, Job};
pub use pool::{Lease, Pool, PoolError};
pub use settings::Settings;
