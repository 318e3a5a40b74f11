//! Where an endpoint is: scheme, host, port, and the path in front of every call's own.

use crate::settings::SettingsError;
use http::HeaderValue;
use http::Uri;
use http::uri::Authority;

/// The scheme of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Scheme {
    /// Plain.
    Http,
    /// Over TLS.
    Https,
}

impl Scheme {
    const fn port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }

    /// The scheme as a URL spells it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }
}

/// One endpoint.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Origin {
    /// Its scheme.
    pub scheme: Scheme,
    /// Its host, without the brackets of an IPv6 address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The path in front of every call's own, without a slash at its end.
    pub base: String,
    /// Host and port as the `Host` header has them.
    authority: String,
    host_header: HeaderValue,
}

impl Origin {
    /// Reads `http://host[:port][/base]` or its `https` form.
    ///
    /// # Errors
    /// When it is something else.
    pub fn parse(url: &str) -> Result<Origin, SettingsError> {
        let (origin, path) = Origin::split(url)?;
        let base = path.trim_end_matches('/').to_owned();
        if base.contains('?') {
            return Err(bad(url, "a query cannot stand in front of a path"));
        }
        Ok(Origin { base, ..origin })
    }

    /// The origin of a whole URL, and the path with the query that follows.
    ///
    /// # Errors
    /// When it cannot be called.
    pub fn split(url: &str) -> Result<(Origin, String), SettingsError> {
        let uri: Uri = url.parse().map_err(|_| bad(url, "it does not parse"))?;
        let scheme = match uri.scheme_str() {
            Some("http") => Scheme::Http,
            Some("https") => Scheme::Https,
            _ => return Err(bad(url, "it does not begin with http:// or https://")),
        };
        let authority = uri.authority().ok_or_else(|| bad(url, "it has no host"))?;
        if authority.as_str().contains('@') {
            return Err(bad(url, "a name and a password belong into a header"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err(bad(url, "it has no host"));
        }
        let port = authority.port_u16().unwrap_or(scheme.port());
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let authority = authority_of(authority, scheme);
        let host_header =
            HeaderValue::from_str(&authority).map_err(|_| bad(url, "its host is none"))?;
        let origin = Origin {
            scheme,
            host: host.to_ascii_lowercase(),
            port,
            base: String::new(),
            authority,
            host_header,
        };
        Ok((origin, path.to_owned()))
    }

    /// Host and port as the `Host` header has them.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.authority
    }

    pub(crate) fn host_header(&self) -> &HeaderValue {
        &self.host_header
    }

    /// The endpoint as the ledger and events name it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://{}{}", self.scheme.name(), self.authority, self.base)
    }

    /// The call's path with the base in front. A path that is none counts as `/`.
    pub(crate) fn path(&self, path_and_query: &str) -> String {
        let slash = if path_and_query.starts_with('/') { "" } else { "/" };
        format!("{}{slash}{path_and_query}", self.base)
    }
}

fn authority_of(authority: &Authority, scheme: Scheme) -> String {
    let host = authority.host().to_ascii_lowercase();
    match authority.port_u16() {
        Some(port) if port != scheme.port() => format!("{host}:{port}"),
        _ => host,
    }
}

fn bad(url: &str, reason: &'static str) -> SettingsError {
    SettingsError::Url { url: url.chars().take(200).collect(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        let origin = Origin::parse("HTTP://Models.example:8000/v1/").unwrap();
        assert_eq!((origin.host.as_str(), origin.port), ("models.example", 8000));
        assert_eq!((origin.base.as_str(), origin.authority()), ("/v1", "models.example:8000"));
        assert_eq!((origin.path("/x?y=1"), origin.path("x")), ("/v1/x?y=1".into(), "/v1/x".into()));
        let six = Origin::parse("https://[::1]").unwrap();
        assert_eq!((six.host.as_str(), six.port, six.authority()), ("::1", 443, "[::1]"));
        let (origin, path) = Origin::split("https://a:443/b?c=d").unwrap();
        assert_eq!((origin.authority(), path.as_str()), ("a", "/b?c=d"));
    }

    #[test]
    fn what_cannot_be_called_is_refused() {
        for bad in
            ["", "a", "ftp://a/", "http://", "http://u:p@a/", "/x", "http://a/b?c=d", "http://a b/"]
        {
            assert!(Origin::parse(bad).is_err(), "{bad:?}");
        }
    }
}
