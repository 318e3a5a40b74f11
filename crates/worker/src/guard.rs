//! A second process that outlives the gateway by an instant, to end what workers have started.
//!
//! Invariant: when the gateway is gone, however it went, every process group it had told the guard
//! about is killed. The kernel's parent-death signal reaches the worker itself; the guard reaches
//! its children and theirs. A process that left its group (`setsid`) is out of reach.
//!
//! The gateway writes `+GROUP` and `-GROUP` lines to the guard's standard input. Its end, which the
//! kernel brings about whatever happens to the gateway, is the signal.

use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::BTreeSet;
use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
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

    fn tell(&self, sign: char, group: u32) {
        // A line is shorter than a pipe's buffer and the guard only reads: this does not block.
        // Where the guard is gone the kernel's signal to the workers themselves remains.
        if let Ok(mut pipe) = self.pipe.lock()
            && let Some(open) = pipe.as_mut()
            && writeln!(open, "{sign}{group}").is_err()
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

/// The guard itself: reads lines until their end, then kills what is left.
pub fn run(lines: impl BufRead) {
    for group in left_at_the_end(lines) {
        if let Some(group) = Pid::from_raw(group) {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

fn left_at_the_end(lines: impl BufRead) -> BTreeSet<i32> {
    let mut groups = BTreeSet::new();
    for line in lines.lines() {
        let Ok(line) = line else { break };
        // 0 and 1 would be the guard's own group and init.
        let group = line.get(1..).and_then(|n| n.parse::<i32>().ok()).filter(|n| *n > 1);
        match (line.as_bytes().first(), group) {
            (Some(b'+'), Some(group)) => groups.insert(group),
            (Some(b'-'), Some(group)) => groups.remove(&group),
            _ => continue,
        };
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_taken_back_is_left() {
        let lines = "+100\n+200\n-100\nnoise\n+0\n+1\n+-5\n+300";
        assert_eq!(left_at_the_end(lines.as_bytes()), BTreeSet::from([200, 300]));
    }
}
