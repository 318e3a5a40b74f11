//! Every byte format that Hedgerow speaks, and nothing that waits.
//!
//! No socket, no clock, no runtime: a decoder takes the bytes that have arrived and says what they
//! mean, an encoder appends bytes to a buffer. Each decoder has a size cap, never panics whatever it
//! is fed, and has a fuzz target of the same name.
//!
//! The way of one exchange, in modules:
//! [`ready`] (the worker says that it has booted, and its [`capabilities`]) → [`request`] (the
//! gateway's frame) → [`answer`] (the worker's first frame) → [`stream`] (the frames that follow a
//! stream's start) with [`sse`] for what such a stream looks like to a client. [`frame`] is the
//! length prefix around all of them; [`reply`] is the worker's side of writing answers.
//! A worker may ask for calls instead of answering: [`plan`] (its stream over [`ndjson`] or
//! [`sse_parse`]) and [`batch`]; or be asked for a stream in steps, [`dispatch`]. [`resp`] stands apart: the Redis protocol of the cache.
#![forbid(unsafe_code)]

pub mod answer;
pub mod batch;
pub mod capabilities;
pub mod dispatch;
pub mod frame;
mod json;
mod loose;
pub mod ndjson;
pub mod otlp;
mod pairs;
pub mod plan;
pub mod ready;
pub mod reply;
pub mod request;
pub mod resp;
pub mod set_cookie;
pub mod sse;
pub mod sse_parse;
pub mod stream;
mod text;

pub use capabilities::Capabilities;
