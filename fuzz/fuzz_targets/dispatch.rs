//! Feeds arbitrary bytes to the decoder of this name; what must hold is in `checks.rs`.
#![no_main]

#[path = "../checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::dispatch(data));
