//! Requests of clients, their connections and their bodies.

use super::{Bound, Part};

pub(crate) const PART: Part = Part {
    title: "In front: clients and requests",
    about: "A method that is none of the nine of HTTP is `OTHER`; `error_class` is `none` where a \
            request did not fail. A connection of HTTP/2 has at most 128 streams at once: each is a \
            request in flight.",
    metrics: METRICS,
    bounds: &[
        Bound {
            what: "Client connections",
            held: &CONNECTIONS,
            limit: &CONNECTIONS_LIMIT,
            beyond: None,
            set_by: "server.max_connections",
        },
        Bound {
            what: "Request bodies in memory",
            held: &BODY_MEMORY,
            limit: &BODY_MEMORY_LIMIT,
            beyond: Some(&BODIES_SPOOLED),
            set_by: "server.body_memory",
        },
        Bound {
            what: "Streams in steps",
            held: &DISPATCHES,
            limit: &DISPATCHES_LIMIT,
            beyond: None,
            set_by: "plan.max_open",
        },
        Bound {
            what: "The table of live requests",
            held: &IN_FLIGHT,
            limit: &LISTED_LIMIT,
            beyond: Some(&UNLISTED),
            set_by: "20,000",
        },
    ],
};

metrics! {
    REQUESTS: Counter Count "http_requests" ["method", "status", "error_class"]
        "Requests that have ended, by method, status and error class (none: no failure)";
    EGRESS_REQUESTS: Counter Count "egress_requests" ["method", "status", "error_class"]
        "Requests at the egress port that have ended, by method, status and error class";
    DURATION: Histogram Seconds "http_request_duration" []
        "From the complete request head to the last byte of the answer";
    IN_FLIGHT: Gauge Count "http_requests_in_flight" [] "Requests that have not ended, those at the egress port included";
    LISTED_LIMIT: Gauge Count "http_requests_listed_limit" []
        "Requests in flight that the admin pages can show at once";
    UNLISTED: Counter Count "http_requests_unlisted" []
        "Requests that the admin pages could not show, because there were too many";
    BODY_IN: Counter Bytes "http_request_body" [] "Request bodies, as far as they were read";
    BODY_OUT: Counter Bytes "http_response_body" [] "Response bodies, as far as they were sent";
    STREAMS: Counter Count "http_streams" ["kind"] "Answers that were streams, by kind";
    STREAM_ERRORS: Counter Count "http_stream_errors" ["error_class"]
        "Streams that broke after they had begun, by error class";
    DISPATCH_STEPS: Counter Count "dispatch_steps" ["event"]
        "Questions to workers about streams that they make in steps, by event";
    DISPATCHES: Gauge Count "dispatch_streams" []
        "Streams in steps that are offered, open or closing";
    DISPATCHES_LIMIT: Gauge Count "dispatch_streams_limit" []
        "Streams in steps that may be; a request beyond it fails; 0 where there are none";
    CONNECTIONS: Gauge Count "connections" [] "Client connections open now";
    CONNECTIONS_LIMIT: Gauge Count "connections_limit" []
        "Client connections that may be open; more wait in the kernel";
    CONNECTIONS_OPENED: Counter Count "connections_opened" [] "Client connections accepted";
    BAD_HEADS: Counter Count "bad_heads" ["reason"]
        "Connections that sent no acceptable request head, by reason";
    BODY_MEMORY: Gauge Bytes "body_memory" [] "Request bodies held in memory now";
    BODY_MEMORY_LIMIT: Gauge Bytes "body_memory_limit" []
        "Request bodies that may be held in memory; what goes past it goes to disk";
    BODIES_SPOOLED: Counter Count "bodies_spooled" [] "Request bodies that went to disk";
    BODY_SPOOL: Gauge Bytes "body_spool" [] "Bodies on disk, of requests that have not ended";
}
