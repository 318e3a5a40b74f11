//! Accepting connections and serving one request at a time.
//!
//! Every connection has a thread, so that a new one is accepted while a kept one idles; a lock
//! around the serving makes it the single-threaded worker it plays.

use std::io;
use std::os::unix::net::UnixListener;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use crate::args::Args;
use crate::clock;
use crate::connection::{Connection, Next};
use crate::routes::{self, After};

/// What the worker remembers from one request to the next.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// Requests served, this one included.
    pub(crate) served: u64,
}

/// Serves until the process is ended.
pub(crate) fn run(listener: &UnixListener, args: Args) -> io::Result<ExitCode> {
    let args = Arc::new(args);
    let memory = Arc::new(Mutex::new(Memory::default()));
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of descriptors, most likely; it passes when connections close.
                crate::complain(&format!("accept: {error}"));
                clock::sleep_ms(20);
                continue;
            }
        };
        let (args, memory) = (Arc::clone(&args), Arc::clone(&memory));
        std::thread::spawn(move || {
            // An error is the other side's leaving, or what it deserved for what it sent.
            let _ = converse(Connection::new(stream), &args, &memory);
        });
    }
}

fn converse(mut connection: Connection, args: &Args, memory: &Mutex<Memory>) -> io::Result<()> {
    loop {
        let head = match connection.next_request()? {
            Next::Head(head) => head,
            Next::Closed | Next::Reset => return Ok(()),
        };
        // A request that panicked must not take the worker with it.
        let mut memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.served += 1;
        let after = routes::serve(&mut connection, *head, args, &mut memory)?;
        drop(memory);
        if after == After::Close || !args.capabilities.keep_alive {
            return Ok(());
        }
    }
}
