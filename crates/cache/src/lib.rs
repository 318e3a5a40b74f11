//! The guarded cache: an application keeps answering while its cache stalls.
#![forbid(unsafe_code)]

pub mod clock;
pub mod commands;
pub mod fault;
pub mod memory;
pub mod settings;
mod url;

pub use clock::Clock;
pub use fault::Fault;
pub use memory::Memory;
