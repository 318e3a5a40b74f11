//! The header names that begin with the operator's prefix, and which names a client may not send.
//!
//! Invariant: what the gateway and its workers say to each other in headers cannot be said by a
//! client: `x-vhttpd-*`, `x-worker-*` and the configured prefix are dropped from every request.

use http::HeaderMap;
use http::header::{HeaderName, InvalidHeaderName};

/// The gateway's own header names.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    pub(crate) error_class: HeaderName,
    pub(crate) trace_id: HeaderName,
    prefix: String,
}

impl Names {
    /// The names under a prefix without its last hyphen.
    pub(crate) fn new(prefix: &str) -> Result<Names, InvalidHeaderName> {
        Ok(Names {
            error_class: HeaderName::try_from(format!("{prefix}-error-class"))?,
            trace_id: HeaderName::try_from(format!("{prefix}-trace-id"))?,
            prefix: format!("{prefix}-").to_ascii_lowercase(),
        })
    }

    /// Whether this is a name by which the gateway speaks for itself.
    pub(crate) fn own(&self, name: &str) -> bool {
        name == self.error_class || name == self.trace_id
    }

    /// Removes from an upstream's answer what the gateway says of its own.
    pub(crate) fn remove_own(&self, headers: &mut HeaderMap) {
        // Few answers have it, and looking is cheaper than removing what is not there.
        if headers.keys().any(|name| *name == self.error_class || *name == self.trace_id) {
            headers.remove(&self.error_class);
            headers.remove(&self.trace_id);
        }
    }

    /// Whether a client's header of this (lower-case) name is dropped. Underscores count as
    /// hyphens, since CGI-like applications cannot tell the two apart.
    pub(crate) fn reserved(&self, name: &str) -> bool {
        starts_with(name, "x-vhttpd-")
            || starts_with(name, "x-worker-")
            || starts_with(name, &self.prefix)
    }
}

fn starts_with(name: &str, prefix: &str) -> bool {
    name.len() >= prefix.len()
        && name.bytes().zip(prefix.bytes()).all(|(n, p)| n == p || (n == b'_' && p == b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upstream_does_not_speak_for_the_gateway() {
        let names = Names::new("x-edge").unwrap();
        let mut headers = HeaderMap::new();
        for name in ["x-edge-error-class", "x-edge-trace-id", "x-edge-other", "server"] {
            headers.insert(name, "a".parse().unwrap());
        }
        names.remove_own(&mut headers);
        let left: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        assert!(left.len() == 2 && left.contains(&"x-edge-other") && left.contains(&"server"));
    }

    #[test]
    fn the_prefix_and_the_contracts_own_are_reserved() {
        let names = Names::new("x-edge").unwrap();
        assert_eq!(names.trace_id, "x-edge-trace-id");
        for name in
            ["x-edge-a", "x-vhttpd-trace-id", "x-worker-error", "x_worker_error", "x-edge_a"]
        {
            assert!(names.reserved(name), "{name}");
        }
        for name in ["x-edge", "x-edgy-a", "x-work", "host"] {
            assert!(!names.reserved(name), "{name}");
        }
        assert!(Names::new("no good").is_err());
    }
}
