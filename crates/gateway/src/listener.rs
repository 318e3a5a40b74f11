//! Accepts connections.
//!
//! Invariant: at most `max_connections` are open; those beyond wait in the kernel's backlog rather
//! than be accepted and dropped. Once a drain has begun nothing new is accepted, and the address is
//! free.

use crate::connection::{self, Spoken};
use crate::serve::{Phase, Shared};
use crate::service::{Peer, Service};
use crate::tls;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, watch};

/// Connections the kernel keeps for us; it lowers this to its own bound.
const BACKLOG: i32 = 4096;

/// Opens the address. A restart must not wait for connections of the process before.
pub(crate) fn bind(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&addr.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Accepts until the phase changes, and then what the kernel had taken in before: those clients
/// have been told that they are connected. `_accepting` is dropped when that is done.
pub(crate) async fn run(
    shared: Arc<Shared>,
    listener: TcpListener,
    mut phase: watch::Receiver<Phase>,
    _accepting: watch::Sender<()>,
) {
    let mut serving = true;
    loop {
        let next = async {
            // The semaphore is never closed; if it were, there would be nothing left to accept for.
            let permit = Arc::clone(&shared.connections).acquire_owned().await.ok()?;
            Some((permit, listener.accept().await))
        };
        let accepted = tokio::select! {
            biased;
            _ = phase.changed(), if serving => {
                serving = false;
                // Once around, so that the listener hears what has come by now.
                tokio::task::yield_now().await;
                continue;
            }
            accepted = next => accepted,
            () = std::future::ready(()), if !serving => None,
        };
        match accepted {
            None => return,
            Some((permit, Ok((tcp, addr)))) => {
                let (shared, phase) = (Arc::clone(&shared), phase.clone());
                tokio::spawn(welcome(shared, tcp, addr, phase, permit));
            }
            Some((_, Err(error))) if is_the_clients(&error) => {}
            Some((_, Err(_))) if !serving => return,
            // Out of descriptors or memory: what is open goes on, and its end makes room.
            Some((_, Err(_))) => {
                shared.clock.sleep_until(shared.clock.now() + Duration::from_millis(50)).await;
            }
        }
    }
}

/// A connection that was gone before it was accepted.
fn is_the_clients(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted)
}

/// Counts a connection while it is open.
struct Counted<'a>(&'a Shared);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.recorder.connection_closed();
    }
}

async fn welcome(
    shared: Arc<Shared>,
    tcp: TcpStream,
    addr: SocketAddr,
    mut phase: watch::Receiver<Phase>,
    _permit: OwnedSemaphorePermit,
) {
    let counting = Arc::clone(&shared);
    counting.recorder.connection_opened();
    let _counted = Counted(&counting);
    // Pieces of streams must go out as they come. An error here means the client is gone already.
    let _ = tcp.set_nodelay(true);
    let Ok(local) = tcp.local_addr() else { return };
    let live = shared.live();
    let peer = Peer { addr, local, tls: live.tls.is_some() };
    let http2 = live.settings.http2;
    let Some(acceptor) = live.tls.clone() else {
        let spoken = if http2 { Spoken::Either } else { Spoken::Http1 };
        drop(live);
        return connection::serve(Service::new(shared, peer), tcp, spoken, phase).await;
    };
    let limit = shared.clock.now() + live.settings.header_timeout;
    drop(live);
    let shaken = tokio::select! {
        shaken = shared.clock.until(limit, Box::pin(acceptor.accept(tcp))) => shaken,
        _ = phase.changed() => return,
    };
    match shaken {
        Some(Ok(stream)) => {
            let spoken = if tls::speaks_http2(&stream) { Spoken::Http2 } else { Spoken::Http1 };
            let service = Service::new(shared, peer);
            Box::pin(connection::serve(service, stream, spoken, phase)).await;
        }
        Some(Err(_)) => shared.recorder.bad_head(addr.ip(), "tls_handshake"),
        None => shared.recorder.bad_head(addr.ip(), "tls_timeout"),
    }
}
