//! Who gets which reply, and what a lost connection may still do.
