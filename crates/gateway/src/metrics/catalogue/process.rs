//! Logs, the admin listener, the process.

use super::{Bound, Part};

pub(crate) const PART: Part = Part {
    title: "The process and its logs",
    about: "`log` is `event` or `access`; a log that is off has no series.",
    metrics: METRICS,
    bounds: &[
        Bound {
            what: "Lines that wait for the disk",
            held: &LOG_BUFFERED,
            limit: &LOG_LIMIT,
            beyond: Some(&EVENTS_DROPPED),
            set_by: "8 MiB a log",
        },
        Bound {
            what: "The newest events, for `hedgerow explain`",
            held: &RECENT,
            limit: &RECENT_LIMIT,
            beyond: None,
            set_by: "`log.recent_limit`",
        },
        Bound {
            what: "Requests and calls whose spans wait for the collector",
            held: &TRACES,
            limit: &TRACES_LIMIT,
            beyond: Some(&SPANS_DROPPED),
            set_by: "`telemetry.otlp_queue`",
        },
        Bound {
            what: "The history of the dashboard",
            held: &HISTORY,
            limit: &HISTORY_LIMIT,
            beyond: None,
            set_by: "15 minutes",
        },
        Bound {
            what: "Dashboards that are open",
            held: &DASHBOARDS,
            limit: &DASHBOARDS_LIMIT,
            beyond: None,
            set_by: "32",
        },
    ],
};

metrics! {
    EVENTS_DROPPED: Counter Count "events_dropped" [] "Lines the event log had no room for";
    ACCESS_DROPPED: Counter Count "access_lines_dropped" []
        "Access lines there was no room for";
    TERMINAL_DROPPED: Counter Count "terminal_lines_dropped" []
        "Lines for standard error that are lost: nobody took them, and 1,024 were waiting";
    LOG_BUFFERED: Gauge Bytes "log_buffered" ["log"] "Log lines that wait to be written";
    LOG_LIMIT: Gauge Bytes "log_buffer_limit" ["log"] "Log lines that may wait";
    LOG_FAILURES: Counter Count "log_write_failures" ["log"]
        "Writes of log lines that failed";
    TRACES: Gauge Count "trace_queue" []
        "Requests and calls whose spans wait to be sent to the collector";
    TRACES_LIMIT: Gauge Count "trace_queue_limit" []
        "Requests and calls whose spans may wait; 0: no traces are sent";
    SPANS_SENT: Counter Count "trace_spans_sent" [] "Spans that the collector took";
    SPANS_DROPPED: Counter Count "trace_spans_dropped" ["reason"]
        "Spans that are lost: the queue was full, or the collector did not take them";
    RECENT: Gauge Bytes "recent_events" [] "The newest events, as they are held in memory";
    RECENT_LIMIT: Gauge Bytes "recent_events_limit" []
        "Events that are held in memory at most; the oldest go first";
    TASKS: Gauge Count "tasks" [] "Tasks of the runtime that have not ended";
    ADMIN_ACTIONS: Counter Count "admin_actions" ["action"]
        "What was done through the admin listener, by action";
    HISTORY: Gauge Count "history_rows" [] "Seconds of history held for the dashboard";
    HISTORY_LIMIT: Gauge Count "history_rows_limit" []
        "Seconds of history that are held at most; the oldest goes first";
    DASHBOARDS: Gauge Count "dashboard_streams" [] "Streams of the dashboard that are open";
    DASHBOARDS_LIMIT: Gauge Count "dashboard_streams_limit" []
        "Streams of the dashboard that may be open";
    DASHBOARDS_CUT_OFF: Counter Count "dashboard_streams_cut_off" []
        "Streams of the dashboard that were cut off because their reader took nothing";
    STARTED: Gauge Seconds "start_time" [] "When this process started, since 1970";
    BUILD: Gauge Count "build_info" ["version"] "What is running; always 1";
}
