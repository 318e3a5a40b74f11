//! The document, as it is written: every key of every section, defined here and nowhere else.

pub(crate) mod calls;

use std::path::PathBuf;

use super::field::{Many, Named, Reserved, Set, Sub, options};
use super::model::{LogFormat, Network, ProblemJson, Secret, WorkerKind};
use super::value::{
    Address, Bytes, HeaderPrefix, Host, Int, List, Map, Method, Millis, OneOrMany, PositiveMillis,
    QueueLength, QueueMillis, Real,
};
use calls::{Cache, Egress, Plan, Upstream};

/// A count of connections, clients and the like.
pub(crate) type Count = Int<1, 10_000_000>;

options! {
    /// The whole document.
    Document {
        /// The listener for clients.
        server: Sub<Server>;
        /// The pool of application processes.
        worker: Sub<Worker>;
        /// Kept for further pools.
        pool: Reserved;
        /// Shorthand for a PHP application: it builds `worker.command`.
        php: Sub<Php>;
        /// How failures look to clients.
        failure: Sub<Failure>;
        /// The listener for operators.
        admin: Sub<Admin>;
        /// Access line and event log.
        log: Sub<Log>;
        /// Metrics and traces.
        telemetry: Sub<Telemetry>;
        /// Where requests go, first match first; without any, everything goes to the worker.
        route: Many<Route>;
        /// An HTTP service that the application calls; `NAME` is of your choice.
        upstream: Named<Upstream>;
        /// What plans and batches of workers may do; its other keys are those of an upstream.
        plan: Sub<Plan>;
        /// The listener through which the application calls its upstreams.
        egress: Sub<Egress>;
        /// The guarded cache.
        cache: Sub<Cache>;
    }

    /// The listener for clients.
    Server {
        /// Where clients connect.
        listen: Set<Address> = "127.0.0.1:8080";
        /// From the complete request until the answer, or until a stream, plan or batch is accepted: then their own limits rule.
        request_timeout_ms: Set<PositiveMillis> = 5000;
        /// Largest request body.
        body_limit: Set<Bytes> = "10MiB";
        /// How long a request head may take to arrive.
        header_timeout_ms: Set<PositiveMillis> = 10000;
        /// How long a request body may take to arrive.
        body_timeout_ms: Set<PositiveMillis> = 30000;
        /// How long an idle client connection is kept.
        keep_alive_ms: Set<PositiveMillis> = 75000;
        /// How long a stop or a reload waits for requests in flight.
        drain_ms: Set<Millis> = 10000;
        /// Peers whose forwarding headers are believed.
        trusted_proxies: Set<List<Network>> = [];
        /// Client connections at once.
        max_connections: Set<Count> = 10000;
        /// Request bodies held in memory at once; past it they spool to disk.
        body_memory: Set<Bytes> = "256MiB";
        /// Certificate and key for HTTPS; absent, it is plain HTTP.
        tls: Option<Sub<Tls>>;
        /// Whether HTTP/2 is offered.
        http2: Set<bool> = true;
    }

    /// Certificate and key for HTTPS.
    Tls {
        /// PEM file of the certificate chain.
        cert: Option<Set<PathBuf>>;
        /// PEM file of the private key.
        key: Option<Set<PathBuf>>;
    }

    /// The pool of application processes.
    Worker {
        /// Program and arguments, split as a shell splits words; no shell runs.
        command: Set<String> = "";
        /// How a worker is spoken to.
        kind: Set<WorkerKind> = "frames";
        /// Number of workers; 0 is the number of CPUs.
        pool_size: Set<Int<0, 4096>> = 4;
        /// Folder for the workers' sockets; absent, a private one is made for each run.
        socket_dir: Option<Set<PathBuf>>;
        /// Working directory of the workers; absent, that of Hedgerow.
        cwd: Option<Set<PathBuf>>;
        /// Variables added to the environment of the workers; they win over what Hedgerow sets.
        env: Set<Map> = {};
        /// Limit for connecting to a worker.
        connect_timeout_ms: Set<PositiveMillis> = 200;
        /// Limit for the answer of a worker; one that runs past it is replaced.
        read_timeout_ms: Set<PositiveMillis> = 3000;
        /// Limit for a worker to become ready.
        start_timeout_ms: Set<PositiveMillis> = 5000;
        /// Longest silence inside a stream of a worker.
        stream_idle_timeout_ms: Set<PositiveMillis> = 60000;
        /// Requests that may wait for a worker; zero or less: none waits.
        queue_capacity: Set<QueueLength> = 0;
        /// Longest wait for a worker; zero or less: none waits.
        queue_timeout_ms: Set<QueueMillis> = 0;
        /// Requests after which a worker is replaced; 0 is never.
        max_requests: Set<Int<0, 1_000_000_000>> = 0;
        /// Random share by which `max_requests` differs, so that workers are not replaced all at once.
        max_requests_jitter: Set<Real<1, true>> = 0.1;
        /// Resident memory after which a worker is replaced; 0 is never.
        max_rss: Set<Bytes> = 0;
        /// First pause after a crash or a failed start.
        restart_backoff_ms: Set<PositiveMillis> = 500;
        /// Longest pause after crashes or failed starts.
        restart_backoff_max_ms: Set<PositiveMillis> = 8000;
        /// From the polite signal to the kill.
        kill_grace_ms: Set<Millis> = 200;
        /// Whether a stream is offered to the worker one step at a time.
        stream_dispatch: Set<bool> = false;
        /// Sockets of workers that someone else starts: same queue, same accounting, no supervision.
        sockets: Set<List<PathBuf>> = [];
        /// Requests one worker serves at once; frames always serve one.
        concurrency: Set<Int<1, 100_000>> = 1;
    }

    /// Shorthand for a PHP application.
    Php {
        /// The PHP program.
        bin: Set<String> = "php";
        /// The worker script; absent, the packaged one is looked for.
        worker: Option<Set<PathBuf>>;
        /// The application file, handed to the worker as `VHTTPD_APP`; empty: the shorthand is off.
        app: Set<String> = "";
        /// Arguments of PHP itself.
        args: Set<List<String>> = [];
    }

    /// How failures look to clients.
    Failure {
        /// First part of the names of the failure headers.
        header_prefix: Set<HeaderPrefix> = "x-vhttpd";
        /// Whether a failure is JSON (RFC 9457) where the client's Accept names it.
        problem_json: Set<ProblemJson> = "accept";
        /// Whether failures carry Proxy-Status (RFC 9209).
        proxy_status: Set<bool> = true;
        /// Whether the class name of a worker's exception reaches the client.
        expose_worker_exception: Set<bool> = true;
    }

    /// The listener for operators.
    Admin {
        /// Where operators connect.
        listen: Set<Address> = "127.0.0.1:9080";
        /// The token they must send; it may be empty only on a loopback address.
        token: Set<Secret> = "";
    }

    /// Access line and event log.
    Log {
        /// Form of the access line.
        format: Set<LogFormat> = "json";
        /// Whether each request writes an access line.
        access: Set<bool> = true;
        /// File of the event log; empty: none.
        event_log: Set<String> = "";
        /// File of the ledger of calls, a line of JSON for each; it grows until it is moved away, and SIGHUP opens it anew; empty: none.
        ledger: Set<String> = "";
        /// Newest events kept in memory, for `hedgerow explain` and `/admin/events`; 0: none.
        recent_limit: Set<Bytes> = "4MiB";
        /// Whether messages of the application are masked in the log.
        redact: Set<bool> = false;
    }

    /// Metrics and traces.
    Telemetry {
        /// The collector that traces are sent to (OTLP over HTTP, `/v1/traces` behind it); empty: nowhere.
        otlp_endpoint: Set<String> = "";
        /// Share of new traces that are sent; one that a caller began is sent where the caller's flag says so.
        otlp_sample: Set<Real<1, true>> = 1.0;
        /// Requests and calls that may wait to be sent; what does not fit is dropped and counted.
        otlp_queue: Set<Count> = 4096;
        /// What this gateway is called in traces (`service.name`).
        service_name: Set<String> = "hedgerow";
        /// Whether the admin listener serves `/metrics`.
        metrics: Set<bool> = true;
    }

    /// Where requests go.
    Route {
        /// The path; a last `*` makes it a prefix, beneath which the path must stay (no `..`).
        path: Option<Set<String>>;
        /// Hosts it is for; absent: all.
        host: Option<Set<OneOrMany<Host>>>;
        /// Methods it is for; absent: all.
        method: Option<Set<OneOrMany<Method>>>;
        /// `worker`, `upstream:NAME`, or `static`.
        to: Set<String> = "worker";
        /// Folder of the files, for `static`.
        root: Option<Set<PathBuf>>;
        /// In place of `server.request_timeout_ms`.
        request_timeout_ms: Option<Set<PositiveMillis>>;
        /// In place of `server.body_timeout_ms`.
        body_timeout_ms: Option<Set<PositiveMillis>>;
        /// In place of `worker.read_timeout_ms`.
        read_timeout_ms: Option<Set<PositiveMillis>>;
        /// In place of `worker.queue_timeout_ms`.
        queue_timeout_ms: Option<Set<QueueMillis>>;
        /// In place of `worker.stream_idle_timeout_ms`.
        stream_idle_timeout_ms: Option<Set<PositiveMillis>>;
        /// In place of `server.body_limit`.
        body_limit: Option<Set<Bytes>>;
        /// Response cache of this route; absent: none.
        cache: Option<Sub<RouteCache>>;
    }

    /// Response cache of a route.
    RouteCache {
        /// How long an answer is fresh; 0 is as the answer says.
        ttl_ms: Set<Millis> = 0;
        /// How long it may still be served after that.
        stale_ms: Set<Millis> = 0;
    }
}
