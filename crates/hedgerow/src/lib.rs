//! The `hedgerow` binary: command line, configuration, and the wiring of everything else.
//!
//! [`cli`] turns the arguments into a [`cli::Command`]; [`config`] turns file, environment and
//! flags into one [`config::Config`] or a report that says what is wrong and where; [`wiring`]
//! turns that into the settings of each part; [`serve`] starts the parts in order, and ends them in
//! the opposite order.
#![forbid(unsafe_code)]

pub mod cache_port;
pub mod calls;
pub mod cli;
pub mod config;
pub mod conform;
pub mod demo;
pub mod drill;
pub mod explain;
pub mod narrator;
pub mod plan_hedge;
mod progress;
pub mod serve;
pub mod wiring;
