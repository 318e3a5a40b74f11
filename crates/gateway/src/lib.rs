//! HTTP in: listeners, the request path, and everything that counts, logs or shows it.
//!
//! The way of one request: `listener` → `connection` (with `pulse`, its clock) → `service` (with
//! `ids`, `origin`, `smuggling`, `route`, `body`, `head`) → the worker pool → `answer` (with
//! `stream` and `payload`), or `failure`.
#![forbid(unsafe_code)]

mod access;
mod answer;
mod body;
mod connection;
