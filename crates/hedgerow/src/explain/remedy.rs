//! What each class of failure means, and what to look at next.

use hedgerow_policy::Class;

/// What it means, in one sentence, and what to look at next.
#[allow(clippy::too_many_lines, reason = "one arm for each class")]
pub(crate) fn of(class: Class, phase: Option<&str>) -> (&'static str, &'static str) {
    match class {
        Class::TransportError => (
            "the exchange with the worker broke: it closed, or sent something that is no answer; or a file of a static route could not be read",
            "what the worker printed before (worker.output, standard error), and whether it was killed for memory; for a file error_message says whether the descriptors ran out or the disk failed",
        ),
        Class::WorkerRuntimeError => (
            "the application threw an error that it did not catch, or could not boot",
            "the exception and message above, and the worker's output of that time",
        ),
        Class::AppContractError => (
            "the application returned something that is no HTTP response, plan or batch",
            "what the application returns at this path; error_message says what was wrong with it",
        ),
        Class::Timeout => match phase {
            Some("connect") => (
                "the worker took no connection in time",
                "whether workers are overloaded or stopped: /admin/workers, worker.connect_timeout_ms",
            ),
            Some("queue") => (
                "the request's time was over while it waited for a worker",
                "who held the workers: /admin/requests by age, worker.pool_size",
            ),
            Some("request") => (
                "the request's own limit passed before there was an answer",
                "the largest part above; server.request_timeout_ms, or request_timeout_ms of the route",
            ),
            _ => (
                "a worker had the request and gave no answer within its read timeout",
                "what it waited for: a call without a timeout of its own, a lock, a slow query; where that is healthy, a plan or a batch, or read_timeout_ms of the route",
            ),
        },
        Class::WorkerPoolExhausted => (
            "no worker was idle and there is no queue, or every worker was down",
            "/admin/workers: busy, backing off or starting? worker.pool_size, worker.queue_capacity",
        ),
        Class::WorkerQueueFull => (
            "no worker was idle and the queue was full",
            "what held the workers (/admin/requests by age); more workers, or a longer queue if waits are short",
        ),
        Class::WorkerQueueTimeout => (
            "it waited in the queue and no worker came in time",
            "what held the workers (/admin/requests by age); worker.pool_size, worker.queue_timeout_ms",
        ),
        Class::UpstreamError => (
            "the service that was called could not be reached, broke its answer, or answered a status that the plan does not take",
            "the attempts above: endpoint, status and error of each; /admin/runtime/upstreams",
        ),
        Class::UpstreamTimeout => (
            "the service that was called gave no answer within its limit or deadline",
            "the attempts above; hedge.after_ms of the upstream (`hedgerow plan hedge` works one out), its timeouts",
        ),
        Class::CircuitOpen => (
            "the upstream's circuit was open: calls were shed so that it can recover",
            "why it opened (breaker.transition before this), /admin/breakers",
        ),
        Class::UnsupportedTransport | Class::UnsupportedCodec | Class::UnsupportedMapper => (
            "the application's plan asks for something this gateway does not do",
            "error_message names it; docs/wire-contract.md lists what a plan may ask for",
        ),
        Class::UpstreamForbidden => (
            "the plan or batch names a destination that is not allowed",
            "[upstream.NAME], or plan.allow_hosts for bare addresses",
        ),
        Class::BadRequest => (
            "the request is not valid HTTP, or could be read in two ways",
            "the client, and whatever stands between it and here",
        ),
        Class::RequestTimeout => {
            ("the body did not come in time", "the client's connection; server.body_timeout_ms")
        }
        Class::RequestTooLarge => (
            "the body is over the limit",
            "server.body_limit, or body_limit of the route; over 16 MiB the worker must know raw bodies",
        ),
        Class::HeadersTooLarge => {
            ("the head is over the limit", "the cookies of this client, most often")
        }
        Class::Draining => {
            ("the gateway was stopping", "server.drain_ms, if requests are to be given longer")
        }
        Class::NotFound => ("no route leads there", "the [[route]] tables, in their order"),
        Class::ClientClosed => (
            "the client left before the answer was complete; nobody was answered",
            "the client's own timeout, against the largest part above",
        ),
    }
}
