//! Configuration and command line of the `hedgerow` binary.
//!
//! [`cli`] turns the arguments into a [`cli::Command`]; [`config`] turns file, environment and
//! flags into one [`config::Config`] or a report that says what is wrong and where.
#![forbid(unsafe_code)]

pub mod cli;
pub mod config;
pub mod conform;
