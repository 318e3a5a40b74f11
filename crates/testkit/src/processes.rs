//! What /proc says of processes, and signals to them.

use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::ops::{Deref, DerefMut};
use std::process::Child;

/// A process that runs; one that has ended and is not reaped yet does not.
#[must_use]
pub fn alive(pid: u32) -> bool {
    state(pid).is_some_and(|s| s != 'Z' && s != 'X')
}

/// A process that was told to stop (`SIGSTOP`) and has.
#[must_use]
pub fn stopped(pid: u32) -> bool {
    state(pid) == Some('T')
}

/// The children of `parent`, ended but unreaped ones included.
#[must_use]
pub fn children(parent: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| field(*pid, 1).and_then(|p| p.parse().ok()) == Some(parent)).collect()
}

/// The children of `parent`, their children, and so on.
#[must_use]
pub fn descendants(parent: u32) -> Vec<u32> {
    let mut found = children(parent);
    let mut next = 0;
    while let Some(&pid) = found.get(next) {
        found.extend(children(pid));
        next += 1;
    }
    found
}

/// Sends a signal. One that has gone already is left alone.
///
/// # Panics
/// When the system does not allow it.
pub fn signal(pid: u32, signal: Signal) {
    let target = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process number");
    match kill_process(target, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => {}
        Err(error) => panic!("signal {signal:?} to {pid}: {error}"),
    }
}

/// A child that is killed and reaped when dropped, so that a test that fails leaves none.
#[derive(Debug)]
pub struct Leashed(pub Child);

impl Deref for Leashed {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Leashed {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Leashed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Open descriptors of a process.
#[must_use]
pub fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// Resident memory in bytes.
#[must_use]
pub fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    let kib = line.and_then(|l| l.split_ascii_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

fn state(pid: u32) -> Option<char> {
    field(pid, 0)?.chars().next()
}

/// A field of /proc/PID/stat behind the program's name, which may hold anything.
fn field(pid: u32, index: usize) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let behind = stat.rsplit_once(')')?.1;
    behind.split_ascii_whitespace().nth(index).map(str::to_owned)
}
