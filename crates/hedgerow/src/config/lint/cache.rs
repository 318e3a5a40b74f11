//! What the cache's settings make of each other.

use super::{Linter, shown};
use crate::config::keys::is_within;
use crate::config::model::CacheStore;
use crate::config::report::Place;
use crate::config::resolve::blame;
use crate::config::value::Value;

/// What only a store behind a connection has.
const OF_A_STORE: &[&str] = &[
    "cache.call_timeout_ms",
    "cache.connect_timeout_ms",
    "cache.liveness_timeout_ms",
    "cache.key_prefix",
    "cache.tls_ca",
    "cache.breaker",
    "cache.canary",
    "cache.journal",
    "cache.stale_ms",
];

/// What each client of the port has for itself.
const OWN_ROOM: u64 = 64 << 10;

impl Linter<'_> {
    /// The cache, given the keys that differ from their defaults.
    pub(super) fn cache(&mut self, changed: &[(String, Place)]) {
        let config = &self.config.cache;
        let Some((_, place)) = changed.iter().find(|(path, _)| path.starts_with("cache.")) else {
            return;
        };
        if config.resp.listen.is_none() {
            let advice = "nobody can reach the cache: set cache.resp.listen";
            return self.warn(place, "`cache` does nothing without `cache.resp.listen`", advice);
        }
        self.room_of_clients();
        if config.store == CacheStore::Memory {
            let of_a_store = |path: &str| OF_A_STORE.iter().any(|above| is_within(path, above));
            if let Some((path, place)) = changed.iter().find(|(path, _)| of_a_store(path)) {
                let message = format!("`{path}` does nothing with the store \"memory\"");
                self.warn(
                    place,
                    message,
                    "memory does not stall: set cache.store to a redis:// URL",
                );
            }
            return;
        }
        let tls_ca = &self.document.cache.inner.tls_ca;
        let url = &self.document.cache.inner.store.value.0;
        if config.tls_ca.is_some() && !url.starts_with("rediss") {
            let message =
                "`cache.tls_ca` does nothing: the connection to `cache.store` is not secured";
            self.warn(&tls_ca.place, message, "let cache.store begin with rediss://");
        }
        self.waits();
        self.canary(changed);
    }

    /// A limit of one client that the limit of all makes useless.
    fn room_of_clients(&mut self) {
        let resp = &self.document.cache.inner.resp.inner;
        let total = &resp.total_limit;
        let each = [
            ("input_limit", &resp.input_limit, "a command"),
            ("output_limit", &resp.output_limit, "replies"),
        ];
        let warnings: Vec<_> = each
            .iter()
            .filter(|(_, limit, _)| limit.value.0 > total.value.0.saturating_add(OWN_ROOM))
            .map(|(key, limit, what)| {
                let message =
                    format!("`cache.resp.{key}` is more than `cache.resp.total_limit` lets anyone have");
                let advice = format!(
                    "{} for all clients is no room for {what} of {}: raise total_limit, or lower {key}",
                    total.value.to_toml().trim_matches('"'),
                    limit.value.to_toml().trim_matches('"')
                );
                (blame([&total.place, &limit.place]), message, advice)
            })
            .collect();
        for (place, message, advice) in warnings {
            self.warn(&place, message, advice);
        }
    }

    fn waits(&mut self) {
        let call = &self.document.cache.inner.call_timeout_ms;
        let request = &self.document.server.inner.request_timeout_ms;
        if self.config.worker.is_set() && call.value.0 >= request.value.0 {
            let message = "`cache.call_timeout_ms` is not below `server.request_timeout_ms`";
            let advice = format!(
                "one call to a stalled cache takes {}; the request that makes it ends at {}",
                shown(call.value.0),
                shown(request.value.0)
            );
            self.warn(&blame([&call.place, &request.place]), message, advice);
        }
    }

    fn canary(&mut self, changed: &[(String, Place)]) {
        let config = &self.config.cache;
        let open = config.breaker.breaker.open;
        let placed = |path: &str| {
            let found = changed.iter().find(|(at, _)| at.starts_with(path));
            found.map_or(Place::Default, |(_, place)| place.clone())
        };
        let Some(canary) = config.canary else {
            let message = "`cache.canary` is off";
            let advice = format!(
                "after a stall of any length reads are shed for {}: see it with `hedgerow drill \
                 cache-stall --config FILE`",
                shown(open)
            );
            return self.warn(&placed("cache.canary"), message, advice);
        };
        let least = canary.interval.saturating_mul(canary.successes.saturating_sub(1));
        if canary.early_close && least >= open {
            let message = "`cache.canary` can never end an episode early";
            let advice = format!(
                "{} good canaries take {} at least, and the circuit is open for {}",
                canary.successes,
                shown(least),
                shown(open)
            );
            let place = blame([&placed("cache.canary."), &placed("cache.breaker.open_ms")]);
            self.warn(&place, message, advice);
        }
    }
}
