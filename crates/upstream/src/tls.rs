//! TLS to upstreams. The only file of this crate with TLS types in it.
//!
//! Invariant: certificates that cannot be used are found when the client is built, never at a call.

use crate::dial::Io;
use crate::origin::Origin;
use crate::settings::{Protocol, Trust};
use crate::unreached::Unreached;
use hedgerow_policy::failure::Cause;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::io;
use std::sync::Arc;
use tokio_rustls::TlsConnector;

/// Takes the client's side of handshakes.
#[derive(Clone)]
pub(crate) struct Tls(TlsConnector);

impl Tls {
    /// Reads the authorities. The error says what is wrong with them.
    pub(crate) fn new(trust: &Trust, protocol: Protocol) -> Result<Tls, String> {
        let mut roots = RootCertStore::empty();
        match trust {
            Trust::Public => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
            Trust::File(path) => {
                let read = CertificateDer::pem_file_iter(path);
                let certificates = read.map_err(|error| format!("{}: {error}", path.display()))?;
                add(&mut roots, certificates)?;
            }
            Trust::Pem(text) => add(&mut roots, CertificateDer::pem_slice_iter(text))?,
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let offered: &[&[u8]] = match protocol {
            Protocol::Auto => &[b"h2", b"http/1.1"],
            Protocol::Http1 => &[b"http/1.1"],
            Protocol::Http2 => &[b"h2"],
        };
        config.alpn_protocols = offered.iter().map(|name| name.to_vec()).collect();
        Ok(Tls(TlsConnector::from(Arc::new(config))))
    }

    /// One handshake; also says whether the two sides agreed on HTTP/2.
    pub(crate) async fn connect(
        &self,
        origin: &Origin,
        stream: Box<dyn Io>,
    ) -> io::Result<(Box<dyn Io>, bool)> {
        let name = ServerName::try_from(origin.host.clone())
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let stream = self.0.connect(name, stream).await.map_err(caused)?;
        let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        Ok((Box::new(stream), http2))
    }
}

/// The error of a handshake, with its cause where TLS itself says one.
fn caused(error: io::Error) -> io::Error {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let cause = match inner {
        None => return error,
        Some(rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented) => {
            Cause::Certificate
        }
        Some(rustls::Error::AlertReceived(_)) => Cause::Alert,
        Some(_) => Cause::Handshake,
    };
    Unreached::because(cause, error)
}

fn add<E: std::fmt::Display>(
    roots: &mut RootCertStore,
    certificates: impl Iterator<Item = Result<CertificateDer<'static>, E>>,
) -> Result<(), String> {
    for certificate in certificates {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    if roots.is_empty() { Err("no certificate in it".to_owned()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::{AlertDescription, CertificateError, Error};

    #[test]
    fn a_handshake_that_fails_has_its_cause() {
        let rows = [
            (Error::InvalidCertificate(CertificateError::UnknownIssuer), Cause::Certificate),
            (Error::AlertReceived(AlertDescription::HandshakeFailure), Cause::Alert),
            (Error::DecryptError, Cause::Handshake),
        ];
        for (error, cause) in rows {
            let text = error.to_string();
            let error = caused(io::Error::new(io::ErrorKind::InvalidData, error));
            assert_eq!(Unreached::cause_of(&error), Some(cause), "{text}");
            assert_eq!(error.to_string(), text);
        }
        let reset = caused(io::ErrorKind::ConnectionReset.into());
        assert_eq!(Unreached::cause_of(&reset), None);
    }
}
