//! Hedgerow: gateway.
