//! `hedgerow serve` as a child process with a configuration of its own.
//!
//! Promise: when a server is stopped, or dropped, its exit code was 0 and no process, socket or
//! directory of it is left. Every test holds it to that.

use hedgerow_testkit::http::{Client, Response};
use hedgerow_testkit::processes::{Leashed, alive, descendants, signal, stopped};
use hedgerow_testkit::scratch::Scratch;
use hedgerow_testkit::until::until;
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// The binary under test.
pub(crate) const HEDGEROW: &str = env!("CARGO_BIN_EXE_hedgerow");

/// What a server is unless a test says otherwise: one scripted worker, no queue.
const BASE: &[(&str, &str)] = &[
    ("server.listen", "\"127.0.0.1:0\""),
    ("admin.listen", "\"127.0.0.1:0\""),
    ("worker.pool_size", "1"),
    ("worker.restart_backoff_ms", "50"),
    ("worker.restart_backoff_max_ms", "200"),
    ("log.event_log", "\"events.ndjson\""),
];

pub(crate) struct Server {
    child: Leashed,
    pub(crate) addr: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) scratch: Scratch,
    stdout: Lines,
    stderr: Lines,
    ended: bool,
}

/// What is left of a server that has stopped.
pub(crate) struct Ended {
    pub(crate) access: Vec<Value>,
    pub(crate) events: Vec<Value>,
}

/// The file's text: the base with these lines (`worker.pool_size = 2`) over it. What begins with a
/// bracket goes to the end as it is.
pub(crate) fn config(lines: &str) -> String {
    let mut keys: BTreeMap<&str, String> =
        BASE.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
    keys.insert("worker.command", format!("{:?}", format!("{HEDGEROW} stage worker")));
    let (lines, tables) = match lines.find("\n[") {
        Some(at) => lines.split_at(at),
        None => (lines, ""),
    };
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (key, value) = line.split_once('=').expect("key = value");
        keys.insert(key.trim(), value.trim().to_owned());
        if matches!(key.trim(), "worker.sockets" | "php.app") {
            keys.remove("worker.command");
        }
    }
    let keys: String = keys.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
    keys + tables
}

impl Server {
    /// Starts one and waits until it serves.
    pub(crate) fn start(lines: &str) -> Server {
        Server::start_in(Scratch::new(), lines, &[])
    }

    /// The same in a directory that has something in it already, with further arguments.
    pub(crate) fn start_in(scratch: Scratch, lines: &str, args: &[&str]) -> Server {
        Server::start_among(scratch, lines, args, &[])
    }

    /// The same with further variables of the environment.
    pub(crate) fn start_among(
        scratch: Scratch,
        lines: &str,
        args: &[&str],
        variables: &[(&str, &str)],
    ) -> Server {
        scratch.file("hedgerow.toml", config(lines));
        let mut command = command(&scratch, args);
        command.envs(variables.iter().copied());
        let mut child = Leashed(command.spawn().expect("hedgerow runs"));
        let stdout = Lines::of(child.stdout.take().expect("a pipe"));
        let stderr = Lines::of(child.stderr.take().expect("a pipe"));
        let (addr, admin) = until("the line with the addresses", || {
            let found = stderr.all().iter().find_map(|line| addresses(line));
            if found.is_none() && child.try_wait().expect("a child").is_some() {
                panic!("hedgerow ended: {}", stderr.text());
            }
            found
        });
        Server { child, addr, admin, scratch, stdout, stderr, ended: false }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.addr)
    }

    /// Asks for `target` over a connection of its own.
    pub(crate) fn get(&self, target: &str) -> Response {
        let mut client = self.connect();
        client.get(target);
        client.response()
    }

    pub(crate) fn post(&self, target: &str, body: &[u8]) -> Response {
        let mut client = self.connect();
        client.post(target, body);
        client.response()
    }

    /// Asks for `target` and does not wait for the answer.
    pub(crate) fn begin(&self, target: &str) -> Client {
        let mut client = self.connect();
        client.get(target);
        client
    }

    /// Asks the admin listener.
    pub(crate) fn admin_request(&self, line: &str) -> Response {
        let mut client = Client::connect(self.admin);
        client.send(format!("{line} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n"));
        client.response()
    }

    pub(crate) fn admin(&self, path: &str) -> Value {
        let response = self.admin_request(&format!("GET {path}"));
        serde_json::from_slice(&response.body).unwrap_or_else(|_| panic!("{response:?}"))
    }

    pub(crate) fn stats(&self) -> Value {
        self.admin("/admin/stats")
    }

    /// The value of a metric, given its name and, where it has some, labels as they are printed.
    pub(crate) fn metric(&self, name: &str) -> Option<f64> {
        let page = self.admin_request("GET /metrics");
        let line = page.text().lines().find(|line| {
            line.strip_prefix("hedgerow_")
                .and_then(|l| l.strip_prefix(name))
                .is_some_and(|rest| rest.starts_with(' '))
        })?;
        line.rsplit(' ').next()?.parse().ok()
    }

    /// Requests in this phase, as the admin listener shows them.
    pub(crate) fn in_phase(&self, phase: &str) -> usize {
        let requests = self.admin("/admin/requests");
        let list = requests["requests"].as_array().expect("a list");
        list.iter().filter(|request| request["phase"] == phase).count()
    }

    pub(crate) fn wait_phase(&self, phase: &str, count: usize) {
        until(&format!("{count} requests {phase}"), || {
            (self.in_phase(phase) == count).then_some(())
        });
    }

    /// The process numbers of the workers that are up, by slot.
    pub(crate) fn workers(&self) -> Vec<u32> {
        let workers = self.admin("/admin/workers");
        let list = workers["workers"].as_array().expect("a list");
        let up = list.iter().filter(|w| w["state"] == "idle" || w["state"] == "busy");
        // One that ended this instant has no number any more.
        up.filter_map(|w| w["pid"].as_u64()).map(|pid| pid as u32).collect()
    }

    /// Waits until as many workers as that are up.
    pub(crate) fn wait_workers(&self, count: usize) -> Vec<u32> {
        until(&format!("{count} workers"), || {
            let up = self.workers();
            (up.len() == count).then_some(up)
        })
    }

    /// Stops the one worker in its tracks: what it is asked from now on waits for [`Frozen::thaw`].
    pub(crate) fn freeze(&self) -> Frozen {
        let pids = self.workers();
        for &pid in &pids {
            signal(pid, Signal::STOP);
            until("the worker stands still", || stopped(pid).then_some(()));
        }
        Frozen(pids)
    }

    /// The event log so far.
    pub(crate) fn events(&self) -> Vec<Value> {
        read_events(self.scratch.path())
    }

    /// Waits for an event of this type for which `is` holds.
    pub(crate) fn event(&self, kind: &str, is: impl Fn(&Value) -> bool) -> Value {
        until(&format!("an event {kind}"), || {
            self.events().into_iter().find(|event| event["type"] == kind && is(event))
        })
    }

    /// Waits for the event of a request to this path.
    pub(crate) fn request_event(&self, path: &str) -> Value {
        self.event("http.request", |event| event["path"] == path)
    }

    pub(crate) fn stderr(&self) -> String {
        self.stderr.text()
    }

    pub(crate) fn reload(&self) {
        signal(self.pid(), Signal::HUP);
    }

    pub(crate) fn signal(&self, which: Signal) {
        signal(self.pid(), which);
    }

    /// Waits for the end without asking for it.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        until("the end of hedgerow", || self.child.try_wait().expect("a child"))
    }

    /// SIGTERM, and what has to be true after it.
    pub(crate) fn stop(mut self) -> Ended {
        self.end()
    }

    fn end(&mut self) -> Ended {
        self.ended = true;
        let family = descendants(self.pid());
        self.signal(Signal::TERM);
        let status = self.wait();
        assert_eq!(status.code(), Some(0), "{}", self.stderr());
        self.nothing_is_left(&family);
        self.stdout.join();
        self.stderr.join();
        Ended {
            access: self.stdout.all().iter().map(|line| json(line)).collect(),
            events: self.events(),
        }
    }

    /// None of these processes, and no socket or directory of workers.
    pub(crate) fn nothing_is_left(&self, family: &[u32]) {
        for &pid in family {
            until("a process of hedgerow ends", || (!alive(pid)).then_some(()));
        }
        let run = std::fs::read_dir(self.scratch.path().join("run")).expect("the directory");
        let left: Vec<PathBuf> = run.flatten().map(|entry| entry.path()).collect();
        assert!(left.is_empty(), "left behind: {left:?}");
    }

    /// For tests that end the process in a way of their own.
    pub(crate) fn forget(mut self) {
        self.ended = true;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let family = descendants(self.pid());
            let _ = self.child.kill();
            let _ = self.child.wait();
            for pid in family {
                signal(pid, Signal::KILL);
            }
            let event_log = self.events();
            let last = &event_log[event_log.len().saturating_sub(20)..];
            let last: String = last.iter().map(|event| format!("{event}\n")).collect();
            eprintln!("--- stderr of hedgerow\n{}--- its last events\n{last}---", self.stderr());
        } else if !self.ended {
            self.end();
        }
    }
}

/// Workers that stand still.
pub(crate) struct Frozen(Vec<u32>);

impl Frozen {
    pub(crate) fn thaw(self) {
        drop(self);
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        for &pid in &self.0 {
            signal(pid, Signal::CONT);
        }
    }
}

/// `hedgerow serve` on the configuration in this directory, not started yet.
pub(crate) fn command(scratch: &Scratch, args: &[&str]) -> Command {
    let run = scratch.path().join("run");
    std::fs::create_dir_all(&run).expect("a directory");
    let mut command = Command::new(HEDGEROW);
    command
        .args(["serve", "-c", "hedgerow.toml"])
        .args(args)
        .current_dir(scratch.path())
        .env("TMPDIR", &run)
        .env("XDG_RUNTIME_DIR", &run)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Starts that and leaves it to the test.
pub(crate) fn spawn(scratch: &Scratch, args: &[&str]) -> Leashed {
    Leashed(command(scratch, args).spawn().expect("hedgerow runs"))
}

/// The addresses of the line that says where it listens.
pub(crate) fn addresses(line: &str) -> Option<(SocketAddr, SocketAddr)> {
    let (_, rest) = line.split_once(" listens on ")?;
    let (server, admin) = rest.split_once(", admin on http://")?;
    let (_, server) = server.split_once("://")?;
    let admin = admin.split(',').next()?;
    Some((server.parse().ok()?, admin.trim_end().parse().ok()?))
}

pub(crate) fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
}

/// Whole lines only: the last one may still be on its way.
fn read_events(scratch: &Path) -> Vec<Value> {
    let text = std::fs::read(scratch.join("events.ndjson")).unwrap_or_default();
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let text = String::from_utf8(text[..whole].to_vec()).expect("an event log is text");
    text.lines().map(json).collect()
}

/// What a pipe has given so far, line by line.
pub(crate) struct Lines {
    lines: Arc<Mutex<Vec<String>>>,
    reader: Option<JoinHandle<()>>,
}

impl Lines {
    pub(crate) fn of(pipe: impl Read + Send + 'static) -> Lines {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&lines);
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(pipe).lines() {
                let Ok(line) = line else { break };
                into.lock().expect("no reader panicked").push(line);
            }
        });
        Lines { lines, reader: Some(reader) }
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.lines.lock().expect("no reader panicked").clone()
    }

    pub(crate) fn text(&self) -> String {
        self.all().iter().map(|line| format!("{line}\n")).collect()
    }

    /// Waits for the other end of the pipe to be closed.
    pub(crate) fn join(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.join().expect("no reader panicked");
        }
    }
}
