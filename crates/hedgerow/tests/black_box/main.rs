//! The acceptance cases that can be seen from outside, through the real binary: the number in a
//! test's name is the case's.

// What every failure looks like.
mod envelope;
// Who waits for a worker, how long, and who does not.
mod queue;
// `hedgerow serve` as a child process.
mod server;
// What a silent worker costs, and whom.
mod timeouts;
// What a worker can do to an exchange.
mod transport;
