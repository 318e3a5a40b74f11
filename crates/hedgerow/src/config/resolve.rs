//! From the document to the configuration: meanings, contradictions, what cannot work.
//!
//! Promise: every contradiction is found in one run. Where one is found, some value is used all
//! the same; the report decides that the result is not.

mod calls;
mod worker;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::field::{Set, Sub};
use super::file;
use super::guess::Guesses;
use super::machine::Machine;
use super::model as to;
use super::report::{Place, Problem, Severity};
use super::sources::Sources;
use super::value::{Endpoint, Value};

/// Turns a document into a configuration, noting what is wrong.
pub(super) struct Resolver<'a> {
    pub(super) sources: &'a Sources,
    pub(super) machine: &'a dyn Machine,
    /// Keys whose value was refused already.
    pub(super) refused: &'a HashSet<String>,
    pub(super) guesses: &'a Guesses,
    pub(super) problems: Vec<Problem>,
}

/// Zero means off.
pub(super) fn unless_zero(time: Duration) -> Option<Duration> {
    (!time.is_zero()).then_some(time)
}

/// The first of these that somebody wrote: a contradiction is shown where it can be changed.
pub(super) fn blame<const N: usize>(places: [&Place; N]) -> Place {
    places.into_iter().find(|place| **place != Place::Default).unwrap_or(&Place::Default).clone()
}

/// Whether only this machine can reach it.
pub(super) fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

impl Resolver<'_> {
    pub(super) fn error(
        &mut self,
        place: &Place,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) {
        self.problems.push(Problem {
            severity: Severity::Error,
            place: place.clone(),
            message: message.into(),
            advice: advice.into(),
        });
    }

    /// A path as workers, which may have another working directory, must be given it.
    pub(super) fn absolute(&self, path: &Path) -> PathBuf {
        let joined = self.machine.working_dir().join(path);
        joined.components().filter(|part| *part != std::path::Component::CurDir).collect()
    }

    /// Reads the whole document.
    pub(super) fn config(&mut self, document: &file::Document) -> to::Config {
        let upstreams = document.upstream.0.iter();
        let upstreams = upstreams.map(|(name, sub)| (name.clone(), self.upstream(name, sub)));
        let upstreams = upstreams.collect();
        let (worker, php) = self.worker(document);
        let config = to::Config {
            server: self.server(&document.server.inner),
            worker,
            php,
            failure: failure(&document.failure.inner),
            admin: self.admin(&document.admin.inner),
            log: log(&document.log.inner),
            telemetry: self.telemetry(&document.telemetry.inner),
            routes: document.route.0.iter().map(|route| self.route(route, document)).collect(),
            upstreams,
            plan: self.plan(&document.plan.inner),
            egress: self.egress(&document.egress.inner),
            cache: self.cache(&document.cache.inner),
        };
        self.listeners(document);
        config
    }

    fn server(&mut self, from: &file::Server) -> to::Server {
        to::Server {
            listen: from.listen.value.0,
            request_timeout: from.request_timeout_ms.value.0,
            body_limit: from.body_limit.value.0,
            header_timeout: from.header_timeout_ms.value.0,
            body_timeout: from.body_timeout_ms.value.0,
            keep_alive: from.keep_alive_ms.value.0,
            drain: from.drain_ms.value.0,
            trusted_proxies: from.trusted_proxies.value.0.clone(),
            max_connections: from.max_connections.value.get(),
            body_memory: from.body_memory.value.0,
            tls: from.tls.as_ref().and_then(|tls| self.tls(tls)),
            http2: from.http2.value,
        }
    }

    fn tls(&mut self, from: &Sub<file::Tls>) -> Option<to::Tls> {
        let mut file = |name: &str, set: &Option<Set<PathBuf>>| {
            if set.is_none() && !self.refused.contains(&format!("server.tls.{name}")) {
                let message = format!("`server.tls.{name}` is missing");
                self.error(&from.place, message, "a certificate needs its key: set both");
            }
            set.as_ref().map(|set| set.value.clone())
        };
        let (cert, key) = (file("cert", &from.inner.cert), file("key", &from.inner.key));
        Some(to::Tls { cert: self.absolute(&cert?), key: self.absolute(&key?) })
    }

    fn admin(&mut self, from: &file::Admin) -> to::Admin {
        let listen = from.listen.value.0;
        let token = (!from.token.value.0.is_empty()).then(|| from.token.value.clone());
        if !from.token.value.0.bytes().all(|b| b.is_ascii_graphic()) {
            let advice = "use letters, digits and signs of ASCII, without spaces";
            self.error(&from.token.place, "`admin.token` cannot be sent in a header", advice);
        }
        if token.is_none() && !is_loopback(listen) {
            self.error(
                &from.listen.place,
                format!("`admin.token` is empty, and {listen} can be reached from outside"),
                "set admin.token, or listen on a loopback address such as 127.0.0.1:9080",
            );
        }
        to::Admin { listen, token }
    }

    fn telemetry(&mut self, from: &file::Telemetry) -> to::Telemetry {
        let endpoint = &from.otlp_endpoint;
        if !endpoint.value.is_empty()
            && let Err(refusal) = Endpoint::from_text(&endpoint.value)
        {
            let message = format!("`telemetry.otlp_endpoint` {}", refusal.what);
            self.error(&endpoint.place, message, refusal.accept);
        }
        to::Telemetry {
            otlp_endpoint: (!endpoint.value.is_empty()).then(|| endpoint.value.clone()),
            otlp_sample: from.otlp_sample.value.0,
            otlp_queue: from.otlp_queue.value.get(),
            service_name: from.service_name.value.clone(),
            metrics: from.metrics.value,
        }
    }

    fn route(&mut self, from: &Sub<file::Route>, document: &file::Document) -> to::Route {
        let (place, from) = (&from.place, &from.inner);
        if from.path.is_none() && !self.refused.contains("route.path") {
            self.error(place, "a route without a `path`", "add path = \"/…\", or \"/*\" for all");
        }
        let path = from.path.as_ref().map_or("/", |set| set.value.as_str());
        let (plain, prefix) = path.strip_suffix('*').map_or((path, false), |plain| (plain, true));
        if !plain.starts_with('/') || plain.contains(['*', '?', '#']) {
            let place = from.path.as_ref().map_or(place, |set| &set.place);
            let advice = "start it with \"/\"; a \"*\" may stand at its end only";
            self.error(place, format!("`route.path` is {path:?}"), advice);
        }
        to::Route {
            path: plain.to_owned(),
            prefix,
            hosts: from.host.iter().flat_map(|set| &set.value.0).map(|h| h.0.clone()).collect(),
            methods: from.method.iter().flat_map(|set| &set.value.0).map(|m| m.0.clone()).collect(),
            to: self.target(from, place, document),
            request_timeout: from.request_timeout_ms.as_ref().map(|set| set.value.0),
            body_timeout: from.body_timeout_ms.as_ref().map(|set| set.value.0),
            read_timeout: from.read_timeout_ms.as_ref().map(|set| set.value.0),
            queue_timeout: from.queue_timeout_ms.as_ref().map(|set| set.value.0),
            stream_idle_timeout: from.stream_idle_timeout_ms.as_ref().map(|set| set.value.0),
            body_limit: from.body_limit.as_ref().map(|set| set.value.0),
            cache: from.cache.as_ref().map(|cache| to::RouteCache {
                ttl: unless_zero(cache.inner.ttl_ms.value.0),
                stale: cache.inner.stale_ms.value.0,
            }),
        }
    }

    fn target(
        &mut self,
        from: &file::Route,
        route: &Place,
        document: &file::Document,
    ) -> to::RouteTarget {
        match from.to.value.as_str() {
            "worker" => to::RouteTarget::Worker,
            "static" => match &from.root {
                Some(root) => to::RouteTarget::Static(self.absolute(&root.value)),
                None => {
                    let advice = "add root = \"folder\" to the route";
                    self.error(blame_ref(&from.to.place, route), "`static` has no folder", advice);
                    to::RouteTarget::Worker
                }
            },
            other => match other.strip_prefix("upstream:") {
                Some(name) if document.upstream.0.contains_key(name) => {
                    to::RouteTarget::Upstream(name.to_owned())
                }
                Some(name) => {
                    let known = document.upstream.0.keys().map(String::as_str);
                    let advice = match self.guesses.closest(name, known) {
                        Some(known) => format!("did you mean \"upstream:{known}\"?"),
                        None => format!("add [upstream.{name}]"),
                    };
                    let message = format!("there is no upstream {name:?}");
                    self.error(&from.to.place, message, advice);
                    to::RouteTarget::Worker
                }
                None => {
                    let advice = "expected \"worker\", \"upstream:NAME\" or \"static\"";
                    self.error(&from.to.place, format!("`route.to` is {other:?}"), advice);
                    to::RouteTarget::Worker
                }
            },
        }
    }

    /// Two listeners cannot have one address.
    fn listeners(&mut self, document: &file::Document) {
        let server = &document.server.inner.listen;
        let admin = &document.admin.inner.listen;
        let egress = &document.egress.inner.listen;
        let resp = &document.cache.inner.resp.inner.listen;
        let all = [
            ("server.listen", Some(server.value.0), &server.place),
            ("admin.listen", Some(admin.value.0), &admin.place),
            ("egress.listen", egress.value.0, &egress.place),
            ("cache.resp.listen", resp.value.0, &resp.place),
        ];
        for (at, (name, address, place)) in all.iter().enumerate() {
            for (other_name, other, other_place) in &all[..at] {
                let (Some(address), Some(other)) = (address, other) else { continue };
                let everywhere = address.ip().is_unspecified() || other.ip().is_unspecified();
                let same = address.ip() == other.ip() || everywhere;
                // Port 0 asks for any free one.
                if address.port() == other.port() && address.port() != 0 && same {
                    let message = format!(
                        "`{name}` ({address}) and `{other_name}` ({other}) want the same port"
                    );
                    self.error(&blame([place, other_place]), message, "give one another port");
                }
            }
        }
    }
}

fn blame_ref<'a>(first: &'a Place, second: &'a Place) -> &'a Place {
    if *first == Place::Default { second } else { first }
}

fn failure(from: &file::Failure) -> to::Failure {
    to::Failure {
        header_prefix: from.header_prefix.value.0.clone(),
        problem_json: from.problem_json.value,
        proxy_status: from.proxy_status.value,
        expose_worker_exception: from.expose_worker_exception.value,
    }
}

fn log(from: &file::Log) -> to::Log {
    to::Log {
        format: from.format.value,
        access: from.access.value,
        event_log: file::calls::path_or_none(&from.event_log.value),
        ledger: file::calls::path_or_none(&from.ledger.value),
        recent_limit: from.recent_limit.value.0,
        redact: from.redact.value,
    }
}
