//! The bytes to and from a store, plain or through TLS.
//!
//! Invariant: the only file of this crate that knows TLS types.

use crate::settings::{Address, Trust};
use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A connection to the store.
#[derive(Debug)]
pub(crate) enum Stream {
    /// As it is.
    Plain(TcpStream),
    /// Through TLS.
    Tls(Box<TlsStream<TcpStream>>),
}

/// What connections through TLS need, made once.
#[derive(Clone)]
pub(crate) struct Tls(Option<TlsConnector>);

impl Tls {
    /// Reads the certificates that are trusted.
    ///
    /// # Errors
    /// When the file with them cannot be read, or holds none.
    pub(crate) fn new(trust: Option<&Trust>) -> io::Result<Tls> {
        let Some(trust) = trust else { return Ok(Tls(None)) };
        let mut roots = RootCertStore::empty();
        if let Trust::File(path) = trust {
            let certificates =
                rustls::pki_types::CertificateDer::pem_file_iter(path).map_err(io::Error::other)?;
            for certificate in certificates {
                let certificate = certificate.map_err(io::Error::other)?;
                roots.add(certificate).map_err(io::Error::other)?;
            }
            if roots.is_empty() {
                return Err(io::Error::other("there is no certificate in it"));
            }
        }
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Tls(Some(TlsConnector::from(Arc::new(config)))))
    }

    /// Connects, with TLS where it is wanted.
    pub(crate) async fn connect(&self, address: &Address) -> io::Result<Stream> {
        let plain = TcpStream::connect((address.host.as_str(), address.port)).await?;
        plain.set_nodelay(true)?;
        let Some(connector) = &self.0 else { return Ok(Stream::Plain(plain)) };
        let name = ServerName::try_from(address.host.clone()).map_err(io::Error::other)?;
        let secured = connector.connect(name, plain).await;
        let failed = |error| io::Error::other(format!("the TLS handshake failed: {error}"));
        Ok(Stream::Tls(Box::new(secured.map_err(failed)?)))
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_read(context, buf),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).poll_read(context, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(context),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(context),
        }
    }
}
