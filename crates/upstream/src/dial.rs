//! Opening a byte stream to an endpoint.
//!
//! Invariant: a name is resolved here and nowhere else, and with an allow-list only addresses that
//! passed it are connected to.

use crate::allow::AllowList;
use crate::origin::Origin;
use crate::unreached::Unreached;
use hedgerow_policy::failure::Cause;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};

/// A byte stream.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// A stream, or why there is none.
pub type Dialled<'a> = Pin<Box<dyn Future<Output = io::Result<Box<dyn Io>>> + Send + 'a>>;

/// Opens byte streams. Tests put pipes in memory in its place.
pub trait Dial: Send + Sync {
    /// A new stream to that endpoint; TLS comes on top of it. An address that is not allowed is an
    /// error of the kind [`io::ErrorKind::PermissionDenied`].
    fn dial<'a>(&'a self, origin: &'a Origin) -> Dialled<'a>;
}

/// TCP.
#[derive(Clone, Debug, Default)]
pub struct Tcp {
    allowed: Option<Arc<AllowList>>,
}

impl Tcp {
    /// To anywhere.
    #[must_use]
    pub fn new() -> Tcp {
        Tcp::default()
    }

    /// To what the list allows.
    #[must_use]
    pub fn to(allowed: AllowList) -> Tcp {
        Tcp { allowed: Some(Arc::new(allowed)) }
    }

    async fn connect(&self, origin: &Origin) -> io::Result<Box<dyn Io>> {
        let (host, port) = (origin.host.as_str(), origin.port);
        if self.allowed.as_ref().is_some_and(|list| !list.may_resolve(host, port)) {
            return Err(forbidden());
        }
        let found = lookup_host((host, port)).await;
        let found = found.map_err(|error| Unreached::because(Cause::Name, error))?;
        let found: Vec<SocketAddr> = found.collect();
        let allowed = |address: &SocketAddr| {
            self.allowed.as_ref().is_none_or(|list| list.allows(host, port, address.ip()))
        };
        let (mut last, mut tried) = (io::ErrorKind::AddrNotAvailable.into(), false);
        for address in found.iter().filter(|address| allowed(address)) {
            tried = true;
            match TcpStream::connect(address).await {
                Ok(stream) => {
                    // A request is written at once; waiting to fill a segment helps nobody.
                    stream.set_nodelay(true)?;
                    return Ok(Box::new(stream));
                }
                Err(error) => last = error,
            }
        }
        Err(if tried || found.is_empty() { last } else { forbidden() })
    }
}

impl Dial for Tcp {
    fn dial<'a>(&'a self, origin: &'a Origin) -> Dialled<'a> {
        Box::pin(self.connect(origin))
    }
}

fn forbidden() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "the address is not on the allow-list")
}
