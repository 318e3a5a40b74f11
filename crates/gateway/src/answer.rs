//! A worker's answer as an HTTP response.
//!
//! Invariant: what goes out is what HTTP allows for this method and status: no body for HEAD, 204,
//! 205 and 304, a length that is the body's own, no header that belongs to a connection, and none
//! of the names by which the gateway speaks for itself.

use crate::calls::Calls;
use crate::head::is_hop_by_hop;
use crate::names::Names;
use crate::stream::Source;
use bytes::Bytes;
use hedgerow_policy::failure::{At, Class, Failure};
use hedgerow_upstream::{PlanStream, Response as Called};
use hedgerow_wire::plan::Output;
use hedgerow_wire::stream::{StreamKind, StreamStart};
use hedgerow_worker::{Answer, Content, Response, Stream};
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue, TRAILER};
use http::{HeaderMap, Method, StatusCode};

/// A response, before it has the headers that every response gets.
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: ReplyBody,
    /// The kind of stream, where it is one.
    pub(crate) stream: Option<&'static str>,
}

/// Its body.
pub(crate) enum ReplyBody {
    Full(Bytes),
    Flow(Source),
}

/// The response to a request of this method.
///
/// # Errors
/// When the answer is none that HTTP or this gateway knows. (What a worker reports of itself is a
/// failure of the exchange already.)
pub(crate) fn reply(answer: Answer, method: &Method, names: &Names) -> Result<Reply, Failure> {
    match answer {
        Answer::Response(response) => whole(response, method, names),
        Answer::Stream(stream) => streamed(stream, method, names),
        // `plan`, `batch` and `dispatch` take these before.
        Answer::Plan(_) | Answer::Batch(_) | Answer::Dispatch(_) => {
            Err(crate::plan::nobody_calls())
        }
    }
}

fn whole(response: Response, method: &Method, names: &Names) -> Result<Reply, Failure> {
    let Response { head, content } = response;
    let status = status(head.status)?;
    let mut headers = headers(head.headers, names)?;
    let length = match &content {
        Content::Full(bytes) => bytes.len() as u64,
        Content::Pieces { length, .. } => *length,
    };
    let body = if has_body(method, status) {
        match content {
            Content::Full(bytes) => ReplyBody::Full(bytes),
            Content::Pieces { length, pieces } => {
                ReplyBody::Flow(Source::Pieces { left: length, pieces })
            }
        }
    } else {
        // The length tells what GET would have got. A 304 tells none: what it was made from is
        // gone, and its length would be taken for that of the representation.
        let told = head.declared_length.or((length > 0).then_some(length));
        if let (true, Some(length)) = (has_body(&Method::GET, status), told) {
            headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        ReplyBody::Full(Bytes::new())
    };
    Ok(Reply { status, headers, body, stream: None })
}

fn streamed(stream: Stream, method: &Method, names: &Names) -> Result<Reply, Failure> {
    let Stream { start, items } = stream;
    let StreamStart { kind, content_type, headers: lines, .. } = start;
    let status = status(start.status)?;
    let mut headers = headers(lines, names)?;
    let content_type = HeaderValue::try_from(content_type)
        .map_err(|_| contract("a content type that HTTP does not allow"))?;
    headers.insert(CONTENT_TYPE, content_type);
    if kind == StreamKind::Sse {
        // Caches must not keep events, and proxies in between must not gather them.
        headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache"));
        const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
        headers.entry(BUFFERING).or_insert(HeaderValue::from_static("no"));
    }
    let body = if has_body(method, status) {
        ReplyBody::Flow(Source::Items { kind, items })
    } else {
        ReplyBody::Full(Bytes::new())
    };
    let name = match kind {
        StreamKind::Sse => "sse",
        StreamKind::Text => "text",
    };
    Ok(Reply { status, headers, body, stream: Some(name) })
}

/// The response of a plan whose first piece is there. A client that takes `trailers` is told in one
/// when a text fails late.
///
/// # Errors
/// When the plan asks for a header that HTTP does not allow.
pub(crate) fn planned(
    plan: PlanStream,
    calls: Calls,
    method: &Method,
    names: &Names,
    trailers: bool,
) -> Result<Reply, Failure> {
    let mut headers = headers(plan.headers().to_vec(), names)?;
    let content_type = HeaderValue::try_from(plan.content_type())
        .map_err(|_| contract("a content type that HTTP does not allow"))?;
    headers.insert(CONTENT_TYPE, content_type);
    let sse = plan.output() == Output::Sse;
    if sse {
        headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache"));
        const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
        headers.entry(BUFFERING).or_insert(HeaderValue::from_static("no"));
    }
    let trailer = (trailers && !sse).then(|| names.error_class.clone());
    if let Some(name) = &trailer {
        headers.insert(TRAILER, HeaderValue::from(name.clone()));
    }
    let body = if has_body(method, StatusCode::OK) {
        ReplyBody::Flow(Source::Plan(Box::new(plan), calls, trailer))
    } else {
        ReplyBody::Full(Bytes::new())
    };
    let name = if sse { "sse" } else { "text" };
    Ok(Reply { status: StatusCode::OK, headers, body, stream: Some(name) })
}

/// An upstream's own answer.
pub(crate) fn passed(mut called: Called, method: &Method, names: &Names) -> Reply {
    let (status, mut headers) = (called.status(), std::mem::take(called.headers_mut()));
    names.remove_own(&mut headers);
    // Its trailers are passed over, and so is what announces them.
    headers.remove(TRAILER);
    let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    let length = length.and_then(|text| text.parse().ok());
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = content_type.unwrap_or_default().split(';').next().unwrap_or_default();
    let stream = essence.trim().eq_ignore_ascii_case("text/event-stream").then_some("sse");
    let body = if has_body(method, status) && length != Some(0) {
        ReplyBody::Flow(Source::Call(Box::new(called), length))
    } else {
        ReplyBody::Full(Bytes::new())
    };
    Reply { status, headers, body, stream }
}

/// The application answered with what it must not.
pub(crate) fn contract(message: &'static str) -> Failure {
    Failure::new(Class::AppContractError, At::Worker, message)
}

fn status(status: u16) -> Result<StatusCode, Failure> {
    match StatusCode::from_u16(status) {
        Ok(known) if (200..600).contains(&status) => Ok(known),
        _ => Err(contract("a status that is no response's")),
    }
}

/// Whether such an answer has a body.
pub(crate) fn has_body(method: &Method, status: StatusCode) -> bool {
    let empty = [StatusCode::NO_CONTENT, StatusCode::RESET_CONTENT, StatusCode::NOT_MODIFIED];
    method != Method::HEAD && !empty.contains(&status)
}

fn headers(lines: Vec<(String, String)>, names: &Names) -> Result<HeaderMap, Failure> {
    // Room for what every response gets, so that the map is not grown for it.
    let mut headers = HeaderMap::with_capacity(lines.len() + 4);
    for (name, value) in lines {
        if is_hop_by_hop(&name) || name == "content-length" || names.own(&name) {
            continue;
        }
        let (Ok(name), Ok(value)) =
            (HeaderName::try_from(name.as_str()), HeaderValue::try_from(value))
        else {
            return Err(contract("a header that HTTP does not allow"));
        };
        headers.append(name, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hedgerow_wire::answer;

    fn response(status: u16, headers: &[(&str, &str)], body: &'static str) -> Answer {
        let headers = headers.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        Answer::Response(Response {
            head: answer::Response {
                status,
                headers,
                body: answer::Body::Inline(Bytes::new()),
                declared_length: None,
                capabilities: None,
                worker_error: None,
            },
            content: Content::Full(Bytes::from_static(body.as_bytes())),
        })
    }

    fn run(answer: Answer, method: &Method) -> Result<(u16, HeaderMap, Bytes), Class> {
        let names = Names::new("x-vhttpd").unwrap();
        let reply = reply(answer, method, &names).map_err(|failure| failure.class)?;
        let ReplyBody::Full(bytes) = reply.body else { panic!("a whole body") };
        Ok((reply.status.as_u16(), reply.headers, bytes))
    }

    #[test]
    fn bodies_that_http_does_not_allow_are_dropped() {
        let rows = [
            (Method::GET, 200, "abc", None),
            (Method::HEAD, 200, "", Some("3")),
            (Method::GET, 204, "", None),
            (Method::GET, 205, "", None),
            (Method::GET, 304, "", None),
        ];
        for (method, status, body, length) in rows {
            let (_, headers, bytes) = run(response(status, &[], "abc"), &method).unwrap();
            assert_eq!(bytes, body, "{method} {status}");
            let told = headers.get("content-length").map(|value| value.to_str().unwrap());
            assert_eq!(told, length, "{method} {status}");
        }
    }

    #[test]
    fn impossible_statuses_and_headers_are_the_applications_fault() {
        for status in [99, 101, 100, 199, 600, 999] {
            assert_eq!(run(response(status, &[], ""), &Method::GET), Err(Class::AppContractError));
        }
        for header in [("a b", "x"), ("x", "a\r\nb: c"), ("", "x")] {
            let answer = response(200, &[header], "");
            assert_eq!(run(answer, &Method::GET), Err(Class::AppContractError), "{header:?}");
        }
    }

    #[test]
    fn lines_stay_lines_and_the_connections_own_are_left_out() {
        let lines = [
            ("set-cookie", "a=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT"),
            ("set-cookie", "b=2"),
            ("connection", "close"),
            ("transfer-encoding", "chunked"),
            ("content-length", "99"),
            ("x-vhttpd-error-class", "timeout"),
            ("x-other", "1"),
        ];
        let (_, headers, _) = run(response(200, &lines, "abc"), &Method::GET).unwrap();
        assert_eq!(headers.get_all("set-cookie").iter().count(), 2);
        assert_eq!(headers.len(), 3, "{headers:?}");
    }
}
