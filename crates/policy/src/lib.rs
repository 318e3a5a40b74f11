//! Every decision Hedgerow takes, as plain state machines.
//!
//! Invariant: nothing here waits, reads a clock, draws a random number, opens a socket or logs.
//! Time is an argument ([`Moment`]), randomness is an argument, and what happens next is a return
//! value. So the same machine serves the server, the tests, and the drills in virtual time.
//!
//! The shape of every machine: `new(config)`, events of the form `on_…(now, …)`, `next_wake()`,
//! `snapshot(now)`, and `check_invariants()`, which debug builds call after every event.
#![forbid(unsafe_code)]

pub mod allowance;
pub mod backoff;
pub mod breaker;
pub mod budget;
pub mod deadline;
pub mod digest;
pub mod drain_rate;
pub mod endpoints;
pub mod failure;
pub mod guard;
pub mod hedge;
pub mod jitter;
pub mod journal;
pub mod moment;
pub mod observe;
pub mod pace;
pub mod pool;
pub mod queue;
pub mod repair;
pub mod single_flight;
mod sync;

pub use deadline::Deadline;
pub use failure::{Class, Failure};
pub use jitter::Jitter;
pub use moment::Moment;
pub use observe::{Event, Observer};
