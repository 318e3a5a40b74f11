//! Hedgerow: testkit.
