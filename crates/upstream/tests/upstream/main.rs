//! Calls over real HTTP connections: in memory under paused time, and over sockets where the
//! connection itself is the matter.

mod batches;
mod bodies;
mod calls;
mod goaway;
mod network;
mod plans;
mod soak;
mod sockets;
