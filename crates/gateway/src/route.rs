//! Which way a request goes, and the bounds that hold on it.
//!
//! Invariant: the first route that fits decides; where none fits the request goes to the worker
//! under the server's own bounds. Matching looks at the path as it was received: nothing is decoded,
//! so a path that only decodes to a route's path does not take that route. Of one that takes a route by
//! its beginning it is said so: it must not leave what the beginning names (`dots`).

use crate::settings::Settings;
use http::Method;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// One way requests may go.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// The path, or the start of it when [`Route::prefix`] is set.
    pub path: String,
    /// Whether `path` is only a start (`/api/*` in the configuration).
    pub prefix: bool,
    /// Hosts, lower case, without a port; `*.example.org` fits every name below it. Empty: all.
    pub hosts: Vec<String>,
    /// Methods; empty: all.
    pub methods: Vec<Method>,
    /// Where it leads.
    pub to: Target,
    /// Overrides [`Settings::request_timeout`].
    pub request_timeout: Option<Duration>,
    /// Overrides [`Settings::body_timeout`].
    pub body_timeout: Option<Duration>,
    /// Overrides [`Settings::body_limit`].
    pub body_limit: Option<u64>,
    /// Overrides the pool's read timeout.
    pub read_timeout: Option<Duration>,
    /// Overrides the pool's queue timeout.
    pub queue_timeout: Option<Duration>,
    /// Overrides the pool's stream idle timeout.
    pub stream_idle_timeout: Option<Duration>,
}

/// Where a route leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The worker pool.
    Worker,
    /// The upstream of this name.
    Upstream(String),
    /// The files of a folder.
    Static(Arc<Folder>),
}

/// A folder whose files are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// The folder. It may be replaced, by a link to another for one, between two requests.
    pub root: PathBuf,
    /// The start of the paths that is not looked for in it, to its last slash.
    pub base: String,
}

impl Folder {
    /// The files of `root` for a route of that `path`: what stands behind the last slash of the
    /// route's path is looked for in the folder.
    #[must_use]
    pub fn new(root: PathBuf, path: &str) -> Folder {
        let base = path.rfind('/').map_or("", |at| &path[..=at]).to_owned();
        Folder { root, base }
    }
}

/// What holds for one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way<'a> {
    pub(crate) to: &'a Target,
    /// A route was taken because of how the path begins.
    pub(crate) by_prefix: bool,
    pub(crate) request_timeout: Duration,
    pub(crate) body_timeout: Duration,
    pub(crate) body_limit: u64,
    pub(crate) pool: PoolTimes,
}

/// What a route says of the pool's timeouts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PoolTimes {
    pub(crate) read: Option<Duration>,
    pub(crate) queue: Option<Duration>,
    pub(crate) stream_idle: Option<Duration>,
}

impl Route {
    fn fits(&self, method: &Method, host: &str, path: &str) -> bool {
        let path_fits = if self.prefix { path.starts_with(&self.path) } else { path == self.path };
        path_fits
            && (self.methods.is_empty() || self.methods.contains(method))
            && (self.hosts.is_empty() || self.hosts.iter().any(|wanted| host_fits(wanted, host)))
    }
}

fn host_fits(wanted: &str, host: &str) -> bool {
    match wanted.strip_prefix("*.") {
        Some(parent) => host.len().checked_sub(parent.len() + 1).is_some_and(|dot| {
            dot > 0
                && host.as_bytes()[dot] == b'.'
                && host.as_bytes()[dot + 1..].eq_ignore_ascii_case(parent.as_bytes())
        }),
        None => wanted.eq_ignore_ascii_case(host),
    }
}

/// The way of a request: by its method, its host without a port, and its path without the query.
pub(crate) fn find<'a>(settings: &'a Settings, method: &Method, host: &str, path: &str) -> Way<'a> {
    let route = settings.routes.iter().find(|route| route.fits(method, host, path));
    let own = |pick: fn(&Route) -> Option<Duration>| route.and_then(pick);
    Way {
        to: route.map_or(&Target::Worker, |route| &route.to),
        by_prefix: route.is_some_and(|route| route.prefix),
        request_timeout: own(|r| r.request_timeout).unwrap_or(settings.request_timeout),
        body_timeout: own(|r| r.body_timeout).unwrap_or(settings.body_timeout),
        body_limit: route.and_then(|r| r.body_limit).unwrap_or(settings.body_limit),
        pool: route.map_or_else(PoolTimes::default, |r| PoolTimes {
            read: r.read_timeout,
            queue: r.queue_timeout,
            stream_idle: r.stream_idle_timeout,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(path: &str, prefix: bool) -> Route {
        Route {
            path: path.to_owned(),
            prefix,
            hosts: Vec::new(),
            methods: Vec::new(),
            to: Target::Worker,
            request_timeout: None,
            body_timeout: None,
            body_limit: None,
            read_timeout: None,
            queue_timeout: None,
            stream_idle_timeout: None,
        }
    }

    #[test]
    fn the_first_route_that_fits_decides() {
        let small = Route { body_limit: Some(1), ..route("/api/", true) };
        let upload =
            Route { body_limit: Some(2), methods: vec![Method::POST], ..route("/upload", false) };
        let rest = Route { body_limit: Some(3), ..route("/api/", true) };
        let settings = Settings { routes: vec![small, upload, rest], ..Settings::default() };
        let limit = |method: &Method, path: &str| find(&settings, method, "h", path).body_limit;
        assert_eq!(limit(&Method::GET, "/api/x"), 1);
        assert_eq!(limit(&Method::POST, "/upload"), 2);
        assert_eq!(limit(&Method::GET, "/upload"), settings.body_limit);
        assert_eq!(limit(&Method::POST, "/upload/"), settings.body_limit);
        assert_eq!(limit(&Method::GET, "/%61pi/x"), settings.body_limit);
        let by_prefix = |path: &str| find(&settings, &Method::POST, "h", path).by_prefix;
        assert_eq!(["/api/x", "/upload", "/x"].map(by_prefix), [true, false, false]);
    }

    #[test]
    fn a_host_fits_whole_or_below_a_star() {
        assert!(host_fits("example.org", "EXAMPLE.org"));
        assert!(!host_fits("example.org", "a.example.org"));
        assert!(host_fits("*.example.org", "a.b.example.org"));
        assert!(!host_fits("*.example.org", "example.org"));
        assert!(!host_fits("*.example.org", "aexample.org"));
        assert!(!host_fits("*.example.org", ".example.org"));
    }
}
