//! The same over TLS.

use crate::client::status;
use crate::http2::{get, speak};
use crate::plane::{Plane, scratch};
use hedgerow_gateway::settings::Tls;
use hedgerow_gateway::{Settings, StartError};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A certificate and its key in this directory.
fn certificate(dir: &Path) -> (Tls, CertificateDer<'static>) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["a.example".to_owned()]).unwrap();
    let files = Tls { cert: dir.join("cert.pem"), key: dir.join("key.pem") };
    std::fs::write(&files.cert, cert.pem()).unwrap();
    std::fs::write(&files.key, signing_key.serialize_pem()).unwrap();
    (files, cert.der().clone())
}

async fn connect(
    plane: &Plane,
    trusted: &CertificateDer<'static>,
    offered: &[&str],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = offered.iter().map(|name| name.as_bytes().to_vec()).collect();
    let tcp = TcpStream::connect(plane.addr).await.unwrap();
    let name = ServerName::try_from("a.example").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, tcp).await
}

#[tokio::test]
async fn both_versions_by_what_the_client_offers() {
    let dir = scratch();
    let (files, trusted) = certificate(&dir);
    let plane = Plane::with(|setup| setup.settings.tls = Some(files)).await;
    let mut stream = connect(&plane, &trusted, &["http/1.1"]).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert_eq!(status(&answer), 200);
    let stream = connect(&plane, &trusted, &["h2", "http/1.1"]).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    assert_eq!(speak(stream).await.send_request(get("/")).await.unwrap().status(), 200);
    let seen = plane.stage.seen.lock().unwrap();
    assert!(seen.iter().all(|(request, ..)| request.scheme == "https"));
    assert_eq!(seen[0].0.port, "443");
    std::fs::remove_dir_all(dir).unwrap();
}

#[tokio::test]
async fn what_is_no_handshake_is_counted_and_never_a_request() {
    let dir = scratch();
    let (files, _) = certificate(&dir);
    let plane = Plane::with(|setup| setup.settings.tls = Some(files)).await;
    plane.raw("GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
    assert_eq!(plane.served(), 0);
    let events = plane.events().await;
    assert_eq!(events[0]["type"], "http.bad_head", "{events:?}");
    std::fs::remove_dir_all(dir).unwrap();
}

#[tokio::test]
async fn a_reload_brings_a_new_certificate_and_a_bad_one_keeps_the_old() {
    let dir = scratch();
    let (files, first) = certificate(&dir);
    let plane = Plane::with(|setup| setup.settings.tls = Some(files.clone())).await;
    let settings = Settings { tls: Some(files.clone()), ..Settings::default() };
    std::fs::write(&files.cert, "no certificate").unwrap();
    let error = plane.gateway.reconfigure(settings.clone()).unwrap_err();
    assert!(error.to_string().contains("cert.pem: no certificate in it"), "{error}");
    connect(&plane, &first, &["http/1.1"]).await.unwrap();
    let (_, second) = certificate(&dir);
    plane.gateway.reconfigure(settings).unwrap();
    assert!(connect(&plane, &first, &["http/1.1"]).await.is_err());
    connect(&plane, &second, &["http/1.1"]).await.unwrap();
    std::fs::remove_dir_all(dir).unwrap();
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named() {
    let plane = Plane::start().await;
    let dir = scratch();
    let (files, _) = certificate(&dir);
    let other = scratch();
    let (foreign, _) = certificate(&other);
    let start = |tls: Tls| {
        let listen = ([127, 0, 0, 1], 0).into();
        let settings = Settings { listen, tls: Some(tls), ..Settings::default() };
        let (pool, recorder) = (plane.pool.clone(), plane.recorder.clone());
        hedgerow_gateway::Gateway::start(settings, pool, recorder, plane.clock).err().unwrap()
    };
    let missing = start(Tls { cert: dir.join("absent.pem"), ..files.clone() });
    assert!(missing.to_string().contains("absent.pem: "), "{missing}");
    let mixed = start(Tls { key: foreign.key, ..files.clone() });
    assert!(matches!(mixed, StartError::Tls(_)), "{mixed}");
    std::fs::write(&files.key, "no key").unwrap();
    let keyless = start(files);
    assert!(keyless.to_string().contains("key.pem: "), "{keyless}");
    std::fs::remove_dir_all(dir).unwrap();
    std::fs::remove_dir_all(other).unwrap();
}
