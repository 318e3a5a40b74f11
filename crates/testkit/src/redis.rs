//! A redis-server of one's own, that can be stopped in its tracks.

use crate::processes::{signal, stopped};
use crate::scratch::Scratch;
use crate::until::until;
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

/// A redis-server on a port the system gave; it ends with its value.
pub struct Redis {
    child: Child,
    /// Where it listens, on 127.0.0.1.
    pub port: u16,
    _scratch: Scratch,
}

impl Redis {
    /// Starts one and waits for its first answer.
    ///
    /// # Panics
    /// When redis-server is not installed.
    #[must_use]
    pub fn start() -> Redis {
        // The port may be gone again before the server has it: then another one is tried.
        until("a redis-server", || {
            let free = TcpListener::bind("127.0.0.1:0").expect("a port");
            let port = free.local_addr().expect("its address").port();
            drop(free);
            let scratch = Scratch::new();
            let mut command = Command::new("redis-server");
            command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
            command.args(["--appendonly", "no", "--dir"]).arg(scratch.path());
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let child = command.spawn().expect("redis-server is installed");
            let mut server = Redis { child, port, _scratch: scratch };
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

    fn answers(&mut self) -> bool {
        until("the store's answer", || {
            if self.child.try_wait().expect("a child").is_some() {
                return Some(false);
            }
            let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
            stream.write_all(b"PING\r\n").ok()?;
            stream.read_exact(&mut [0u8; 7]).ok().map(|()| true)
        })
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
