//! What the rest of the program works with. Durations, bytes and addresses, never text.
//!
//! A zero that means "off" in the file is `None` here, so that nobody has to remember it.

mod calls;
mod secret;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

pub use calls::*;
pub use secret::{Network, Secret};

/// Everything Hedgerow was told, with defaults filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The listener for clients.
    pub server: Server,
    /// The pool of application processes.
    pub worker: Worker,
    /// The PHP shorthand as given; [`Worker::command`] and [`Worker::env`] already contain it.
    pub php: Php,
    /// How failures look to clients.
    pub failure: Failure,
    /// The admin listener.
    pub admin: Admin,
    /// Access line and event log.
    pub log: Log,
    /// Metrics and traces.
    pub telemetry: Telemetry,
    /// Routes in the order of the file; none means that everything goes to the worker.
    pub routes: Vec<Route>,
    /// Upstreams by name.
    pub upstreams: BTreeMap<String, Upstream>,
    /// What plans and batches of workers may do.
    pub plan: Plan,
    /// The listener for calls of the application.
    pub egress: Egress,
    /// The guarded cache.
    pub cache: Cache,
}

impl Config {
    /// Whether `server.listen` is opened: something answers there, workers or a route elsewhere.
    #[must_use]
    pub fn serves(&self) -> bool {
        self.worker.is_set() || self.routes.iter().any(|route| route.to != RouteTarget::Worker)
    }
}

/// `[server]`
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// From the complete request until the answer.
    pub request_timeout: Duration,
    /// Largest request body, in bytes.
    pub body_limit: u64,
    /// How long a request head may take.
    pub header_timeout: Duration,
    /// How long a request body may take.
    pub body_timeout: Duration,
    /// How long an idle connection is kept.
    pub keep_alive: Duration,
    /// How long a stop waits for requests in flight.
    pub drain: Duration,
    /// Peers whose forwarding headers are believed.
    pub trusted_proxies: Vec<Network>,
    /// Client connections at once.
    pub max_connections: usize,
    /// Bytes of request bodies held in memory at once; past it they spool to disk.
    pub body_memory: u64,
    /// Certificate and key; `None` is plain HTTP.
    pub tls: Option<Tls>,
    /// Whether HTTP/2 is offered.
    pub http2: bool,
}

/// `server.tls`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// PEM file of the certificate chain.
    pub cert: PathBuf,
    /// PEM file of the private key.
    pub key: PathBuf,
}

/// How a worker is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerKind {
    /// Length-prefixed JSON frames (CONTRACT 4).
    Frames,
}

/// `[worker]`
#[derive(Clone, Debug, PartialEq)]
pub struct Worker {
    /// Program and arguments, split already; empty when `sockets` is used or nothing runs.
    pub command: Vec<String>,
    /// How a worker is spoken to.
    pub kind: WorkerKind,
    /// Number of workers, at least one.
    pub pool_size: usize,
    /// Folder for the sockets, absolute; `None`: make a private one for this run.
    pub socket_dir: Option<PathBuf>,
    /// Working directory of the workers, absolute; `None`: that of Hedgerow.
    pub cwd: Option<PathBuf>,
    /// Environment added for the workers (`VHTTPD_APP` of the PHP shorthand included).
    pub env: BTreeMap<String, String>,
    /// Limit for connecting to a worker.
    pub connect_timeout: Duration,
    /// Limit for the answer of a worker.
    pub read_timeout: Duration,
    /// Limit for a worker to become ready.
    pub start_timeout: Duration,
    /// Longest silence inside a stream of a worker.
    pub stream_idle_timeout: Duration,
    /// Requests that may wait; zero: none waits.
    pub queue_capacity: usize,
    /// Longest wait; zero: none waits.
    pub queue_timeout: Duration,
    /// Requests after which a worker is replaced; `None`: never.
    pub max_requests: Option<u64>,
    /// Random share by which `max_requests` differs between workers, 0 to 1.
    pub max_requests_jitter: f64,
    /// Resident bytes after which a worker is replaced; `None`: never.
    pub max_rss: Option<u64>,
    /// First pause after a crash.
    pub restart_backoff: Duration,
    /// Longest pause after crashes.
    pub restart_backoff_max: Duration,
    /// From the polite signal to the kill.
    pub kill_grace: Duration,
    /// Whether streams are offered to the worker one step at a time.
    pub stream_dispatch: bool,
    /// Sockets of workers someone else starts; absolute.
    pub sockets: Vec<PathBuf>,
    /// Requests one worker serves at once; always 1 for frames.
    pub concurrency: usize,
}

impl Worker {
    /// Whether there is anything to send a request to.
    #[must_use]
    pub fn is_set(&self) -> bool {
        !self.command.is_empty() || !self.sockets.is_empty()
    }

    /// Whether requests may wait at all: both a capacity and a timeout are set.
    #[must_use]
    pub fn has_queue(&self) -> bool {
        self.queue_capacity > 0 && !self.queue_timeout.is_zero()
    }
}

/// `[php]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Php {
    /// The PHP program.
    pub bin: String,
    /// The worker script that was found or named; `None` without `app`.
    pub worker: Option<PathBuf>,
    /// The application file, absolute; `None`: the shorthand is not used.
    pub app: Option<PathBuf>,
    /// Arguments of PHP itself, before the worker script.
    pub args: Vec<String>,
}

/// When a failure is answered as `application/problem+json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProblemJson {
    /// Where `Accept` names it.
    Accept,
    /// Never.
    Never,
}

/// `[failure]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// First part of the header names, lower case, without the last hyphen.
    pub header_prefix: String,
    /// When the JSON form is sent.
    pub problem_json: ProblemJson,
    /// Whether `Proxy-Status` is sent.
    pub proxy_status: bool,
    /// Whether the class name of a worker's exception is sent.
    pub expose_worker_exception: bool,
}

/// `[admin]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    /// Where operators connect.
    pub listen: SocketAddr,
    /// The token; `None` only on a loopback address.
    pub token: Option<Secret>,
}

/// Form of the access line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

/// `[log]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// Form of the access line.
    pub format: LogFormat,
    /// Whether the access line is written.
    pub access: bool,
    /// File of the event log; `None`: none is written.
    pub event_log: Option<PathBuf>,
    /// File of the ledger of calls; `None`: none is written.
    pub ledger: Option<PathBuf>,
    /// Bytes of the newest events kept in memory; zero: none.
    pub recent_limit: u64,
    /// Whether messages of the application are masked.
    pub redact: bool,
}

/// `[telemetry]`
#[derive(Clone, Debug, PartialEq)]
pub struct Telemetry {
    /// Where traces are sent; `None`: nowhere.
    pub otlp_endpoint: Option<String>,
    /// Share of new traces that are sent, 0 to 1.
    pub otlp_sample: f64,
    /// Requests and calls that may wait to be sent.
    pub otlp_queue: usize,
    /// What this gateway is called in them.
    pub service_name: String,
    /// Whether `/metrics` is served.
    pub metrics: bool,
}

/// Where a route leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteTarget {
    /// The worker pool.
    Worker,
    /// The upstream of this name.
    Upstream(String),
    /// Files below this folder.
    Static(PathBuf),
}

/// `[[route]]`; what is `None` is as in `[server]` or `[worker]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// The path, or a prefix when it ended in `*` (the `*` is removed).
    pub path: String,
    /// Whether `path` is a prefix.
    pub prefix: bool,
    /// Hosts, lower case; empty: all.
    pub hosts: Vec<String>,
    /// Methods, upper case; empty: all.
    pub methods: Vec<String>,
    /// Where it leads.
    pub to: RouteTarget,
    /// Overrides `server.request_timeout_ms`.
    pub request_timeout: Option<Duration>,
    /// Overrides `server.body_timeout_ms`.
    pub body_timeout: Option<Duration>,
    /// Overrides `worker.read_timeout_ms`.
    pub read_timeout: Option<Duration>,
    /// Overrides `worker.queue_timeout_ms`.
    pub queue_timeout: Option<Duration>,
    /// Overrides `worker.stream_idle_timeout_ms`.
    pub stream_idle_timeout: Option<Duration>,
    /// Overrides `server.body_limit`, in bytes.
    pub body_limit: Option<u64>,
    /// Response cache; `None`: none.
    pub cache: Option<RouteCache>,
}

/// `cache` of a route
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteCache {
    /// How long an answer is fresh; `None`: as the answer says.
    pub ttl: Option<Duration>,
    /// How long it may be served after that; zero: not at all.
    pub stale: Duration,
}
