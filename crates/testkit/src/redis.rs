//! A redis-server of one's own, that can be stopped in its tracks, killed and started again.

use crate::processes::{Leashed, signal, stopped};
use crate::resp::Raw;
use crate::scratch::Scratch;
use crate::until::until;
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

/// A redis-server on a port the system gave; it ends with its value.
#[derive(Debug)]
pub struct Redis {
    child: Leashed,
    /// Where it listens, on 127.0.0.1.
    pub port: u16,
    options: Vec<String>,
    scratch: Scratch,
}

impl Redis {
    /// Starts one and waits for its first answer.
    ///
    /// # Panics
    /// When redis-server is not installed.
    #[must_use]
    pub fn start() -> Redis {
        Redis::start_with(&[])
    }

    /// The same with further options of its command line.
    ///
    /// # Panics
    /// When redis-server is not installed, or does not start with these options.
    #[must_use]
    pub fn start_with(options: &[&str]) -> Redis {
        let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
        // The port may be gone again before the server has it: then another one is tried.
        until("a redis-server", || {
            let (port, scratch) = (free_port(), Scratch::new());
            let child = spawn(port, &scratch, &options);
            let mut server = Redis { child, port, options: options.clone(), scratch };
            server.answers().then_some(server)
        })
    }

    /// It stands still; its kernel still takes connections and bytes.
    pub fn pause(&self) {
        signal(self.child.id(), Signal::STOP);
        until("the store stands still", || stopped(self.child.id()).then_some(()));
    }

    /// It goes on.
    pub fn resume(&self) {
        signal(self.child.id(), Signal::CONT);
    }

    /// The process is gone; [`Redis::start_again`] puts another one in its place.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Another process on the same port, empty, with the same options.
    pub fn start_again(&mut self) {
        until("the store again", || {
            self.child = spawn(self.port, &self.scratch, &self.options);
            self.answers().then_some(())
        });
    }

    /// A connection to it.
    #[must_use]
    pub fn raw(&self) -> Raw {
        Raw::connect(([127, 0, 0, 1], self.port).into())
    }

    /// Asks it one command, words apart by a space; the reply as [`Raw::next`] shows it.
    pub fn ask(&self, line: &str) -> String {
        self.raw().ask(line)
    }

    /// A number out of INFO.
    ///
    /// # Panics
    /// When it does not have that.
    #[must_use]
    pub fn info(&self, name: &str) -> u64 {
        let text = self.ask("INFO");
        let line = text.split("\r\n").find_map(|l| l.strip_prefix(&format!("{name}:")));
        line.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("{name} in {text}"))
    }

    fn answers(&mut self) -> bool {
        until("the store's answer", || {
            if self.child.try_wait().expect("a child").is_some() {
                return Some(false);
            }
            let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
            stream.write_all(b"PING\r\n").ok()?;
            // An error about a password is an answer too.
            stream.read_exact(&mut [0u8; 1]).ok().map(|()| true)
        })
    }
}

fn spawn(port: u16, scratch: &Scratch, options: &[String]) -> Leashed {
    let mut command = Command::new("redis-server");
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
    command.args(["--appendonly", "no", "--dir"]).arg(scratch.path()).args(options);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Leashed(command.spawn().expect("redis-server is installed"))
}

/// A port that nobody has at this moment.
///
/// # Panics
/// When there is none.
#[must_use]
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("its address").port()
}
