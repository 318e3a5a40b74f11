//! What a check needs to know of the machine, so that tests can invent one.

use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// More than any chain of certificates has.
const LONGEST_TEXT: u64 = 4 << 20;

/// Questions to the machine. Paths are absolute.
pub trait Machine {
    /// The working directory.
    fn working_dir(&self) -> PathBuf;
    /// The folder of the running program, if it is known.
    fn program_dir(&self) -> Option<PathBuf>;
    /// Whether there is anything of this name.
    fn exists(&self, path: &Path) -> bool;
    /// The text of a file, bytes that are none replaced; of a huge one, the beginning.
    ///
    /// # Errors
    /// It cannot be read.
    fn text(&self, path: &Path) -> io::Result<String>;
    /// Whether this is a file that exists.
    fn is_file(&self, path: &Path) -> bool;
    /// Whether this is a folder that exists.
    fn is_dir(&self, path: &Path) -> bool;
    /// Whether this is a file that can be executed.
    fn is_program(&self, path: &Path) -> bool;
    /// Whether files beneath a folder can be served.
    ///
    /// # Errors
    /// The kernel does not know how, or may not.
    fn files_can_be_served(&self) -> io::Result<()>;
    /// Number of CPUs, at least one.
    fn cpus(&self) -> usize;
}

/// The machine this runs on.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThisMachine;

impl Machine for ThisMachine {
    fn working_dir(&self) -> PathBuf {
        std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"))
    }
    fn program_dir(&self) -> Option<PathBuf> {
        let program = std::env::current_exe().ok()?.canonicalize().ok()?;
        program.parent().map(Path::to_path_buf)
    }
    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }
    fn text(&self, path: &Path) -> io::Result<String> {
        let mut bytes = Vec::new();
        std::fs::File::open(path)?.take(LONGEST_TEXT).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
    fn is_file(&self, path: &Path) -> bool {
        path.is_file()
    }
    fn is_dir(&self, path: &Path) -> bool {
        path.is_dir()
    }
    fn is_program(&self, path: &Path) -> bool {
        path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    }
    fn files_can_be_served(&self) -> io::Result<()> {
        hedgerow_gateway::files_can_be_served()
    }
    fn cpus(&self) -> usize {
        std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
    }
}
