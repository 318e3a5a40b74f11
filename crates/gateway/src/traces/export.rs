//! The task that sends spans to the collector.
//!
//! Invariant: one export is under way at a time, of a bounded number of spans, for a bounded time. One
//! that fails is not repeated: its spans are counted as lost, and the collector is left alone for
//! longer each time, while the queue fills and drops.

use super::spans::{self, Epoch};
use super::{Over, Settings, Shared};
use crate::wall;
use bytes::Bytes;
use hedgerow_clock::Clock;
use hedgerow_policy::Moment;
use hedgerow_upstream::{Body, Client, LedgerConfig, Settings as Upstream};
use hedgerow_wire::otlp::{self, Span, Value};
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Request};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// Spans of one export, and so the most that is lost with one.
const MOST: usize = 512;
/// How long the first span of an export waits for others.
const GATHER: Duration = Duration::from_secs(1);
/// How long an export may take.
const EXPORT: Duration = Duration::from_secs(5);
/// How long the collector is left alone after a failure, and at the most after many.
const REST: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// What the answer may hold; nobody reads it.
const ANSWER: usize = 64 << 10;
const PATH: &str = "/v1/traces";
const NAME: &str = "otlp";

pub(super) struct Work {
    client: Client,
    clock: Clock,
    shared: Arc<Shared>,
    resource: Vec<(&'static str, Value)>,
    failures: u32,
}

impl Work {
    pub(super) fn new(
        settings: Settings,
        clock: Clock,
        shared: Arc<Shared>,
    ) -> Result<Work, String> {
        let base = settings.endpoint.trim_end_matches('/');
        let base = base.strip_suffix(PATH).unwrap_or(base);
        let mut upstream = Upstream::new(NAME, [base]).map_err(|error| error.to_string())?;
        upstream.race.total_timeout = Some(EXPORT);
        upstream.race.connect_timeout = Some(EXPORT / 2);
        let client = Client::builder()
            .clock(clock)
            .ledger(LedgerConfig { recent: 0, ..LedgerConfig::default() })
            .build([upstream])
            .map_err(|error| error.to_string())?;
        let resource = vec![
            ("service.name", settings.service.into()),
            ("service.version", env!("CARGO_PKG_VERSION").into()),
            ("service.instance.id", crate::ids::fresh().to_string().into()),
            ("process.pid", u64::from(std::process::id()).into()),
        ];
        Ok(Work { client, clock, shared, resource, failures: 0 })
    }

    /// Sends until it is told when to be done.
    pub(super) async fn run(
        mut self,
        mut waiting: mpsc::Receiver<Over>,
        mut closing: watch::Receiver<Option<Moment>>,
    ) {
        let mut spans = Vec::new();
        loop {
            let over = tokio::select! {
                over = waiting.recv() => over,
                () = closed(&mut closing) => break,
            };
            let Some(over) = over else { return };
            let epoch = self.epoch();
            spans::write(&mut spans, &over, epoch);
            let until = self.clock.now() + GATHER;
            while spans.len() < MOST {
                let more = tokio::select! {
                    more = self.clock.until(until, waiting.recv()) => more,
                    () = closed(&mut closing) => None,
                };
                let Some(Some(over)) = more else { break };
                spans::write(&mut spans, &over, epoch);
            }
            tokio::select! {
                () = self.export(&mut spans) => {}
                () = closed(&mut closing) => break,
            }
            if self.failures > 0 {
                let rest = REST.0.saturating_mul(1 << self.failures.min(6)).min(REST.1);
                tokio::select! {
                    () = self.clock.sleep_until(self.clock.now() + rest) => {}
                    () = closed(&mut closing) => break,
                }
            }
        }
        // Whoever told it to end waits for a bounded time, and then drops it. What was being
        // exported may reach the collector twice, which it tells by the ids.
        waiting.close();
        loop {
            while spans.len() < MOST
                && let Ok(over) = waiting.try_recv()
            {
                spans::write(&mut spans, &over, self.epoch());
            }
            if spans.is_empty() {
                return;
            }
            self.export(&mut spans).await;
            if self.failures > 0 {
                return;
            }
        }
    }

    /// The difference between the two clocks, as it is now: the wall clock may be set.
    fn epoch(&self) -> Epoch {
        Epoch(wall::unix_nanos().saturating_sub(self.clock.now().as_nanos()))
    }

    async fn export(&mut self, spans: &mut Vec<Span>) {
        let mut body = Vec::with_capacity(spans.len() * 512);
        let scope = ("hedgerow", env!("CARGO_PKG_VERSION"));
        otlp::encode(&mut body, &self.resource, scope, spans.iter());
        let taken = self.post(body.into()).await;
        let count = spans.len() as u64;
        spans.clear();
        if taken {
            self.failures = 0;
            self.shared.sent.fetch_add(count, Relaxed);
        } else {
            self.failures = self.failures.saturating_add(1);
            self.shared.not_taken.fetch_add(count, Relaxed);
        }
    }

    /// Whether the collector took it.
    async fn post(&self, body: Bytes) -> bool {
        let mut request = Request::new(Body::from(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = http::Uri::from_static(PATH);
        let kind = HeaderValue::from_static("application/x-protobuf");
        request.headers_mut().insert(CONTENT_TYPE, kind);
        let Ok(mut response) = self.client.call(NAME, request).await else { return false };
        let status = response.status();
        // To the end, so that the connection can be used again.
        response.bytes(ANSWER).await.is_ok() && status.is_success()
    }
}

async fn closed(closing: &mut watch::Receiver<Option<Moment>>) {
    // An error means that the tracer is gone, and nobody waits.
    let _ = closing.wait_for(Option::is_some).await;
}
