//! HTTP in: listeners, the request path, and everything that counts, logs or shows it.
//!
//! The way of one request: `listener` → `connection` (with `watched` and `pulse`, its clock) → `service` (with
//! `ids`, `origin`, `smuggling`, `route`, `dots`, `body`, `head`) → `exchange` with the worker pool, `proxy` or
//! `files` → `answer` (with
//! `stream` and `payload`; `plan` and `batch` where the worker asked for calls, `dispatch` where it
//! makes a stream in steps), or `failure`. Calls that applications make come in by `egress`.
#![forbid(unsafe_code)]

mod access;
pub mod admin;
mod answer;
mod batch;
mod body;
pub mod calls;
mod cancel;
mod connection;
mod dispatch;
mod dots;
pub mod egress;
mod ended;
mod events;
mod exchange;
mod facts;
mod failure;
mod files;
mod finish;
mod head;
mod history;
mod ids;
mod line;
mod listener;
mod live;
mod metrics;
mod names;
mod origin;
mod payload;
mod pieces;
mod plan;
mod proxy;
mod pulse;
mod recent;
pub mod record;
pub mod route;
mod sequence;
pub mod serve;
mod service;
pub mod settings;
mod sink;
mod smuggling;
mod stream;
mod timeline;
mod tls;
pub mod traces;
mod wall;
mod watched;

pub use calls::Calls;
pub use egress::Egress;
pub use failure::status;
pub use files::can_be_served as files_can_be_served;
pub use metrics::metrics_reference;
pub use serve::{Gateway, StartError};
pub use settings::Settings;
pub use tls::TlsError;
