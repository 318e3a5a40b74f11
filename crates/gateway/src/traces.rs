//! Traces, as OpenTelemetry has them: which requests are told, and under which ids.
//!
//! Invariant: a collector that is slow, broken or gone never touches a request. What a request does
//! for its trace is one place in a bounded queue, or a count of what found none; everything else is
//! done by one task beside the requests (`traces/export.rs`).

mod export;
mod spans;

pub(crate) use spans::Attempt;

use crate::ids::{self, Parent};
use crate::live::Entry;
use crate::record::Outcome;
use hedgerow_clock::Clock;
use hedgerow_policy::observe::AttemptFacts;
use hedgerow_policy::{Class, Moment};
use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use http::uri::Authority;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, watch};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
/// The longest `tracestate` that is kept (W3C Trace Context, 3.3.1.5, asks for as much).
const STATE: usize = 512;

/// Where traces go, and how many.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// The collector: its base address, or the whole one that ends in `/v1/traces`.
    pub endpoint: String,
    /// Share of new traces that are told, 0 to 1. A trace that was begun elsewhere is told where it
    /// was told there.
    pub sample: f64,
    /// Requests and calls that may wait to be sent.
    pub queue: usize,
    /// What this gateway calls itself.
    pub service: String,
}

/// The place of one request in its trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Context {
    trace: [u8; 16],
    span: u64,
    parent: Option<u64>,
    sampled: bool,
    state: String,
    scheme: &'static str,
    host: String,
}

/// Something that is over, on its way to the collector.
pub(crate) enum Over {
    Request { entry: Arc<Entry>, status: u16, class: Option<Class>, ended: Moment },
    Call { parent: Parent, trace_id: String, call: spans::Call },
}

/// What the counters say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) sent: u64,
    pub(crate) no_room: u64,
    pub(crate) not_taken: u64,
    pub(crate) waiting: usize,
    pub(crate) limit: usize,
}

/// Takes what is over and sends it, beside the requests.
pub(crate) struct Tracer {
    sample: f64,
    clock: Clock,
    queue: mpsc::Sender<Over>,
    shared: Arc<Shared>,
    closing: watch::Sender<Option<Moment>>,
    task: Mutex<Option<tokio::task::JoinHandle<()>>>,
}

/// What the tracer and its task share.
#[derive(Default)]
struct Shared {
    sent: AtomicU64,
    no_room: AtomicU64,
    not_taken: AtomicU64,
}

impl Tracer {
    /// Starts the task that sends. To be called inside a runtime.
    ///
    /// # Errors
    /// One sentence, where the endpoint cannot be called.
    pub(crate) fn start(settings: Settings, clock: Clock) -> Result<Tracer, String> {
        let (queue, waiting) = mpsc::channel(settings.queue.max(1));
        let (closing, closed) = watch::channel(None);
        let shared = Arc::new(Shared::default());
        let sample = settings.sample;
        let work = export::Work::new(settings, clock, Arc::clone(&shared))?;
        let task = Mutex::new(Some(tokio::spawn(work.run(waiting, closed))));
        Ok(Tracer { sample, clock, queue, shared, closing, task })
    }

    /// The place of a request with this head and this trace id. What it calls is told to be part
    /// of it: the head's own trace context is replaced.
    pub(crate) fn enter(
        &self,
        headers: &mut HeaderMap,
        authority: Option<&Authority>,
        trace_id: &str,
        scheme: &'static str,
    ) -> Context {
        let parent = ids::parent(headers);
        let trace = parent.as_ref().map_or_else(|| trace_bytes(trace_id), |parent| parent.trace);
        let sampled = parent.as_ref().map_or_else(|| self.takes(trace), |parent| parent.sampled);
        if parent.is_none() {
            // It says something about a parent that is none.
            headers.remove(TRACESTATE);
        }
        let state = headers.get(TRACESTATE).and_then(|state| state.to_str().ok());
        let state = state.filter(|state| state.len() <= STATE).unwrap_or_default().to_owned();
        let host = headers.get(http::header::HOST).and_then(|host| host.to_str().ok());
        let host = authority.map(Authority::as_str).or(host).unwrap_or_default();
        let context = Context {
            trace,
            span: ids::span(),
            parent: parent.map(|parent| parent.span),
            sampled,
            state,
            scheme,
            host: host.chars().take(256).collect(),
        };
        if let Ok(value) = HeaderValue::from_str(&context.traceparent()) {
            headers.insert(TRACEPARENT, value);
        }
        context
    }

    /// Whether a trace that begins here is told: the same answer wherever it is asked.
    fn takes(&self, trace: [u8; 16]) -> bool {
        let [.., a, b, c, d, e, f, g, h] = trace;
        let random = u64::from_be_bytes([a, b, c, d, e, f, g, h]) >> 11;
        (random as f64) < self.sample * (1u64 << 53) as f64
    }

    /// A request has ended.
    pub(crate) fn request(&self, entry: &Arc<Entry>, outcome: &Outcome, took: Duration) {
        if !entry.span.as_ref().is_some_and(|span| span.sampled) {
            return;
        }
        let (entry, status) = (Arc::clone(entry), outcome.status);
        let class = outcome.failure.as_ref().map(|failure| failure.class);
        let ended = entry.received + took;
        self.push(Over::Request { entry, status, class, ended }, 1);
    }

    /// Nothing runs for a call any more that `traceparent` is the context of.
    pub(crate) fn call(
        &self,
        upstream: &str,
        trace_id: &str,
        traceparent: Option<&str>,
        made: &Made<'_>,
    ) {
        let Some(parent) = traceparent.and_then(ids::read_parent).filter(|p| p.sampled) else {
            return;
        };
        let call = spans::Call {
            upstream: upstream.to_owned(),
            key: made.key.map(str::to_owned),
            method: made.method.to_owned(),
            started: before(self.clock.now(), made.age),
            attempts: made.attempts.iter().map(Attempt::of).collect(),
        };
        let spans = call.attempts.len() as u64;
        self.push(Over::Call { parent, trace_id: trace_id.to_owned(), call }, spans);
    }

    fn push(&self, over: Over, spans: u64) {
        if self.queue.try_send(over).is_err() {
            self.shared.no_room.fetch_add(spans, Relaxed);
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        let limit = self.queue.max_capacity();
        Counts {
            sent: self.shared.sent.load(Relaxed),
            no_room: self.shared.no_room.load(Relaxed),
            not_taken: self.shared.not_taken.load(Relaxed),
            waiting: limit - self.queue.capacity(),
            limit,
        }
    }

    /// Sends what waits, for so long at the most.
    pub(crate) async fn close(&self, within: Duration) {
        let until = self.clock.now() + within;
        self.closing.send_replace(Some(until));
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut task) = task else { return };
        if self.clock.until(until, &mut task).await.is_none() {
            task.abort();
        }
    }
}

fn before(now: Moment, age: Duration) -> Moment {
    let age = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
    Moment::from_nanos(now.as_nanos().saturating_sub(age))
}

/// A call, as its upstream tells of it.
pub(crate) struct Made<'a> {
    pub(crate) key: Option<&'a str>,
    pub(crate) method: &'a str,
    pub(crate) age: Duration,
    pub(crate) attempts: &'a [AttemptFacts<'a>],
}

impl Context {
    /// The header by which whoever is called learns of it (W3C Trace Context, version 00).
    pub(crate) fn traceparent(&self) -> String {
        let trace = u128::from_be_bytes(self.trace);
        format!("00-{trace:032x}-{:016x}-{:02x}", self.span, u8::from(self.sampled))
    }
}

/// The 16 bytes of any trace id: 32 hexadecimal digits as they are, anything else by a hash that is
/// the same everywhere (FNV-1a, 128 bits).
fn trace_bytes(id: &str) -> [u8; 16] {
    let hex = id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit());
    let read = hex.then(|| u128::from_str_radix(id, 16).ok()).flatten().filter(|&n| n != 0);
    let hash = || {
        let step = |hash: u128, byte: u8| {
            (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
        };
        id.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, step)
    };
    read.unwrap_or_else(hash).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_id_is_kept_or_hashed() {
        let hex = "4bf92f3577b34da6a3ce929d0e0e4736";
        assert_eq!(trace_bytes(hex)[..3], [0x4b, 0xf9, 0x2f]);
        assert_eq!(trace_bytes(&hex.to_uppercase()), trace_bytes(hex));
        // The FNV authors' own vectors: the offset basis for nothing, and of "a".
        let text = |id: &str| format!("{:032x}", u128::from_be_bytes(trace_bytes(id)));
        assert_eq!(text(""), "6c62272e07bb014262b821756295c58d");
        assert_eq!(text("a"), "d228cb696f1a8caf78912b704e4a8964");
        assert_ne!(trace_bytes(&"0".repeat(32)), [0; 16]);
    }

    #[tokio::test]
    async fn a_share_of_new_traces_is_told_and_a_parent_decides_for_its_own() {
        let settings = |sample| Settings {
            endpoint: "http://127.0.0.1:9".to_owned(),
            sample,
            queue: 1,
            service: "test".to_owned(),
        };
        let tracer = |sample| Tracer::start(settings(sample), Clock::start()).unwrap();
        let told = |tracer: &Tracer| {
            (0..4_000).filter(|_| tracer.takes(trace_bytes(&ids::fresh()))).count()
        };
        assert_eq!((told(&tracer(0.0)), told(&tracer(1.0))), (0, 4_000));
        assert!((800..1_200).contains(&told(&tracer(0.25))));
        for (sample, flags, sampled) in [(0.0, "01", true), (1.0, "00", false)] {
            let parent = format!("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-{flags}");
            let mut headers = HeaderMap::new();
            headers.insert(TRACEPARENT, parent.parse().unwrap());
            headers.insert(TRACESTATE, "a=b".parse().unwrap());
            let context = tracer(sample).enter(&mut headers, None, "x", "http");
            assert_eq!((context.sampled, context.parent), (sampled, Some(0xb7ad_6b71_6920_3331)));
            assert_eq!(context.state, "a=b");
            let passed_on = headers[TRACEPARENT].to_str().unwrap();
            assert_eq!(passed_on, context.traceparent());
            assert!(passed_on.starts_with(&parent[..36]) && passed_on.ends_with(flags));
            assert_ne!(passed_on, parent);
        }
        let mut headers = HeaderMap::from_iter([(TRACESTATE, "a=b".parse().unwrap())]);
        let context = tracer(1.0).enter(&mut headers, None, "job:7", "http");
        assert_eq!((context.parent, headers.get(TRACESTATE)), (None, None));
    }
}
