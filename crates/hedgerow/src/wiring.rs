//! From the configuration to the settings of each part.
//!
//! Invariant: nothing is decided here. A value goes from the one shape to the other, and what the
//! configuration cannot set has its one default here.

use crate::config::{self, Config, RouteTarget};
use hedgerow_gateway::route::{Folder, Route, Target};
use hedgerow_gateway::{admin, record, settings as gateway, traces};
use hedgerow_policy::backoff::BackoffConfig;
use hedgerow_policy::pool::PoolConfig;
use hedgerow_policy::queue::QueueConfig;
use hedgerow_worker::settings::{self as worker, Launch, Source};
use std::sync::Arc;
use std::time::Duration;

/// Healthy time after which earlier crashes of a worker are forgotten.
const HEALTHY_AFTER: Duration = Duration::from_secs(10);
/// Bytes of an answer that are read ahead of a slow client.
const ANSWER_BUFFER: usize = 1 << 20;
/// Longest line of a worker's output that is kept.
const OUTPUT_LINE: usize = 8 << 10;

/// The pool.
#[must_use]
pub fn pool(config: &Config) -> worker::Settings {
    let from = &config.worker;
    let supervised = from.sockets.is_empty();
    let source = if supervised {
        Source::Supervised(Launch {
            command: from.command.clone(),
            cwd: from.cwd.clone(),
            env: from.env.clone(),
            socket_dir: from.socket_dir.clone(),
            kill_grace: from.kill_grace,
        })
    } else {
        Source::Sockets(from.sockets.clone())
    };
    let size = if supervised { from.pool_size } else { from.sockets.len() };
    worker::Settings {
        source,
        pool: PoolConfig {
            size: u32::try_from(size).unwrap_or(u32::MAX),
            supervised,
            queue: queue(config),
            backoff: BackoffConfig {
                base: from.restart_backoff,
                max: from.restart_backoff_max,
                reset_after: HEALTHY_AFTER,
            },
            start_timeout: from.start_timeout,
            max_requests: from.max_requests.unwrap_or(0),
            max_requests_jitter: from.max_requests_jitter,
            max_rss: from.max_rss.unwrap_or(0),
        },
        connect_timeout: from.connect_timeout,
        read_timeout: from.read_timeout,
        stream_idle_timeout: from.stream_idle_timeout,
        answer_buffer: ANSWER_BUFFER,
        output_line_limit: OUTPUT_LINE,
    }
}

/// The queue in front of the pool.
pub(crate) fn queue(config: &Config) -> QueueConfig {
    let from = &config.worker;
    let queue = QueueConfig { capacity: from.queue_capacity, timeout: from.queue_timeout };
    if from.has_queue() { queue } else { QueueConfig::NONE }
}

/// The data plane.
#[must_use]
pub fn gateway(config: &Config) -> gateway::Settings {
    let server = &config.server;
    let failure = &config.failure;
    let tls = server.tls.as_ref();
    gateway::Settings {
        listen: server.listen,
        tls: tls.map(|tls| gateway::Tls { cert: tls.cert.clone(), key: tls.key.clone() }),
        http2: server.http2,
        max_connections: server.max_connections,
        header_timeout: server.header_timeout,
        body_timeout: server.body_timeout,
        keep_alive: server.keep_alive,
        request_timeout: server.request_timeout,
        drain: server.drain,
        body_limit: server.body_limit,
        body_memory: server.body_memory,
        spool_dir: None,
        trusted_proxies: server
            .trusted_proxies
            .iter()
            .map(|net| gateway::Network { addr: net.address, prefix: net.prefix })
            .collect(),
        header_prefix: failure.header_prefix.clone(),
        problem_json: failure.problem_json == config::ProblemJson::Accept,
        proxy_status: failure.proxy_status,
        expose_worker_exception: failure.expose_worker_exception,
        dispatch: config.worker.stream_dispatch.then_some(gateway::Dispatch {
            max_open: config.plan.max_open,
            state_limit: config.plan.state_limit,
            read_timeout: config.worker.read_timeout,
            silence: config.worker.stream_idle_timeout,
        }),
        routes: config.routes.iter().map(route).collect(),
    }
}

fn route(from: &config::Route) -> Route {
    Route {
        path: from.path.clone(),
        prefix: from.prefix,
        hosts: from.hosts.clone(),
        methods: from.methods.iter().filter_map(|m| m.parse().ok()).collect(),
        to: match &from.to {
            RouteTarget::Worker => Target::Worker,
            RouteTarget::Upstream(name) => Target::Upstream(name.clone()),
            RouteTarget::Static(root) => {
                Target::Static(Arc::new(Folder::new(root.clone(), &from.path)))
            }
        },
        request_timeout: from.request_timeout,
        body_timeout: from.body_timeout,
        body_limit: from.body_limit,
        read_timeout: from.read_timeout,
        queue_timeout: from.queue_timeout,
        stream_idle_timeout: from.stream_idle_timeout,
    }
}

/// Access lines and the event log.
#[must_use]
pub fn record(config: &Config) -> record::Settings {
    record::Settings {
        access: config.log.access,
        format: match config.log.format {
            config::LogFormat::Json => record::Format::Json,
            config::LogFormat::Text => record::Format::Text,
        },
        event_log: config.log.event_log.clone(),
        redact: config.log.redact,
        recent_limit: usize::try_from(config.log.recent_limit).unwrap_or(usize::MAX),
        traces: config.telemetry.otlp_endpoint.clone().map(|endpoint| traces::Settings {
            endpoint,
            sample: config.telemetry.otlp_sample,
            queue: config.telemetry.otlp_queue,
            service: config.telemetry.service_name.clone(),
        }),
        ..record::Settings::default()
    }
}

/// The admin listener.
#[must_use]
pub fn admin(config: &Config) -> admin::Settings {
    admin::Settings {
        listen: config.admin.listen,
        token: config.admin.token.as_ref().map(|token| token.reveal().to_owned()),
        metrics: config.telemetry.metrics,
        capabilities: vec![
            ("http", true),
            ("stream", true),
            ("stream_direct", true),
            ("stream_dispatch", config.worker.stream_dispatch),
            ("stream_upstream_plan", true),
        ],
        ..admin::Settings::default()
    }
}

/// The keys that differ and that a reload cannot put in force.
#[must_use]
pub fn read_at_start(old: &Config, new: &Config) -> Vec<&'static str> {
    let keys = [
        ("server.listen", old.server.listen != new.server.listen),
        ("server.max_connections", old.server.max_connections != new.server.max_connections),
        ("server.body_memory", old.server.body_memory != new.server.body_memory),
        ("[admin]", old.admin != new.admin),
        ("[log]", old.log != new.log),
        ("[telemetry]", old.telemetry != new.telemetry),
        ("cache.store", old.cache.store != new.cache.store),
        ("cache.tls_ca", old.cache.tls_ca != new.cache.tls_ca),
        ("cache.max_bytes", old.cache.max_bytes != new.cache.max_bytes),
        ("cache.key_prefix", old.cache.key_prefix != new.cache.key_prefix),
        ("cache.journal", old.cache.journal != new.cache.journal),
        ("cache.stale_ms", old.cache.stale != new.cache.stale),
        ("[cache.resp]", old.cache.resp != new.cache.resp),
    ];
    keys.into_iter().filter_map(|(key, differs)| differs.then_some(key)).collect()
}
