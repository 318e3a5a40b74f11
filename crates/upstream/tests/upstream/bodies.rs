//! Cases 19–21: request bodies and second attempts.

use crate::calls::{client, rules, settings};
use crate::network::{Does, End, Network, says};
use bytes::Bytes;
use hedgerow_policy::failure::Class;
use hedgerow_policy::hedge::{Outcome, RaceConfig, Reason, Role};
use hedgerow_upstream::{Body, Client};
use http::Request;
use http_body_util::StreamBody;
use std::convert::Infallible;
use std::sync::Arc;

fn two() -> Arc<Network> {
    let network = Network::new();
    network.script("/x", vec![says(330, "first"), says(60, "second")]);
    network
}

async fn winner(client: &Client, request: Request<Body>) -> Option<Role> {
    client.call("models", request).await.unwrap().report().winner
}

fn suppressed(client: &Client, reason: Reason) -> u64 {
    client.view()[0].state.counters.suppressed_for(reason)
}

#[tokio::test(start_paused = true)]
async fn case_19_a_post_is_doubled_only_with_an_idempotency_key() {
    let network = two();
    let client = client(&network, settings(rules()));
    let post = || Request::post("/x");
    assert_eq!(winner(&client, post().body(Body::empty()).unwrap()).await, Some(Role::Primary));
    assert_eq!(suppressed(&client, Reason::Unsafe), 1);
    let keyed = post().header("idempotency-key", "k").body(Body::from("b")).unwrap();
    assert_eq!(winner(&client, keyed).await, Some(Role::Hedge));
    let seen = network.seen();
    assert_eq!(seen.len(), 3);
    assert!(seen[1..].iter().all(|s| s.headers["idempotency-key"] == "k" && s.body == "b"));
}

fn pieces(size: usize) -> Body {
    let whole = Bytes::from((0..size).map(|n| (n % 251) as u8).collect::<Vec<_>>());
    let cut = (0..size).step_by(1000).map(move |at| {
        let piece = whole.slice(at..(at + 1000).min(size));
        Ok::<_, Infallible>(http_body::Frame::data(piece))
    });
    let cut: Vec<_> = cut.collect();
    Body::stream(StreamBody::new(Iterated(cut.into_iter())))
}

/// A stream of what an iterator gives.
struct Iterated<I>(I);

impl<I: Iterator + Unpin> futures_core::Stream for Iterated<I> {
    type Item = I::Item;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<I::Item>> {
        std::task::Poll::Ready(self.0.next())
    }
}

#[tokio::test(start_paused = true)]
async fn case_20_a_body_at_the_limit_is_sent_twice_one_byte_more_is_not() {
    for streamed in [false, true] {
        for (size, expected) in [(64 << 10, Role::Hedge), ((64 << 10) + 1, Role::Primary)] {
            let network = two();
            let client = client(&network, settings(rules()));
            let body = match streamed {
                true => pieces(size),
                false => Body::from((0..size).map(|n| (n % 251) as u8).collect::<Vec<_>>()),
            };
            let put = Request::put("/x").body(body).unwrap();
            assert_eq!(winner(&client, put).await, Some(expected), "{size} {streamed}");
            let seen = network.seen();
            assert!(seen.iter().all(|s| s.body.len() == size), "unbroken");
            assert!(seen.iter().all(|s| s.body == seen[0].body), "byte for byte");
            let lost = u64::from(expected == Role::Primary);
            assert_eq!(suppressed(&client, Reason::Body), lost);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn case_21_a_long_upload_of_unknown_length_is_streamed_unbroken() {
    let network = two();
    let client = client(&network, settings(rules()));
    let put = Request::put("/x").body(pieces(3 << 20)).unwrap();
    assert_eq!(winner(&client, put).await, Some(Role::Primary));
    let seen = network.seen();
    assert_eq!((seen.len(), seen[0].body.len()), (1, 3 << 20));
    assert!(seen[0].body.iter().enumerate().all(|(n, byte)| *byte == (n % 251) as u8));
}

/// An upload in pieces, one each so many seconds.
fn slowly(count: u32, every: u64) -> Body {
    let (send, receive) = tokio::sync::mpsc::channel::<Bytes>(1);
    let clock = hedgerow_clock::Clock::start();
    tokio::spawn(async move {
        for _ in 0..count {
            clock.sleep_until(clock.now() + std::time::Duration::from_secs(every)).await;
            let _ = send.send(Bytes::from_static(b"piece")).await;
        }
    });
    Body::stream(Received(receive))
}

struct Received(tokio::sync::mpsc::Receiver<Bytes>);

impl http_body::Body for Received {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|piece| piece.map(|piece| Ok(http_body::Frame::data(piece))))
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_upload_is_no_late_response_but_one_that_stands_still_is() {
    let race = RaceConfig {
        hedge: None,
        first_data_timeout: Some(std::time::Duration::from_secs(5)),
        ..RaceConfig::default()
    };
    let network = Network::new();
    network.script("/x", vec![says(0, "whole"), says(0, "whole")]);
    let mut one = settings(race);
    one.endpoints.truncate(1);
    let client = client(&network, one);
    let post = |body| Request::post("/x").body(body).unwrap();
    let mut response = client.call("models", post(slowly(10, 3))).await.unwrap();
    assert_eq!(response.bytes(10).await.unwrap(), "whole");
    assert_eq!(network.seen()[0].body.len(), 50);
    let error = client.call("models", post(slowly(2, 9))).await.unwrap_err();
    assert_eq!(error.failure.class, Class::UpstreamTimeout);
}

#[tokio::test(start_paused = true)]
async fn a_body_over_the_upstreams_limit_is_refused_whether_its_length_is_known_or_not() {
    let network = two();
    let mut small = settings(rules());
    small.body_limit = 100_000;
    let client = client(&network, small);
    for body in [Body::from(vec![0; 100_001]), pieces(200_000)] {
        let put = Request::put("/x").body(body).unwrap();
        let error = client.call("models", put).await.unwrap_err();
        assert_eq!(error.failure.class, Class::RequestTooLarge);
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_of_known_length_gives_its_connection_back_with_its_last_byte() {
    let network = Network::new();
    let sized = |length: &'static str, pieces| Does::Answers {
        after: 1,
        status: 200,
        headers: vec![("content-length", length)],
        pieces,
        end: End::Complete,
    };
    network.script("/five", vec![sized("5", vec![(0, "hello")])]);
    network.script("/none", vec![sized("0", vec![])]);
    let mut one = settings(RaceConfig::default());
    one.endpoints.truncate(1);
    let client = client(&network, one);
    for path in ["/five", "/none", "/five"] {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let mut response = client.call("models", request).await.unwrap();
        if path == "/five" {
            assert!(!http_body::Body::is_end_stream(&response));
            assert_eq!(response.next().await.unwrap().unwrap(), "hello");
        }
        assert!(http_body::Body::is_end_stream(&response), "nobody has to ask once more");
        let entry = &client.ledger().recent()[0];
        assert_eq!(entry.attempts[0].outcome, Outcome::Won);
        drop(response);
        tokio::task::yield_now().await;
    }
    assert_eq!((network.seen().len(), network.connections()), (3, 1));
}
