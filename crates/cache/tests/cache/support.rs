//! A redis-server of one's own, a guarded cache in front of it, and a client without opinions.

use bytes::BytesMut;
use hedgerow_cache::settings::Shed;
use hedgerow_cache::{Clock, Guarded, GuardedSettings, Port, PortSettings, RedisSettings};
use hedgerow_testkit::events::Events;
use hedgerow_testkit::scratch::Scratch;
use hedgerow_testkit::until::until;
use hedgerow_wire::resp::{Limits, Scanner, reply};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// A redis-server that ends with its value.
pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
    scratch: Scratch,
}

impl Server {
    pub(crate) fn start() -> Server {
        Server::start_with(&[])
    }

    pub(crate) fn start_with(options: &[&str]) -> Server {
        let scratch = Scratch::new();
        // The port may be gone again before the server has it: then another one is tried.
        until("a redis-server", || {
            let port = free_port();
            let child = spawn(port, &scratch, options);
            let mut server = Server { child, port, scratch: Scratch::new() };
            server.ready().then_some(server)
        })
    }

    fn ready(&mut self) -> bool {
        until("the server's answer", || {
            if self.child.try_wait().expect("a child").is_some() {
                return Some(false);
            }
            let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
            stream.write_all(b"PING\r\n").ok()?;
            let mut said = [0u8; 1];
            stream.read_exact(&mut said).ok().map(|()| true)
        })
    }

    /// The process stands still; its kernel still takes connections and bytes.
    pub(crate) fn pause(&self) {
        self.signal("-STOP");
        let stat = format!("/proc/{}/stat", self.child.id());
        until("the server to stand still", || {
            std::fs::read_to_string(&stat)
                .ok()?
                .rsplit_once(')')?
                .1
                .trim()
                .starts_with('T')
                .then_some(())
        });
    }

    pub(crate) fn resume(&self) {
        self.signal("-CONT");
    }

    /// The process is gone, and another one takes its place and port.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub(crate) fn start_again(&mut self) {
        let port = self.port;
        until("the server again", || {
            self.child = spawn(port, &self.scratch, &[]);
            self.ready().then_some(())
        });
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.child.id().to_string()]).status();
        assert!(status.expect("kill runs").success());
    }

    pub(crate) fn raw(&self) -> Raw {
        Raw::connect(([127, 0, 0, 1], self.port).into())
    }

    /// Asks the server directly.
    pub(crate) fn ask(&self, line: &str) -> String {
        self.raw().ask(line)
    }

    /// A number out of INFO.
    pub(crate) fn info(&self, name: &str) -> u64 {
        let text = self.ask("INFO");
        let line = text.split("\r\n").find_map(|l| l.strip_prefix(&format!("{name}:")));
        line.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("{name} in {text}"))
    }

    pub(crate) fn settings(&self) -> RedisSettings {
        RedisSettings::from_url(&format!("redis://127.0.0.1:{}/0", self.port)).expect("a URL")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(port: u16, scratch: &Scratch, options: &[&str]) -> Child {
    let mut command = Command::new("redis-server");
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
    command.args(["--appendonly", "no", "--dir"]).arg(scratch.path()).args(options);
    command.stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null());
    command.spawn().expect("redis-server is installed")
}

pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("its address").port()
}

/// A client that shows replies as they came, line ends as spaces.
pub(crate) struct Raw {
    pub(crate) stream: TcpStream,
    held: BytesMut,
}

impl Raw {
    pub(crate) fn connect(address: SocketAddr) -> Raw {
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_nodelay(true).expect("an option");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("an option");
        Raw { stream, held: BytesMut::new() }
    }

    pub(crate) fn send(&mut self, line: &str) {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let mut out = BytesMut::new();
        reply::command(&mut out, &args);
        self.stream.write_all(&out).expect("it reads");
    }

    pub(crate) fn send_all(&mut self, lines: &[&str]) {
        let mut out = BytesMut::new();
        for line in lines {
            let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            reply::command(&mut out, &args);
        }
        self.stream.write_all(&out).expect("it reads");
    }

    /// The next reply; `None` once the connection is closed.
    pub(crate) fn next(&mut self) -> Option<String> {
        let mut scanner = Scanner::new(Limits::STORE);
        loop {
            if let Some(whole) = scanner.scan(&self.held).expect("the protocol") {
                let bytes = self.held.split_to(whole.length);
                return Some(String::from_utf8_lossy(&bytes).trim_end().to_owned());
            }
            let mut piece = [0u8; 64 << 10];
            match self.stream.read(&mut piece) {
                Ok(0) => return None,
                Ok(count) => self.held.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("no reply: {error}"),
            }
        }
    }

    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.send(line);
        self.next().expect("a reply")
    }

    pub(crate) fn check(&mut self, cases: &[(&str, &str)]) {
        for (line, expected) in cases {
            assert_eq!(self.ask(line).replace("\r\n", " "), *expected, "{line}");
        }
    }
}

/// A port in front of a server.
pub(crate) struct Fixture {
    pub(crate) server: Server,
    pub(crate) guarded: Guarded,
    pub(crate) port: Port,
    pub(crate) events: Arc<Events>,
}

impl Fixture {
    pub(crate) async fn start() -> Fixture {
        Fixture::with(Server::start(), |_, _, _| {}).await
    }

    pub(crate) async fn with(
        server: Server,
        change: impl FnOnce(&mut RedisSettings, &mut GuardedSettings, &mut PortSettings),
    ) -> Fixture {
        let clock = Clock::start();
        let events = Arc::new(Events::default());
        let mut redis = server.settings();
        // Tests run beside each other on few processors: a deadline is met or the store stands still.
        redis.call_timeout = Duration::from_millis(500);
        let mut settings = GuardedSettings::default();
        let mut port = port_settings();
        change(&mut redis, &mut settings, &mut port);
        let guarded =
            Guarded::redis(redis, settings, events.clone(), clock).expect("settings that work");
        let port = Port::start(port, guarded.clone(), clock).await.expect("a port");
        let fixture = Fixture { server, guarded, port, events };
        fixture.connected();
        fixture
    }

    pub(crate) fn connected(&self) {
        until("a connection to the store", || {
            self.guarded.snapshot().lanes.iter().all(|lane| lane.connected).then_some(())
        });
    }

    pub(crate) fn client(&self) -> Raw {
        Raw::connect(self.port.local_addr())
    }

    /// Stops the store and lets the guard notice.
    pub(crate) fn stall(&self) {
        self.server.pause();
        let mut client = self.client();
        until("the circuit to open", || {
            client.send_all(&["GET stall"; 16]);
            (0..16).for_each(|_| drop(client.next()));
            self.state_is("Open").then_some(())
        });
    }

    pub(crate) fn state_is(&self, name: &str) -> bool {
        format!("{:?}", self.guarded.snapshot().breaker.state) == name
    }

    /// Waits until the circuit is closed again.
    pub(crate) fn recovered(&self) {
        let mut client = self.client();
        until("the circuit to close", || {
            client.ask("GET recovered");
            self.state_is("Closed").then_some(())
        });
    }
}

pub(crate) fn port_settings() -> PortSettings {
    PortSettings {
        listen: ([127, 0, 0, 1], 0).into(),
        password: String::new(),
        max_clients: 10_000,
        output_limit: 64 << 20,
        shed: Shed::Fallback,
    }
}
