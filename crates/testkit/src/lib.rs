//! What tests of several crates share. Nothing outside tests depends on it.
//!
//! Invariant: nothing here waits for a time to pass; it waits for a condition, and a bound on the
//! wait only says when to give up with a message.
#![forbid(unsafe_code)]

pub mod events;
pub mod http;
pub mod processes;
pub mod program;
pub mod redis;
pub mod resp;
pub mod scratch;
pub mod until;
