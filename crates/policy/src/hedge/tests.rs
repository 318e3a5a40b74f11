//! The cases of `cases/hedging.md` in virtual time, by number; then every interleaving of a small
//! model, and ten thousand random ones.

mod budget;
mod interleavings;
mod keys;
mod scene;
mod timing;
