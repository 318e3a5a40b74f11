//! Hedgerow: worker.
