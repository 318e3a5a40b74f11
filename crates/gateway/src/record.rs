//! What is written down about a request, from its first line to its last byte.
//!
//! Invariant: every request that began is finished exactly once, and its finish is one access
//! line, one `http.request` event and one step of the counters. An [`Active`] that is dropped
//! without a word (its task was cancelled, its client left) records itself as `client_closed`.
//! Nothing here blocks a request: lines go to a bounded buffer, and what does not fit is counted.

use crate::events::{self, Processes};
use crate::finish;
use crate::history::History;
use crate::live::{CallMade, Cancelling, Entry, Live, Place, Via};
use crate::metrics::Metrics;
use crate::recent::Recent;
use crate::sink::{self, Sink};
use crate::traces::{self, Context, Tracer};
use crate::wall::{self, Stamp};
use hedgerow_clock::Clock;
use hedgerow_policy::{Class, Failure, Moment};
use hedgerow_upstream::Report;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

pub use crate::live::Stage;
pub use crate::sink::OpenError;

/// The form of the access line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Format {
    /// One JSON object a line.
    #[default]
    Json,
    /// For people: `remote - method path proto status bytes duration_ms class trace`.
    Text,
}

/// What is recorded, and the bounds on it.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// Whether access lines are written.
    pub access: bool,
    /// Their form.
    pub format: Format,
    /// The event log's file; none is written where absent.
    pub event_log: Option<PathBuf>,
    /// Whether what an application says of itself is masked in lines.
    pub redact: bool,
    /// Requests in flight that the admin pages can show at once.
    pub live_limit: usize,
    /// Bytes of lines that may wait for the disk, for each of the two logs.
    pub buffer_limit: usize,
    /// Bytes of the newest events kept in memory; zero: none.
    pub recent_limit: usize,
    /// Longest line, in bytes.
    pub line_limit: usize,
    /// Where traces are told; they are not where absent.
    pub traces: Option<traces::Settings>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            access: true,
            format: Format::Json,
            event_log: None,
            redact: false,
            live_limit: 20_000,
            buffer_limit: 8 << 20,
            recent_limit: 4 << 20,
            line_limit: 16 << 10,
            traces: None,
        }
    }
}

/// Where lines go, for those who do not want files and standard output.
#[derive(Default)]
pub struct Outputs {
    /// Takes access lines.
    pub access: Option<Box<dyn Write + Send>>,
    /// Takes event lines.
    pub events: Option<Box<dyn Write + Send>>,
}

/// What is known of a request when its head has been read.
#[derive(Clone, Debug)]
pub struct Start {
    /// Its trace.
    pub trace_id: Arc<str>,
    /// Its own id.
    pub request_id: Arc<str>,
    /// Its method.
    pub method: http::Method,
    /// Its path, without the query.
    pub path: String,
    /// Who sent it.
    pub remote_addr: IpAddr,
    /// `HTTP/1.1`, `HTTP/2.0`.
    pub protocol: &'static str,
    /// When its head was complete.
    pub received: Moment,
    /// Its place in its trace, where traces are told.
    pub span: Option<Context>,
}

/// How a request ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The status that was sent.
    pub status: u16,
    /// The failure, where it ended in one.
    pub failure: Option<Failure>,
    /// The kind of stream, where the answer was one.
    pub stream: Option<&'static str>,
}

/// Takes down what happens. Clones share everything.
#[derive(Clone)]
pub struct Recorder {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) settings: Settings,
    pub(crate) clock: Clock,
    pub(crate) live: Live,
    pub(crate) metrics: Metrics,
    pub(crate) history: History,
    pub(crate) access: Option<Sink>,
    pub(crate) events: Option<Sink>,
    pub(crate) recent: Recent,
    pub(crate) tracer: Option<Tracer>,
    pub(crate) processes: Processes,
    pub(crate) started: Stamp,
}

impl Recorder {
    /// Opens the logs the settings ask for. To be called inside a runtime where traces are told.
    ///
    /// # Errors
    /// When the event log cannot be opened, or a writer thread cannot be started.
    pub fn new(settings: Settings, clock: Clock) -> Result<Recorder, OpenError> {
        let mut outputs = Outputs::default();
        if settings.access {
            outputs.access = Some(Box::new(std::io::stdout()));
        }
        if let Some(path) = &settings.event_log {
            outputs.events = Some(Box::new(sink::open(path)?));
        }
        Recorder::with_outputs(settings, clock, outputs)
    }

    /// As [`Recorder::new`], with the outputs given.
    ///
    /// # Errors
    /// When a writer thread cannot be started.
    pub fn with_outputs(
        settings: Settings,
        clock: Clock,
        outputs: Outputs,
    ) -> Result<Recorder, OpenError> {
        let limit = settings.buffer_limit;
        let access = match outputs.access {
            Some(to) => Some(Sink::start("access-log", to, limit, None)?),
            None => None,
        };
        let events = match outputs.events {
            Some(to) => Some(Sink::start("event-log", to, limit, Some(events::dropped))?),
            None => None,
        };
        let tracer = settings.traces.clone().map(|traces| Tracer::start(traces, clock));
        let inner = Inner {
            live: Live::new(settings.live_limit),
            metrics: Metrics::new(),
            history: History::new(),
            recent: Recent::new(settings.recent_limit),
            tracer: tracer.transpose().map_err(OpenError::Traces)?,
            processes: Processes::default(),
            started: wall::now(),
            settings,
            clock,
            access,
            events,
        };
        Ok(Recorder { inner: Arc::new(inner) })
    }

    /// The place of a request in its trace, where traces are told: see [`Tracer::enter`].
    pub(crate) fn traced(
        &self,
        headers: &mut http::HeaderMap,
        authority: Option<&http::uri::Authority>,
        trace_id: &str,
        scheme: &'static str,
    ) -> Option<Context> {
        let tracer = self.inner.tracer.as_ref()?;
        Some(tracer.enter(headers, authority, trace_id, scheme))
    }

    /// A request has begun.
    pub fn begin(&self, start: Start) -> Active {
        self.begin_via(start, Via::Server)
    }

    /// A request has begun, at one listener or the other.
    pub(crate) fn begin_via(&self, start: Start, via: Via) -> Active {
        let received = start.received;
        let entry = Arc::new(Entry::new(start, via));
        if via == Via::Egress {
            // Its body goes on as it comes.
            entry.set_stage(Stage::Calling, received);
        }
        let place = self.inner.live.enter(&entry);
        Active { inner: Arc::clone(&self.inner), entry, place, finished: false }
    }

    /// Requests that have begun and not ended, calls at the egress port among them.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.inner.live.in_flight()
    }

    /// A stream that had begun broke. The request's status stays what it was.
    pub fn stream_error(&self, request: &Active, failure: &Failure) {
        request.entry.stream_failed.store(true, Relaxed);
        self.inner.metrics.stream_error(failure.class);
        events::stream_error(&self.inner, &request.entry, failure);
    }

    /// One more stream in steps, if there are fewer than `most`.
    pub(crate) fn open_dispatch(&self, most: usize) -> Option<DispatchOpen> {
        let open = self.inner.metrics.open_dispatch(most);
        open.then(|| DispatchOpen(Arc::clone(&self.inner)))
    }

    /// A worker is asked for a step of a stream.
    pub(crate) fn dispatch_step(&self, event: hedgerow_wire::dispatch::Event) {
        self.inner.metrics.dispatch_step(event);
    }

    /// Something that was no request came in and was refused by the HTTP library.
    pub fn bad_head(&self, remote_addr: IpAddr, reason: &'static str) {
        self.inner.metrics.bad_head(reason);
        events::bad_head(&self.inner, remote_addr, reason);
    }

    /// A client has connected.
    pub fn connection_opened(&self) {
        self.inner.metrics.connection_opened();
    }

    /// A client's connection has ended.
    pub fn connection_closed(&self) {
        self.inner.metrics.connection_closed();
    }

    /// So many bytes of request bodies are held in memory now.
    pub fn set_body_memory(&self, bytes: u64) {
        self.inner.metrics.set_body_memory(bytes);
    }

    /// How many connections and streams in steps may be open, and how many bytes of bodies may be
    /// held in memory.
    pub fn set_limits(&self, connections: u64, body_memory: u64, dispatches: usize) {
        self.inner.metrics.set_limits(connections, body_memory, dispatches);
    }

    /// A line for standard error is lost, because nobody took those before it.
    pub fn terminal_line_dropped(&self) {
        self.inner.metrics.terminal_dropped();
    }

    /// The gateway serves at these addresses now.
    pub fn server_started(&self, listen: &[SocketAddr]) {
        events::server_started(&self.inner, listen);
    }

    /// The gateway has stopped, for this reason.
    pub fn server_stopped(&self, reason: &str) {
        events::server_stopped(&self.inner, reason);
    }

    /// Opens the event log's file again, so that a log that was moved away is let go.
    ///
    /// # Errors
    /// When the file cannot be opened. The old one is written on.
    pub fn reopen(&self) -> Result<(), OpenError> {
        if let (Some(sink), Some(path)) = (&self.inner.events, &self.inner.settings.event_log) {
            sink.replace(Box::new(sink::open(path)?));
        }
        Ok(())
    }

    /// Sends the spans that wait, for so long at the most.
    pub async fn end_traces(&self, within: Duration) {
        if let Some(tracer) = &self.inner.tracer {
            tracer.close(within).await;
        }
    }

    /// Writes what is buffered and ends the writers. Lines that come later are ignored. Waits
    /// for the disk, but for two seconds at most: a reader that stands still must not hold up a
    /// shutdown. Blocks the thread that calls it.
    pub fn close(&self) {
        for sink in [&self.inner.events, &self.inner.access].into_iter().flatten() {
            sink.close(Duration::from_secs(2));
        }
    }
}

/// Counts a stream in steps as open while it lives.
pub(crate) struct DispatchOpen(Arc<Inner>);

impl Drop for DispatchOpen {
    fn drop(&mut self) {
        self.0.metrics.close_dispatch();
    }
}

/// A request in flight.
#[must_use = "a request that is dropped unfinished counts as left by its client"]
pub struct Active {
    inner: Arc<Inner>,
    entry: Arc<Entry>,
    place: Option<Place>,
    finished: bool,
}

impl Active {
    /// The trace it belongs to.
    #[must_use]
    pub fn trace_id(&self) -> &str {
        &self.entry.trace_id
    }

    /// The header by which those who are called on its behalf learn of its trace.
    pub(crate) fn traceparent(&self) -> Option<Arc<str>> {
        self.entry.span.as_ref().map(|span| span.traceparent().into())
    }

    /// Its own id.
    #[must_use]
    pub fn request_id(&self) -> &str {
        &self.entry.request_id
    }

    /// It is at `stage` from now on.
    pub fn set_stage(&self, stage: Stage) {
        self.entry.set_stage(stage, self.inner.clock.now());
    }

    /// It is with this worker, in that process.
    pub fn set_worker(&self, worker: u32, pid: Option<u32>) {
        self.entry.set_worker(worker, pid);
    }

    /// The next piece of its stream was waited for since then.
    pub(crate) fn waited_for_source(&self, since: Moment) {
        self.entry.timeline.waited_for_source(self.inner.clock.now().since(since));
    }

    /// It must be done by then.
    pub fn set_deadline(&self, at: Moment) {
        self.entry.set_deadline(at);
    }

    /// It waited so long in the queue.
    pub fn set_queue_wait(&self, wait: Duration) {
        self.entry.set_queue_wait(wait);
    }

    /// More of its body has come.
    pub fn add_bytes_in(&self, bytes: u64) {
        self.entry.bytes_in.fetch_add(bytes, Relaxed);
    }

    /// More of its body went to disk, where it stays until the request ends.
    pub fn add_spooled(&self, bytes: u64) {
        let before = self.entry.spooled.fetch_add(bytes, Relaxed);
        self.inner.metrics.spooled(bytes, before == 0);
    }

    /// More of its answer has gone.
    pub fn add_bytes_out(&self, bytes: u64) {
        self.entry.bytes_out.fetch_add(bytes, Relaxed);
    }

    /// It was answered by a call to this upstream, or failed with it.
    pub(crate) fn set_call(&self, upstream: String, report: Report) {
        let _ = self.entry.call.set(CallMade { upstream, report });
    }

    /// Counts the bytes of its body as they come.
    pub(crate) fn meter(&self) -> Meter {
        Meter(Arc::clone(&self.entry))
    }

    /// Returns once an operator has cancelled the request. May be awaited again and again.
    pub async fn cancelled(&self) {
        self.cancelling().await;
    }

    /// The same, for those who outlive this value.
    pub(crate) fn cancelling(&self) -> Cancelling {
        Cancelling(Arc::clone(&self.entry))
    }

    /// It has ended.
    #[allow(clippy::needless_pass_by_value, reason = "an outcome belongs to one finish")]
    pub fn finish(mut self, outcome: Outcome) {
        self.finished = true;
        finish::finish(&self.inner, &self.entry, self.place, &outcome);
    }
}

/// Counts the bytes of a request's body where the request itself is elsewhere.
pub(crate) struct Meter(Arc<Entry>);

impl Meter {
    pub(crate) fn add_bytes_in(&self, bytes: u64) {
        self.0.bytes_in.fetch_add(bytes, Relaxed);
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let failure = Failure::new(
            Class::ClientClosed,
            hedgerow_policy::failure::At::Client,
            "the client closed before the answer was complete",
        );
        let outcome =
            Outcome { status: finish::CLIENT_CLOSED, failure: Some(failure), stream: None };
        finish::finish(&self.inner, &self.entry, self.place, &outcome);
    }
}

#[cfg(test)]
pub(crate) mod tests;
