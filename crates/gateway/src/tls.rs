//! TLS for clients. The only file of this crate with TLS types in it.
//!
//! Invariant: a certificate that cannot be used is found when it is loaded, never at a handshake,
//! and one that was replaced by a reload still serves the connections it was shown to.

use crate::settings::Tls;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

pub(crate) type Stream = tokio_rustls::server::TlsStream<TcpStream>;

/// Takes the server's side of handshakes.
#[derive(Clone)]
pub(crate) struct Acceptor(TlsAcceptor);

/// Why a certificate or a key cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct TlsError {
    /// The file.
    pub path: String,
    /// What is wrong with it.
    pub reason: String,
}

fn bad(path: &Path, reason: impl std::fmt::Display) -> TlsError {
    TlsError { path: path.display().to_string(), reason: reason.to_string() }
}

impl Acceptor {
    /// Reads certificate and key, and checks that they belong together.
    pub(crate) fn load(files: &Tls, http2: bool) -> Result<Acceptor, TlsError> {
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&files.cert)
            .and_then(Iterator::collect)
            .map_err(|error| bad(&files.cert, error))?;
        if chain.is_empty() {
            return Err(bad(&files.cert, "no certificate in it"));
        }
        let key =
            PrivateKeyDer::from_pem_file(&files.key).map_err(|error| bad(&files.key, error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
            .map_err(|error| bad(&files.cert, error))?;
        let offered: &[&[u8]] = if http2 { &[b"h2", b"http/1.1"] } else { &[b"http/1.1"] };
        config.alpn_protocols = offered.iter().map(|name| name.to_vec()).collect();
        Ok(Acceptor(TlsAcceptor::from(Arc::new(config))))
    }

    /// One handshake.
    pub(crate) async fn accept(&self, tcp: TcpStream) -> io::Result<Stream> {
        self.0.accept(tcp).await
    }
}

/// Whether the two sides agreed on HTTP/2.
pub(crate) fn speaks_http2(stream: &Stream) -> bool {
    stream.get_ref().1.alpn_protocol() == Some(b"h2")
}

/// The connection below.
pub(crate) fn tcp(stream: &Stream) -> &TcpStream {
    stream.get_ref().0
}
