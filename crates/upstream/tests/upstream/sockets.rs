//! What only real sockets show: peers, closes, resets, TLS.

use crate::calls::{rules, settings};
use hedgerow_policy::hedge::{HedgeConfig, RaceConfig, Role};
use hedgerow_upstream::{Body, Client, Origin, Protocol, Settings, Trust};
use std::collections::HashSet;
use std::future::Future;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::pin::Pin;
use std::sync::mpsc::{Receiver, channel};
use std::task::{Context, Poll};
use std::time::Duration;

/// Serves each connection with this on a thread of its own.
fn server(serve: impl Fn(TcpStream, SocketAddr) + Send + Sync + Clone + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        while let Ok((stream, peer)) = listener.accept() {
            let serve = serve.clone();
            std::thread::spawn(move || serve(stream, peer));
        }
    });
    address
}

/// Reads one request's head.
fn head(stream: &mut TcpStream) -> Option<String> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    Some(String::from_utf8_lossy(&head).into_owned())
}

fn answer(stream: &mut TcpStream, body: &str) {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
    let _ = stream.write_all((head + body).as_bytes());
}

fn at(address: SocketAddr, race: RaceConfig) -> Settings {
    let mut one = settings(race);
    one.endpoints = vec![Origin::parse(&format!("http://{address}")).unwrap()];
    one
}

fn soon() -> RaceConfig {
    let hedge =
        HedgeConfig { after: Some(Duration::from_millis(30)), ..rules().hedge.unwrap_or_default() };
    RaceConfig { hedge: Some(hedge), ..RaceConfig::default() }
}

fn request() -> http::Request<Body> {
    http::Request::get("/x").body(Body::empty()).unwrap()
}

#[tokio::test]
async fn case_45_a_losers_connection_is_closed_and_the_twin_has_another_port() {
    let (tell, told) = channel();
    let address = server(move |mut stream, peer| {
        let Some(head) = head(&mut stream) else { return };
        if head.contains("hedgerow-attempt: 1\r\n") {
            // Silent; a read that ends says that the other side has closed.
            let ended = matches!(stream.read(&mut [0]), Ok(0) | Err(_));
            let _ = tell.send((peer.port(), ended));
        } else {
            answer(&mut stream, "twin");
            let _ = tell.send((peer.port(), false));
        }
    });
    let client = Client::new([at(address, soon())]).unwrap();
    let mut response = client.call("models", request()).await.unwrap();
    assert_eq!(response.report().winner, Some(Role::Hedge));
    assert_eq!(response.bytes(10).await.unwrap(), "twin");
    let both: Vec<(u16, bool)> = tokio::task::spawn_blocking(move || two(&told)).await.unwrap();
    assert!(both.iter().any(|(_, closed)| *closed), "the loser's upstream saw it");
    assert_eq!(both.iter().map(|(port, _)| port).collect::<HashSet<_>>().len(), 2);
}

fn two(told: &Receiver<(u16, bool)>) -> Vec<(u16, bool)> {
    let patience = Duration::from_secs(20);
    (0..2).map(|_| told.recv_timeout(patience).expect("the close is seen")).collect()
}

#[tokio::test]
async fn a_kept_connection_that_the_server_gave_up_is_replaced_without_a_failure() {
    // Each connection serves one request without saying that it will close.
    let address = server(|mut stream, _| {
        if head(&mut stream).is_some() {
            answer(&mut stream, "once");
        }
        // Takes the next request, and closes without a byte of an answer.
        let _ = head(&mut stream);
    });
    let client = Client::new([at(address, RaceConfig::default())]).unwrap();
    for _ in 0..20 {
        let mut response = client.call("models", request()).await.unwrap();
        assert_eq!(response.bytes(10).await.unwrap(), "once");
        assert_eq!(response.report().attempts, 1);
    }
}

#[tokio::test]
async fn an_idle_connection_that_its_server_ends_is_closed_though_nobody_calls() {
    let (tell, told) = channel();
    let address = server(move |mut stream, _| {
        let _ = head(&mut stream);
        answer(&mut stream, "once");
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = tell.send(matches!(stream.read(&mut [0]), Ok(0) | Err(_)));
    });
    let client = Client::new([at(address, RaceConfig::default())]).unwrap();
    let mut response = client.call("models", request()).await.unwrap();
    assert_eq!(response.bytes(10).await.unwrap(), "once");
    // Well before idle connections are looked at for their age.
    let closed = tokio::task::spawn_blocking(move || told.recv_timeout(Duration::from_secs(5)));
    assert_eq!(closed.await.unwrap(), Ok(true));
    assert_eq!(client.view()[0].connections[0].idle, 0);
}

/// A body whose rest comes when it is let go.
struct Late(Option<&'static str>, tokio::sync::oneshot::Receiver<&'static str>);

impl http_body::Body for Late {
    type Data = bytes::Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<bytes::Bytes>, std::io::Error>>> {
        let piece = match self.0.take() {
            Some(piece) => piece,
            None if self.1.is_terminated() => return Poll::Ready(None),
            None => std::task::ready!(Pin::new(&mut self.1).poll(cx)).unwrap(),
        };
        Poll::Ready(Some(Ok(http_body::Frame::data(piece.into()))))
    }
}

#[tokio::test]
async fn what_is_left_of_an_upload_is_sent_behind_an_early_answer_and_then_the_connection_is_free()
{
    let (tell, told) = channel();
    let address = server(move |mut stream, peer| {
        while head(&mut stream).is_some() {
            answer(&mut stream, "early");
            // The chunks of the upload: `6 first-`, `4 last`, `0`.
            let mut upload = Vec::new();
            let mut byte = [0];
            while !upload.ends_with(b"0\r\n\r\n") && stream.read(&mut byte).is_ok_and(|n| n > 0) {
                upload.push(byte[0]);
            }
            let _ = tell.send((peer.port(), String::from_utf8(upload).unwrap()));
        }
    });
    let client = Client::new([at(address, RaceConfig::default())]).unwrap();
    let mut ports = HashSet::new();
    let told = std::sync::Arc::new(std::sync::Mutex::new(told));
    for _ in 0..3 {
        let (release, rest) = tokio::sync::oneshot::channel();
        let body = Body::stream(Late(Some("first-"), rest));
        let post = http::Request::post("/x").body(body).unwrap();
        let mut response = client.call("models", post).await.unwrap();
        assert_eq!(response.bytes(10).await.unwrap(), "early");
        drop(response);
        release.send("last").unwrap();
        let told = told.clone();
        let patience = Duration::from_secs(20);
        let seen = move || told.lock().unwrap().recv_timeout(patience).unwrap();
        let (port, upload) = tokio::task::spawn_blocking(seen).await.unwrap();
        assert_eq!(upload, "6\r\nfirst-\r\n4\r\nlast\r\n0\r\n\r\n");
        ports.insert(port);
        while client.view()[0].connections[0].idle == 0 {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(ports.len(), 1, "the connection is used again");
}

#[tokio::test]
async fn a_post_that_was_written_to_a_dying_connection_is_not_sent_again() {
    let address = server(|mut stream, _| {
        if head(&mut stream).is_some() {
            answer(&mut stream, "once");
        }
        let _ = head(&mut stream);
    });
    let client = Client::new([at(address, RaceConfig::default())]).unwrap();
    let post = || http::Request::post("/x").body(Body::empty()).unwrap();
    let mut failed = 0;
    for _ in 0..20 {
        match client.call("models", post()).await {
            Ok(mut response) => drop(response.bytes(10).await),
            Err(_) => failed += 1,
        }
    }
    assert!(failed > 0, "it may have run: nobody decides that for the caller");
}

#[tokio::test]
async fn tls_with_a_given_authority_and_no_other() {
    let issued = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let pem = issued.cert.pem();
    let key =
        rustls::pki_types::PrivateKeyDer::try_from(issued.signing_key.serialize_der()).unwrap();
    for http2 in [false, true] {
        let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![issued.cert.der().clone()], key.clone_key())
            .unwrap();
        config.alpn_protocols = vec![if http2 { b"h2".to_vec() } else { b"http/1.1".to_vec() }];
        let acceptor = tokio_rustls::TlsAcceptor::from(std::sync::Arc::new(config));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let Ok(tls) = acceptor.accept(tcp).await else { continue };
                let io = hyper_util::rt::TokioIo::new(tls);
                let service = hyper::service::service_fn(|request: http::Request<_>| async move {
                    let _: hyper::body::Incoming = request.into_body();
                    let body = http_body_util::Full::new(bytes::Bytes::from_static(b"secret"));
                    Ok::<_, std::convert::Infallible>(http::Response::new(body))
                });
                tokio::spawn(async move {
                    if http2 {
                        let executor = hyper_util::rt::TokioExecutor::new();
                        let server = hyper::server::conn::http2::Builder::new(executor);
                        let _ = server.serve_connection(io, service).await;
                    } else {
                        let server = hyper::server::conn::http1::Builder::new();
                        let _ = server.serve_connection(io, service).await;
                    }
                });
            }
        });
        let mut one = settings(RaceConfig::default());
        one.endpoints = vec![Origin::parse(&format!("https://localhost:{port}")).unwrap()];
        one.trust = Trust::Pem(pem.clone().into_bytes());
        let client = Client::new([one.clone()]).unwrap();
        for _ in 0..3 {
            let mut response = client.call("models", request()).await.unwrap();
            assert_eq!(response.bytes(10).await.unwrap(), "secret");
        }
        let expected = if http2 { (0, 1) } else { (1, 0) };
        let kept = client.view()[0].connections[0];
        assert_eq!((kept.idle, kept.shared), expected);
        one.trust = Trust::Public;
        let stranger = Client::new([one]).unwrap();
        assert!(stranger.call("models", request()).await.is_err());
    }
}

#[test]
fn certificates_that_cannot_be_used_are_found_when_the_client_is_built() {
    let mut one = settings(RaceConfig::default());
    one.protocol = Protocol::Http1;
    for trust in [Trust::Pem(b"nonsense".to_vec()), Trust::File("/nowhere/ca.pem".into())] {
        one.trust = trust;
        assert!(Client::new([one.clone()]).is_err());
    }
}
