//! Addresses, names and URLs.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::{Refusal, Value, expected, quote};
use crate::config::model::Network;

/// An address and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address(pub(crate) SocketAddr);

/// An address and a port, or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MaybeAddress(pub(crate) Option<SocketAddr>);

impl Value for Address {
    fn accepts() -> String {
        "address and port (\"127.0.0.1:8080\")".into()
    }
    fn from_text(text: &str) -> Result<Self, Refusal> {
        if let Ok(address) = text.parse() {
            return Ok(Self(address));
        }
        let accept = match text.rsplit_once(':') {
            // The one name that needs no resolver.
            Some(("localhost", port)) => match port.parse() {
                Ok(port) => return Ok(Self(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))),
                Err(_) => "expected a port from 0 to 65535".into(),
            },
            Some(("" | "*", port)) if port.parse::<u16>().is_ok() => {
                format!(
                    "write \"0.0.0.0:{port}\" for all addresses, or \"127.0.0.1:{port}\" for this machine only"
                )
            }
            _ if text.parse::<u16>().is_ok() => format!("write \"127.0.0.1:{text}\""),
            _ if text.parse::<IpAddr>().is_ok() => "add a port, such as \"127.0.0.1:8080\"".into(),
            _ => "expected an address and a port, such as \"127.0.0.1:8080\" or \"[::1]:8080\""
                .into(),
        };
        Err(Refusal::new(format!("is {text:?}"), accept))
    }
    fn to_toml(&self) -> String {
        quote(&self.0.to_string())
    }
}

impl Value for MaybeAddress {
    fn accepts() -> String {
        "address and port (\"127.0.0.1:8080\"), or \"\" for none".into()
    }
    fn from_text(text: &str) -> Result<Self, Refusal> {
        if text.is_empty() {
            return Ok(Self(None));
        }
        Address::from_text(text).map(|address| Self(Some(address.0)))
    }
    fn to_toml(&self) -> String {
        self.0.map_or_else(|| quote(""), |address| quote(&address.to_string()))
    }
}

impl Value for Network {
    fn accepts() -> String {
        "address or range (\"10.0.0.0/8\")".into()
    }
    fn from_text(text: &str) -> Result<Self, Refusal> {
        let wrong = || Refusal::new(format!("is {text:?}"), expected::<Self>());
        let (address, prefix) = text.split_once('/').map_or((text, None), |(a, p)| (a, Some(p)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let full = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map_or(Ok(full), |p| p.parse().map_err(|_| wrong()))?;
        if prefix > full {
            return Err(wrong());
        }
        Ok(Self { address, prefix })
    }
    fn to_toml(&self) -> String {
        quote(&self.to_string())
    }
}

/// Whether this is a plain host name or address, without a port.
fn is_host(text: &str) -> bool {
    let label = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    let bracketed = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    bracketed.map_or_else(|| text.split('.').all(label), |ip| ip.parse::<IpAddr>().is_ok())
}

/// `HOST` or `HOST:PORT`.
fn is_authority(text: &str) -> bool {
    let port = text.rsplit_once(':').filter(|_| !text.ends_with(']'));
    port.map_or_else(|| is_host(text), |(host, port)| is_host(host) && port.parse::<u16>().is_ok())
}

macro_rules! text_kinds {
    ($($(#[doc = $doc:literal])+ $kind:ident, $secret:literal, $accepts:literal, $read:expr;)+) => { $(
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub(crate) struct $kind(pub(crate) String);
        impl Value for $kind {
            const SECRET: bool = $secret;
            fn accepts() -> String {
                $accepts.into()
            }
            fn from_text(text: &str) -> Result<Self, Refusal> {
                let read: fn(&str) -> Option<String> = $read;
                let wrong = || {
                    let shown = masked(text);
                    Refusal::new(format!("is {shown:?}"), expected::<Self>())
                };
                read(text).map(Self).ok_or_else(wrong)
            }
            fn to_toml(&self) -> String {
                quote(&masked(&self.0))
            }
        }
    )+ };
}

text_kinds! {
    /// A host of a route.
    Host, false, "host name", |text| is_host(text).then(|| text.to_ascii_lowercase());
    /// A method of a route.
    Method, false, "method (\"GET\")", |text| {
        let token = !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphabetic() || b == b'-');
        token.then(|| text.to_ascii_uppercase())
    };
    /// The base URL of an upstream; never with a user, whose password would reach the logs.
    Endpoint, false, "URL (\"https://api.example.org/v1\") without user, query or fragment", |text| {
        let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"))?;
        let (authority, path) = rest.split_once('/').map_or((rest, ""), |(a, p)| (a, p));
        let plain = path.bytes().all(|b| b.is_ascii_graphic() && !b"?#".contains(&b));
        (is_authority(authority) && plain).then(|| text.to_owned())
    };
    /// A host that a plan may name.
    HostPattern, false, "host, host:port, \"*.example.org\" or a range of addresses", |text| {
        let name = text.strip_prefix("*.").unwrap_or(text);
        let good = is_authority(name) || Network::from_text(text).is_ok();
        good.then(|| text.to_ascii_lowercase())
    };
    /// The beginning of header names. Request headers under it are dropped, so it must be nobody else's.
    HeaderPrefix, false, "\"x-\" and a name of your own of letters, digits and hyphens (\"x-vhttpd\"); not x-forwarded, x-real, x-request, x-trace or x-worker", |text| {
        let text = text.to_ascii_lowercase();
        let name = text.strip_prefix("x-").filter(|name| {
            !["forwarded", "real", "request", "trace", "worker"].contains(name)
                && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
                && name.starts_with(|c: char| c.is_ascii_alphanumeric()) && !name.ends_with('-')
        });
        (name.is_some() && text.len() <= 64).then_some(text)
    };
    /// Where the cache keeps its values; a secret, since the URL may contain a password.
    StoreUrl, true, "\"memory\", or a URL starting with redis:// or rediss://", |text| {
        // Clusters and sentinels come later.
        let schemes = ["redis://", "rediss://"];
        let named = |scheme: &&str| text.strip_prefix(*scheme).is_some_and(|rest| !rest.is_empty());
        let plain = text.bytes().all(|b| b.is_ascii_graphic());
        (text == "memory" || (plain && schemes.iter().any(named))).then(|| text.to_owned())
    };
}

/// A URL with what stands before `@` hidden.
pub(crate) fn masked(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    match rest.rsplit_once('@') {
        Some((_, rest)) => format!("{scheme}://***@{rest}"),
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let read = |text| Address::from_text(text).map(|a| a.0.to_string());
        assert_eq!(read("127.0.0.1:80").ok().as_deref(), Some("127.0.0.1:80"));
        assert_eq!(read("localhost:80").ok().as_deref(), Some("127.0.0.1:80"));
        assert_eq!(read("[::1]:80").ok().as_deref(), Some("[::1]:80"));
        for bad in ["", ":80", "80", "host:80", "1.2.3.4", "1.2.3.4:99999"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn networks() {
        let ten = Network::from_text("10.0.0.0/8").expect("a range");
        assert!(ten.contains("10.9.9.9".parse().expect("ip")));
        assert!(ten.contains("::ffff:10.9.9.9".parse().expect("ip")));
        assert!(!ten.contains("11.0.0.1".parse().expect("ip")));
        assert!(!ten.contains("::1".parse().expect("ip")));
        let all = Network::from_text("0.0.0.0/0").expect("a range");
        assert!(all.contains("1.2.3.4".parse().expect("ip")));
        assert!(Network::from_text("10.0.0.0/33").is_err());
    }

    #[test]
    fn a_header_prefix_is_nobody_elses() {
        for good in ["x-vhttpd", "X-Edge-1", "x-requests", "x-9"] {
            assert!(HeaderPrefix::from_text(good).is_ok(), "{good}");
        }
        for bad in ["", "x", "x-", "x--a", "x-a-", "xy-a", "x-a_b", "content", "x-real", "X-Trace"]
        {
            assert!(HeaderPrefix::from_text(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn urls() {
        assert!(Endpoint::from_text("https://api.example.org:8443/v1").is_ok());
        for bad in
            ["api.example.org", "ftp://x", "http://", "http://u:p@x/", "http://x/?q", "http://x:y/"]
        {
            assert!(Endpoint::from_text(bad).is_err(), "{bad}");
        }
        for good in ["memory", "redis://localhost", "rediss://me:x@host:6380/3"] {
            assert!(StoreUrl::from_text(good).is_ok(), "{good}");
        }
        for bad in ["redis+cluster://a,b:1,c", "redis+sentinel://a", "redis://", "disk"] {
            assert!(StoreUrl::from_text(bad).is_err(), "{bad}");
        }
        let store = StoreUrl::from_text("redis://me:secret@host/1").expect("a URL");
        assert_eq!(store.to_toml(), "\"redis://***@host/1\"");
        for good in ["example.org", "example.org:443", "*.example.org", "10.0.0.0/8", "[::1]:80"] {
            assert!(HostPattern::from_text(good).is_ok(), "{good}");
        }
        assert!(HostPattern::from_text("http://x").is_err());
    }
}
