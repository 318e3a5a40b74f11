//! From the flags to a listening worker, or to the failure that was asked for.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::net::UnixListener;
use std::process::{Command, ExitCode, Stdio};

use bytes::BytesMut;
use hedgerow_wire::ready::{self, Ready};

use crate::args::{Args, Boot};
use crate::{clock, server};

/// Boots and serves. It returns only when the boot does not end in serving.
pub(crate) fn run(args: Args) -> io::Result<ExitCode> {
    end_with_parent();
    print_lines(args.print);
    let held = hold(args.rss_mb);
    if args.fork_child {
        // Not waited for: whether it goes with its group is what a test wants to see.
        Command::new("sleep").arg("3600").stdin(Stdio::null()).spawn()?;
    }
    if args.boot_ms > 0 {
        clock::sleep_ms(args.boot_ms);
    }
    let told_to_fail = args.boot_fail_file.as_ref().is_some_and(|file| file.exists());
    let boot = if told_to_fail { Boot::Fail } else { args.boot };
    match boot {
        Boot::Exit => return Ok(ExitCode::from(1)),
        Boot::Fail => {
            say(&Ready::Failed("told to fail to boot".to_owned()))?;
            return Ok(ExitCode::from(1));
        }
        Boot::Hang => clock::sleep_for_ever(),
        Boot::NeverListen => {
            say(&Ready::Up(args.capabilities))?;
            clock::sleep_for_ever();
        }
        Boot::Ok | Boot::Silent => {}
    }
    let listener = listen(&args)?;
    if boot == Boot::Ok {
        say(&Ready::Up(args.capabilities))?;
    }
    std::hint::black_box(&held);
    server::run(&listener, args)
}

fn listen(args: &Args) -> io::Result<UnixListener> {
    match std::fs::remove_file(&args.socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(named(&error, "cannot replace the socket", args));
        }
        _ => {}
    }
    UnixListener::bind(&args.socket).map_err(|error| named(&error, "cannot listen on", args))
}

fn named(error: &io::Error, what: &str, args: &Args) -> io::Error {
    io::Error::new(error.kind(), format!("{what} {}: {error}", args.socket.display()))
}

/// Writes the readiness line, if whoever started this worker wants to read one.
fn say(ready: &Ready) -> io::Result<()> {
    let Some(fd) = std::env::var("HEDGEROW_READY_FD").ok().and_then(|fd| fd.parse::<u32>().ok())
    else {
        return Ok(());
    };
    let mut line = BytesMut::new();
    ready::encode(&mut line, ready);
    // Opened anew rather than taken over, for which the language wants more than safe code.
    OpenOptions::new().write(true).open(format!("/proc/self/fd/{fd}"))?.write_all(&line)
}

/// Exits when the process that started this one has gone, so that an aborted test leaves nothing.
pub(crate) fn end_with_parent() {
    let parent = std::os::unix::process::parent_id();
    let announced = std::env::var("VHTTPD_PARENT_PID").ok().and_then(|pid| pid.parse().ok());
    if announced != Some(parent) {
        return; // started through something in between, which is not ours to watch
    }
    std::thread::spawn(move || {
        while std::os::unix::process::parent_id() == parent {
            clock::sleep_ms(250);
        }
        std::process::exit(0);
    });
}

fn print_lines(lines: u64) {
    for line in 1..=lines {
        // A reader that does not read, or has gone, is part of some scenarios.
        let _ = writeln!(io::stdout(), "stdout line {line}");
        let _ = writeln!(io::stderr(), "stderr line {line}");
    }
}

/// Memory that is really there: a page that was never written to does not count.
fn hold(mib: usize) -> Vec<u8> {
    let mut memory = vec![0; mib << 20];
    for page in memory.chunks_mut(4096) {
        page[0] = 1;
    }
    memory
}
