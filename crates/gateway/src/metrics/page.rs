//! The page Prometheus reads.
//!
//! Invariant: a gauge is read from its owner when the page is made, never kept beside it. Names,
//! types, labels and help texts are the catalogue's.

use super::catalogue::{PREFIX, front, process};
use super::writer::Writer;
use super::{cache, pool, upstreams, watching};
use crate::admin::{Control, Watched};
use crate::calls::CallsShown;
use crate::record::Inner;
use hedgerow_cache::PortShown;
use hedgerow_cache::guarded::CacheShown;
use hedgerow_worker::snapshot::Snapshot;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, prometheus_text, text};
use prometheus_client::registry::Registry;
use std::fmt::Error;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// How a page is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// What every Prometheus reads.
    Prometheus,
    /// What a newer one asks for.
    OpenMetrics,
}

impl Form {
    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Form::Prometheus => prometheus_text::CONTENT_TYPE,
            Form::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Makes the page.
pub(crate) fn page(
    inner: &Arc<Inner>,
    control: &dyn Control,
    watched: Watched,
    form: Form,
) -> String {
    let scrape = Scrape {
        inner: Arc::clone(inner),
        pool: control.pool(),
        cache: control.cache().map(|cache| cache.snapshot()),
        port: control.cache_port(),
        calls: control.calls().map(|calls| calls.shown()),
        watched,
    };
    let mut registry = Registry::with_prefix(PREFIX);
    registry.register_collector(Box::new(scrape));
    let mut out = String::with_capacity(16 << 10);
    let written = match form {
        Form::Prometheus => prometheus_text::encode(&mut out, &registry),
        Form::OpenMetrics => text::encode(&mut out, &registry),
    };
    debug_assert!(written.is_ok(), "writing to a string cannot fail");
    out
}

/// Everything that one page shows.
struct Scrape {
    inner: Arc<Inner>,
    pool: Option<Snapshot>,
    cache: Option<CacheShown>,
    port: Option<PortShown>,
    calls: Option<CallsShown>,
    watched: Watched,
}

impl std::fmt::Debug for Scrape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scrape").finish_non_exhaustive()
    }
}

impl Collector for Scrape {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let mut to = Writer(encoder);
        self.requests(&mut to)?;
        self.connections(&mut to)?;
        pool::write(&mut to, &self.inner.metrics, self.pool.as_ref())?;
        if let Some(calls) = &self.calls {
            upstreams::write(&mut to, &self.inner.metrics, calls)?;
        }
        upstreams::circuits(&mut to, &self.inner, self.cache.as_ref(), self.calls.as_ref())?;
        cache::write(&mut to, self.cache.as_ref(), self.port)?;
        watching::write(&mut to, &self.inner, self.watched)?;
        self.logs(&mut to)
    }
}

impl Scrape {
    fn requests(&self, to: &mut Writer<'_>) -> Result<(), Error> {
        let (metrics, live) = (&self.inner.metrics, &self.inner.live);
        to.grid(&front::REQUESTS, &metrics.requests)?;
        to.grid(&front::EGRESS_REQUESTS, &metrics.egress)?;
        to.histogram(&front::DURATION, &metrics.durations)?;
        to.size(&front::IN_FLIGHT, live.in_flight())?;
        to.size(&front::LISTED_LIMIT, live.limit())?;
        to.one(&front::UNLISTED, live.unlisted())?;
        to.one(&front::BODY_IN, metrics.bytes_in.load(Relaxed))?;
        to.one(&front::BODY_OUT, metrics.bytes_out.load(Relaxed))?;
        to.by(&front::STREAMS, metrics.streams.all())?;
        to.by(&front::STREAM_ERRORS, metrics.stream_errors.all())?;
        to.by(&front::DISPATCH_STEPS, metrics.dispatch_steps.all())?;
        to.size(&front::DISPATCHES, metrics.dispatch_open.load(Relaxed))?;
        to.size(&front::DISPATCHES_LIMIT, metrics.dispatch_limit.load(Relaxed))
    }

    fn connections(&self, to: &mut Writer<'_>) -> Result<(), Error> {
        let metrics = &self.inner.metrics;
        let open = u64::try_from(metrics.connections.load(Relaxed)).unwrap_or(0);
        to.one(&front::CONNECTIONS, open)?;
        to.one(&front::CONNECTIONS_LIMIT, metrics.connections_limit.load(Relaxed))?;
        to.one(&front::CONNECTIONS_OPENED, metrics.connections_opened.load(Relaxed))?;
        to.by(&front::BAD_HEADS, metrics.bad_heads.all())?;
        to.one(&front::BODY_MEMORY, metrics.body_memory.load(Relaxed))?;
        to.one(&front::BODY_MEMORY_LIMIT, metrics.body_memory_limit.load(Relaxed))?;
        to.one(&front::BODIES_SPOOLED, metrics.bodies_spooled.load(Relaxed))?;
        to.one(&front::BODY_SPOOL, metrics.body_spool.load(Relaxed))
    }

    fn logs(&self, to: &mut Writer<'_>) -> Result<(), Error> {
        let metrics = &self.inner.metrics;
        let sinks = [("event", &self.inner.events), ("access", &self.inner.access)];
        let open = || sinks.iter().filter_map(|(name, sink)| Some((*name, sink.as_ref()?)));
        let dropped = |sink: &Option<_>| sink.as_ref().map_or(0, crate::sink::Sink::dropped);
        to.one(&process::EVENTS_DROPPED, dropped(&self.inner.events))?;
        to.one(&process::ACCESS_DROPPED, dropped(&self.inner.access))?;
        to.one(&process::TERMINAL_DROPPED, metrics.terminal_dropped.load(Relaxed))?;
        let buffered = open().map(|(name, sink)| (name, sink.buffered() as u64));
        to.by(&process::LOG_BUFFERED, buffered)?;
        to.by(&process::LOG_LIMIT, open().map(|(name, sink)| (name, sink.limit() as u64)))?;
        to.by(&process::LOG_FAILURES, open().map(|(name, sink)| (name, sink.failures())))?;
        let traces = self.inner.tracer.as_ref().map(crate::traces::Tracer::counts);
        let traces = traces.unwrap_or_default();
        to.size(&process::TRACES, traces.waiting)?;
        to.size(&process::TRACES_LIMIT, traces.limit)?;
        to.one(&process::SPANS_SENT, traces.sent)?;
        let dropped = [("queue_full", traces.no_room), ("collector", traces.not_taken)];
        to.by(&process::SPANS_DROPPED, dropped)?;
        to.size(&process::RECENT, self.inner.recent.bytes())?;
        to.size(&process::RECENT_LIMIT, self.inner.recent.limit())?;
        to.size(&process::TASKS, super::alive_tasks())?;
        to.by(&process::ADMIN_ACTIONS, metrics.admin_actions.all())?;
        to.one(&process::STARTED, self.inner.started.unix_seconds())?;
        to.by(&process::BUILD, [(env!("CARGO_PKG_VERSION"), 1_u64)])
    }
}
