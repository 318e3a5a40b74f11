//! Who really asks, over which scheme and for which host, when proxies stand in between.
//!
//! Invariant: a forwarding header is believed only as far as it was written by a proxy the operator
//! trusts. The chain is walked from our side, and the first address that is not trusted is the
//! client: what stands to the left of it may be anyone's invention.

use crate::settings::Network;
use crate::smuggling::parse_authority;
use http::HeaderMap;
use std::net::{IpAddr, SocketAddr};

/// Where a request comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Origin {
    pub(crate) remote: IpAddr,
    pub(crate) scheme: &'static str,
    /// The host (and port) that a trusted proxy was asked for, where it says so.
    pub(crate) authority: Option<String>,
}

impl Origin {
    /// The origin of a request from `peer`.
    pub(crate) fn of(peer: IpAddr, tls: bool, headers: &HeaderMap, trusted: &[Network]) -> Origin {
        let scheme = if tls { "https" } else { "http" };
        let mut origin = Origin { remote: peer.to_canonical(), scheme, authority: None };
        let trusts = |addr: IpAddr| trusted.iter().any(|network| network.contains(addr));
        if !trusts(peer) {
            return origin;
        }
        if headers.contains_key("x-forwarded-for") {
            for address in listed(headers, "x-forwarded-for") {
                let Some(address) = address_of(address) else { break };
                origin.remote = address.to_canonical();
                if !trusts(address) {
                    break;
                }
            }
            origin.set_scheme(listed(headers, "x-forwarded-proto").next());
            origin.set_authority(listed(headers, "x-forwarded-host").next());
        } else {
            for (index, element) in listed(headers, "forwarded").enumerate() {
                if index == 0 {
                    origin.set_scheme(parameter(element, "proto"));
                    origin.set_authority(parameter(element, "host"));
                }
                let address = parameter(element, "for").and_then(address_of);
                let Some(address) = address else { break };
                origin.remote = address.to_canonical();
                if !trusts(address) {
                    break;
                }
            }
        }
        origin
    }

    fn set_scheme(&mut self, named: Option<&str>) {
        match named {
            Some(scheme) if scheme.eq_ignore_ascii_case("https") => self.scheme = "https",
            Some(scheme) if scheme.eq_ignore_ascii_case("http") => self.scheme = "http",
            _ => {}
        }
    }

    fn set_authority(&mut self, named: Option<&str>) {
        self.authority = named.filter(|text| parse_authority(text).is_some()).map(str::to_owned);
    }
}

/// The elements of a list header, the last first: that is the one the nearest proxy wrote.
fn listed<'a>(headers: &'a HeaderMap, name: &str) -> impl Iterator<Item = &'a str> {
    let lines = headers.get_all(name).iter().rev();
    lines.flat_map(|line| line.to_str().unwrap_or("").rsplit(',')).map(str::trim)
}

/// A parameter of one element of `Forwarded` (RFC 7239, 4), without its quotes.
fn parameter<'a>(element: &'a str, name: &str) -> Option<&'a str> {
    element.split(';').find_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        key.trim().eq_ignore_ascii_case(name).then(|| value.trim().trim_matches('"'))
    })
}

/// An address, with or without a port, with or without brackets.
fn address_of(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    bare.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|addr| addr.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn origin(peer: &str, headers: &[(&'static str, &str)]) -> (String, &'static str, String) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        let trusted = [
            Network { addr: "127.0.0.1".parse().unwrap(), prefix: 32 },
            Network { addr: "10.0.0.0".parse().unwrap(), prefix: 8 },
        ];
        let origin = Origin::of(peer.parse().unwrap(), false, &map, &trusted);
        (origin.remote.to_string(), origin.scheme, origin.authority.unwrap_or_default())
    }

    #[test]
    fn strangers_are_not_believed() {
        let headers = [
            ("x-forwarded-for", "1.2.3.4"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "evil"),
        ];
        assert_eq!(origin("9.9.9.9", &headers), ("9.9.9.9".into(), "http", String::new()));
        let believed = ("1.2.3.4".into(), "https", "evil".into());
        assert_eq!(origin("127.0.0.1", &headers), believed);
    }

    #[test]
    fn the_first_stranger_from_our_side_is_the_client() {
        let chain = [("x-forwarded-for", "6.6.6.6, 1.2.3.4"), ("x-forwarded-for", "10.1.1.1")];
        assert_eq!(origin("127.0.0.1", &chain).0, "1.2.3.4");
        assert_eq!(origin("127.0.0.1", &[("x-forwarded-for", "junk, 10.0.0.2")]).0, "10.0.0.2");
        assert_eq!(
            origin("127.0.0.1", &[("x-forwarded-for", "[2001:db8::1]:99")]).0,
            "2001:db8::1"
        );
        assert_eq!(origin("::ffff:127.0.0.1", &[]).0, "127.0.0.1");
    }

    #[test]
    fn the_standard_header_counts_where_the_older_one_is_absent() {
        let standard =
            "for=6.6.6.6, for=\"[2001:db8::7]:4711\";proto=https;host=\"a.example:8443\"";
        let expected = ("2001:db8::7".into(), "https", "a.example:8443".into());
        assert_eq!(origin("10.0.0.1", &[("forwarded", standard)]), expected);
        assert_eq!(origin("10.0.0.1", &[("forwarded", "for=unknown")]).0, "10.0.0.1");
    }

    #[test]
    fn what_is_no_scheme_or_host_is_ignored() {
        let odd = [
            ("x-forwarded-for", "1.2.3.4"),
            ("x-forwarded-proto", "gopher"),
            ("x-forwarded-host", "a b"),
        ];
        assert_eq!(origin("127.0.0.1", &odd), ("1.2.3.4".into(), "http", String::new()));
    }
}
