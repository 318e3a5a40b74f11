//! From many lines to the few that belong to one request.
//!
//! Invariant: what is kept is bounded, however long the log is: events of the trace, and of the
//! machinery around it only those of its time.

use super::event::Event;
use super::source::Events;

/// Events of one trace that are kept.
const MOST: usize = 10_000;
/// Events of the machinery that are kept.
const AROUND: usize = 1_000;
/// Time after a request in which a worker's end may still belong to it, in milliseconds.
const AFTER: f64 = 60_000.0;
/// What is close enough to what was asked for.
const NEAR: usize = 3;

/// What was found of an id.
pub(crate) enum Found {
    Evidence(Box<Evidence>),
    /// Nothing, but these ids look like it.
    Nothing {
        near: Vec<String>,
    },
}

/// All that was written down about one request.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    /// Its own event; `None` where there are only calls.
    pub(crate) request: Option<Event>,
    /// The other requests of its trace, in the order of their end.
    pub(crate) others: Vec<Event>,
    /// Its calls, in the order of their begin.
    pub(crate) calls: Vec<Event>,
    /// What else was written down under its trace while it ran.
    pub(crate) own: Vec<Event>,
    /// Workers, circuits and reloads of its time, in order.
    pub(crate) around: Vec<Event>,
    /// Circuits that were not closed when it came: their last move before.
    pub(crate) open_before: Vec<Event>,
    /// When it began and ended, in milliseconds since 1970.
    pub(crate) span: (f64, f64),
}

/// Goes through the events for this id.
///
/// # Errors
/// One sentence, where they cannot be read.
pub(crate) fn find(events: &Events, id: &str) -> Result<Found, String> {
    let mut own = collect(events, id)?;
    if own.is_empty() {
        return Ok(Found::Nothing { near: near(events, id)? });
    }
    // An id of a request is known to its own lines alone; calls know the trace.
    let is_trace = own.iter().any(|event| event.trace_id.as_deref() == Some(id));
    let of_trace = own.iter().rev().find_map(|event| event.trace_id.clone());
    if let (false, Some(trace)) = (is_trace, of_trace) {
        own = collect(events, &trace)?;
    }
    let (mut requests, rest): (Vec<Event>, Vec<Event>) =
        own.into_iter().partition(|event| event.is("http.request") || event.is("egress.request"));
    // A request of a client, before the calls its application made for it.
    if requests.iter().any(|request| request.is("http.request") && request.has_id(id)) {
        requests.retain(|request| request.is("http.request"));
    }
    let by_id = requests.iter().rposition(|event| event.request_id.as_deref() == Some(id));
    let chosen = by_id.or_else(|| requests.len().checked_sub(1));
    let request = chosen.map(|at| requests.remove(at));
    let span = span_of(request.as_ref(), &rest);
    let mut evidence = Evidence { others: requests, span, ..Evidence::default() };
    for event in rest {
        // A trace may have many requests, one after the other. The stamp has whole milliseconds.
        let (began, ended) = (event.began(), event.at());
        let in_time = ended >= span.0 - 2.0 && began <= span.1 + 2.0;
        let late = event.is("worker.late_response") && began <= span.1 + AFTER;
        let of_another = event.request_id.is_some() && event.request_id != request_id(&request);
        match () {
            () if !(in_time || late) || of_another => {}
            () if event.is("upstream.call") => evidence.calls.push(event),
            () => evidence.own.push(event),
        }
    }
    evidence.calls.sort_by(|a, b| a.began().total_cmp(&b.began()));
    evidence.request = request;
    look_around(events, &mut evidence)?;
    Ok(Found::Evidence(Box::new(evidence)))
}

fn request_id(request: &Option<Event>) -> Option<String> {
    request.as_ref().and_then(|request| request.request_id.clone())
}

fn span_of(request: Option<&Event>, rest: &[Event]) -> (f64, f64) {
    match request {
        Some(request) => (request.began(), request.at()),
        None => (
            rest.iter().map(Event::began).fold(f64::INFINITY, f64::min),
            rest.iter().map(Event::at).fold(0.0, f64::max),
        ),
    }
}

fn collect(events: &Events, id: &str) -> Result<Vec<Event>, String> {
    let mut own = Vec::new();
    events.each(|line| {
        if own.len() < MOST && holds(line, id) {
            own.extend(Event::read(line).filter(|event| event.has_id(id)));
        }
    })?;
    Ok(own)
}

fn holds(line: &[u8], id: &str) -> bool {
    !id.is_empty() && line.windows(id.len()).any(|window| window == id.as_bytes())
}

/// What happened to workers, circuits and the configuration in its time.
fn look_around(events: &Events, evidence: &mut Evidence) -> Result<(), String> {
    const PREFIX: &[u8] = b"{\"type\":\"";
    const KINDS: [&[u8]; 5] = [b"worker.", b"breaker.", b"cache.", b"reload.", b"server."];
    let (start, end) = evidence.span;
    let pid = evidence.request.as_ref().and_then(|request| request.worker_pid);
    let of_pid = pid.map(|pid| format!("\"worker_pid\":{pid}"));
    // When the next request was given to the same process.
    let mut next_work = f64::INFINITY;
    let began_work = evidence.request.as_ref().map_or(start, |r| start + r.before_work());
    events.each(|line| {
        let Some(kind) = line.strip_prefix(PREFIX) else { return };
        if kind.starts_with(b"http.request") {
            if of_pid.as_ref().is_some_and(|of_pid| holds(line, of_pid))
                && let Some(other) = Event::read(line).filter(|other| other.worker_pid == pid)
            {
                let work = other.began() + other.before_work();
                if work > began_work + 0.5 && work < next_work {
                    next_work = work;
                }
            }
            return;
        }
        if !KINDS.iter().any(|known| kind.starts_with(known)) {
            return;
        }
        let Some(event) = Event::read(line) else { return };
        let at = event.at();
        if event.is("breaker.transition") && at < start {
            evidence.open_before.retain(|before| before.name != event.name);
            if event.to.as_deref() != Some("closed") {
                evidence.open_before.push(event);
            }
        } else if at >= start && at <= end + AFTER && evidence.around.len() < AROUND {
            evidence.around.push(event);
        }
    })?;
    // The end of a process is due to the last request it had.
    let of_us = |event: &Event| event.pid == pid && event.at() <= next_work + 1.0;
    let death = evidence.around.iter().find(|event| {
        pid.is_some() && event.kind.starts_with("worker.") && ends(event) && of_us(event)
    });
    let death = death.map(Event::at);
    let slot = evidence.request.as_ref().and_then(|request| request.worker_id);
    evidence.around.retain(|event| {
        if !event.kind.starts_with("worker.") {
            return event.at() <= end;
        }
        let mine = event.pid == pid && pid.is_some();
        match death {
            _ if event.is("worker.output") => mine && event.at() <= end,
            Some(death) if event.worker_id == slot => event.at() >= death && (!mine || ends(event)),
            _ => false,
        }
    });
    // What follows the replacement's readiness is another story.
    let ready = |event: &Event| event.is("worker.restarted") || event.is("worker.ready");
    if let Some(last) = evidence.around.iter().position(ready) {
        let mut at = 0;
        evidence.around.retain(|event| {
            at += 1;
            at <= last + 1 || !event.kind.starts_with("worker.")
        });
    }
    Ok(())
}

/// Whether it is the end of a process because of what it was doing.
fn ends(event: &Event) -> bool {
    match event.kind.as_str() {
        "worker.killed" => matches!(event.reason.as_deref(), Some("timeout" | "fault")),
        "worker.exited" => true,
        _ => false,
    }
}

/// The ids that look most like it.
fn near(events: &Events, id: &str) -> Result<Vec<String>, String> {
    let mut best: Vec<(f64, String)> = Vec::new();
    events.each(|line| {
        if !line.starts_with(b"{\"type\":\"http.request\"") {
            return;
        }
        let Some(event) = Event::read(line) else { return };
        for own in [event.trace_id, event.request_id].into_iter().flatten() {
            let inside = id.len() >= 4 && own.contains(id);
            let alike = if inside { 1.0 } else { strsim::jaro_winkler(id, &own) };
            let known = best.iter().any(|(_, known)| *known == own);
            if alike >= 0.92 && !known {
                best.push((alike, own));
                best.sort_by(|a, b| b.0.total_cmp(&a.0));
                best.truncate(NEAR);
            }
        }
    })?;
    Ok(best.into_iter().map(|(_, own)| own).collect())
}
