//! When a worker is ready: when it says so, or, for one that says nothing, when its socket accepts.
//!
//! Invariant: a worker that holds the readiness pipe open is given time to write its line, so that
//! one that listens before it has booted is not taken for ready. Only one that closed the pipe, or
//! kept quiet for [`QUIET`] after its socket accepted, is judged by its socket.

use bytes::BytesMut;
use hedgerow_clock::Clock;
use hedgerow_policy::Moment;
use hedgerow_wire::capabilities::Capabilities;
use hedgerow_wire::ready::{self, Ready};
use rustix::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::net::unix::pipe::Receiver;

/// How long a listening worker may hold the pipe without a word before it counts as ready.
const QUIET: Duration = Duration::from_millis(300);
/// Between two looks at a socket that does not accept yet. Only while a worker boots.
const LOOK_EVERY: Duration = Duration::from_millis(10);

pub(crate) enum Readiness {
    Up(Capabilities),
    Failed(String),
}

/// Waits without bound: the pool's start timeout ends the worker and with it this wait.
pub(crate) async fn wait(pipe: OwnedFd, socket: &Path, clock: Clock) -> Readiness {
    let line = said(pipe);
    tokio::pin!(line);
    let accepts = accepts(socket, clock);
    tokio::pin!(accepts);
    let mut listening = false;
    let mut silent = false;
    let mut quiet_until = Moment::NEVER;
    loop {
        tokio::select! {
            biased;
            said = &mut line, if !silent => match said {
                Said::Line(Ready::Up(capabilities)) => return Readiness::Up(capabilities),
                Said::Line(Ready::Failed(error)) => return Readiness::Failed(error),
                Said::Garbage(error) => return Readiness::Failed(error),
                Said::Nothing if listening => return Readiness::Up(Capabilities::NONE),
                Said::Nothing => silent = true,
            },
            () = &mut accepts, if !listening => {
                if silent {
                    return Readiness::Up(Capabilities::NONE);
                }
                listening = true;
                quiet_until = clock.now() + QUIET;
            }
            () = clock.sleep_until(quiet_until) => return Readiness::Up(Capabilities::NONE),
        }
    }
}

enum Said {
    Line(Ready),
    Garbage(String),
    Nothing,
}

async fn said(pipe: OwnedFd) -> Said {
    let Ok(mut pipe) = Receiver::from_owned_fd(pipe) else { return Said::Nothing };
    let mut held = BytesMut::new();
    loop {
        match ready::decode(&mut held) {
            Ok(Some(ready)) => return Said::Line(ready),
            Ok(None) => {}
            Err(error) => return Said::Garbage(format!("readiness pipe: {error}")),
        }
        if !matches!(pipe.read_buf(&mut held).await, Ok(n) if n > 0) {
            let rest = held.trim_ascii();
            return match ready::parse(rest) {
                _ if rest.is_empty() => Said::Nothing,
                Ok(ready) => Said::Line(ready),
                Err(error) => Said::Garbage(format!("readiness pipe: {error}")),
            };
        }
    }
}

async fn accepts(socket: &Path, clock: Clock) {
    loop {
        clock.sleep_until(clock.now() + LOOK_EVERY).await;
        // The file first: a connection is a thing the worker has to deal with.
        if socket.exists() && UnixStream::connect(socket).await.is_ok() {
            return;
        }
    }
}
