//! The `hedgerow` binary.
#![forbid(unsafe_code)]

fn main() {}
