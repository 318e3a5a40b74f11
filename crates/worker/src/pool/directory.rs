//! The directory in which the workers' sockets are made.
//!
//! Invariant: a private directory is readable by its owner alone and is removed after the last
//! worker that had a socket in it, by the guard where the gateway was killed; a directory the user
//! named is never removed.

use super::PoolError;
use crate::guard::Guard;
use hedgerow_policy::pool::WorkerId;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The longest path of a Unix socket in bytes (unix(7): 108 with the terminating zero).
const LONGEST_PATH: usize = 107;
/// Room for the longest name made here, `/w-SLOT-GENERATION.sock`.
const NAME: usize = 32;

pub(super) struct Directory {
    path: PathBuf,
    private: bool,
    guard: Option<Arc<Guard>>,
}

impl Directory {
    /// For pools whose sockets somebody else makes.
    pub(super) fn none() -> Directory {
        Directory { path: PathBuf::new(), private: false, guard: None }
    }

    /// The named directory, made if it is missing, or a new private one.
    pub(super) fn open(
        named: Option<&Path>,
        guard: Option<Arc<Guard>>,
    ) -> Result<Directory, PoolError> {
        let mut directory = match named {
            Some(path) => Directory { path: path.to_owned(), private: false, guard: None },
            None => Directory { path: private_path(), private: true, guard: None },
        };
        // One that a killed gateway of the same number left behind is somebody else's now.
        while directory.private && directory.path.exists() {
            directory.path = private_path();
        }
        let path = directory.path.clone();
        let wrong =
            |reason: String| PoolError::Directory { path: path.display().to_string(), reason };
        let length = path.as_os_str().len();
        if length + NAME > LONGEST_PATH {
            let most = LONGEST_PATH - NAME;
            return Err(wrong(format!(
                "the path has {length} bytes; a socket in it allows at most {most}. \
                 Set worker.socket_dir to a shorter one"
            )));
        }
        let mut builder = std::fs::DirBuilder::new();
        builder.mode(0o700).recursive(!directory.private);
        builder.create(&path).map_err(|e| wrong(e.to_string()))?;
        if directory.private {
            directory.guard = guard;
        }
        if let Some(guard) = &directory.guard {
            guard.watch_directory(&path);
        }
        Ok(directory)
    }

    pub(super) fn socket(&self, id: WorkerId) -> PathBuf {
        self.path.join(format!("w-{}-{}.sock", id.slot, id.generation))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if self.private {
            // Empty by now: each worker's socket is removed when the worker is reaped.
            let _ = std::fs::remove_dir_all(&self.path);
        }
        if let Some(guard) = &self.guard {
            guard.forget_directory(&self.path);
        }
    }
}

fn private_path() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let base = std::env::var_os("XDG_RUNTIME_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    base.join(format!("hedgerow-{}-{number}", std::process::id()))
}
