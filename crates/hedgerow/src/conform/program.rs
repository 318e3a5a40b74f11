//! The worker program under test: how it is started, what it says at boot, and how it ends.

use std::io::Read as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use bytes::BytesMut;
use hedgerow_wire::ready::{self, Ready};
use rustix::process::{Pid, Signal};

/// How often a boot is looked at, and for how long.
const LOOK: Duration = Duration::from_millis(10);
const LOOKS: u32 = 1500;
/// How long a readiness line is waited for once the socket accepts.
const GRACE_LOOKS: u32 = 50;

/// A worker command and a place for its socket.
pub(super) struct Program {
    words: Vec<String>,
    directory: PathBuf,
}

impl Program {
    /// Makes the private directory; says so if the program is nowhere to be found.
    pub(super) fn new(words: &[String]) -> Result<Self, String> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let Some(program) = words.first() else { return Err("no worker command".to_owned()) };
        if !is_executable(program) {
            return Err(format!("{program}: no such program"));
        }
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("hedgerow-conform-{}-{count}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&directory)
            .map_err(|error| format!("{}: {error}", directory.display()))?;
        Ok(Self { words: words.to_vec(), directory })
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.directory.join("worker.sock")
    }

    /// Starts it and waits until it is ready.
    pub(super) fn start(&self) -> Result<Process, String> {
        let socket = self.socket();
        let path = socket.to_string_lossy();
        let mut words: Vec<String> =
            self.words.iter().map(|word| word.replace("{socket}", &path)).collect();
        if words == self.words {
            words.extend(["--socket".to_owned(), path.into_owned()]);
        }
        let (pipe, write_end) = std::io::pipe().map_err(|error| error.to_string())?;
        // The shell moves the pipe to a number above the standard ones, where a worker expects it,
        // and is then replaced by the worker, which keeps the process id.
        let mut child = Command::new("/bin/sh")
            .args(["-c", "exec 3>&0 0</dev/null; exec \"$@\"", "sh"])
            .args(&words)
            .env("HEDGEROW_READY_FD", "3")
            .env("VHTTPD_PARENT_PID", std::process::id().to_string())
            .stdin(Stdio::from(write_end))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| format!("{}: {error}", words[0]))?;
        let (events, inbox) = channel();
        read_line(pipe, events.clone());
        let said = events.clone();
        drain(child.stdout.take(), |_| {});
        drain(child.stderr.take(), move |piece| drop(said.send(Event::Said(piece))));
        let pid = Pid::from_child(&child);
        wait(child, events);
        let mut process = Process {
            pid,
            inbox,
            ready: None,
            says_nothing: false,
            exited: None,
            said: String::new(),
        };
        process.boot(&socket)?;
        Ok(process)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Whether the word names a program, by itself or in the search path.
fn is_executable(program: &str) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    let runs = |path: &Path| {
        path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        return runs(Path::new(program));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| runs(&directory.join(program)))
}

/// What is learnt about a running program.
enum Event {
    /// The readiness line, or that there was none that could be read.
    Line(Result<Ready, String>),
    /// The readiness descriptor was closed without a line.
    NoLine,
    /// Some of its standard error.
    Said(String),
    /// It ended.
    Exited(String),
}

fn read_line(mut pipe: std::io::PipeReader, events: Sender<Event>) {
    std::thread::spawn(move || {
        let (mut buffer, mut chunk) = (BytesMut::new(), [0; 4096]);
        let event = loop {
            match ready::decode(&mut buffer) {
                Ok(Some(line)) => break Event::Line(Ok(line)),
                Err(error) => break Event::Line(Err(error.to_string())),
                Ok(None) => {}
            }
            match pipe.read(&mut chunk) {
                Ok(0) | Err(_) if buffer.is_empty() => break Event::NoLine,
                Ok(0) | Err(_) => {
                    break Event::Line(ready::parse(&buffer).map_err(|error| error.to_string()));
                }
                Ok(read) => buffer.extend_from_slice(&chunk[..read]),
            }
        };
        let _ = events.send(event);
    });
}

/// Reads an output to its end, so that a worker that prints is never stopped by a full pipe.
fn drain(
    output: Option<impl std::io::Read + Send + 'static>,
    mut hand_on: impl FnMut(String) + Send + 'static,
) {
    let Some(mut output) = output else { return };
    std::thread::spawn(move || {
        let mut chunk = [0; 4096];
        while let Ok(read @ 1..) = output.read(&mut chunk) {
            hand_on(String::from_utf8_lossy(&chunk[..read]).into_owned());
        }
    });
}

fn wait(mut child: Child, events: Sender<Event>) {
    std::thread::spawn(move || {
        let status = child.wait().map_or_else(|error| error.to_string(), |s| s.to_string());
        let _ = events.send(Event::Exited(status));
    });
}

/// A started worker. Dropping it ends its whole process group.
pub(super) struct Process {
    pid: Pid,
    inbox: Receiver<Event>,
    ready: Option<Result<Ready, String>>,
    /// The readiness descriptor was closed without a line.
    says_nothing: bool,
    exited: Option<String>,
    said: String,
}

impl Process {
    /// The readiness line, if there was one.
    pub(super) fn ready(&self) -> Option<&Result<Ready, String>> {
        self.ready.as_ref()
    }

    /// How it ended, if it has.
    pub(super) fn exit(&mut self) -> Option<&str> {
        while let Ok(event) = self.inbox.try_recv() {
            self.learn(event);
        }
        self.exited.as_deref()
    }

    /// Asks it to end, and says whether it did within this time.
    pub(super) fn terminate(&mut self, within: Duration) -> bool {
        let _ = rustix::process::kill_process(self.pid, Signal::TERM);
        let looks = within.as_millis() / LOOK.as_millis();
        for _ in 0..looks {
            if self.look() {
                return true;
            }
        }
        false
    }

    /// Waits a moment for something to happen; whether the process has ended.
    fn look(&mut self) -> bool {
        match self.inbox.recv_timeout(LOOK) {
            Ok(event) => self.learn(event),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        self.exited.is_some()
    }

    fn learn(&mut self, event: Event) {
        match event {
            Event::Line(line) => self.ready = Some(line),
            Event::NoLine => self.says_nothing = true,
            Event::Said(text) if self.said.len() < 4096 => self.said.push_str(&text),
            Event::Said(_) => {}
            Event::Exited(status) => {
                // Whatever it started goes with it, now that the group's number is surely its own.
                self.kill_group();
                self.exited = Some(status);
            }
        }
    }

    /// Ends it without giving it a chance to tidy up, and waits until it has gone.
    pub(super) fn kill(&mut self) {
        self.kill_group();
        for _ in 0..LOOKS {
            if self.look() {
                return;
            }
        }
    }

    fn kill_group(&self) {
        if self.exited.is_none() {
            let _ = rustix::process::kill_process_group(self.pid, Signal::KILL);
        }
    }

    fn boot(&mut self, socket: &Path) -> Result<(), String> {
        for _ in 0..LOOKS {
            let ended = self.look();
            let understood = matches!(self.ready, Some(Ok(_)));
            let accepts = !ended && !understood && UnixStream::connect(socket).is_ok();
            if ended || accepts {
                self.await_line();
            }
            match &self.ready {
                Some(Ok(Ready::Failed(reason))) => {
                    return Err(format!("the worker says that it cannot boot: {reason}"));
                }
                _ if self.exited.is_some() => return Err(self.last_words()),
                // A line that says "ready" and a socket that does not listen is for a requirement
                // to tell; a line that cannot be read is no reason not to look at the rest.
                Some(Ok(Ready::Up(_))) => return Ok(()),
                _ if accepts => return Ok(()),
                _ => {}
            }
        }
        Err("the worker neither says that it is ready nor accepts a connection".to_owned())
    }

    /// What the line says may be learnt a little after that the socket accepts, or that the
    /// process has ended; only a worker that knows of no line leaves it at that.
    fn await_line(&mut self) {
        for _ in 0..GRACE_LOOKS {
            if self.ready.is_some() || self.says_nothing {
                return;
            }
            self.look();
        }
    }

    fn last_words(&mut self) -> String {
        for _ in 0..10 {
            self.look(); // what it said may come a moment after its end
        }
        let status = self.exited.as_deref().unwrap_or_default();
        match self.said.trim() {
            "" => format!("the worker ended while it booted ({status})"),
            said => format!("the worker ended while it booted ({status}): {said}"),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill_group();
    }
}
