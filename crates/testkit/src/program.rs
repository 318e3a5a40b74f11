//! Where the workspace's own programs are, built if they are not.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The scripted worker, `hedgerow-stage`.
///
/// # Panics
/// When it cannot be built.
#[must_use]
pub fn stage() -> PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| built("hedgerow-stage")).clone()
}

/// A test of one crate is not told the path of another crate's program, and cargo need not have
/// built it. Its lock is free while tests run.
fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the path of the test");
    let directory = test.parent().and_then(|deps| deps.parent()).expect("target/PROFILE/deps/test");
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.args(["build", "--quiet", "--package", name, "--bin", name]);
    if directory.ends_with("release") {
        build.arg("--release");
    }
    let status = build.status().expect("cargo runs");
    assert!(status.success(), "cargo could not build {name}");
    directory.join(name)
}
