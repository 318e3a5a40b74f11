//! The document's sections for calls out and for the cache.

use std::path::PathBuf;

use super::Count;
use crate::config::field::{Flat, OrFalse, Set, Sub, options};
use crate::config::model::{Answer, HedgeMode, JournalOverflow, Progress, Protocol, Secret, Shed};
use crate::config::value::{
    Bytes, Endpoint, HostPattern, Int, List, MaybeAddress, Millis, PositiveMillis, Real, StoreUrl,
};

/// An HTTP status.
pub(crate) type Status = Int<100, 599>;
/// Twins or retries of one call.
pub(crate) type Attempts = Int<0, 16>;
/// Calls, samples, successes.
pub(crate) type Several = Int<1, 1_000_000>;

options! {
    /// An HTTP service that the application calls.
    Upstream {
        /// Its base URL; either this or `endpoints`.
        url: Option<Set<Endpoint>>;
        /// Base URLs of equal endpoints.
        endpoints: Set<List<Endpoint>> = [];
        /// How calls are made.
        calls: Flat<Calls>;
    }

    /// How calls are made.
    Calls {
        /// Limit for connecting.
        connect_timeout_ms: Set<PositiveMillis> = 1000;
        /// Limit for the first data of a response, since the last piece of its request was sent; 0 is none.
        first_data_timeout_ms: Set<Millis> = 0;
        /// Longest silence after the response head; 0 is no limit.
        idle_timeout_ms: Set<Millis> = 60000;
        /// Limit for all attempts of a call together; 0 is none.
        total_timeout_ms: Set<Millis> = 0;
        /// Statuses that settle a key while a twin runs.
        definitive: Set<List<Status>> = [];
        /// Further attempts after a failure.
        retry: Sub<Retry>;
        /// A twin beside a call that has gone quiet; absent: no hedging.
        hedge: Option<Sub<Hedge>>;
        /// What hedges and retries may spend together.
        budget: Sub<Budget>;
        /// The circuit breaker; absent: none.
        breaker: Option<Sub<Breaker>>;
        /// Largest request body kept for a second attempt.
        buffer_limit: Set<Bytes> = "64KiB";
        /// Response held back with `answer = "full"`; past it the attempt is committed.
        response_buffer_limit: Set<Bytes> = "1MiB";
        /// Largest request body.
        body_limit: Set<Bytes> = "10MiB";
        /// When an endpoint is passed over for a while.
        demote: Sub<Demote>;
        /// Hedges of one batch; 0 is no cap.
        batch_max_hedges: Set<Int<0, 1_000_000>> = 0;
        /// What calls cost, for the ledger.
        price: Sub<Price>;
        /// PEM file of the only authorities whose certificates are believed; absent: the public ones.
        tls_ca: Option<Set<PathBuf>>;
        /// How HTTP is spoken; `auto` is HTTP/2 where TLS agrees on it, and `http2` needs no TLS.
        protocol: Set<Protocol> = "auto";
    }

    /// Further attempts after a failure.
    Retry {
        /// Retries of one call.
        max: Set<Attempts> = 0;
        /// First pause.
        backoff_ms: Set<Millis> = 100;
        /// Longest pause.
        backoff_max_ms: Set<Millis> = 5000;
        /// Statuses that are worth another attempt.
        statuses: Set<List<Status>> = [429, 502, 503, 504];
    }

    /// A twin beside a call that has gone quiet.
    Hedge {
        /// Silence since sending that starts a twin; with `after_quantile`, only until there are samples.
        after_ms: Option<Set<PositiveMillis>>;
        /// Quantile of past durations that starts a twin; 0.95 where neither this, `after_ms` nor `idle_ms` is set.
        after_quantile: Option<Set<Real<1, false>>>;
        /// Silence since the last progress that starts a twin.
        idle_ms: Option<Set<PositiveMillis>>;
        /// Twins of one call.
        max: Set<Int<1, 16>> = 1;
        /// What wins: the whole response, its first data, or its head.
        answer: Set<Answer> = "full";
        /// What counts as progress: data, or any byte.
        progress: Set<Progress> = "data";
        /// Whether methods that are not safe to repeat are hedged too.
        non_idempotent: Set<bool> = false;
        /// Whether twins are started, or only counted.
        mode: Set<HedgeMode> = "on";
        /// Least time that must be left for a twin.
        min_useful_ms: Set<Millis> = 0;
        /// Least threshold that a quantile may give.
        floor_ms: Set<Millis> = 10;
        /// Samples before the quantile is believed.
        min_samples: Set<Several> = 20;
    }

    /// What hedges and retries may spend together.
    Budget {
        /// Hedges and retries for each call in the window.
        ratio: Set<Real<1, true>> = 0.1;
        /// And this many more.
        burst: Set<Int<0, 1_000_000>> = 3;
    }

    /// A circuit breaker.
    Breaker {
        /// Length of its window.
        window_ms: Set<PositiveMillis> = 10000;
        /// Share of failures that opens it.
        failure_ratio: Set<Real<1, false>> = 0.5;
        /// Calls in the window below which it never opens.
        min_throughput: Set<Several> = 20;
        /// How long it stays open.
        open_ms: Set<PositiveMillis> = 30000;
        /// Successes in half-open that close it.
        success_threshold: Set<Several> = 2;
        /// Probes at once in half-open.
        half_open_probes: Set<Several> = 1;
    }

    /// When an endpoint is passed over.
    Demote {
        /// Times it had to be hedged against.
        after: Set<Several> = 3;
        /// For how long it is passed over.
        cooldown_ms: Set<PositiveMillis> = 30000;
    }

    /// What calls cost.
    Price {
        /// Cost of one call, in a unit of your choice.
        per_call: Set<Real<1_000_000, true>> = 0.0;
    }

    /// What plans and batches may do.
    Plan {
        /// Hosts that a bare URL may name; none by default.
        allow_hosts: Set<List<HostPattern>> = [];
        /// Whether `fixture_path` works.
        allow_fixtures: Set<bool> = false;
        /// Folder of the fixtures.
        fixture_root: Set<String> = "";
        /// Plans and batches at once.
        max_open: Set<Count> = 10000;
        /// Largest state of a batch.
        state_limit: Set<Bytes> = "256KiB";
        /// Largest results of one batch.
        results_limit: Set<Bytes> = "8MiB";
        /// How calls to a bare URL are made.
        calls: Flat<Calls>;
    }

    /// The listener through which the application calls its upstreams.
    Egress {
        /// Where the application connects, on a loopback address; empty: off.
        listen: Set<MaybeAddress> = "";
    }

    /// The guarded cache.
    Cache {
        /// Where values are kept.
        store: Set<StoreUrl> = "memory";
        /// PEM file of authorities that are trusted, beside those that browsers trust, to vouch for a
        /// store at rediss://.
        tls_ca: Set<String> = "";
        /// Size of the memory store.
        max_bytes: Set<Bytes> = "256MiB";
        /// Limit of one call to the store.
        call_timeout_ms: Set<PositiveMillis> = 100;
        /// Limit for connecting to the store.
        connect_timeout_ms: Set<PositiveMillis> = 1000;
        /// Silence, while answers are owed, that ends a connection.
        liveness_timeout_ms: Set<PositiveMillis> = 5000;
        /// Prefix of the keys that a resume removes.
        key_prefix: Set<String> = "";
        /// The circuit breaker of the store.
        breaker: Sub<CacheBreaker>;
        /// The probe that notices when the store is back; `false`: none.
        canary: OrFalse<Canary>;
        /// Invalidations that could not be sent.
        journal: Sub<Journal>;
        /// Age up to which reads are answered from memory while shed; 0 is never.
        stale_ms: Set<Millis> = 0;
        /// The port for Redis clients.
        resp: Sub<Resp>;
    }

    /// The circuit breaker of the store.
    CacheBreaker {
        /// The keys of every breaker.
        breaker: Flat<Breaker>;
        /// Silence that opens it at once while answers are owed; absent: four fifths of `call_timeout_ms`, at most 250; 0 is off.
        stall_ms: Option<Set<Millis>>;
        /// Answers owed at least, for that.
        stall_outstanding: Set<Several> = 10;
    }

    /// The probe that notices when the store is back.
    Canary {
        /// First pause between two.
        interval_ms: Set<PositiveMillis> = 100;
        /// Longest pause between two.
        max_interval_ms: Set<PositiveMillis> = 1000;
        /// Good ones in a row that end an episode.
        successes: Set<Several> = 3;
        /// Whether they may end it before the breaker's own time.
        early_close: Set<bool> = true;
    }

    /// Invalidations that could not be sent.
    Journal {
        /// Keys it holds.
        capacity: Set<Count> = 100000;
        /// File that keeps it across restarts; empty: memory only.
        file: Set<String> = "";
        /// When it is full: reads stay shed, or the database is flushed.
        overflow: Set<JournalOverflow> = "stay_shed";
    }

    /// The port for Redis clients.
    Resp {
        /// Where Redis clients connect; empty: off.
        listen: Set<MaybeAddress> = "";
        /// The password; it may be empty only on a loopback address.
        password: Set<Secret> = "";
        /// Clients at once.
        max_clients: Set<Count> = 10000;
        /// Replies waiting for one client.
        output_limit: Set<Bytes> = "64MiB";
        /// Bytes of commands that one client has sent and that were not taken yet: its largest command.
        input_limit: Set<Bytes> = "512MiB";
        /// Commands and replies held for all clients together, beyond the first 64 KiB of each. Who asks for more when it is used up is told so; others notice nothing.
        total_limit: Set<Bytes> = "1GiB";
        /// What a shed read is answered: as a miss, or with an error.
        shed: Set<Shed> = "fallback";
    }
}

/// The path in a key whose empty text means none.
pub(crate) fn path_or_none(text: &str) -> Option<PathBuf> {
    (!text.is_empty()).then(|| PathBuf::from(text))
}
