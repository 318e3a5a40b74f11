//! What a call that is never hedged costs beside hyper's own client: CPU time of the calling thread.
//!
//! Both speak HTTP/1.1 over one kept connection to the same server, which has a thread of its own, and
//! take turns. The kernel's account of the thread is read, so that waiting costs nothing.
//!
//! `cargo bench -p hedgerow-upstream --bench call`

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty, Full};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::net::SocketAddr;
use tokio::net::{TcpListener, TcpStream};

use hedgerow_policy::hedge::{HedgeConfig, RaceConfig};
use hedgerow_upstream::{Body, Client, Settings};
use std::time::Duration;

const ROUNDS: usize = 15;
const CALLS: u64 = 5_000;

fn main() {
    let address = server();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut bare = connect(address).await;
        let plain = client(address, RaceConfig::default());
        let hedge = HedgeConfig {
            after: Some(Duration::from_secs(60)),
            after_quantile: None,
            ..HedgeConfig::default()
        };
        let hedged = client(address, RaceConfig { hedge: Some(hedge), ..RaceConfig::default() });
        let (mut floor, mut more, mut most) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..=ROUNDS {
            let hyper = with_hyper(&mut bare, address).await;
            let (plain, hedged) = (with_client(&plain).await, with_client(&hedged).await);
            // The first round warms up.
            if round > 0 {
                floor.push(hyper);
                more.push(plain - hyper);
                most.push(hedged - hyper);
            }
        }
        println!("CPU µs a call, median (smallest–largest) of {ROUNDS} rounds of {CALLS} calls:");
        println!("hyper's own client       {}", spread(floor));
        println!("above it, without hedge  {}", spread(more));
        println!("above it, with `hedge`   {}", spread(most));
    });
}

fn spread(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    let (least, most) = (values[0], values[values.len() - 1]);
    format!("{:.1} ({least:.1}–{most:.1})", values[values.len() / 2])
}

/// CPU time of this thread so far, in µs.
fn cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e3
}

fn client(address: SocketAddr, race: RaceConfig) -> Client {
    let mut settings = Settings::new("up", [&*format!("http://{address}")]).unwrap();
    settings.race = race;
    Client::new([settings]).unwrap()
}

async fn with_client(client: &Client) -> f64 {
    let before = cpu();
    for _ in 0..CALLS {
        let request = Request::get("/hello").body(Body::empty()).unwrap();
        let mut response = client.call("up", request).await.unwrap();
        assert_eq!(response.bytes(1_000).await.unwrap().len(), 17);
    }
    (cpu() - before) / CALLS as f64
}

async fn connect(address: SocketAddr) -> SendRequest<Empty<Bytes>> {
    let stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

async fn with_hyper(sender: &mut SendRequest<Empty<Bytes>>, address: SocketAddr) -> f64 {
    let (before, host) = (cpu(), address.to_string());
    for _ in 0..CALLS {
        let request = Request::get("/hello").header("host", host.as_str());
        sender.ready().await.unwrap();
        let response = sender.send_request(request.body(Empty::new()).unwrap()).await.unwrap();
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes().len(), 17);
    }
    (cpu() - before) / CALLS as f64
}

/// Answers at once, on a thread of its own.
fn server() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).unwrap();
                let service = hyper::service::service_fn(|_| async {
                    let body = Full::new(Bytes::from_static(b"{\"hello\":\"world\"}"));
                    Ok::<_, Infallible>(http::Response::new(body))
                });
                let server = hyper::server::conn::http1::Builder::new();
                tokio::spawn(server.serve_connection(TokioIo::new(stream), service));
            }
        });
    });
    address
}
