//! The configuration, resolved: plain values, every default filled in.
//!
//! Promise: what [`Config`] holds has been validated; nobody behind it parses, defaults or checks
//! again. The raw document with its places lives in the modules below.

mod model;

pub use model::*;
