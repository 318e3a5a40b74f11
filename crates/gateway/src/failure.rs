//! How a failure looks to a client. The only place that knows statuses and failure headers.
//!
//! Invariant: every failure leaves through [`respond`], with its status, the reason phrase as body
//! and the class in a header. What a worker or an upstream said of itself, and every other message,
//! stays with the log.

use crate::ids::Ids;
use crate::names::Names;
use bytes::Bytes;
use hedgerow_policy::failure::{At, Cause, Class, Failure, Phase, Retry};
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, StatusCode};

const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");
const WORKER_CLASS: HeaderName = HeaderName::from_static("x-worker-error-class");
const WORKER_EXCEPTION: HeaderName = HeaderName::from_static("x-worker-exception");

/// The status of a class.
#[must_use]
pub fn status(class: Class) -> StatusCode {
    match class {
        Class::WorkerRuntimeError | Class::AppContractError => StatusCode::INTERNAL_SERVER_ERROR,
        Class::TransportError
        | Class::UpstreamError
        | Class::UnsupportedTransport
        | Class::UnsupportedCodec
        | Class::UnsupportedMapper
        | Class::UpstreamForbidden => StatusCode::BAD_GATEWAY,
        Class::WorkerPoolExhausted
        | Class::WorkerQueueFull
        | Class::CircuitOpen
        | Class::Draining => StatusCode::SERVICE_UNAVAILABLE,
        Class::Timeout | Class::WorkerQueueTimeout | Class::UpstreamTimeout => {
            StatusCode::GATEWAY_TIMEOUT
        }
        Class::BadRequest | Class::ClientClosed => StatusCode::BAD_REQUEST,
        Class::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
        Class::RequestTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Class::HeadersTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        Class::NotFound => StatusCode::NOT_FOUND,
    }
}

/// What the operator chose for failures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    pub(crate) problem_json: bool,
    pub(crate) proxy_status: bool,
    pub(crate) expose_exception: bool,
}

/// The answer to a failure: status, headers and body. Ids and `connection` are added to it as to
/// every answer.
pub(crate) fn respond(
    failure: &Failure,
    ids: &Ids,
    names: &Names,
    style: Style,
    asked: &HeaderMap,
) -> (StatusCode, HeaderMap, Bytes) {
    let status = status(failure.class);
    let reason = status.canonical_reason().unwrap_or("Error");
    let class = failure.class.name();
    let mut headers = HeaderMap::with_capacity(12);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(names.error_class.clone(), HeaderValue::from_static(class));
    if status == StatusCode::SERVICE_UNAVAILABLE {
        headers.insert(RETRY_AFTER, HeaderValue::from(failure.retry_after_s.unwrap_or(1)));
    }
    if style.proxy_status {
        let value = format!("hedgerow; error={}; details=\"{class}\"", proxy_error(failure));
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(PROXY_STATUS, value);
        }
    }
    if let Some(report) = &failure.report {
        insert_checked(&mut headers, WORKER_CLASS, &report.class);
        if let (true, Some(exception)) = (style.expose_exception, &report.exception) {
            insert_checked(&mut headers, WORKER_EXCEPTION, exception);
        }
    }
    if style.problem_json && accepts_problem(asked) {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        // Nothing here can need an escape: ids are checked, the rest is ours.
        let body = format!(
            "{{\"type\":\"about:blank\",\"title\":\"{reason}\",\"status\":{},\
             \"error_class\":\"{class}\",\"trace_id\":\"{}\",\"request_id\":\"{}\"}}",
            status.as_u16(),
            ids.trace,
            ids.request,
        );
        (status, headers, Bytes::from(body))
    } else {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        (status, headers, Bytes::from_static(reason.as_bytes()))
    }
}

/// The data of the `error` event with which a stream of events ends early.
pub(crate) fn event_data(class: Class, trace: &str) -> String {
    format!("{{\"error_class\":\"{}\",\"trace_id\":\"{trace}\"}}", class.name())
}

fn insert_checked(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let (false, Ok(value)) = (value.is_empty(), HeaderValue::from_str(value)) {
        headers.insert(name, value);
    }
}

/// The error type of RFC 9209, 2.3, that comes nearest.
fn proxy_error(failure: &Failure) -> &'static str {
    if let (Class::UpstreamError, Some(cause)) = (failure.class, failure.cause) {
        return unreached(cause);
    }
    match failure.class {
        // No connection, and nobody said why.
        Class::UpstreamError if failure.retry == Retry::Unsent => "destination_unavailable",
        // Its own disk, or a lack of descriptors: nobody was asked.
        Class::TransportError if failure.at == At::Gateway => "proxy_internal_error",
        Class::TransportError if failure.retry == Retry::Unsent => "connection_refused",
        Class::TransportError | Class::UpstreamError => "connection_terminated",
        Class::WorkerRuntimeError => "http_response_incomplete",
        Class::AppContractError => "http_protocol_error",
        Class::Timeout | Class::UpstreamTimeout if failure.phase == Some(Phase::Connect) => {
            "connection_timeout"
        }
        Class::Timeout | Class::UpstreamTimeout => "http_response_timeout",
        Class::WorkerPoolExhausted | Class::WorkerQueueFull | Class::WorkerQueueTimeout => {
            "connection_limit_reached"
        }
        Class::UnsupportedTransport | Class::UnsupportedCodec | Class::UnsupportedMapper => {
            "proxy_configuration_error"
        }
        Class::UpstreamForbidden => "destination_ip_prohibited",
        Class::CircuitOpen => "destination_unavailable",
        Class::BadRequest
        | Class::RequestTimeout
        | Class::RequestTooLarge
        | Class::HeadersTooLarge
        | Class::ClientClosed => "http_request_error",
        Class::Draining | Class::NotFound => "proxy_internal_response",
    }
}

fn unreached(cause: Cause) -> &'static str {
    match cause {
        Cause::Refused => "connection_refused",
        Cause::TimedOut => "connection_timeout",
        Cause::Unroutable => "destination_ip_unroutable",
        Cause::Name => "dns_error",
        Cause::Certificate => "tls_certificate_error",
        Cause::Alert => "tls_alert_received",
        Cause::Handshake => "tls_protocol_error",
    }
}

/// Whether `Accept` names the type itself. A wildcard does not ask for it: most clients send one.
fn accepts_problem(asked: &HeaderMap) -> bool {
    asked.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).any(|value| {
        value.split(',').any(|range| {
            let mut parts = range.split(';').map(str::trim);
            let named =
                parts.next().is_some_and(|t| t.eq_ignore_ascii_case("application/problem+json"));
            let refused = parts.any(|parameter| {
                let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
                name.trim().eq_ignore_ascii_case("q") && value.trim().parse() == Ok(0.0_f32)
            });
            named && !refused
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hedgerow_policy::failure::Report;

    const STYLE: Style = Style { problem_json: true, proxy_status: true, expose_exception: true };

    fn shown(failure: &Failure, style: Style, accept: &str) -> (StatusCode, HeaderMap, String) {
        let ids = Ids { trace: "T".into(), request: "R".into() };
        let mut asked = HeaderMap::new();
        asked.insert(ACCEPT, HeaderValue::from_str(accept).unwrap());
        let names = Names::new("x-vhttpd").unwrap();
        let (status, headers, body) = respond(failure, &ids, &names, style, &asked);
        (status, headers, String::from_utf8(body.to_vec()).unwrap())
    }

    #[test]
    fn the_table() {
        let rows = [
            ("transport_error", 502),
            ("worker_runtime_error", 500),
            ("app_contract_error", 500),
            ("timeout", 504),
            ("worker_pool_exhausted", 503),
            ("worker_queue_full", 503),
            ("worker_queue_timeout", 504),
            ("upstream_error", 502),
            ("unsupported_transport", 502),
            ("unsupported_codec", 502),
            ("unsupported_mapper", 502),
            ("upstream_forbidden", 502),
            ("upstream_timeout", 504),
            ("circuit_open", 503),
            ("bad_request", 400),
            ("request_timeout", 408),
            ("request_too_large", 413),
            ("headers_too_large", 431),
            ("draining", 503),
            ("not_found", 404),
        ];
        for (name, code) in rows {
            let class = Class::from_name(name).unwrap();
            let failure = Failure::new(class, At::Gateway, "secret");
            let (status, headers, body) = shown(&failure, STYLE, "*/*");
            assert_eq!(status.as_u16(), code, "{name}");
            assert_eq!(body, status.canonical_reason().unwrap());
            assert_eq!(headers["x-vhttpd-error-class"], name);
            assert_eq!(headers["cache-control"], "no-store");
            assert_eq!(headers["content-type"], "text/plain; charset=utf-8");
            assert_eq!(headers.contains_key("retry-after"), code == 503, "{name}");
            assert!(headers["proxy-status"].to_str().unwrap().starts_with("hedgerow; error="));
            let all = format!("{headers:?}{body}");
            assert!(!all.contains("secret"), "{all}");
        }
        assert_eq!(rows.len() + 1, Class::ALL.len(), "client_closed alone has no answer");
    }

    #[test]
    fn a_report_keeps_class_and_exception_and_nothing_else() {
        let report = Report {
            class: "worker_runtime_error".to_owned(),
            exception: Some("App\\Boom".to_owned()),
            message: Some("secret at /srv/app.php:3".to_owned()),
        };
        let failure = Failure::new(Class::WorkerRuntimeError, At::Worker, "m").reported(report);
        let (_, headers, body) = shown(&failure, STYLE, "*/*");
        assert_eq!(headers["x-worker-error-class"], "worker_runtime_error");
        assert_eq!(headers["x-worker-exception"], "App\\Boom");
        assert!(!format!("{headers:?}{body}").contains("secret"));
        let hidden = Style { expose_exception: false, ..STYLE };
        assert!(!shown(&failure, hidden, "*/*").1.contains_key("x-worker-exception"));
    }

    /// The type says what is known of the cause, and nothing that is not.
    #[test]
    fn the_type_of_proxy_status_is_the_cause() {
        let upstream = |class| Failure::new(class, At::Upstream, "m");
        let because = |cause| upstream(Class::UpstreamError).unsent().because(Some(cause));
        let in_phase = |phase| upstream(Class::UpstreamTimeout).in_phase(phase);
        let worker = || Failure::new(Class::TransportError, At::Worker, "m");
        let rows = [
            (because(Cause::Refused), "connection_refused"),
            (because(Cause::TimedOut), "connection_timeout"),
            (because(Cause::Unroutable), "destination_ip_unroutable"),
            (because(Cause::Name), "dns_error"),
            (because(Cause::Certificate), "tls_certificate_error"),
            (because(Cause::Alert), "tls_alert_received"),
            (because(Cause::Handshake), "tls_protocol_error"),
            (upstream(Class::UpstreamError).unsent(), "destination_unavailable"),
            (upstream(Class::UpstreamError), "connection_terminated"),
            (upstream(Class::UpstreamForbidden), "destination_ip_prohibited"),
            (in_phase(Phase::Connect), "connection_timeout"),
            (in_phase(Phase::Read), "http_response_timeout"),
            (worker().unsent(), "connection_refused"),
            (worker(), "connection_terminated"),
            (Failure::new(Class::TransportError, At::Gateway, "m"), "proxy_internal_error"),
        ];
        for (failure, kind) in rows {
            let (_, headers, _) = shown(&failure, STYLE, "*/*");
            let expected = format!("hedgerow; error={kind}; details=\"{}\"", failure.class.name());
            assert_eq!(headers["proxy-status"], expected, "{failure:?}");
        }
    }

    #[test]
    fn problem_json_where_it_is_asked_for_by_name() {
        let failure = Failure::new(Class::WorkerQueueFull, At::Queue, "m").retry_after(7);
        let (_, headers, body) =
            shown(&failure, STYLE, "text/html, Application/Problem+json;q=0.5");
        assert_eq!(headers["content-type"], "application/problem+json");
        assert_eq!(headers["retry-after"], "7");
        let value: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(value["status"], 503);
        assert_eq!(value["title"], "Service Unavailable");
        assert_eq!(value["error_class"], "worker_queue_full");
        assert_eq!((&value["trace_id"], &value["request_id"]), (&"T".into(), &"R".into()));
        for other in ["*/*", "application/*", "application/problem+json;q=0", "application/json"] {
            assert_eq!(shown(&failure, STYLE, other).2, "Service Unavailable", "{other}");
        }
        let never = Style { problem_json: false, ..STYLE };
        assert_eq!(shown(&failure, never, "application/problem+json").2, "Service Unavailable");
    }
}
