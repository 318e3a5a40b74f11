//! Calls out and the cache: accepted and checked; which of them run is in `config::lint`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::Secret;

/// What a call to an upstream may do: the keys that `[upstream.NAME]` and `[plan]` share.
#[derive(Clone, Debug, PartialEq)]
pub struct Calls {
    /// Limit for connecting.
    pub connect_timeout: Duration,
    /// Limit for the first data of a response; `None`: none.
    pub first_data_timeout: Option<Duration>,
    /// Longest silence after the response head; `None`: no limit.
    pub idle_timeout: Option<Duration>,
    /// Limit for all attempts together; `None`: none.
    pub total_timeout: Option<Duration>,
    /// Statuses that settle a key while a twin runs.
    pub definitive: Vec<u16>,
    /// Retries.
    pub retry: Retry,
    /// Hedging; `None`: none.
    pub hedge: Option<Hedge>,
    /// What hedges and retries may spend together.
    pub budget: Budget,
    /// The circuit breaker; `None`: none.
    pub breaker: Option<Breaker>,
    /// Bytes of a request body kept for a second attempt.
    pub buffer_limit: u64,
    /// Bytes of a response held before its attempt is committed.
    pub response_buffer_limit: u64,
    /// Largest request body, in bytes.
    pub body_limit: u64,
    /// When an endpoint is passed over for a while.
    pub demote: Demote,
    /// Hedges of one batch; `None`: no cap.
    pub batch_max_hedges: Option<u64>,
    /// Cost of one call, in the user's own unit.
    pub price_per_call: f64,
    /// The only authorities whose certificates are believed; `None`: the public ones.
    pub tls_ca: Option<PathBuf>,
    /// How HTTP is spoken.
    pub protocol: Protocol,
}

/// `[upstream.NAME]`
#[derive(Clone, Debug, PartialEq)]
pub struct Upstream {
    /// Base URLs, at least one (`url` gives one).
    pub endpoints: Vec<String>,
    /// How calls are made.
    pub calls: Calls,
}

/// How HTTP is spoken with an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/2 where TLS agrees on it, else HTTP/1.1.
    Auto,
    /// HTTP/1.1.
    Http1,
    /// HTTP/2 at once, without TLS too.
    Http2,
}

/// `retry`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Retries of one call; zero: none.
    pub max: u32,
    /// First pause.
    pub backoff: Duration,
    /// Longest pause.
    pub backoff_max: Duration,
    /// Statuses worth another attempt.
    pub statuses: Vec<u16>,
}

/// What wins a hedged call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The complete response.
    Full,
    /// The first data.
    FirstData,
    /// The response head.
    Headers,
}

/// What counts as a sign of progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Data of the body, without comments and pings.
    Data,
    /// Any byte.
    Bytes,
}

/// Whether twins are really started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HedgeMode {
    /// They are.
    On,
    /// They are only counted.
    Observe,
}

/// `hedge`
#[derive(Clone, Debug, PartialEq)]
pub struct Hedge {
    /// Silence since sending that starts a twin; with `after_quantile`, until samples are in.
    pub after: Option<Duration>,
    /// Quantile of past durations that starts a twin; `None`: only `after` and `idle` do.
    pub after_quantile: Option<f64>,
    /// Silence since the last progress that starts a twin.
    pub idle: Option<Duration>,
    /// Twins of one call.
    pub max: u32,
    /// What wins.
    pub answer: Answer,
    /// What counts as progress.
    pub progress: Progress,
    /// Whether methods that are not safe to repeat are hedged.
    pub non_idempotent: bool,
    /// Whether twins are started or only counted.
    pub mode: HedgeMode,
    /// Least time that must be left for a twin to be useful.
    pub min_useful: Duration,
    /// Least threshold that a quantile may give.
    pub floor: Duration,
    /// Samples before the quantile is believed.
    pub min_samples: u32,
}

/// `budget`
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Hedges and retries for each call, 0 to 1.
    pub ratio: f64,
    /// And this many more.
    pub burst: u32,
}

/// `breaker`
#[derive(Clone, Debug, PartialEq)]
pub struct Breaker {
    /// Length of the window.
    pub window: Duration,
    /// Share of failures that opens it, above 0, at most 1.
    pub failure_ratio: f64,
    /// Calls in the window below which it never opens.
    pub min_throughput: u32,
    /// How long it stays open.
    pub open: Duration,
    /// Successes in half-open that close it.
    pub success_threshold: u32,
    /// Probes at once in half-open.
    pub half_open_probes: u32,
}

/// `demote`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demote {
    /// Times an endpoint had to be hedged against.
    pub after: u32,
    /// For how long it is passed over.
    pub cooldown: Duration,
}

/// `[plan]`
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Hosts a bare URL may name: `host`, `host:port`, `*.example.org`, CIDR.
    pub allow_hosts: Vec<String>,
    /// Whether `fixture_path` works.
    pub allow_fixtures: bool,
    /// Folder of the fixtures; `None` without them.
    pub fixture_root: Option<PathBuf>,
    /// Plans and batches at once.
    pub max_open: usize,
    /// Largest `state` of a batch, in bytes.
    pub state_limit: u64,
    /// Largest results of one batch, in bytes.
    pub results_limit: u64,
    /// How calls to a bare URL are made.
    pub calls: Calls,
}

/// `[egress]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Egress {
    /// Where the application connects, loopback only; `None`: off.
    pub listen: Option<SocketAddr>,
}

/// Where the cache keeps its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheStore {
    /// In this process.
    Memory,
    /// A Redis or Valkey at this URL (it may contain a password).
    Redis(Secret),
}

/// `[cache]`
#[derive(Clone, Debug, PartialEq)]
pub struct Cache {
    /// Where values are kept.
    pub store: CacheStore,
    /// Authorities trusted beside those that browsers trust; `None`: none.
    pub tls_ca: Option<PathBuf>,
    /// Size of the memory store, in bytes.
    pub max_bytes: u64,
    /// Limit of one call.
    pub call_timeout: Duration,
    /// Limit for connecting.
    pub connect_timeout: Duration,
    /// Silence, while answers are owed, that ends a connection.
    pub liveness_timeout: Duration,
    /// What `resume` removes.
    pub key_prefix: String,
    /// The circuit breaker.
    pub breaker: CacheBreaker,
    /// The canary; `None`: none.
    pub canary: Option<Canary>,
    /// Invalidations that could not be sent.
    pub journal: Journal,
    /// Age up to which reads are answered from memory while shed; zero: never.
    pub stale: Duration,
    /// The Redis-protocol port.
    pub resp: Resp,
}

/// `cache.breaker`
#[derive(Clone, Debug, PartialEq)]
pub struct CacheBreaker {
    /// As for upstreams.
    pub breaker: Breaker,
    /// Silence that opens it at once; `None`: off.
    pub stall: Option<Duration>,
    /// Answers owed at least, for that.
    pub stall_outstanding: u32,
}

/// `cache.canary`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Canary {
    /// First pause.
    pub interval: Duration,
    /// Longest pause.
    pub max_interval: Duration,
    /// Good ones in a row that end an episode.
    pub successes: u32,
    /// Whether they may end it early.
    pub early_close: bool,
}

/// What happens when the journal is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalOverflow {
    /// Reads stay shed until an operator resumes.
    StayShed,
    /// The database is flushed.
    Flush,
}

/// `cache.journal`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journal {
    /// Keys it holds.
    pub capacity: usize,
    /// File that keeps it across restarts; `None`: memory only.
    pub file: Option<PathBuf>,
    /// When it is full.
    pub overflow: JournalOverflow,
}

/// What a shed read of the port is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shed {
    /// A miss of its kind.
    Fallback,
    /// An error reply.
    Error,
}

/// `[cache.resp]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resp {
    /// Where Redis clients connect; `None`: off.
    pub listen: Option<SocketAddr>,
    /// The password; `None` only on a loopback address.
    pub password: Option<Secret>,
    /// Clients at once.
    pub max_clients: usize,
    /// Bytes of replies waiting for one client.
    pub output_limit: u64,
    /// Bytes of commands that one client has sent and that were not taken yet.
    pub input_limit: u64,
    /// Bytes of commands and replies held for all clients together.
    pub total_limit: u64,
    /// What a shed read is answered.
    pub shed: Shed,
}
