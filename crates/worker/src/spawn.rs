//! Starts worker processes. The only file in Hedgerow with `unsafe` in it.
//!
//! Invariants:
//! - every worker leads its own process group, so that one signal reaches it and all it started;
//! - every worker is killed by the kernel when the gateway dies. That signal fires when the
//!   *thread* that forked ends (prctl(2), `PR_SET_PDEATHSIG`), so all workers are started by one
//!   thread that lasts as long as the process;
//! - a worker inherits its standard streams and the readiness pipe, and no other descriptor.
#![allow(unsafe_code)]

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, getppid, pidfd_open, set_parent_process_death_signal,
};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;

/// What to start.
pub(crate) struct Order {
    pub(crate) program: String,
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) cwd: Option<PathBuf>,
}

/// A process that was started.
pub(crate) struct Started {
    pub(crate) child: Child,
    /// The end of the pipe from which its readiness line is read.
    pub(crate) ready: OwnedFd,
}

type Request = (Order, oneshot::Sender<io::Result<Started>>);

/// The environment variable that names the readiness pipe.
pub(crate) const READY_FD: &str = "HEDGEROW_READY_FD";

/// Starts a process on the thread that starts all of them.
pub(crate) async fn start(order: Order) -> io::Result<Started> {
    let (reply, answer) = oneshot::channel();
    let gone = || io::Error::other("the thread that starts workers is gone");
    let thread = thread().as_ref().map_err(|e| io::Error::new(e.kind(), e.to_string()))?;
    thread.send((order, reply)).map_err(|_| gone())?;
    answer.await.map_err(|_| gone())?
}

fn thread() -> &'static io::Result<mpsc::Sender<Request>> {
    static THREAD: OnceLock<io::Result<mpsc::Sender<Request>>> = OnceLock::new();
    THREAD.get_or_init(|| {
        let (sender, requests) = mpsc::channel::<Request>();
        let forker = std::thread::Builder::new().name("worker-starter".into());
        // The sender lives in a static, so the loop and with it the thread last for ever.
        forker.spawn(move || {
            for (order, reply) in requests {
                let started = start_here(order);
                // Nobody waits any more: the child must not outlive that.
                if let Err(Ok(mut orphan)) = reply.send(started) {
                    let _ = orphan.child.kill();
                    let _ = orphan.child.wait();
                }
            }
        })?;
        Ok(sender)
    })
}

fn start_here(order: Order) -> io::Result<Started> {
    let (ready, write_end) = pipe_with(PipeFlags::CLOEXEC)?;
    let parent = getpid();
    let mut command = Command::new(&order.program);
    command
        .args(&order.args)
        .envs(order.env)
        .env(READY_FD, write_end.as_raw_fd().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    if let Some(cwd) = order.cwd {
        command.current_dir(cwd);
    }
    // SAFETY: the closure runs between fork and exec. It makes three system calls (prctl, getppid,
    // fcntl), which are async-signal-safe, and neither allocates nor takes a lock.
    unsafe {
        command.pre_exec(move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // The gateway may have died before the line above took effect.
            if getppid() != Some(parent) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            fcntl_setfd(&write_end, FdFlags::empty())?;
            Ok(())
        });
    }
    // The command owns the write end and drops it on return, so the worker alone holds it.
    let child = command.spawn()?;
    Ok(Started { child, ready })
}

/// Becomes readable when `child`, which has not been reaped, ends (`pidfd_open`, Linux 5.3).
pub(crate) fn watch_exit(child: &Child) -> io::Result<AsyncFd<OwnedFd>> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other("a process number that cannot be"))?;
    let fd = pidfd_open(pid, PidfdFlags::empty())?;
    // SAFETY: an `OwnedFd` stays open, and names the same file, until it is dropped with the
    // `AsyncFd` that takes it.
    let watched = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
    Ok(watched?)
}
