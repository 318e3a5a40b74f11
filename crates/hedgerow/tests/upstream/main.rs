//! Calls out through the real binary, against a scripted upstream: what an application developer
//! gets from plans, batches and the egress port. A number in a test's name is a case's.

#[allow(dead_code, reason = "the fixture of the black-box tests; not all of it is needed here")]
#[path = "../black_box/server.rs"]
mod server;

// Calls side by side.
mod batches;
// Real HTTP clients over the egress port: the programs of docs/upstream.md.
mod clients;
// Losers and resumed requests, as their cases have them.
mod cases;
// The race of one call, seen from both its ends.
mod hedging;
// What is written down of calls.
mod ledger;
// A scripted upstream and the configuration that names it.
mod models;
// One PHP worker and twenty clients that wait.
mod parking;
// The planner on what the gateway writes down.
mod planner;
// The plans that PHP applications build, on real php-cli.
mod php_plans;
// Plans that go wrong, and fixtures.
mod plans;
// Routes that lead to an upstream.
mod routes;
// TLS, and the versions of HTTP.
mod tls;
