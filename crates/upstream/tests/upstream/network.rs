//! A network in memory: hosts that do what a script says, under the runtime's clock.

use bytes::Bytes;
use hedgerow_policy::Moment;
use hedgerow_upstream::{Clock, Dial, Dialled, Origin};
use http::{HeaderMap, Request, Response};
use http_body::Frame;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

/// What a host does with one request.
#[derive(Clone, Debug)]
pub(crate) enum Does {
    /// Answers after so many seconds, with these pieces, each so many seconds after the head.
    Answers {
        after: u64,
        status: u16,
        headers: Vec<(&'static str, &'static str)>,
        pieces: Vec<(u64, &'static str)>,
        end: End,
    },
    /// Closes the connection after so many seconds.
    Closes(u64),
}

/// How a body ends.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum End {
    Complete,
    /// It never does.
    Silence,
    Breaks,
}

pub(crate) fn says(after: u64, body: &'static str) -> Does {
    Does::Answers {
        after,
        status: 200,
        headers: vec![],
        pieces: vec![(0, body)],
        end: End::Complete,
    }
}

pub(crate) fn refuses(after: u64, status: u16) -> Does {
    let pieces = vec![(0, "refused")];
    Does::Answers { after, status, headers: vec![], pieces, end: End::Complete }
}

pub(crate) fn silent() -> Does {
    says(1_000_000, "late")
}

pub(crate) fn streams(
    content_type: &'static str,
    pieces: Vec<(u64, &'static str)>,
    end: End,
) -> Does {
    let headers = vec![("content-type", content_type)];
    Does::Answers { after: 1, status: 200, headers, pieces, end }
}

/// A request as a host saw it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) host: String,
    pub(crate) connection: usize,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// The network. Each path has its script: what attempt 1, attempt 2, … get, wherever they go.
pub(crate) struct Network {
    scripts: Mutex<HashMap<String, Vec<Does>>>,
    pub(crate) seen: Mutex<Vec<Seen>>,
    connections: AtomicUsize,
    open: Arc<AtomicUsize>,
    http2: bool,
    clock: Clock,
}

impl Network {
    pub(crate) fn new() -> Arc<Network> {
        Network::speaking(false)
    }

    pub(crate) fn speaking(http2: bool) -> Arc<Network> {
        Arc::new(Network {
            scripts: Mutex::default(),
            seen: Mutex::default(),
            connections: AtomicUsize::new(0),
            open: Arc::new(AtomicUsize::new(0)),
            http2,
            clock: Clock::start(),
        })
    }

    pub(crate) fn script(&self, path: &str, attempts: Vec<Does>) {
        self.scripts.lock().unwrap().insert(path.to_owned(), attempts);
    }

    /// Seconds since the start.
    pub(crate) fn second(&self) -> u64 {
        (self.clock.now().since(Moment::START).as_secs_f64() + 0.01) as u64
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Connections opened so far.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Connections open now, once everything that was cancelled is gone.
    pub(crate) async fn open(&self) -> usize {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        self.open.load(Ordering::SeqCst)
    }

    async fn serve(
        self: Arc<Self>,
        host: String,
        connection: usize,
        request: Request<Incoming>,
    ) -> Result<Response<Scripted>, io::Error> {
        let (head, body) = request.into_parts();
        let path = head.uri.path_and_query().map_or_else(String::new, ToString::to_string);
        let attempt = head.headers.get("hedgerow-attempt").and_then(|n| n.to_str().ok());
        let number: usize = attempt.and_then(|n| n.parse().ok()).unwrap_or(1);
        let body =
            body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let seen = Seen { host, connection, headers: head.headers, body };
        self.seen.lock().unwrap().push(seen);
        let script = self.scripts.lock().unwrap().get(&path).cloned().unwrap_or_default();
        match script.get(number - 1).cloned().unwrap_or_else(silent) {
            Does::Closes(after) => {
                pause(after).await;
                Err(io::ErrorKind::ConnectionReset.into())
            }
            Does::Answers { after, status, headers, pieces, end } => {
                pause(after).await;
                let mut response = Response::builder().status(status);
                for (name, value) in headers {
                    response = response.header(name, value);
                }
                let body = Scripted {
                    pieces: pieces.into_iter().rev().collect(),
                    end,
                    clock: Clock::start(),
                    sleep: None,
                };
                Ok(response.body(body).unwrap())
            }
        }
    }
}

/// The network as a client dials it.
pub(crate) struct Wire(pub(crate) Arc<Network>);

impl Dial for Wire {
    fn dial<'a>(&'a self, origin: &'a Origin) -> Dialled<'a> {
        Box::pin(async move {
            if origin.host == "nobody" {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            let Wire(network) = self;
            let connection = network.connections.fetch_add(1, Ordering::SeqCst);
            let (client, server) = tokio::io::duplex(64 << 10);
            let (network, host) = (network.clone(), origin.host.clone());
            let open = network.open.clone();
            open.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move {
                let http2 = network.http2;
                let service = service_fn(move |request| {
                    network.clone().serve(host.clone(), connection, request)
                });
                let io = TokioIo::new(server);
                if http2 {
                    let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                    let _ = server.serve_connection(io, service).await;
                } else {
                    let server = hyper::server::conn::http1::Builder::new();
                    let _ = server.serve_connection(io, service).await;
                }
                open.fetch_sub(1, Ordering::SeqCst);
            });
            Ok(Box::new(client) as Box<dyn hedgerow_upstream::Io>)
        })
    }
}

struct Scripted {
    /// The next is last.
    pieces: Vec<(u64, &'static str)>,
    end: End,
    clock: Clock,
    sleep: Option<Pin<Box<dyn Future<Output = ()> + Send + Sync>>>,
}

impl http_body::Body for Scripted {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let Some(&(after, text)) = self.pieces.last() else {
            return match self.end {
                End::Complete => Poll::Ready(None),
                End::Silence => Poll::Pending,
                End::Breaks => Poll::Ready(Some(Err(io::ErrorKind::ConnectionReset.into()))),
            };
        };
        let (clock, at) = (self.clock, Moment::START + Duration::from_secs(after));
        let sleep =
            self.sleep.get_or_insert_with(|| Box::pin(async move { clock.sleep_until(at).await }));
        std::task::ready!(sleep.as_mut().poll(cx));
        self.sleep = None;
        self.pieces.pop();
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(text.as_bytes())))))
    }
}

/// So many seconds of the test's own time.
async fn pause(seconds: u64) {
    let clock = Clock::start();
    clock.sleep_until(clock.now() + Duration::from_secs(seconds)).await;
}
