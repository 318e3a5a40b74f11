//! What holds under fire. CI runs each of these short; `make drill` runs them long:
//! `FAULTS=10000 RELOADS=40 UPLOADS=5000 CALLS=100000`. A seed is printed, and `SEED=n` replays it.

#[allow(dead_code, reason = "the fixture of the black-box tests; not all of it is needed here")]
#[path = "../black_box/server.rs"]
mod server;

// Hedged calls with random faults: nothing is left of them.
mod calls;
// Ten thousand random faults: the slots always add up, and nothing leaks.
mod faults;
// Reloads under load with streams open: nobody notices.
mod reloads;
// Thousands of slow uploads: memory stays within its bound, and others are served.
mod uploads;

/// A number from the environment, so that one test has a short and a long form.
fn scale(name: &str, short: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(short)
}
