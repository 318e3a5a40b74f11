//! The story: what happened when, where the time went, what failed and what to look at.
//!
//! Invariant: the parts add up to the whole. What the event does not account for is a part of its
//! own, and says so.

use super::calls::{Call, chosen};
use super::event::{Event, stamp};
use super::evidence::Evidence;
use super::print::ms;
use super::remedy;
use hedgerow_policy::Class;
use serde::Serialize;

/// One request, told.
#[derive(Debug, Serialize)]
pub(crate) struct Story {
    pub(crate) trace_id: Option<String>,
    pub(crate) request_id: Option<String>,
    /// What it was, in a few words.
    pub(crate) what: String,
    pub(crate) status: Option<u64>,
    pub(crate) error_class: Option<String>,
    pub(crate) started_at: String,
    pub(crate) remote_addr: Option<String>,
    pub(crate) protocol: Option<String>,
    pub(crate) duration_ms: f64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) timeline: Vec<Told>,
    pub(crate) parts: Vec<Part>,
    pub(crate) calls: Vec<Call>,
    pub(crate) cause: Option<Cause>,
    pub(crate) others: Vec<Other>,
}

/// One thing that happened.
#[derive(Debug, Serialize)]
pub(crate) struct Told {
    /// Since the request came.
    pub(crate) at_ms: f64,
    pub(crate) what: String,
    /// More of it, a line each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) more: Vec<String>,
    /// It is no good.
    pub(crate) bad: bool,
}

/// A part of the time.
#[derive(Debug, Serialize)]
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) ms: f64,
}

/// Why it failed.
#[derive(Debug, Serialize)]
pub(crate) struct Cause {
    pub(crate) class: String,
    pub(crate) phase: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) meaning: &'static str,
    pub(crate) look_at: &'static str,
}

/// Another request of the same trace.
#[derive(Debug, Serialize)]
pub(crate) struct Other {
    pub(crate) request_id: Option<String>,
    pub(crate) what: String,
    pub(crate) status: Option<u64>,
    pub(crate) duration_ms: f64,
    pub(crate) at_ms: f64,
}

/// Tells what is known.
pub(crate) fn of(evidence: &Evidence, id: &str) -> Story {
    let (start, end) = evidence.span;
    let calls: Vec<Call> =
        evidence.calls.iter().cloned().map(|call| Call::of(call, start)).collect();
    let mut timeline = Vec::new();
    let request = evidence.request.as_ref();
    if let Some(request) = request {
        way(request, &mut timeline);
    }
    told_calls(&calls, &mut timeline);
    for event in &evidence.own {
        timeline.extend(own(event, start));
    }
    for event in &evidence.open_before {
        let name = event.name.as_deref().unwrap_or_default();
        let state = event.to.as_deref().unwrap_or_default();
        let since = ms(start - event.at());
        let what = format!("the circuit {name} had been {state} for {since}{}", shed(name, state));
        timeline.push(Told { at_ms: 0.0, what, more: Vec::new(), bad: state == "open" });
    }
    timeline.extend(around(&evidence.around, start));
    // Stable: what has one time stays in the order of the telling.
    timeline.sort_by(|a, b| a.at_ms.total_cmp(&b.at_ms));
    let parts = request.map(parts).unwrap_or_default();
    let first = request.or(evidence.calls.first()).or(evidence.own.first());
    Story {
        trace_id: first.and_then(|event| event.trace_id.clone()).or(Some(id.to_owned())),
        request_id: request.and_then(|request| request.request_id.clone()),
        what: request.map_or_else(|| "calls of a request that is not in the log".into(), what),
        status: request.and_then(|request| request.status.as_u64()),
        error_class: request.and_then(|request| request.error_class.clone()),
        started_at: stamp(start),
        remote_addr: request.and_then(|request| request.remote_addr.clone()),
        protocol: request.and_then(|request| request.protocol.clone()),
        duration_ms: request.map_or(end - start, |request| request.duration_ms),
        bytes_in: request.map_or(0, |request| request.bytes_in),
        bytes_out: request.map_or(0, |request| request.bytes_out),
        timeline,
        parts,
        calls,
        cause: request.and_then(cause),
        others: evidence.others.iter().map(|other| other_of(other, start)).collect(),
    }
}

fn what(request: &Event) -> String {
    let method = request.method.as_deref().unwrap_or("?");
    format!("{method} {}", request.path.as_deref().unwrap_or("?"))
}

/// The way of the request itself.
fn way(request: &Event, timeline: &mut Vec<Told>) {
    let mut tell = |at_ms: f64, what: String, bad: bool| {
        timeline.push(Told { at_ms, what, more: Vec::new(), bad });
    };
    let route = request.route.as_ref().map(|route| format!(", route {route}")).unwrap_or_default();
    let body = match request.bytes_in {
        0 => String::new(),
        bytes => format!(", {bytes} bytes of body"),
    };
    tell(0.0, format!("it came{route}{body}"), false);
    for (phase, at, length, of) in stages(request) {
        let length = ms(length);
        match phase.as_str() {
            "queued" if length != ms(0.0) => {
                tell(at, format!("it waited {length} for a worker"), false);
            }
            "working" => {
                let Some(of) = of else {
                    tell(at, format!("it was served for {length}, by no worker"), false);
                    continue;
                };
                // The event names the process of the last worker alone.
                let pid = request.worker_pid.filter(|_| Some(of) == request.worker_id);
                let pid = pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
                tell(at, format!("worker {of}{pid} had it for {length}"), false);
            }
            "calling" => tell(at, format!("its calls ran for {length}, no worker taken"), false),
            "streaming" => tell(at, format!("the answer began, and streamed for {length}"), false),
            _ => {}
        }
    }
    let bytes = request.bytes_out;
    let bad = request.error_class.is_some();
    let ending = match (request.error_class.as_deref(), request.status.as_u64()) {
        (Some("client_closed"), _) => format!("the client was gone, after {bytes} bytes"),
        (Some(class), Some(status)) if request.stream.is_none() => {
            format!("{status} {class} to the client, {bytes} bytes")
        }
        (Some(class), _) => format!("the stream broke: {class}, after {bytes} bytes"),
        (None, status) => format!("{} to the client, {bytes} bytes", status.unwrap_or(0)),
    };
    tell(request.duration_ms, ending, bad);
}

/// The stages with begin and length: as the event lists them, or, where none came twice, in the one
/// order there is.
fn stages(request: &Event) -> Vec<(String, f64, f64, Option<u32>)> {
    if !request.steps.is_empty() {
        let ends = request.steps.iter().skip(1).map(|step| step.at_ms);
        let ends = ends.chain([request.duration_ms]);
        let steps = request.steps.iter().zip(ends);
        let stage = |(step, end): (&super::event::Step, f64)| {
            (step.phase.clone(), step.at_ms, end - step.at_ms, step.worker_id)
        };
        return steps.map(stage).collect();
    }
    let worker = request.worker_id;
    let known = [
        ("receiving", request.receive_ms, None),
        ("queued", request.queue_ms.or(request.queue_wait_ms), None),
        ("working", request.worker_ms, worker),
        ("calling", request.calls_ms, None),
        ("streaming", request.stream_ms, None),
        ("sending", request.send_ms, None),
    ];
    let mut at = 0.0;
    let entered =
        known.into_iter().filter_map(|(phase, spent, worker)| Some((phase, spent?, worker)));
    let stage = |(phase, spent, worker): (&str, f64, Option<u32>)| {
        at += spent;
        (phase.to_owned(), at - spent, spent, worker)
    };
    entered.map(stage).collect()
}

fn told_calls(calls: &[Call], timeline: &mut Vec<Told>) {
    let (told, rest) = chosen(calls);
    for call in &told {
        let (what, more) = call.told();
        let (at_ms, bad) = (call.start_ms, call.winner.is_none());
        timeline.push(Told { at_ms, what: format!("called {what}"), more, bad });
    }
    if let (1.., Some(first)) = (rest, calls.first()) {
        let what = format!("and {rest} more calls that went well");
        timeline.push(Told { at_ms: first.start_ms, what, more: Vec::new(), bad: false });
    }
}

/// What else was written down under its trace. What its calls say already is left out.
fn own(event: &Event, start: f64) -> Option<Told> {
    let upstream = event.upstream.as_deref().unwrap_or_default();
    let (what, bad) = match event.kind.as_str() {
        "hedge.suppressed" => {
            let reason = event.reason.as_deref().unwrap_or("?");
            (format!("no twin for {upstream}, though it was time: {reason}"), true)
        }
        "upstream.endpoint_demoted" => {
            let endpoint = event.endpoint.as_deref().unwrap_or("?");
            (format!("{endpoint} of {upstream} is passed over from now on, for being slow"), true)
        }
        "plan.decode_failed" => {
            (format!("the answer of {upstream} could not be read: {}", error(event)), true)
        }
        "http.stream.error" => {
            let class = event.error_class.as_deref().unwrap_or("?");
            (format!("the stream broke: {class}"), true)
        }
        "worker.late_response" => {
            ("its worker answered after all; that was discarded".into(), false)
        }
        _ => return None,
    };
    Some(Told { at_ms: event.at() - start, what, more: Vec::new(), bad })
}

fn error(event: &Event) -> &str {
    event.error.as_deref().unwrap_or("?")
}

/// Workers, circuits and reloads of its time.
fn around(events: &[Event], start: f64) -> Vec<Told> {
    let mut told: Vec<Told> = Vec::new();
    let canaries = |good| {
        let canaries = events.iter().filter(|event| event.is("cache.canary"));
        canaries.filter(|event| event.good == Some(good)).count()
    };
    let (good, failed) = (canaries(true), canaries(false));
    for event in events {
        let id = event.worker_id.unwrap_or(0);
        let pid = event.pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
        let reason = event.reason.as_deref().unwrap_or("?");
        let name = event.name.as_deref().unwrap_or_default();
        let (what, bad) = match event.kind.as_str() {
            "worker.killed" => (format!("worker {id}{pid} was killed: {reason}"), true),
            "worker.exited" => {
                let status = event.status.as_str().unwrap_or("?");
                (format!("worker {id}{pid} exited by itself: {status}"), true)
            }
            "worker.restarted" | "worker.ready" => (
                format!("worker {id} was replaced{pid}, ready after {}", ms(event.after_ms)),
                false,
            ),
            "worker.restart_scheduled" => {
                (format!("worker {id} is started again in {}", ms(event.delay_ms)), false)
            }
            "worker.boot_failed" => (format!("worker {id} did not boot: {}", error(event)), true),
            "worker.output" => {
                (format!("worker {id} printed: {}", event.line.as_deref().unwrap_or("")), false)
            }
            "breaker.transition" => {
                let to = event.to.as_deref().unwrap_or("?");
                let from = event.from.as_deref().unwrap_or("?");
                let shed = shed(name, to);
                (format!("the circuit {name} went from {from} to {to}{shed}"), to == "open")
            }
            "cache.repair" => match event.gate.as_deref() {
                Some("proven") => {
                    ("a write reached the cache while its circuit was open".into(), false)
                }
                _ => {
                    ("a write past the cache's open circuit failed: no more are tried".into(), true)
                }
            },
            "cache.lost" => {
                (format!("the connection to the cache was lost: {}", error(event)), true)
            }
            "cache.connected" if event.again => ("the cache was connected anew".into(), false),
            "cache.canary" if told.iter().any(|told| told.what.contains("canaries")) => continue,
            "cache.canary" => (
                format!("canaries of the cache in its time: {good} good, {failed} failed"),
                failed > 0,
            ),
            "reload.done" => ("a reload put new workers in force".into(), false),
            _ => continue,
        };
        told.push(Told { at_ms: event.at() - start, what, more: Vec::new(), bad });
    }
    told
}

/// What an open circuit meant, where that is known by its name.
fn shed(name: &str, state: &str) -> &'static str {
    match (name, state) {
        ("cache", "open") => ": reads of the cache were shed, writes could still repair it",
        (_, "open") => ": calls to it were shed",
        _ => "",
    }
}

fn parts(request: &Event) -> Vec<Part> {
    let from_calls = stages(request)
        .iter()
        .map(|(phase, ..)| phase.as_str())
        .rfind(|phase| !matches!(*phase, "sending" | "streaming"))
        == Some("calling");
    let stream = request.stream_ms.map(|all| {
        let source = request.source_ms.unwrap_or(0.0).min(all);
        (source, all - source)
    });
    let source =
        if from_calls { "stream: waiting for upstreams" } else { "stream: waiting for the worker" };
    let known = [
        ("reading the request", request.receive_ms),
        ("waiting for a worker", request.queue_ms.or(request.queue_wait_ms)),
        ("worker", request.worker_ms),
        ("calls, no worker taken", request.calls_ms),
        (source, stream.map(|(source, _)| source)),
        ("stream: the client taking it", stream.map(|(_, client)| client)),
        ("sending the answer", request.send_ms),
    ];
    let mut parts: Vec<Part> =
        known.into_iter().filter_map(|(name, ms)| Some(Part { name, ms: ms? })).collect();
    let sum: f64 = parts.iter().map(|part| part.ms).sum();
    let rest = request.duration_ms - sum;
    // Each part has whole microseconds, rounded down.
    if rest > 0.05 {
        parts.push(Part { name: "not accounted for", ms: rest });
    }
    parts
}

fn cause(request: &Event) -> Option<Cause> {
    let class = request.error_class.clone()?;
    let phase = request.timeout_phase.clone();
    let (meaning, look_at) = match Class::from_name(&class) {
        Some(class) => remedy::of(class, phase.as_deref()),
        None => ("this version does not know that class", "the changelog of the one that wrote it"),
    };
    let exception = request.worker_exception.as_ref();
    let message = match (exception, &request.error_message) {
        (Some(exception), Some(message)) => Some(format!("{exception}: {message}")),
        (None, Some(message)) => Some(message.clone()),
        (exception, None) => exception.cloned(),
    };
    Some(Cause { class, phase, message, meaning, look_at })
}

fn other_of(other: &Event, start: f64) -> Other {
    Other {
        request_id: other.request_id.clone(),
        what: what(other),
        status: other.status.as_u64(),
        duration_ms: other.duration_ms,
        at_ms: other.began() - start,
    }
}
