//! How one request and its answer travel to a worker and back. One file a kind.

mod attended;
mod connection;
pub(crate) mod frames;
mod reading;
