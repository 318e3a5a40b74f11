//! The life of one worker process: start, readiness, output, end.
//!
//! Invariant: every process that was started is reaped, its whole group is killed before that, its
//! socket and its uploads are removed, and the pool is told exactly once that it is gone.

use crate::output::{Said, read_lines};
use crate::pool::Inner;
use crate::readiness::{self, Readiness};
use crate::settings::Launch;
use crate::spawn::{self, Order};
use crate::worker::{End, Worker, kill_group, signal_group};
use hedgerow_policy::Moment;
use hedgerow_policy::observe::Event;
use rustix::process::Signal;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Starts the process of `worker` and stays with it until it is reaped.
pub(crate) async fn look_after(pool: Arc<Inner>, worker: Arc<Worker>, launch: Launch) {
    let started_at = pool.clock.now();
    let (mut child, ready, exit) = match start(&worker, &launch).await {
        Ok(started) => started,
        Err(error) => {
            let program = launch.command.first().map_or("", String::as_str);
            return boot_failed(&pool, &worker, 0, &format!("cannot start {program}: {error}"));
        }
    };
    let pid = child.id();
    pool.watch_group(pid);
    pool.observer.on(&Event::WorkerStarted { worker: worker.id.slot, pid });
    if let Some(End::Kill(_)) = worker.started(pid) {
        kill_group(pid);
    }
    let outputs = forward_output(&pool, &worker, &mut child);

    let mut booting = true;
    let readiness = readiness::wait(ready, &worker.socket, pool.clock);
    tokio::pin!(readiness);
    let mut kill_at = Moment::NEVER;
    loop {
        tokio::select! {
            // What a worker said before it ended counts before its end does.
            biased;
            said = &mut readiness, if booting => {
                booting = false;
                match said {
                    Readiness::Up(capabilities) => {
                        worker.announce(capabilities);
                        let after = pool.clock.now() - started_at;
                        let worker_ready = Event::WorkerReady { worker: worker.id.slot, pid, after };
                        pool.observer.on(&worker_ready);
                        pool.with(|policy, now| policy.on_ready(now, worker.id));
                        pool.progressed();
                    }
                    Readiness::Failed(error) => boot_failed(&pool, &worker, pid, &error),
                }
            }
            _ = exit.ready(Interest::READABLE) => break,
            () = worker.ordered.notified() => match worker.ordered_end() {
                Some(End::Kill(_)) => kill_group(pid),
                Some(End::Retire(_)) => {
                    signal_group(pid, Signal::TERM);
                    kill_at = pool.clock.now() + launch.kill_grace;
                }
                None => {}
            },
            () = pool.clock.sleep_until(kill_at) => {
                kill_group(pid);
                kill_at = Moment::NEVER;
            }
        }
    }

    // It has ended but is not reaped: its number still names its group and nothing else.
    kill_group(pid);
    worker.gone();
    let status = child.wait();
    pool.forget_group(pid);
    let _ = std::fs::remove_file(&worker.socket);
    // The pool first: until it knows, it would give the dead worker requests.
    tell_the_end(&pool, &worker, pid, booting, status);
    for output in outputs {
        // What it printed before it ended is in the pipe already. A process that left the group may
        // hold the pipe open; it is not waited for.
        let patience = pool.clock.now() + std::time::Duration::from_millis(100);
        if pool.clock.until(patience, output.finished).await.is_none() {
            output.task.abort();
        }
    }
    let socket = worker.socket.clone();
    // Large files take their time to go. Before the pool's directory does, hence waited for.
    let _ = tokio::task::spawn_blocking(move || remove_uploads(&socket)).await;
    pool.worker_gone(worker.id);
}

/// A worker keeps the uploads of its request in a folder beside its socket; one that was killed
/// could not remove it. A link of that name is none of its making and stays.
fn remove_uploads(socket: &Path) {
    let mut folder = socket.as_os_str().to_owned();
    folder.push(".uploads");
    if std::fs::symlink_metadata(&folder).is_ok_and(|meta| meta.is_dir()) {
        let _ = std::fs::remove_dir_all(&folder);
    }
}

async fn start(
    worker: &Worker,
    launch: &Launch,
) -> io::Result<(Child, rustix::fd::OwnedFd, AsyncFd<rustix::fd::OwnedFd>)> {
    let socket = worker.socket.to_string_lossy();
    let (program, args) = launch
        .command
        .split_first()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the command is empty"))?;
    let named = args.iter().any(|a| a.contains("{socket}"));
    let mut args: Vec<String> = args.iter().map(|a| a.replace("{socket}", &socket)).collect();
    if !named {
        args.extend(["--socket".to_owned(), socket.into_owned()]);
    }
    let mut env = vec![("VHTTPD_PARENT_PID".to_owned(), std::process::id().to_string())];
    env.extend(launch.env.iter().map(|(k, v)| (k.clone(), v.clone())));
    let order = Order { program: program.clone(), args, env, cwd: launch.cwd.clone() };
    let mut started = spawn::start(order).await?;
    let watched = spawn::watch_exit(&started.child);
    match watched {
        Ok(exit) => Ok((started.child, started.ready, exit)),
        Err(error) => {
            kill_group(started.child.id());
            let _ = started.child.wait();
            Err(error)
        }
    }
}

struct Output {
    task: tokio::task::JoinHandle<()>,
    finished: tokio::sync::oneshot::Receiver<()>,
}

fn forward_output(pool: &Arc<Inner>, worker: &Arc<Worker>, child: &mut Child) -> Vec<Output> {
    let pid = child.id();
    let slot = worker.id.slot;
    let limit = worker.settings.output_line_limit;
    let stdout = child.stdout.take().map(|p| (rustix::fd::OwnedFd::from(p), false));
    let stderr = child.stderr.take().map(|p| (rustix::fd::OwnedFd::from(p), true));
    let pipes = [stdout, stderr].into_iter().flatten();
    let forwarded = pipes.map(|(pipe, stderr)| {
        let (observer, clock) = (pool.observer.clone(), pool.clock);
        let (done, finished) = tokio::sync::oneshot::channel();
        let task = tokio::spawn(async move {
            let line =
                |line: &str| observer.on(&Event::WorkerOutput { worker: slot, pid, stderr, line });
            read_lines(pipe, limit, clock, |said| match said {
                Said::Line(said) => line(said),
                Said::Dropped(lines) => {
                    let s = if lines == 1 { "" } else { "s" };
                    line(&format!("\u{2026} {lines} line{s} dropped"));
                    observer.on(&Event::WorkerOutputDropped { worker: slot, pid, stderr, lines });
                }
            })
            .await;
            let _ = done.send(());
        });
        Output { task, finished }
    });
    forwarded.collect()
}

fn boot_failed(pool: &Arc<Inner>, worker: &Worker, pid: u32, error: &str) {
    pool.observer.on(&Event::WorkerBootFailed { worker: worker.id.slot, pid, error });
    pool.with(|policy, now| policy.on_boot_failed(now, worker.id, error));
    if pid == 0 {
        pool.worker_gone(worker.id);
    }
}

fn tell_the_end(
    pool: &Arc<Inner>,
    worker: &Worker,
    pid: u32,
    booting: bool,
    status: io::Result<ExitStatus>,
) {
    let clean = status.as_ref().is_ok_and(ExitStatus::success);
    if worker.ordered_end().is_none() {
        let status = in_words(status);
        let slot = worker.id.slot;
        if booting {
            let error = format!("{status} before it was ready");
            pool.observer.on(&Event::WorkerBootFailed { worker: slot, pid, error: &error });
            pool.with(|policy, now| policy.on_boot_failed(now, worker.id, &error));
        } else {
            pool.observer.on(&Event::WorkerExited { worker: slot, pid, status: &status });
            pool.with(|policy, now| policy.on_exit(now, worker.id, clean));
        }
    }
}

fn in_words(status: io::Result<ExitStatus>) -> String {
    match status {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => format!("exited with code {code}"),
            (None, Some(signal)) => format!("was ended by signal {signal}"),
            (None, None) => "ended".to_owned(),
        },
        Err(error) => format!("ended; its status could not be read: {error}"),
    }
}
