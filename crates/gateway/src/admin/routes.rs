//! What is answered at which path.
//!
//! Invariant: first whether the request may come from there, then whether it shows the token, and
//! only then whether there is such a path: who is not let in learns nothing about what is here.

use super::crowd::Place;
use super::watch::Frames;
use super::{State, assets, cache, events, frame, guard, shapes, usage, watch};
use crate::metrics::page::{Form, page};
use bytes::Bytes;
use http::header::{
    ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{Either, Full};
use serde::Serialize;
use std::sync::Arc;

/// Either a body that is there, or one that comes second by second.
pub(super) type Answer = Response<Either<Full<Bytes>, Frames>>;

const SSE: &str = "text/event-stream; charset=utf-8";
const JSON: &str = "application/json; charset=utf-8";
/// Requests shown where no limit is asked for, and the most that can be asked for.
const REQUESTS: (usize, usize) = (1_000, 10_000);
/// The same of upstream sessions.
const SESSIONS: (usize, usize) = (100, 1_000);

/// What a path leads to.
#[derive(Clone, Copy)]
enum Target<'p> {
    Asset(&'static assets::Asset),
    Health,
    Ready,
    Metrics,
    Runtime,
    Upstreams,
    Workers,
    Stats,
    Requests,
    History,
    Stream,
    Events,
    Breakers,
    Usage,
    Cache,
    CacheResume,
    Cancel(&'p str),
    Restart,
    RestartAll,
}

impl Target<'_> {
    fn of(path: &str) -> Option<Target<'_>> {
        Some(match path {
            "/health" => Target::Health,
            "/ready" => Target::Ready,
            "/metrics" => Target::Metrics,
            "/admin/runtime" => Target::Runtime,
            "/admin/runtime/upstreams" => Target::Upstreams,
            "/admin/workers" => Target::Workers,
            "/admin/stats" => Target::Stats,
            "/admin/requests" => Target::Requests,
            "/admin/history" => Target::History,
            "/admin/stream" => Target::Stream,
            "/admin/events" => Target::Events,
            "/admin/breakers" => Target::Breakers,
            "/admin/cache" => Target::Cache,
            "/admin/usage" => Target::Usage,
            "/admin/cache/resume" => Target::CacheResume,
            "/admin/workers/restart" => Target::Restart,
            "/admin/workers/restart/all" => Target::RestartAll,
            _ if !path.starts_with("/admin/") => Target::Asset(assets::at(path)?),
            _ => {
                let trace = path.strip_prefix("/admin/requests/")?.strip_suffix("/cancel")?;
                (!trace.is_empty() && !trace.contains('/')).then_some(Target::Cancel(trace))?
            }
        })
    }

    fn acts(self) -> bool {
        matches!(
            self,
            Target::Cancel(_) | Target::Restart | Target::RestartAll | Target::CacheResume
        )
    }
}

/// Answers one request.
pub(super) async fn answer<B>(
    state: &Arc<State>,
    request: &Request<B>,
    place: &Arc<Place>,
) -> Answer {
    let target = Target::of(request.uri().path());
    // The page has to be there before somebody can type the token into it; it says nothing of this
    // gateway, and is the same everywhere.
    let open = matches!(target, Some(Target::Health | Target::Asset(_)));
    if !guard::origin(&state.settings, request) {
        return error(StatusCode::FORBIDDEN, "forbidden");
    }
    if !open && !guard::token(&state.settings, request.headers()) {
        return error(StatusCode::FORBIDDEN, "forbidden");
    }
    let target = match target {
        None => return not_found(),
        Some(Target::Metrics) if !state.settings.metrics => return not_found(),
        Some(target) => target,
    };
    let allow = if target.acts() { "POST" } else { "GET, HEAD" };
    let allowed = match *request.method() {
        Method::POST => target.acts(),
        Method::GET | Method::HEAD => !target.acts(),
        _ => false,
    };
    if !allowed {
        let mut refused = error(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed");
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
        return refused;
    }
    found(state, target, request, place).await
}

async fn found<B>(
    state: &Arc<State>,
    target: Target<'_>,
    request: &Request<B>,
    place: &Arc<Place>,
) -> Answer {
    let inner = &state.recorder.inner;
    let query = |name| parameter(request.uri().query().unwrap_or(""), name);
    match target {
        Target::Asset(asset) => asset.answer(request.headers()),
        Target::Health => reply(StatusCode::OK, "text/plain; charset=utf-8", "OK\n".into()),
        Target::Ready => {
            #[derive(Serialize)]
            struct Ready {
                ready: bool,
            }
            let ready = state.control.ready();
            let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
            json(status, &Ready { ready })
        }
        Target::Metrics => {
            let accept = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok());
            let newer = accept.is_some_and(|a| a.contains("application/openmetrics-text"));
            let form = if newer { Form::OpenMetrics } else { Form::Prometheus };
            let page = page(inner, &*state.control, state.watch.numbers(), form);
            reply(StatusCode::OK, form.content_type(), page.into())
        }
        Target::Runtime => json(StatusCode::OK, &shapes::runtime(state)),
        Target::Workers => json(StatusCode::OK, &shapes::workers(state.control.pool().as_ref())),
        Target::Stats => json(StatusCode::OK, &shapes::stats(state)),
        Target::Requests => {
            let entries = inner.live.snapshot(bounded(query("limit"), REQUESTS));
            let total = inner.live.in_flight();
            let shown = shapes::Requests::of(&entries, total, state.clock.now());
            json(StatusCode::OK, &shown)
        }
        Target::History => frame::history(state, query("after").and_then(|text| text.parse().ok())),
        Target::Stream if request.method() == Method::HEAD => {
            reply(StatusCode::OK, SSE, Bytes::new())
        }
        Target::Stream => match watch::open(state, Arc::clone(place)) {
            Some(frames) => with_headers(StatusCode::OK, SSE, Either::Right(frames)),
            None => error(StatusCode::SERVICE_UNAVAILABLE, "too_many_streams"),
        },
        Target::Events => {
            let lines = events::of(inner, query("trace"), query("type"));
            reply(StatusCode::OK, "application/x-ndjson", lines.into())
        }
        Target::Upstreams => {
            let limit = bounded(query("limit"), SESSIONS);
            let offset = query("offset").and_then(|text| text.parse().ok()).unwrap_or(0);
            let sessions = usage::sessions(state, offset, limit);
            let shown = shapes::Upstreams {
                active_count: usage::active(state),
                returned_count: sessions.len(),
                details: matches!(query("details"), Some("1" | "true" | "yes" | "on")),
                limit,
                offset,
                sessions,
            };
            json(StatusCode::OK, &shown)
        }
        Target::Breakers => {
            let shown = state.control.cache().map(|cache| cache.snapshot());
            let mut breakers = cache::Breakers::of(shown.as_ref());
            usage::add_breakers(state, &mut breakers);
            json(StatusCode::OK, &breakers)
        }
        Target::Usage => json(StatusCode::OK, &usage::of(state, usize::MAX)),
        Target::Cache => match state.control.cache() {
            Some(cache) => json(StatusCode::OK, &cache::Cache::of(cache.snapshot())),
            None => not_found(),
        },
        Target::CacheResume => {
            let Some(cache) = state.control.cache() else { return not_found() };
            let flush = matches!(query("flush"), Some("1" | "true"));
            let resumed = cache::resume(&cache, flush).await;
            if resumed.status().is_success() {
                done(state, "cache.resume", if flush { "flush" } else { "prefix" });
            }
            resumed
        }
        Target::Cancel(trace) => cancel(state, trace),
        Target::Restart => restart(state, query("id")),
        Target::RestartAll => {
            done(state, "workers.restart_all", "all");
            #[derive(Serialize)]
            struct All {
                ok: bool,
                mode: &'static str,
                restarted: usize,
            }
            let restarted = state.control.restart_all();
            json(StatusCode::OK, &All { ok: true, mode: "all", restarted })
        }
    }
}

fn cancel(state: &State, trace: &str) -> Answer {
    let trace = decoded(trace);
    let cancelled = state.recorder.inner.live.cancel(&trace);
    if cancelled == 0 {
        return not_found();
    }
    done(state, "requests.cancel", &trace);
    #[derive(Serialize)]
    struct Cancelled<'t> {
        ok: bool,
        trace_id: &'t str,
        cancelled: usize,
    }
    json(StatusCode::OK, &Cancelled { ok: true, trace_id: &trace, cancelled })
}

fn restart(state: &State, id: Option<&str>) -> Answer {
    let Some(id) = id.and_then(|id| id.parse::<u32>().ok()) else {
        return error(StatusCode::BAD_REQUEST, "say which worker: ?id=N");
    };
    if !state.control.restart(id) {
        return not_found();
    }
    done(state, "workers.restart", &id.to_string());
    #[derive(Serialize)]
    struct One {
        ok: bool,
        mode: &'static str,
        worker: Option<shapes::Worker>,
    }
    let pool = state.control.pool();
    let worker = pool.and_then(|pool| pool.workers.iter().find(|w| w.id == id).map(Into::into));
    json(StatusCode::OK, &One { ok: true, mode: "single", worker })
}

/// A trace as it is: it may hold a colon, which some clients encode.
pub(super) fn decoded(trace: &str) -> String {
    trace.replace("%3A", ":").replace("%3a", ":")
}

/// Writes down that somebody did something.
fn done(state: &State, action: &'static str, target: &str) {
    state.recorder.inner.metrics.admin_action(action);
    crate::events::admin_action(&state.recorder.inner, action, target);
}

fn not_found() -> Answer {
    error(StatusCode::NOT_FOUND, "not_found")
}

pub(super) fn error(status: StatusCode, error: &str) -> Answer {
    #[derive(Serialize)]
    struct Error<'e> {
        error: &'e str,
    }
    json(status, &Error { error })
}

pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Answer {
    match serde_json::to_vec(value) {
        Ok(mut body) => {
            body.push(b'\n');
            reply(status, JSON, body.into())
        }
        // Only maps whose keys are no strings fail, and there is none.
        Err(_) => reply(StatusCode::INTERNAL_SERVER_ERROR, JSON, Bytes::new()),
    }
}

pub(super) fn reply(status: StatusCode, content_type: &'static str, body: Bytes) -> Answer {
    with_headers(status, content_type, Either::Left(Full::new(body)))
}

fn with_headers(
    status: StatusCode,
    content_type: &'static str,
    body: Either<Full<Bytes>, Frames>,
) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    for (name, value) in [
        (CONTENT_TYPE, content_type),
        (CACHE_CONTROL, "no-store"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// The value of a query parameter, as it stands there.
fn parameter<'q>(query: &'q str, name: &str) -> Option<&'q str> {
    let mut pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
}

/// A limit that was asked for, within bounds.
fn bounded(asked: Option<&str>, (usual, most): (usize, usize)) -> usize {
    asked.and_then(|text| text.parse().ok()).filter(|&n| n > 0).unwrap_or(usual).min(most)
}
