//! The scripted upstream: an HTTP service that stalls, drips, refuses or breaks as it is asked.
//!
//! What a request asks of it is in its path and query ([`routes`]); what it has received is counted
//! and can be asked for, so that a test can see from the other side what a client did: how many
//! calls came, from which ports, and which of them were cancelled.
//!
//! Blocking, a thread for each connection, HTTP/1.1 by hand.

mod http;
mod model;
pub mod routes;
mod script;
mod seen;

use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::process::ExitCode;
use std::sync::Arc;

use seen::Seen;

/// The flags, for the usage text.
pub const FLAGS: &str = "  --listen ADDRESS        where to listen (127.0.0.1:0: any free port)
  --name NAME             how its answers name it";

/// A scripted upstream that listens. It serves on threads of its own until the process ends.
#[derive(Debug)]
pub struct Upstream {
    address: SocketAddr,
}

impl Upstream {
    /// Listens and serves.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub fn start(listen: impl ToSocketAddrs, name: &str) -> io::Result<Upstream> {
        let listener = TcpListener::bind(listen)?;
        let address = listener.local_addr()?;
        let name: Arc<str> = name.into();
        std::thread::Builder::new()
            .name("stage-upstream".to_owned())
            .spawn(move || accept(&listener, &name))?;
        Ok(Upstream { address })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

fn accept(listener: &TcpListener, name: &Arc<str>) {
    let seen = Arc::new(Seen::default());
    loop {
        match listener.accept() {
            Ok((stream, peer)) => {
                let (seen, name) = (Arc::clone(&seen), Arc::clone(name));
                let serve = move || {
                    // An error is the other side's leaving, or what it deserved.
                    let _ = http::converse(stream, peer, &name, &seen);
                };
                // A small stack: there may be thousands.
                let thread = std::thread::Builder::new().stack_size(128 << 10);
                if let Err(error) = thread.spawn(serve) {
                    crate::complain(&format!("a thread for a connection: {error}"));
                }
            }
            Err(error) => {
                crate::complain(&format!("accept: {error}"));
                crate::clock::sleep_ms(20);
            }
        }
    }
}

/// Runs the scripted upstream until it is ended. `args` are what follows `upstream` on the command
/// line. Its address is the first line on standard output.
///
/// Exit code 2 when it could not start.
pub fn run_upstream(args: impl IntoIterator<Item = String>) -> ExitCode {
    let known = [("--listen", "127.0.0.1:0"), ("--name", "upstream")];
    let parsed = crate::args::flags(args, known).map_err(|reason| format!("{reason}\n{FLAGS}"));
    let started = parsed.and_then(|[listen, name]| {
        Upstream::start(&*listen, &name).map_err(|error| format!("listening on {listen}: {error}"))
    });
    match started {
        Ok(upstream) => {
            crate::boot::end_with_parent();
            let mut out = io::stdout();
            let _ = writeln!(out, "http://{}", upstream.address()).and_then(|()| out.flush());
            crate::clock::sleep_for_ever()
        }
        Err(reason) => {
            crate::complain(&reason);
            ExitCode::from(2)
        }
    }
}
