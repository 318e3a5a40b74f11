//! The guarded cache, its store and its port.

use super::{Bound, Part};

pub(crate) const PART: Part = Part {
    title: "Below: the cache",
    about: "Only where there is a cache (`cache.resp.listen`). A shed read is `shed`, never `miss`. \
            What concerns the connections to the store is there with a Redis store alone, the \
            embedded store's size with `store = \"memory\"` alone.",
    metrics: METRICS,
    bounds: &[
        Bound {
            what: "The journal of invalidations",
            held: &JOURNAL_DEPTH,
            limit: &JOURNAL_CAPACITY,
            beyond: None,
            set_by: "cache.journal.capacity",
        },
        Bound {
            what: "The journal of invalidations, its bytes",
            held: &JOURNAL_BYTES,
            limit: &JOURNAL_BYTES_LIMIT,
            beyond: None,
            set_by: "cache.journal.capacity × 256 bytes",
        },
        Bound {
            what: "The embedded store",
            held: &MEMORY,
            limit: &MEMORY_LIMIT,
            beyond: None,
            set_by: "cache.max_bytes",
        },
        Bound {
            what: "The near copy",
            held: &NEAR,
            limit: &NEAR_LIMIT,
            beyond: None,
            set_by: "64 MiB",
        },
        Bound {
            what: "Commands that wait to be sent to the store",
            held: &QUEUED,
            limit: &QUEUED_LIMIT,
            beyond: None,
            set_by: "64 MiB a connection",
        },
        Bound {
            what: "Replies that the store owes",
            held: &OWED_MOST,
            limit: &OWED_LIMIT,
            beyond: None,
            set_by: "100,000 a connection",
        },
        Bound {
            what: "Clients of the port",
            held: &CLIENTS,
            limit: &CLIENTS_LIMIT,
            beyond: Some(&CLIENTS_REFUSED),
            set_by: "cache.resp.max_clients",
        },
        Bound {
            what: "Replies that a client of the port has not read",
            held: &OUTPUT,
            limit: &OUTPUT_LIMIT,
            beyond: Some(&CLIENTS_OVERFLOWED),
            set_by: "cache.resp.output_limit, each client",
        },
        Bound {
            what: "What all clients of the port hold, beyond 64 KiB each",
            held: &HELD,
            limit: &HELD_LIMIT,
            beyond: Some(&WITHHELD),
            set_by: "cache.resp.total_limit",
        },
    ],
};

metrics! {
    READS: Counter Count "cache_reads" ["result"] "Reads of the cache, by how they were answered";
    REPAIRS: Counter Count "cache_repairs" ["result"]
        "Writes that went past an open circuit, by what became of them";
    WRITES_SKIPPED: Counter Count "cache_writes_skipped" []
        "Writes that were not sent because the gate was shut or occupied";
    CANARIES: Counter Count "cache_canaries" ["result"]
        "Canaries: writes of the guard's own that were read back, or not";
    GATE: Gauge Count "cache_repair_gate" []
        "The gate for writes while the circuit is open: 0 open, 1 one trial, 2 closed";
    JOURNAL_DEPTH: Gauge Count "cache_journal_depth" []
        "Invalidations that the store has not heard of yet";
    JOURNAL_CAPACITY: Gauge Count "cache_journal_capacity" [] "Invalidations that may wait";
    JOURNAL_BYTES: Gauge Bytes "cache_journal" [] "Keys of invalidations that wait";
    JOURNAL_BYTES_LIMIT: Gauge Bytes "cache_journal_limit" []
        "Keys of invalidations that may wait";
    OVERFLOWED: Gauge Count "cache_databases_overflowed" []
        "Databases whose reads stay shed until they are resumed, because the journal was full";
    RECONNECTS: Counter Count "cache_reconnects" [] "Store connections that were replaced";
    LATE_REPLIES: Counter Count "cache_late_replies" []
        "Replies of the store that came after their callers had left";
    LANES: Gauge Count "cache_store_lanes" ["state"]
        "Shared connections to the store, by whether they are connected";
    OWED: Gauge Count "cache_replies_owed" [] "Replies the store owes now";
    OWED_MOST: Gauge Count "cache_replies_owed_most" []
        "Replies the store owes now on the connection where it owes most";
    OWED_LIMIT: Gauge Count "cache_replies_owed_limit" []
        "Replies the store may owe on one connection; a command beyond it fails at once";
    QUEUED: Gauge Bytes "cache_send_queue" []
        "Commands that wait to be sent, on the connection where most wait";
    QUEUED_LIMIT: Gauge Bytes "cache_send_queue_limit" []
        "Commands that may wait on one connection; one beyond it fails at once";
    IN_DOUBT: Gauge Count "cache_keys_in_doubt" []
        "Keys that read as misses until a lost connection is known to be gone";
    SETTLED: Counter Count "cache_keys_settled" []
        "Keys and fields removed because a lost connection may have written them";
    ORDERED: Gauge Count "cache_order_guaranteed" []
        "1 where writes that were given up on can never land over newer ones";
    MEMORY: Gauge Bytes "cache_memory" [] "What the embedded store holds";
    MEMORY_LIMIT: Gauge Bytes "cache_memory_limit" [] "What the embedded store may hold";
    NEAR: Gauge Bytes "cache_near" [] "Values kept beside the store, for reads that are shed";
    NEAR_LIMIT: Gauge Bytes "cache_near_limit" [] "Values that may be kept beside the store";
    CLIENTS: Gauge Count "cache_clients" [] "Clients connected to the port";
    CLIENTS_LIMIT: Gauge Count "cache_clients_limit" [] "Clients that may be connected";
    CLIENTS_ACCEPTED: Counter Count "cache_clients_accepted" [] "Clients that have connected";
    CLIENTS_REFUSED: Counter Count "cache_clients_refused" []
        "Clients that came when there were too many";
    CLIENTS_OVERFLOWED: Counter Count "cache_clients_overflowed" []
        "Clients closed because they did not read their replies";
    OUTPUT: Gauge Bytes "cache_client_output" []
        "Replies that clients have not read yet, of all clients";
    OUTPUT_LIMIT: Gauge Bytes "cache_client_output_limit" []
        "Replies that one client may leave unread";
    CLIENTS_CLOSED: Counter Count "cache_clients_closed" ["reason"]
        "Clients closed because of what they held: more than one may send or leave unread, more when \
         all held what they may, or much while they stood still and others were refused";
    HELD: Gauge Bytes "cache_clients_held" []
        "Commands and replies held for all clients, beyond the first 64 KiB of each";
    HELD_LIMIT: Gauge Bytes "cache_clients_held_limit" [] "How much may be held for all clients";
    WITHHELD: Counter Count "cache_replies_withheld" ["reason"]
        "Replies answered with an error because there was no room to hold them";
    COMMANDS: Counter Count "cache_commands" [] "Commands of clients";
    OWN_CONNECTIONS: Gauge Count "cache_own_connections" []
        "Store connections that belong to one client: transactions, subscriptions, waits";
}
