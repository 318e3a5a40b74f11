//! The page Prometheus reads.
//!
//! Invariant: a gauge of the pool is read from its snapshot when the page is made, never kept
//! beside it. The names are those of the contract; each has its unit in it and a help text.

use super::grid::Grid;
use super::histogram::Histogram;
use super::upstreams::Called;
use crate::admin::Watched;
use crate::record::Inner;
use hedgerow_cache::guarded::CacheShown;
use hedgerow_policy::pool::SlotPhase;
use hedgerow_worker::snapshot::Snapshot;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, prometheus_text, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
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
    pool: Option<Snapshot>,
    cache: Option<CacheShown>,
    called: Called,
    watched: Watched,
    form: Form,
) -> String {
    let mut registry = Registry::with_prefix("hedgerow");
    registry.register_collector(Box::new(Scrape {
        inner: Arc::clone(inner),
        pool,
        cache,
        called,
        watched,
    }));
    let mut out = String::with_capacity(8 << 10);
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
    called: Called,
    watched: Watched,
}

impl std::fmt::Debug for Scrape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scrape").finish_non_exhaustive()
    }
}

/// Writes metrics one after the other.
pub(super) struct Writer<'e>(DescriptorEncoder<'e>);

impl Writer<'_> {
    pub(super) fn counter(&mut self, name: &str, help: &str, value: u64) -> Result<(), Error> {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        metric.encode_counter::<NoLabelSet, _, f64>(&value, None)
    }

    /// A counter with one label.
    pub(super) fn counters<'l>(
        &mut self,
        name: &str,
        help: &str,
        label: &'static str,
        values: impl IntoIterator<Item = (&'l str, u64)>,
    ) -> Result<(), Error> {
        let values = values.into_iter().map(|(key, value)| (vec![(label, key)], value));
        self.labelled(name, help, values)
    }

    pub(super) fn gauge(&mut self, name: &str, help: &str, value: u64) -> Result<(), Error> {
        self.0.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
    }

    pub(super) fn bytes(&mut self, name: &str, help: &str, value: u64) -> Result<(), Error> {
        let unit = Some(&Unit::Bytes);
        self.0.encode_descriptor(name, help, unit, MetricType::Gauge)?.encode_gauge(&value)
    }

    /// A gauge with one label.
    pub(super) fn gauges<'l>(
        &mut self,
        name: &str,
        help: &str,
        label: &'static str,
        values: impl IntoIterator<Item = (&'l str, u64)>,
    ) -> Result<(), Error> {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (key, value) in values {
            metric.encode_family(&[(label, key)])?.encode_gauge(&value)?;
        }
        Ok(())
    }

    /// Requests that have ended, by method, status and class.
    fn grid(&mut self, name: &str, help: &str, grid: &Grid) -> Result<(), Error> {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        let mut written = Ok(());
        grid.each(|count| {
            let status = count.status.map_or_else(|| "other".to_owned(), |s| s.to_string());
            let class = count.class.map_or("none", hedgerow_policy::Class::name);
            let labels =
                [("method", count.method), ("status", status.as_str()), ("error_class", class)];
            written = written.and_then(|()| {
                let mut series = metric.encode_family(&labels)?;
                series.encode_counter::<NoLabelSet, _, f64>(&count.value, None)
            });
        });
        written
    }

    /// A counter with several labels.
    pub(super) fn labelled<'l>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Vec<(&'static str, &'l str)>, u64)>,
    ) -> Result<(), Error> {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in values {
            let labels = labels.as_slice();
            metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, f64>(&value, None)?;
        }
        Ok(())
    }

    fn seconds(&mut self, name: &str, help: &str, value: &Histogram) -> Result<(), Error> {
        let unit = Some(&Unit::Seconds);
        let mut metric = self.0.encode_descriptor(name, help, unit, MetricType::Histogram)?;
        let read = value.read();
        metric.encode_histogram::<NoLabelSet>(read.sum_seconds, read.count, &read.buckets, None)
    }
}

impl Collector for Scrape {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let mut to = Writer(encoder);
        self.requests(&mut to)?;
        self.connections(&mut to)?;
        self.queue(&mut to)?;
        self.workers(&mut to)?;
        super::breaker_states(&mut to, self.cache.as_ref(), &self.called.views)?;
        super::cache::write(&mut to, self.cache.as_ref())?;
        super::upstreams::write(&mut to, &self.called)?;
        self.call_durations(&mut to)?;
        super::watching::write(&mut to, &self.inner, self.watched)?;
        self.transitions(&mut to)?;
        self.logs(&mut to)
    }
}

impl Scrape {
    fn requests(&self, to: &mut Writer<'_>) -> Result<(), Error> {
        let metrics = &self.inner.metrics;
        let live = &self.inner.live;
        let help = "Requests that have ended, by method, status and error class (none: no failure)";
        to.grid("http_requests", help, &metrics.requests)?;
        let help = "Requests at the egress port that have ended, by method, status and error class";
        to.grid("egress_requests", help, &metrics.egress)?;
        let help = "From the complete request head to the last byte of the answer";
        to.seconds("http_request_duration", help, &metrics.durations)?;
        let in_flight = live.in_flight() as u64;
        let help = "Requests that have not ended, those at the egress port included";
        to.gauge("http_requests_in_flight", help, in_flight)?;
        let help = "Requests in flight that the admin pages can show at once";
        to.gauge("http_requests_listed_limit", help, live.limit() as u64)?;
        let help = "Requests that the admin pages could not show, because there were too many";
        to.counter("http_requests_unlisted", help, live.unlisted())?;
        let read = metrics.bytes_in.load(Relaxed);
        to.counter("http_request_body_bytes", "Bytes of request bodies that were read", read)?;
        let sent = metrics.bytes_out.load(Relaxed);
        to.counter("http_response_body_bytes", "Bytes of response bodies that were sent", sent)?;
        let help = "Answers that were streams, by kind";
        to.counters("http_streams", help, "kind", metrics.streams.all())?;
        let help = "Streams that broke after they had begun, by error class";
        to.counters("http_stream_errors", help, "error_class", metrics.stream_errors.all())?;
        let help = "Questions to workers about streams that they make in steps, by event";
        to.counters("dispatch_steps", help, "event", metrics.dispatch_steps.all())?;
        let open = metrics.dispatch_open.load(Relaxed) as u64;
        to.gauge("dispatch_streams", "Streams in steps that are offered, open or closing", open)
    }

    fn connections(&self, to: &mut Writer<'_>) -> Result<(), Error> {
        let metrics = &self.inner.metrics;
        let tasks = super::alive_tasks() as u64;
        to.gauge("tasks", "Tasks of the runtime that have not ended", tasks)?;
        let open = u64::try_from(metrics.connections.load(Relaxed)).unwrap_or(0);
        to.gauge("connections", "Client connections open now", open)?;
        let opened = metrics.connections_opened.load(Relaxed);
        to.counter("connections_opened", "Client connections accepted", opened)?;
        let help = "Connections that sent no acceptable request head, by reason";
        to.counters("bad_heads", help, "reason", metrics.bad_heads.all())?;
        let held = metrics.body_memory.load(Relaxed);
        to.bytes("body_memory", "Request bodies held in memory now", held)?;
        let spooled = metrics.bodies_spooled.load(Relaxed);
        to.counter("bodies_spooled", "Request bodies that went to disk", spooled)
    }

    fn queue(&self, to: &mut Writer<'_>) -> Result<(), Error> {
        let metrics = &self.inner.metrics;
        let depth = self.pool.as_ref().map_or(0, |pool| pool.queue_depth as u64);
        to.gauge("worker_queue_depth", "Requests that wait for a worker", depth)?;
        let capacity = self.pool.as_ref().map_or(0, |pool| pool.queue_capacity as u64);
        to.gauge("worker_queue_capacity", "Requests that may wait for a worker", capacity)?;
        let help = "The wait of requests that waited and got a worker";
        to.seconds("worker_queue_wait", help, &metrics.queue_wait)?;
        let waits = metrics.queue_waits.load(Relaxed);
        to.counter("worker_queue_waits", "Requests that were put into the queue", waits)?;
        let rejected = metrics.queue_rejected.load(Relaxed);
        to.counter("worker_queue_rejected", "Requests refused for a full queue", rejected)?;
        let timeouts = metrics.queue_timeouts.load(Relaxed);
        to.counter("worker_queue_timeouts", "Requests that waited too long", timeouts)
    }

    fn workers(&self, to: &mut Writer<'_>) -> Result<(), Error> {
        let metrics = &self.inner.metrics;
        const PHASES: [SlotPhase; 4] =
            [SlotPhase::Starting, SlotPhase::Idle, SlotPhase::Busy, SlotPhase::BackingOff];
        let workers = self.pool.as_ref().map_or(&[][..], |pool| &pool.workers);
        let states = PHASES.map(|phase| {
            (phase.name(), workers.iter().filter(|worker| worker.phase == phase).count() as u64)
        });
        to.gauges("workers", "Worker slots, by what they are doing", "state", states)?;
        let busy = self.pool.as_ref().map_or(0, |pool| pool.in_flight as u64);
        to.gauge("worker_requests_in_flight", "Requests that are with a worker", busy)?;
        let retiring = self.pool.as_ref().map_or(0, |pool| pool.retiring as u64);
        let help = "Replaced processes that still finish their work";
        to.gauge("workers_retiring", help, retiring)?;
        let rss = workers.iter().filter_map(|worker| worker.rss).sum();
        to.bytes("worker_resident_memory", "Resident memory of all workers", rss)?;
        let help = "Worker processes that ended and were or will be replaced, by reason";
        to.counters("worker_restarts", help, "reason", metrics.restarts.all())?;
        let late = metrics.late_answers.load(Relaxed);
        let help = "Answers that came after their client or deadline had gone, and were discarded";
        to.counter("worker_late_answers", help, late)?;
        let help = "Lines that workers wrote to their output";
        to.counters("worker_output_lines", help, "stream", metrics.output_lines.all())?;
        let dropped = metrics.output_dropped.load(Relaxed);
        let help = "Lines of worker output that the event log had no room for";
        to.counter("worker_output_dropped", help, dropped)?;
        to.counters("reloads", "Reloads, by result", "result", metrics.reloads.all())
    }

    fn call_durations(&self, to: &mut Writer<'_>) -> Result<(), Error> {
        let settled = self.inner.metrics.settled_calls();
        if settled.is_empty() {
            return Ok(());
        }
        let help = "From the start of a call to an upstream until it was settled";
        let (name, unit) = ("upstream_call_duration", Some(&Unit::Seconds));
        let mut metric = to.0.encode_descriptor(name, help, unit, MetricType::Histogram)?;
        for (upstream, durations) in settled.iter() {
            let read = durations.read();
            let labels = [("upstream", upstream.as_str())];
            let mut series = metric.encode_family(&labels)?;
            series.encode_histogram::<NoLabelSet>(
                read.sum_seconds,
                read.count,
                &read.buckets,
                None,
            )?;
        }
        Ok(())
    }

    fn transitions(&self, to: &mut Writer<'_>) -> Result<(), Error> {
        let help = "Moves of a circuit, by where from and where to";
        let all = self.inner.metrics.transitions.all();
        let moves = all.iter().map(|((name, from, to), count)| {
            (vec![("name", name.as_str()), ("from", *from), ("to", *to)], *count)
        });
        to.labelled("breaker_transitions", help, moves)
    }

    fn logs(&self, to: &mut Writer<'_>) -> Result<(), Error> {
        let sinks = [("event", &self.inner.events), ("access", &self.inner.access)];
        let open = || sinks.iter().filter_map(|(name, sink)| Some((*name, sink.as_ref()?)));
        let events = self.inner.events.as_ref().map_or(0, crate::sink::Sink::dropped);
        to.counter("events_dropped", "Lines the event log had no room for", events)?;
        let access = self.inner.access.as_ref().map_or(0, crate::sink::Sink::dropped);
        to.counter("access_lines_dropped", "Access lines there was no room for", access)?;
        let buffered = open().map(|(name, sink)| (name, sink.buffered() as u64));
        let help = "Bytes of log lines that wait to be written";
        to.gauges("log_buffered_bytes", help, "log", buffered)?;
        let limits = open().map(|(name, sink)| (name, sink.limit() as u64));
        to.gauges("log_buffer_limit_bytes", "Bytes that may wait", "log", limits)?;
        let failures = open().map(|(name, sink)| (name, sink.failures()));
        to.counters("log_write_failures", "Writes of log lines that failed", "log", failures)?;
        let help = "What was done through the admin listener, by action";
        to.counters("admin_actions", help, "action", self.inner.metrics.admin_actions.all())?;
        let started = self.inner.started.unix_seconds();
        to.gauge("start_time_seconds", "When this process started, since 1970", started)?;
        let help = "What is running";
        to.gauges("build_info", help, "version", [(env!("CARGO_PKG_VERSION"), 1)])
    }
}
