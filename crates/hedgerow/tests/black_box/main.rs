//! The acceptance cases that can be seen from outside, through the real binary: the number in a
//! test's name is the case's.

// What an operator can see and do.
mod admin;
// What two readers could understand in two ways never reaches a worker.
mod ambiguous;
// The guarded cache in front of a real store.
mod cache;
// The store behind TLS and an access list.
mod cache_access;
mod cache_bounds;
mod cache_forms;
mod cache_hostile;
mod cache_pubsub;
// Real Redis clients, through the port and direct.
mod clients;
// The other commands: `demo`, `conform`, `check`.
mod commands;
// The client of everybody, for HTTP/2 and TLS.
mod curl;
// Streams that are asked for step by step.
mod dispatch;
// What every failure looks like.
mod envelope;
// What is passed on in both directions, and what is not.
mod exchange;
// Routes that lead to a folder.
mod files;
// Workers and gateways that start, end and change over.
mod lifecycle;
// Clients that send too much, too little or too slowly.
mod limits;
// The metrics page, as promtool reads it, and what is made of it.
mod metrics;
// What PHP applications may return, throw and do.
mod php;
// Bytes to PHP and back.
mod php_bodies;
// What a lean frame leaves out, the application sees.
mod php_lean;
// Who waits for a worker, how long, and who does not.
mod queue;
// What is written down, of every request, once.
mod records;
// `hedgerow serve` as a child process.
mod server;
// Signals that come at a bad time.
mod signals;
// Streams, whole and broken.
mod streams;
// Workers replaced by plan, or started by somebody else; outputs that nobody reads.
mod supervision;
// What a person at a terminal sees of commands that take long.
mod terminal;
// The story of one request.
mod explain;
// What a collector of traces gets.
mod traces;
// What a silent worker costs, and whom.
mod timeouts;
// TLS and HTTP/2 with the client of everybody.
mod tls;
// What a worker can do to an exchange.
mod transport;
