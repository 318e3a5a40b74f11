//! The pool's driver against the scripted worker as a real child process.

mod exchange;
mod lifecycle;
mod support;
