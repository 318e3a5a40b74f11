//! What is accepted and yet useless or risky. Warnings; with `--strict` they count as errors.
//!
//! Where two settings cannot work together, the advice carries the number that shows it.

mod cache;
mod calls;

use super::field::Set;
use super::file::{Document, Route, Worker};
use super::keys::is_within;
use super::model::{Config, RouteTarget};
use super::report::{Place, Problem, Severity};
use super::resolve::blame;
use super::value::QueueMillis;
use std::time::Duration;

/// Keys that are read and checked but do nothing yet, with everything below them. Whoever builds
/// one removes its line.
const NOT_IN_EFFECT: &[&str] = &["route.cache"];

/// A frame holds 16 MiB; a binary body grows by a third in it, and the rest of a request needs room.
const LARGEST_BODY_IN_A_FRAME: u64 = (16 << 20) / 4 * 3 - (64 << 10);

/// Whether this key does something in this version.
pub(super) fn in_effect(path: &str) -> bool {
    !NOT_IN_EFFECT.iter().any(|above| is_within(path, above))
}

/// A time as people say it.
fn shown(time: Duration) -> String {
    match time.as_millis() {
        ms if ms >= 1000 && ms % 1000 == 0 => format!("{} s", ms / 1000),
        ms => format!("{ms} ms"),
    }
}

/// Collects the warnings.
pub(super) struct Linter<'a> {
    pub(super) document: &'a Document,
    pub(super) config: &'a Config,
    pub(super) warnings: Vec<Problem>,
}

impl Linter<'_> {
    fn warn(&mut self, place: &Place, message: impl Into<String>, advice: impl Into<String>) {
        self.warnings.push(Problem {
            severity: Severity::Warning,
            place: place.clone(),
            message: message.into(),
            advice: advice.into(),
        });
    }

    /// Everything, given the keys that differ from their defaults.
    pub(super) fn all(&mut self, changed: &[(String, Place)]) {
        self.not_in_effect(changed);
        self.timeouts();
        self.queue(&self.document.worker.inner);
        self.bodies();
        self.useless(changed);
        self.routes();
        for (name, sub) in &self.document.upstream.0 {
            self.calls(&format!("upstream.{name}"), &sub.inner.calls.0);
        }
        self.calls("plan", &self.document.plan.inner.calls.0);
        self.egress();
        self.cache(changed);
    }

    fn not_in_effect(&mut self, changed: &[(String, Place)]) {
        const NOT_YET: &str = "accepted, not in effect in this version";
        for above in NOT_IN_EFFECT {
            // Once for each part, at the first key that is set.
            if let Some((_, place)) = changed.iter().find(|(path, _)| is_within(path, above)) {
                self.warn(place, format!("`{above}`: {NOT_YET}"), "");
            }
        }
    }

    fn timeouts(&mut self) {
        let (server, worker) = (&self.document.server.inner, &self.document.worker.inner);
        let request = &server.request_timeout_ms;
        let read = &worker.read_timeout_ms;
        if read.value.0 > request.value.0 {
            self.warn(
                &blame([&read.place, &request.place]),
                "`worker.read_timeout_ms` is longer than `server.request_timeout_ms`",
                "the request's own limit always ends it first: lower one or raise the other",
            );
        }
        let connect = &worker.connect_timeout_ms;
        if request.value.0 <= connect.value.0 {
            self.warn(
                &blame([&request.place, &connect.place]),
                "`server.request_timeout_ms` is not longer than `worker.connect_timeout_ms`",
                "a request could end before a worker was reached",
            );
        }
        let drain = &server.drain_ms;
        if drain.value.0 < request.value.0 {
            let advice = format!(
                "a request may take {}; a stop ends it after {}",
                shown(request.value.0),
                shown(drain.value.0)
            );
            let message = "`server.drain_ms` is shorter than `server.request_timeout_ms`";
            self.warn(&blame([&drain.place, &request.place]), message, advice);
        }
        let start = &worker.start_timeout_ms;
        if start.value.0.as_millis() < 100 {
            let advice = "few programs start within 100 ms: every start could fail";
            self.warn(&start.place, "`worker.start_timeout_ms` is very short", advice);
        }
    }

    fn queue(&mut self, worker: &Worker) {
        let (capacity, timeout) = (&worker.queue_capacity, &worker.queue_timeout_ms);
        let request = &self.document.server.inner.request_timeout_ms;
        match (capacity.value.0 > 0, !timeout.value.0.is_zero()) {
            (true, false) => self.warn(
                &capacity.place,
                "`worker.queue_capacity` is set, but `worker.queue_timeout_ms` is 0",
                "no request waits: set queue_timeout_ms too",
            ),
            (false, true) => self.warn(
                &timeout.place,
                "`worker.queue_timeout_ms` is set, but `worker.queue_capacity` is 0",
                "no request waits: set queue_capacity too",
            ),
            (true, true) if timeout.value.0 > request.value.0 => self.warn(
                &timeout.place,
                "`worker.queue_timeout_ms` is longer than `server.request_timeout_ms`",
                "the request's own limit always ends the wait first",
            ),
            (true, true) => self.queue_is_served(&capacity.place, timeout.value.0),
            _ => {}
        }
    }

    /// The last place of a full queue is reached in time only by requests that are short enough.
    fn queue_is_served(&mut self, place: &Place, timeout: Duration) {
        /// Less than this no application takes.
        const SHORTEST: Duration = Duration::from_millis(2);
        let worker = &self.config.worker;
        let size = if worker.sockets.is_empty() { worker.pool_size } else { worker.sockets.len() };
        let (size, places) = (size.max(1) as f64, worker.queue_capacity as f64);
        let mean = timeout.mul_f64(size / places);
        if mean < SHORTEST {
            let message = "`worker.queue_capacity` is more than the pool serves in time";
            let advice = format!(
                "{size} workers reach place {places} within {} only if a request takes {:.2} ms; \
                 the rest wait in vain",
                shown(timeout),
                mean.as_secs_f64() * 1e3
            );
            self.warn(place, message, advice);
        }
    }

    fn bodies(&mut self) {
        let limit = &self.document.server.inner.body_limit;
        // The packaged PHP worker takes bodies outside the frame.
        let packaged = self.config.php.app.is_some() && self.document.php.inner.worker.is_none();
        if limit.value.0 > LARGEST_BODY_IN_A_FRAME && !packaged && self.config.worker.is_set() {
            self.warn(
                &limit.place,
                "`server.body_limit` is more than one frame holds",
                "above about 12 MiB a body needs a worker with the raw_body capability; others answer 413",
            );
        }
    }

    fn useless(&mut self, changed: &[(String, Place)]) {
        let worker = &self.document.worker.inner;
        if worker.concurrency.value.0 > 1 {
            let advice =
                "a worker of kind \"frames\" serves one request at a time: raise pool_size";
            self.warn(&worker.concurrency.place, "`worker.concurrency` does nothing here", advice);
        }
        if self.config.php.app.is_none()
            && let Some((path, place)) = changed.iter().find(|(path, _)| path.starts_with("php."))
        {
            self.warn(place, format!("`{path}` does nothing without `php.app`"), "set php.app");
        }
        let proxies = &self.document.server.inner.trusted_proxies;
        if proxies.value.0.iter().any(|range| range.prefix == 0) {
            let advice = "any client can claim any address: name your proxies";
            self.warn(&proxies.place, "`server.trusted_proxies` trusts everybody", advice);
        }
        let plan = &self.document.plan.inner;
        if !plan.fixture_root.value.is_empty() && !plan.allow_fixtures.value {
            let message = "`plan.fixture_root` does nothing without `plan.allow_fixtures`";
            self.warn(&plan.fixture_root.place, message, "set allow_fixtures = true");
        }
    }

    fn routes(&mut self) {
        let server = &self.config.server;
        for (at, (route, sub)) in self.config.routes.iter().zip(&self.document.route.0).enumerate()
        {
            let read = route.read_timeout.unwrap_or(self.config.worker.read_timeout);
            let request = route.request_timeout.unwrap_or(server.request_timeout);
            let changed = [&sub.inner.read_timeout_ms, &sub.inner.request_timeout_ms];
            let longer = read > request && route.to == RouteTarget::Worker;
            if let Some(set) = changed.into_iter().flatten().next().filter(|_| longer) {
                let message = "the read timeout of this route is longer than its request timeout";
                self.warn(&set.place, message, "the request's own limit always ends it first");
            }
            if route.to == RouteTarget::Worker && !self.config.worker.is_set() {
                let advice = "every request of it is answered 404: set worker.command";
                self.warn(&sub.place, "this route leads to workers, and there are none", advice);
            }
            if route.to != RouteTarget::Worker {
                self.for_the_worker_alone(&sub.inner);
            }
            let queue: Option<&Set<QueueMillis>> = sub.inner.queue_timeout_ms.as_ref();
            let capacity = self.config.worker.queue_capacity;
            let none = capacity == 0 && route.to == RouteTarget::Worker;
            if let Some(set) = queue.filter(|set| none && !set.value.0.is_zero()) {
                let message = "`route.queue_timeout_ms` does nothing: `worker.queue_capacity` is 0";
                self.warn(&set.place, message, "set worker.queue_capacity");
            }
            if let Some(root) = &sub.inner.root
                && !matches!(route.to, RouteTarget::Static(_))
            {
                let message = "`route.root` does nothing without to = \"static\"";
                self.warn(&root.place, message, "remove it, or set to = \"static\"");
            }
            let covers = |earlier: &super::model::Route| {
                let path = if earlier.prefix {
                    route.path.starts_with(&earlier.path)
                } else {
                    !route.prefix && route.path == earlier.path
                };
                let all = |few: &[String], many: &[String]| {
                    many.is_empty() || (!few.is_empty() && few.iter().all(|one| many.contains(one)))
                };
                path && all(&route.hosts, &earlier.hosts) && all(&route.methods, &earlier.methods)
            };
            if self.config.routes[..at].iter().any(covers) {
                let advice = "the first match wins: move it up, or remove it";
                self.warn(&sub.place, "an earlier route takes everything of this one", advice);
            }
        }
    }

    /// Keys of a route that mean something to the worker pool alone.
    fn for_the_worker_alone(&mut self, route: &Route) {
        let places = [
            ("read_timeout_ms", route.read_timeout_ms.as_ref().map(|set| &set.place)),
            ("queue_timeout_ms", route.queue_timeout_ms.as_ref().map(|set| &set.place)),
            ("stream_idle_timeout_ms", route.stream_idle_timeout_ms.as_ref().map(|s| &s.place)),
        ];
        for (key, place) in places {
            if let Some(place) = place.cloned() {
                let message = format!("`route.{key}` does nothing where no worker is asked");
                self.warn(&place, message, "remove it; request_timeout_ms bounds the wait");
            }
        }
    }
}
