//! The guarded cache: an application keeps answering while its cache stalls.
//!
//! Invariant: whether to ask the store, to shed, to repair, to journal or to send a canary is
//! decided by `hedgerow_policy`; this crate connects, sends, waits, discards and remembers.
//!
//! ```text
//! Guarded::memory(bytes) · Guarded::redis(settings, …)   a store behind its guard
//! Cache                                                   what Rust code does with it
//! Coalesced::fetch(key, ttl, work)                        one fetch for all who miss at once
//! Port::start(settings, guarded, clock)                   what any Redis client does with it
//! ```
//!
//! ```no_run
//! use bytes::Bytes;
//! use hedgerow_cache::{Coalesced, FetchError, Guarded};
//! use std::time::Duration;
//!
//! # async fn example() -> Result<(), FetchError<String>> {
//! let cache = Coalesced::new(Guarded::memory(64 << 20));
//! let ttl = Some(Duration::from_secs(60));
//! // However many miss at once, the work is done once.
//! let page = cache.fetch(b"page:7", ttl, || async { Ok(Bytes::from("made anew")) }).await?;
//! assert_eq!(page, "made anew");
//! # Ok(())
//! # }
//! ```
//!
//! Below: `lane` is the one connection that all callers of a database share, `keeper` stands
//! between the calls and the policies, `commands` is the one table of Redis commands.
#![forbid(unsafe_code)]

pub mod cache;
pub mod coalesced;
mod commands;
pub mod counts;
pub mod fault;
pub mod guarded;
mod journal_file;
mod keeper;
mod lane;
mod lanes;
pub mod memory;
mod near;
pub mod port;
pub mod settings;
mod share;
mod url;

pub use cache::{Cache, Lease, Leased, Purged, Saved};
pub use coalesced::{Coalesced, FetchError};
pub use fault::Fault;
pub use guarded::{Guarded, GuardedError, ResumeError};
pub use hedgerow_clock::Clock;
pub use lane::LaneSnapshot;
pub use memory::Memory;
pub use port::{Port, PortShown, PortView, TooMuch};
pub use settings::{GuardedSettings, PortSettings, RedisSettings};
