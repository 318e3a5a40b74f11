//! Hedgerow: stage.
