//! The queue and the worker processes.

use super::{Bound, Part};

pub(crate) const PART: Part = Part {
    title: "In front: the queue and the workers",
    about: "Worker slots are counted by what they are doing: `starting`, `idle`, `busy`, \
            `backing_off`. A process that is replaced is counted once, under the reason that came \
            first.",
    metrics: METRICS,
    bounds: &[Bound {
        what: "The queue for a worker",
        held: &QUEUE_DEPTH,
        limit: &QUEUE_CAPACITY,
        beyond: Some(&QUEUE_REJECTED),
        set_by: "worker.queue_capacity",
    }],
};

metrics! {
    QUEUE_DEPTH: Gauge Count "worker_queue_depth" [] "Requests that wait for a worker";
    QUEUE_CAPACITY: Gauge Count "worker_queue_capacity" [] "Requests that may wait for a worker";
    QUEUE_WAIT: Histogram Seconds "worker_queue_wait" []
        "The wait of requests that waited and got a worker";
    QUEUE_WAITS: Counter Count "worker_queue_waits" [] "Requests that were put into the queue";
    QUEUE_REJECTED: Counter Count "worker_queue_rejected" [] "Requests refused for a full queue";
    QUEUE_TIMEOUTS: Counter Count "worker_queue_timeouts" [] "Requests that waited too long";
    WORKERS: Gauge Count "workers" ["state"] "Worker slots, by what they are doing";
    WITH_A_WORKER: Gauge Count "worker_requests_in_flight" [] "Requests that are with a worker";
    RETIRING: Gauge Count "workers_retiring" []
        "Replaced processes that still finish their work";
    RESIDENT_MEMORY: Gauge Bytes "worker_resident_memory" [] "Resident memory of all workers";
    RESTARTS: Counter Count "worker_restarts" ["reason"]
        "Worker processes that ended and were or will be replaced, by reason";
    LATE_ANSWERS: Counter Count "worker_late_answers" []
        "Answers that came after their client or deadline had gone, and were discarded";
    OUTPUT_LINES: Counter Count "worker_output_lines" ["stream"]
        "Lines that workers wrote to their output and that were taken down";
    OUTPUT_DROPPED: Counter Count "worker_output_dropped" ["reason"]
        "Lines of worker output that are lost: they came too fast (over 10,000 a second from one worker), or the event log had no room";
    RELOADS: Counter Count "reloads" ["result"] "Reloads, by result";
}
