//! Calls out: upstreams, hedges, plans, the ledger, the egress port; and all circuits.

use super::{Bound, Part};

pub(crate) const PART: Part = Part {
    title: "Beside: calls to upstreams",
    about: "`upstream` is a name of the configuration; calls to bare URLs are `url`, \
            all together, once there was one. Attempts are calls, hedges and retries. A \
            circuit is named `cache`, or as its upstream; where an upstream has several endpoints, \
            each has a circuit, and its address stands behind the name.",
    metrics: METRICS,
    bounds: &[
        Bound {
            what: "Plans and batches",
            held: &PLANS_OPEN,
            limit: &PLANS_OPEN_LIMIT,
            beyond: Some(&PLAN_ERRORS),
            set_by: "plan.max_open",
        },
        Bound {
            what: "The usage ledger",
            held: &LEDGER_KEYS,
            limit: &LEDGER_KEYS_LIMIT,
            beyond: None,
            set_by: "200",
        },
        Bound {
            what: "Streams of HTTP/2 to an upstream",
            held: &H2_STREAMS,
            limit: &H2_STREAMS_LIMIT,
            beyond: None,
            set_by: "100 a connection, then another is opened",
        },
        Bound {
            what: "Idle connections to an upstream",
            held: &IDLE_CONNECTIONS,
            limit: &IDLE_CONNECTIONS_LIMIT,
            beyond: None,
            set_by: "128 an endpoint",
        },
        Bound {
            what: "Hosts of bare URLs that are remembered",
            held: &PLAN_ORIGINS,
            limit: &PLAN_ORIGINS_LIMIT,
            beyond: None,
            set_by: "256",
        },
        Bound {
            what: "Connections to the egress port",
            held: &EGRESS_CONNECTIONS,
            limit: &EGRESS_CONNECTIONS_LIMIT,
            beyond: None,
            set_by: "server.max_connections",
        },
    ],
};

metrics! {
    CALLS: Counter Count "upstream_calls" ["upstream", "outcome"]
        "Calls to upstreams that are settled, by outcome";
    DURATION: Histogram Seconds "upstream_call_duration" ["upstream"]
        "From the start of a call to an upstream until it was settled";
    ATTEMPTS: Counter Count "upstream_attempts" ["upstream", "role"]
        "Attempts, by role: calls, hedges and retries";
    PENDING: Gauge Count "upstream_attempts_in_flight" ["upstream"] "Attempts under way";
    HEDGES: Counter Count "hedges" ["upstream", "outcome"] "Hedges that have ended, by outcome";
    SUPPRESSED: Counter Count "hedges_suppressed" ["upstream", "reason"]
        "Hedges that were not started, by reason";
    OBSERVED: Counter Count "hedges_observed" ["upstream"]
        "Hedges that would have been started, were they not only observed";
    THRESHOLD: Gauge Seconds "hedge_threshold" ["upstream"]
        "How long a call is silent before its twin is started, at present";
    SAVED: Counter Seconds "hedge_saved" ["upstream"] "Time that hedges have saved, at least";
    RETRIES: Counter Count "upstream_retries" ["upstream"] "Retries started";
    BUDGET_LEFT: Gauge Count "upstream_budget_left" ["upstream"]
        "Hedges and retries that may be started right now";
    IDLE_CONNECTIONS: Gauge Count "upstream_idle_connections" ["upstream"]
        "HTTP/1 connections at hand, over all endpoints";
    IDLE_CONNECTIONS_LIMIT: Gauge Count "upstream_idle_connections_limit" ["upstream"]
        "HTTP/1 connections that are kept at hand, over all endpoints";
    H2_CONNECTIONS: Gauge Count "upstream_http2_connections" ["upstream"]
        "HTTP/2 connections, over all endpoints";
    H2_STREAMS: Gauge Count "upstream_http2_streams" ["upstream"]
        "Streams open on the HTTP/2 connections";
    H2_STREAMS_LIMIT: Gauge Count "upstream_http2_streams_limit" ["upstream"]
        "Streams that the open HTTP/2 connections may have";
    BREAKER_STATE: Gauge Count "breaker_state" ["name"]
        "State of a circuit: 0 closed, 1 half-open, 2 open";
    BREAKER_TRANSITIONS: Counter Count "breaker_transitions" ["name", "from", "to"]
        "Moves of a circuit, by where from and where to";
    PLANS: Counter Count "plans" [] "Plans and batches that workers asked for";
    PLAN_ERRORS: Counter Count "plan_errors" [] "Plans and batches that failed, refused ones too";
    PLANS_OPEN: Gauge Count "plans_open" [] "Plans and batches that are open";
    PLANS_OPEN_LIMIT: Gauge Count "plans_open_limit" [] "Plans and batches that may be open";
    PLAN_ORIGINS: Gauge Count "plan_origins" [] "Hosts of bare URLs whose past is remembered";
    PLAN_ORIGINS_LIMIT: Gauge Count "plan_origins_limit" []
        "Hosts of bare URLs that are remembered; the one used least recently goes first";
    LEDGER_KEYS: Gauge Count "ledger_keys" [] "Calls that the usage ledger remembers";
    LEDGER_KEYS_LIMIT: Gauge Count "ledger_keys_limit" []
        "Calls that the usage ledger remembers at most; the oldest goes first";
    LEDGER_DROPPED: Counter Count "ledger_lines_dropped" []
        "Calls that the file of the ledger had no room for";
    EGRESS_CONNECTIONS: Gauge Count "egress_connections" [] "Connections to the egress port";
    EGRESS_CONNECTIONS_LIMIT: Gauge Count "egress_connections_limit" []
        "Connections that the egress port may have; more wait in the kernel";
}
