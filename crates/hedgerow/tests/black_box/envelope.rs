//! What every failure looks like to a client (E0 of the cases).

use hedgerow_testkit::http::Response;

/// Holds `response` to the whole envelope of this class.
pub(crate) fn assert_failure(response: &Response, status: u16, class: &str) {
    let reason = match status {
        400 => "Bad Request",
        404 => "Not Found",
        408 => "Request Timeout",
        413 => "Payload Too Large",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        other => panic!("no failure has status {other}: {response:?}"),
    };
    assert_eq!(response.status(), status, "{response:?}");
    assert_eq!(response.header("x-vhttpd-error-class"), Some(class), "{response:?}");
    assert_eq!(response.text(), reason, "{response:?}");
    assert_eq!(response.header("content-type"), Some("text/plain; charset=utf-8"), "{response:?}");
    assert_eq!(response.header("cache-control"), Some("no-store"), "{response:?}");
    for id in ["x-vhttpd-trace-id", "x-request-id"] {
        assert!(response.header(id).is_some_and(|id| !id.is_empty()), "{id}: {response:?}");
    }
    let proxy_status = response.header("proxy-status").unwrap_or("");
    assert!(proxy_status.starts_with("hedgerow; error="), "{response:?}");
    let retry_after = response.header("retry-after").map(str::parse::<u64>);
    match status {
        503 => assert!(matches!(retry_after, Some(Ok(1..=30))), "{response:?}"),
        _ => assert_eq!(retry_after, None, "{response:?}"),
    }
    assert_eq!(response.header("x-worker-error"), None, "{response:?}");
}
