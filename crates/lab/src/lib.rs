//! Decisions made with evidence: what a hedge would buy, and what an incident would do.
//!
//! [`planner`] evaluates a hedge exactly, on measured durations. [`drill`] replays incidents in
//! virtual time through the very state machines of `hedgerow-policy` that the server runs.
//!
//! Invariant: nothing here reads a file, a clock or a random device. Text and a seed come in, text
//! goes out; equal input gives equal output, byte for byte.
#![forbid(unsafe_code)]

pub mod chart;
pub mod drill;
pub mod planner;
#[cfg(test)]
mod snapshot;
mod text;
