//! Hedgerow: wire.
