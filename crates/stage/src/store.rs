//! The scripted store: as much of a Redis server as a guard in front of it needs, that can be told to
//! stand still.
//!
//! While it stands still it takes connections and bytes, answers nothing and carries out nothing, as a
//! server whose process is stopped; what was sent meanwhile is carried out when it wakes. It is told
//! so over HTTP, on a port of its own ([`CONTROL`]), which always answers.
//!
//! Strings and hashes with expiry, in databases 0 to 15; a thread for each connection.

mod commands;
mod control;
mod data;
mod gate;
mod session;

pub(crate) use control::note;

use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use data::Data;
use gate::Gate;
use session::Known;

/// The flags, for the usage text.
pub const FLAGS: &str =
    "  --listen ADDRESS        where Redis clients connect (127.0.0.1:0: any free port)
  --control ADDRESS       where it is told what to do";

/// What it can be told.
pub const CONTROL: &str = "  POST /stall?ms=N        stand still, for N ms or until it is woken
  POST /wake              go on
  GET /                   what it has seen
  GET /note               what was left there for others to read";

/// A scripted store that listens. It serves on threads of its own until the process ends.
pub struct Store {
    address: SocketAddr,
    control: SocketAddr,
    shared: Arc<Shared>,
}

/// What all its connections share.
#[derive(Default)]
struct Shared {
    gate: Gate,
    data: Mutex<Data>,
    clients: Mutex<Vec<Known>>,
    connections: AtomicU64,
    commands: AtomicU64,
    note: Mutex<String>,
}

impl Shared {
    fn data(&self) -> MutexGuard<'_, Data> {
        self.data.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self) -> MutexGuard<'_, String> {
        self.note.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn clients(&self) -> MutexGuard<'_, Vec<Known>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store {
    /// Listens on both addresses and serves.
    ///
    /// # Errors
    /// When one of them cannot be listened on.
    pub fn start(listen: &str, control: &str) -> io::Result<Store> {
        let (clients, tellers) = (TcpListener::bind(listen)?, TcpListener::bind(control)?);
        let (address, control) = (clients.local_addr()?, tellers.local_addr()?);
        let shared = Arc::new(Shared::default());
        accept(clients, shared.clone(), session::converse)?;
        accept(tellers, shared.clone(), control::converse)?;
        Ok(Store { address, control, shared })
    }

    /// Where Redis clients connect.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Leaves a note for whoever asks the control port.
    pub fn leave_note(&self, text: &str) {
        text.clone_into(&mut self.shared.note());
    }

    /// Where it is told what to do.
    #[must_use]
    pub fn control(&self) -> SocketAddr {
        self.control
    }
}

type Converse = fn(TcpStream, &Shared) -> io::Result<()>;

/// Takes connections on a thread, and serves each on one of its own.
fn accept(listener: TcpListener, shared: Arc<Shared>, converse: Converse) -> io::Result<()> {
    let threads = || std::thread::Builder::new().name("stage-store".to_owned());
    let serve = move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else {
                crate::clock::sleep_ms(20);
                continue;
            };
            let shared = Arc::clone(&shared);
            // An error is the other side's leaving.
            let serve = move || drop(converse(stream, &shared));
            if let Err(error) = threads().stack_size(128 << 10).spawn(serve) {
                crate::complain(&format!("a thread for a connection: {error}"));
            }
        }
    };
    threads().spawn(serve).map(drop)
}

/// Runs the scripted store until it is ended. `args` are what follows `store` on the command line. Its
/// two addresses are the first lines on standard output.
///
/// Exit code 2 when it could not start.
pub fn run_store(args: impl IntoIterator<Item = String>) -> ExitCode {
    let started =
        crate::args::flags(args, [("--listen", "127.0.0.1:0"), ("--control", "127.0.0.1:0")])
            .map_err(|reason| format!("{reason}\n{FLAGS}"))
            .and_then(|[listen, control]| {
                Store::start(&listen, &control)
                    .map_err(|error| format!("listening on {listen} and {control}: {error}"))
            });
    match started {
        Ok(store) => {
            crate::boot::end_with_parent();
            let mut out = io::stdout();
            let _ = writeln!(out, "redis://{}\nhttp://{}", store.address, store.control)
                .and_then(|()| out.flush());
            crate::clock::sleep_for_ever()
        }
        Err(reason) => {
            crate::complain(&reason);
            ExitCode::from(2)
        }
    }
}
