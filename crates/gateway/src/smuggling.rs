//! What RFC 9112 forbids and the HTTP library lets through.
//!
//! Invariant: a request that two readers could understand in two ways never reaches a worker. What
//! the library refuses by itself (a length beside a coding, odd lengths, names that are no token,
//! folded lines) never comes here; `tests/smuggling.rs` holds every row of that table over raw TCP.

use hedgerow_policy::failure::{At, Class, Failure};
use http::header::{CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, Method, Uri, Version};

/// Whom a request is addressed to, once it is certain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Authority<'a> {
    /// As it was received: `example.org:8080`. Empty where HTTP/1.0 named none.
    pub(crate) text: &'a str,
    /// Without the port; an IPv6 address keeps its brackets.
    pub(crate) host: &'a str,
    /// The port, where one was named.
    pub(crate) port: Option<u16>,
}

/// Refuses an ambiguous head; says whom the request is addressed to.
///
/// # Errors
/// `bad_request`: the answer is 400, and the connection ends.
pub(crate) fn check<'a>(
    method: &Method,
    uri: &'a Uri,
    version: Version,
    headers: &'a HeaderMap,
) -> Result<Authority<'a>, Failure> {
    check_target(method, uri)?;
    check_length(headers)?;
    check_host(uri, version, headers)
}

fn bad(message: &'static str) -> Failure {
    Failure::new(Class::BadRequest, At::Client, message)
}

/// RFC 9112, 3.2: a path or an absolute URI; `*` for OPTIONS alone. This is no forward proxy, so
/// there is nothing for CONNECT to name.
fn check_target(method: &Method, uri: &Uri) -> Result<(), Failure> {
    if method == Method::CONNECT {
        return Err(bad("CONNECT to a gateway"));
    }
    match uri.scheme_str() {
        None if uri.authority().is_some() => return Err(bad("a request target without a path")),
        Some(scheme) if scheme != "http" && scheme != "https" => {
            return Err(bad("a request target of another scheme"));
        }
        _ => {}
    }
    match uri.path() {
        "*" if method != Method::OPTIONS => Err(bad("the target * for another method")),
        "*" => Ok(()),
        path if path.starts_with('/') => Ok(()),
        _ => Err(bad("a request target that is no path")),
    }
}

/// RFC 9112, 6.1 and 6.3. The library takes `gzip, chunked` and repeated codings as chunked; a
/// worker would then get a body still in its other coding.
fn check_length(headers: &HeaderMap) -> Result<(), Failure> {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    if let Some(coding) = codings.next() {
        if codings.next().is_some() || !coding.as_bytes().eq_ignore_ascii_case(b"chunked") {
            return Err(bad("a transfer coding other than chunked"));
        }
        if headers.contains_key(CONTENT_LENGTH) {
            return Err(bad("a length beside a transfer coding"));
        }
    }
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    if let Some(length) = lengths.next() {
        let digits = !length.is_empty() && length.as_bytes().iter().all(u8::is_ascii_digit);
        if lengths.next().is_some() || !digits {
            return Err(bad("a repeated or odd content-length"));
        }
    }
    Ok(())
}

/// RFC 9112, 3.2 and 3.2.2; RFC 9113, 8.3.1. The URI's own authority wins over `Host` in HTTP/1,
/// as it must; in HTTP/2 the two must not differ.
fn check_host<'a>(
    uri: &'a Uri,
    version: Version,
    headers: &'a HeaderMap,
) -> Result<Authority<'a>, Failure> {
    let mut hosts = headers.get_all(HOST).iter();
    let named = hosts.next();
    if hosts.next().is_some() {
        return Err(bad("more than one Host"));
    }
    let named =
        named.map(|host| host.to_str().map_err(|_| bad("a Host that is no host"))).transpose()?;
    let text = match (uri.authority().map(http::uri::Authority::as_str), named) {
        (Some(authority), Some(host))
            if version == Version::HTTP_2 && !authority.eq_ignore_ascii_case(host) =>
        {
            return Err(bad("a Host that differs from :authority"));
        }
        (Some(authority), _) => authority,
        (None, Some(host)) => host,
        (None, None) if version <= Version::HTTP_10 => "",
        (None, None) => return Err(bad("no Host")),
    };
    if text.is_empty() && named.is_none() {
        return Ok(Authority { text, host: "", port: None });
    }
    parse_authority(text).ok_or_else(|| bad("a Host that is no host"))
}

/// `host[:port]` of RFC 3986, without user information.
pub(crate) fn parse_authority(text: &str) -> Option<Authority<'_>> {
    let (host, rest) = if text.starts_with('[') {
        text.split_at(text.find(']')? + 1)
    } else {
        text.split_at(text.find(':').unwrap_or(text.len()))
    };
    let valid = match host.strip_prefix('[') {
        Some(address) => address.trim_end_matches(']').parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.bytes().all(is_host_byte),
    };
    // An empty port is allowed and means the default (RFC 3986, 3.2.3).
    let port = match rest.strip_prefix(':') {
        Some("") => None,
        Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => Some(digits.parse().ok()?),
        None if rest.is_empty() => None,
        _ => return None,
    };
    valid.then_some(Authority { text, host, port })
}

fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn run(method: &str, uri: &str, version: Version, headers: &[(&'static str, &str)]) -> bool {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        check(&method, &uri.parse().unwrap(), version, &map).is_ok()
    }

    #[test]
    fn targets() {
        let ok = |method, uri| run(method, uri, Version::HTTP_11, &[("host", "a")]);
        assert!(ok("GET", "/"));
        assert!(ok("GET", "//double?x=//y"));
        assert!(ok("GET", "http://a/x"));
        assert!(ok("OPTIONS", "*"));
        assert!(!ok("GET", "*"));
        assert!(!ok("GET", "a"));
        assert!(!ok("CONNECT", "a:443"));
        assert!(!ok("GET", "ftp://a/x"));
        assert!(!ok("GET", "http://user@a/x"));
    }

    #[test]
    fn lengths() {
        let ok = |headers: &[(&'static str, &str)]| {
            let mut all = vec![("host", "a")];
            all.extend_from_slice(headers);
            run("POST", "/", Version::HTTP_11, &all)
        };
        assert!(ok(&[("content-length", "5")]));
        assert!(ok(&[("transfer-encoding", "Chunked")]));
        assert!(!ok(&[("transfer-encoding", "gzip, chunked")]));
        assert!(!ok(&[("transfer-encoding", "chunked, chunked")]));
        assert!(!ok(&[("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")]));
        assert!(!ok(&[("transfer-encoding", "chunked"), ("content-length", "5")]));
        assert!(!ok(&[("content-length", "5"), ("content-length", "5")]));
        assert!(!ok(&[("content-length", "5, 5")]));
        assert!(!ok(&[("content-length", "+5")]));
    }

    #[test]
    fn hosts() {
        let one = |host: &str| run("GET", "/", Version::HTTP_11, &[("host", host)]);
        for good in ["a", "a:80", "a:", "[::1]", "[::1]:8080", "a_b.example", "127.0.0.1:1"] {
            assert!(one(good), "{good}");
        }
        for odd in
            ["", "a b", "a/b", "u@a", "a:b", "a:99999", "[::1", "[a]", "a,b:1:2", ":80", "a\\b"]
        {
            assert!(!one(odd), "{odd}");
        }
        assert!(!run("GET", "/", Version::HTTP_11, &[]));
        assert!(!run("GET", "http://a/", Version::HTTP_11, &[("host", "a"), ("host", "a")]));
        assert!(run("GET", "http://a/", Version::HTTP_11, &[("host", "b")]));
        assert!(run("GET", "/", Version::HTTP_10, &[]));
        assert!(!run("GET", "/", Version::HTTP_10, &[("host", "")]));
        assert!(!run("GET", "http://a/", Version::HTTP_2, &[("host", "b")]));
        assert!(run("GET", "http://a/", Version::HTTP_2, &[("host", "A")]));
    }

    proptest::proptest! {
        /// Whatever comes: no panic, and nothing that a second reader could cut elsewhere.
        #[test]
        fn an_authority_is_what_it_says(text in "[\\[\\]:@/?#a-f0-9.%é -]{0,24}") {
            if let Some(found) = parse_authority(&text) {
                assert!(text.starts_with(found.host) && !found.host.is_empty());
                assert!(!text.contains(['@', '/', '?', '#', ' ', 'é']));
                let rest = &text[found.host.len()..];
                let port = found.port.map(|port| port.to_string()).unwrap_or_default();
                assert!(rest.is_empty() || rest[1..].trim_start_matches('0') == port.trim_start_matches('0'));
            }
        }
    }
}
