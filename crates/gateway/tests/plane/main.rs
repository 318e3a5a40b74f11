//! The data plane over real sockets, with a real pool and workers that live in the test.

mod answers;
mod bodies;
mod calls;
mod cancel;
mod client;
mod drain;
mod http2;
mod limits;
mod odd_answers;
mod plane;
mod smuggling;
mod streams;
mod tls;
mod worker;
