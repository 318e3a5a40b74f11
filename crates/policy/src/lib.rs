//! Hedgerow: policy.
