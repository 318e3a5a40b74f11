//! Who may come in.
//!
//! Invariant: a browser that shows somebody else's page is never let in. Where there is no token
//! this is the only protection: the page's `Origin` gives it away, and a name that was made to
//! point at this address (DNS rebinding) gives itself away in `Host`.

use super::Settings;
use http::header::{AUTHORIZATION, HOST, HeaderMap, ORIGIN};
use http::{Method, Request};
use std::net::IpAddr;

/// The header that carries the token; `Authorization: Bearer` does as well.
const TOKEN: &str = "x-vhttpd-admin-token";

/// Whether the request comes from where requests may come from.
pub(super) fn origin<B>(settings: &Settings, request: &Request<B>) -> bool {
    let headers = request.headers();
    let Some(host) = authority(request) else { return false };
    if !known_host(settings, host) {
        return false;
    }
    let mut origins = headers.get_all(ORIGIN).iter();
    if let Some(origin) = origins.next() {
        // Whatever stands in front of this listener may speak TLS: the scheme says nothing.
        let origin = origin.to_str().unwrap_or("");
        let site = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        if !site.is_some_and(|site| site.eq_ignore_ascii_case(host)) || origins.next().is_some() {
            return false;
        }
    }
    // To follow a link from elsewhere is harmless; to post a form from elsewhere is not.
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let site = headers.get("sec-fetch-site").map_or(&b"none"[..], http::HeaderValue::as_bytes);
    reads || matches!(site, b"none" | b"same-origin")
}

/// The authority the request was sent to: that of an absolute target, else `Host`, of which there
/// must be exactly one.
fn authority<B>(request: &Request<B>) -> Option<&str> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let (host, more) = (hosts.next(), hosts.next());
    if more.is_some() {
        return None;
    }
    match request.uri().authority() {
        Some(authority) => Some(authority.as_str()),
        None => host?.to_str().ok(),
    }
}

/// An IP address, `localhost`, or a name that was configured. No public name can be made to lead
/// here and pass.
fn known_host(settings: &Settings, authority: &str) -> bool {
    let name = without_port(authority);
    let literal = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
    literal.parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || settings.hosts.iter().any(|known| name.eq_ignore_ascii_case(known))
}

fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        // The colon of `[::1]` is no port's.
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => authority,
    }
}

/// Whether the request shows the token, where there is one to show.
pub(super) fn token(settings: &Settings, headers: &HeaderMap) -> bool {
    let Some(token) = &settings.token else { return true };
    let shown = match headers.get(TOKEN) {
        Some(value) => value.as_bytes(),
        None => headers.get(AUTHORIZATION).and_then(|v| bearer(v.as_bytes())).unwrap_or(b""),
    };
    same(shown, token.as_bytes())
}

fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| rest.trim_ascii())
}

/// Compares in a time that depends on the length of what was shown, and on nothing of the secret.
fn same(shown: &[u8], secret: &[u8]) -> bool {
    let mut differs = u8::from(shown.len() != secret.len());
    for (at, byte) in shown.iter().enumerate() {
        let expected = secret.get(at % secret.len().max(1)).copied().unwrap_or(0);
        // Not for the optimiser to find a short way through.
        differs = std::hint::black_box(differs | (byte ^ expected));
    }
    differs == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(lines: &[(&str, &str)]) -> bool {
        let mut request = Request::post("/admin/workers/restart/all");
        for (name, value) in lines {
            request = request.header(*name, *value);
        }
        let settings = Settings { hosts: vec!["edge-1".to_owned()], ..Settings::default() };
        origin(&settings, &request.body(()).expect("a request"))
    }

    #[test]
    fn names_that_could_be_rebound_are_refused() {
        for host in [
            "127.0.0.1:9080",
            "127.0.0.1",
            "[::1]:9080",
            "[::1]",
            "localhost:9080",
            "LocalHost",
            "edge-1:9080",
            "10.0.0.5:80",
        ] {
            assert!(passes(&[("host", host)]), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:9080",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "",
            "evil.example@127.0.0.1:9080",
            "[::1].evil.example",
            "127.0.0.1:80:80",
        ] {
            assert!(!passes(&[("host", host)]), "{host}");
        }
        assert!(!passes(&[]));
        assert!(!passes(&[("host", "127.0.0.1"), ("host", "127.0.0.1")]));
    }

    #[test]
    fn an_absolute_target_is_the_host() {
        let request = Request::get("http://evil.example/admin/stats").header("host", "127.0.0.1");
        assert!(!origin(&Settings::default(), &request.body(()).expect("a request")));
    }

    #[test]
    fn pages_elsewhere_are_refused() {
        let host = ("host", "127.0.0.1:9080");
        for origin in ["http://127.0.0.1:9080", "https://127.0.0.1:9080"] {
            assert!(passes(&[host, ("origin", origin)]), "{origin}");
        }
        for origin in [
            "http://evil.example",
            "null",
            "",
            "http://127.0.0.1",
            "http://127.0.0.1:9081",
            "http://localhost:9080",
            "file://",
            "http://127.0.0.1:9080.evil.example",
        ] {
            assert!(!passes(&[host, ("origin", origin)]), "{origin}");
        }
        assert!(!passes(&[host, ("sec-fetch-site", "cross-site")]));
        assert!(!passes(&[host, ("sec-fetch-site", "same-site")]));
        assert!(passes(&[host, ("sec-fetch-site", "same-origin")]));
    }

    #[test]
    fn the_token_has_two_ways_in() {
        let settings = Settings { token: Some("s3cret".to_owned()), ..Settings::default() };
        let shows = |lines: &[(&'static str, &'static str)]| {
            let pairs = lines.iter().map(|(name, value)| {
                let name = http::HeaderName::from_static(name);
                (name, http::HeaderValue::from_static(value))
            });
            token(&settings, &pairs.collect())
        };
        assert!(shows(&[(TOKEN, "s3cret")]));
        assert!(shows(&[("authorization", "Bearer s3cret")]));
        assert!(shows(&[("authorization", "bearer  s3cret ")]));
        for wrong in ["", "s3cre", "s3cret2", "s3creT", "s3crets3cret"] {
            assert!(!shows(&[(TOKEN, wrong)]), "{wrong}");
            // One that is wrong is not made good by another.
            assert!(!shows(&[(TOKEN, wrong), ("authorization", "Bearer s3cret")]), "{wrong}");
        }
        assert!(!shows(&[("authorization", "Basic s3cret")]));
        assert!(!shows(&[]));
    }
}
