//! A second process that outlives the gateway by an instant, to end what workers have started and
//! to remove where their sockets were.
//!
//! Invariant: when the gateway is gone, however it went, every process group it had told the guard
//! about is killed, and every private directory removed. The kernel's parent-death signal reaches
//! the worker itself; the guard reaches its children and theirs. A process that left its group
//! (`setsid`) is out of reach.
//!
//! The gateway writes lines to the guard's standard input, `+WHAT` and `-WHAT` to take it back: a
//! process group's number, or a directory's absolute path. The input's end, which the kernel brings
//! about whatever happens to the gateway, is the signal.

use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;

/// The gateway's end of the guard.
#[derive(Debug)]
pub struct Guard {
    pipe: Mutex<Option<ChildStdin>>,
    child: Mutex<Child>,
}

impl Guard {
    /// Starts `command` (program and arguments), which must call [`run`].
    ///
    /// # Errors
    /// When the process cannot be started.
    pub fn start(command: &[String]) -> io::Result<Guard> {
        let (program, args) = command
            .split_first()
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "an empty command"))?;
        let mut child = Command::new(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Its own group, so that what a terminal sends to the gateway does not end it first.
            .process_group(0)
            .spawn()?;
        Ok(Guard { pipe: Mutex::new(child.stdin.take()), child: Mutex::new(child) })
    }

    pub(crate) fn watch(&self, group: u32) {
        self.tell('+', group);
    }

    pub(crate) fn forget(&self, group: u32) {
        self.tell('-', group);
    }

    /// A directory to remove. One whose path is no single line of text is not told about.
    pub(crate) fn watch_directory(&self, path: &Path) {
        self.tell_of_directory('+', path);
    }

    pub(crate) fn forget_directory(&self, path: &Path) {
        self.tell_of_directory('-', path);
    }

    fn tell_of_directory(&self, sign: char, path: &Path) {
        if let Some(path) =
            path.to_str().filter(|path| path.starts_with('/') && !path.contains('\n'))
        {
            self.tell(sign, path);
        }
    }

    fn tell(&self, sign: char, what: impl Display) {
        // A line is shorter than a pipe's buffer and the guard only reads: this does not block.
        // Where the guard is gone the kernel's signal to the workers themselves remains.
        if let Ok(mut pipe) = self.pipe.lock()
            && let Some(open) = pipe.as_mut()
            && writeln!(open, "{sign}{what}").is_err()
        {
            *pipe = None;
        }
    }

    /// Ends the guard in order, once no worker is left, and waits for it.
    pub fn stop(&self) {
        if let Ok(mut pipe) = self.pipe.lock() {
            *pipe = None;
        }
        if let Ok(mut child) = self.child.lock() {
            let _ = child.wait();
        }
    }
}

/// The guard itself: reads lines until their end, then kills and removes what is left.
pub fn run(lines: impl BufRead) {
    let left = left_at_the_end(lines);
    for group in left.groups {
        if let Some(group) = Pid::from_raw(group) {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
    for directory in left.directories {
        let _ = std::fs::remove_dir_all(directory);
    }
}

/// What was told of and not taken back.
#[derive(Debug, Default, PartialEq, Eq)]
struct Left {
    groups: BTreeSet<i32>,
    directories: BTreeSet<PathBuf>,
}

fn left_at_the_end(lines: impl BufRead) -> Left {
    let mut left = Left::default();
    for line in lines.lines() {
        let Ok(line) = line else { break };
        let Some((sign, what)) = line.split_at_checked(1) else { continue };
        // 0 and 1 would be the guard's own group and init.
        let group = what.parse::<i32>().ok().filter(|group| *group > 1);
        let directory = what.starts_with('/').then(|| PathBuf::from(what));
        match (sign, group, directory) {
            ("+", Some(group), _) => left.groups.insert(group),
            ("-", Some(group), _) => left.groups.remove(&group),
            ("+", _, Some(directory)) => left.directories.insert(directory),
            ("-", _, Some(directory)) => left.directories.remove(&directory),
            _ => continue,
        };
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_taken_back_is_left() {
        let lines =
            "+100\n+200\n-100\nnoise\n+0\n+1\n+-5\n\n+300\n+/run/a b\n+/run/c\n-/run/c\n+run/d";
        let left = Left {
            groups: BTreeSet::from([200, 300]),
            directories: BTreeSet::from(["/run/a b".into()]),
        };
        assert_eq!(left_at_the_end(lines.as_bytes()), left);
    }
}
