//! HTTP in: listeners, the request path, and everything that counts, logs or shows it.
#![forbid(unsafe_code)]

mod access;
pub mod admin;
mod events;
mod finish;
mod line;
mod live;
mod metrics;
pub mod record;
mod sink;
mod wall;
