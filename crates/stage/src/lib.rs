//! The actors of a demo, a test or a bench: programs that behave, or misbehave, as they are told.
//!
//! The scripted worker speaks the worker contract over [`hedgerow_wire`] as a real process: one
//! request at a time, blocking, like the PHP worker it stands in for. What a request asks of it is
//! in its path and query ([`routes`]), so that one program serves every scenario; how it boots is
//! in its flags ([`args`]).
//!
//! The scripted upstream ([`upstream`]) is an HTTP service in the same manner, and the scripted store
//! ([`store`]) as much of a Redis server as stalls and wakes.
//!
//! Promise: they do nothing by chance. The same requests in the same order get the same answers.
#![forbid(unsafe_code)]

pub mod args;
mod boot;
mod clock;
mod connection;
mod reply;
pub mod routes;
mod server;
pub mod store;
pub mod upstream;

pub use store::run_store;
pub use upstream::run_upstream;

use std::io::Write as _;
use std::process::ExitCode;

/// Runs the scripted worker until it is ended. `args` are what follows `worker` on the command line.
///
/// Exit codes: 1 when its boot was scripted to fail, 2 when it could not start, and whatever a
/// request asks for.
pub fn run_worker(args: impl IntoIterator<Item = String>) -> ExitCode {
    let booted =
        args::Args::parse(args).and_then(|args| boot::run(args).map_err(|error| error.to_string()));
    booted.unwrap_or_else(|reason| {
        complain(&reason);
        ExitCode::from(2)
    })
}

/// One line on standard error. Nobody reading it is part of some scenarios.
fn complain(what: &str) {
    let _ = writeln!(std::io::stderr(), "hedgerow-stage: {what}");
}
