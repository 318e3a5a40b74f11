//! HTTP/2 servers that take leave or refuse, frame by frame (RFC 9113, 6.8 and 8.7).

use crate::calls::settings;
use hedgerow_policy::hedge::RaceConfig;
use hedgerow_upstream::{Body, Client, Origin, Protocol};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const ACK: u8 = 1;
/// `:status: 200`, from the static table.
const OK: &[u8] = &[0x88];

/// One connection of the server.
struct Peer(TcpStream);

impl Peer {
    async fn accept(listener: &TcpListener) -> Peer {
        let (mut tcp, _) = listener.accept().await.unwrap();
        let mut preface = [0; 24];
        tcp.read_exact(&mut preface).await.unwrap();
        let mut peer = Peer(tcp);
        peer.write(SETTINGS, 0, 0, &[]).await;
        peer
    }

    async fn write(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
        frame.extend([kind, flags]);
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        let _ = self.0.write_all(&frame).await;
    }

    /// The stream of the next request; `None` once the client has closed.
    async fn request(&mut self) -> Option<u32> {
        loop {
            let mut head = [0; 9];
            self.0.read_exact(&mut head).await.ok()?;
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let mut payload = vec![0; length];
            self.0.read_exact(&mut payload).await.ok()?;
            match (head[3], head[4]) {
                (SETTINGS, 0) => self.write(SETTINGS, ACK, 0, &[]).await,
                (HEADERS, _) => {
                    return Some(u32::from_be_bytes([head[5], head[6], head[7], head[8]]));
                }
                _ => {}
            }
        }
    }

    async fn answer(&mut self, stream: u32, body: &[u8]) {
        self.write(HEADERS, END_HEADERS, stream, OK).await;
        self.write(DATA, END_STREAM, stream, body).await;
    }
}

async fn listening() -> (TcpListener, Client) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut one = settings(RaceConfig::default());
    let url = format!("http://{}", listener.local_addr().unwrap());
    one.endpoints = vec![Origin::parse(&url).unwrap()];
    one.protocol = Protocol::Http2;
    (listener, Client::new([one]).unwrap())
}

/// The body of the answer, and how many attempts it took.
async fn call(client: &Client, method: &str, path: &str) -> Result<(String, u32), String> {
    let body = if method == "POST" { Body::from("order") } else { Body::empty() };
    let request = http::Request::builder().method(method).uri(path).body(body).unwrap();
    let answered = client.call("models", request).await;
    let mut response = answered.map_err(|error| error.to_string())?;
    let attempts = response.report().attempts;
    let body = response.bytes(100).await.map_err(|failure| failure.to_string())?;
    Ok((String::from_utf8(body.to_vec()).unwrap(), attempts))
}

#[tokio::test]
async fn after_a_goaway_what_was_taken_ends_and_what_was_not_goes_elsewhere() {
    let (listener, client) = listening().await;
    let (took, mut taken) = mpsc::channel(4);
    let server = tokio::spawn(async move {
        let mut old = Peer::accept(&listener).await;
        let first = old.request().await.unwrap();
        took.send(()).await.unwrap();
        let second = old.request().await.unwrap();
        // The first is spoken for, the second is not: nothing was done with it.
        let last = [first.to_be_bytes(), 0u32.to_be_bytes()].concat();
        old.write(GOAWAY, 0, 0, &last).await;
        assert!(second > first);
        let mut new = Peer::accept(&listener).await;
        for body in [&b"second"[..], b"third"] {
            let stream = new.request().await.unwrap();
            new.answer(stream, body).await;
        }
        old.answer(first, b"first").await;
        assert_eq!(old.request().await, None, "no request after the leave");
        drop(new);
    });
    let first = tokio::spawn({
        let client = client.clone();
        async move { call(&client, "GET", "/first").await }
    });
    taken.recv().await.unwrap();
    // Of a POST nobody but the server can say that it did not run. It said so.
    assert_eq!(call(&client, "POST", "/second").await, Ok(("second".to_owned(), 1)));
    assert_eq!(call(&client, "GET", "/third").await, Ok(("third".to_owned(), 1)));
    assert_eq!(first.await.unwrap(), Ok(("first".to_owned(), 1)));
    drop(client);
    server.await.unwrap();
}

#[tokio::test]
async fn a_stream_that_is_refused_goes_over_another_connection_once() {
    let (listener, client) = listening().await;
    let (refused, connections) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let counts = (refused.clone(), connections.clone());
    tokio::spawn(async move {
        loop {
            let mut peer = Peer::accept(&listener).await;
            counts.1.fetch_add(1, SeqCst);
            let refused = counts.0.clone();
            tokio::spawn(async move {
                while let Some(stream) = peer.request().await {
                    refused.fetch_add(1, SeqCst);
                    peer.write(RST_STREAM, 0, stream, &7u32.to_be_bytes()).await;
                }
            });
        }
    });
    let failed = call(&client, "POST", "/x").await.unwrap_err();
    assert!(failed.contains("upstream"), "{failed}");
    assert_eq!((refused.load(SeqCst), connections.load(SeqCst)), (2, 2), "never for ever");
}
