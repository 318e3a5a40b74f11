//! Upstreams, plans, egress and the cache.

use std::time::Duration;

use super::{Resolver, blame, is_loopback, to, unless_zero};
use crate::config::field::{Set, Sub};
use crate::config::file::calls as from_file;
use crate::config::report::Place;
use crate::config::value::{Int, List};

fn statuses(list: &List<Int<100, 599>>) -> Vec<u16> {
    list.0.iter().map(|status| status.get()).collect()
}

impl Resolver<'_> {
    pub(super) fn upstream(&mut self, name: &str, from: &Sub<from_file::Upstream>) -> to::Upstream {
        let (place, from) = (&from.place, &from.inner);
        let path = format!("upstream.{name}");
        let endpoints = match (&from.url, from.endpoints.value.0.as_slice()) {
            (Some(url), []) => vec![url.value.0.clone()],
            // One that was refused is not missing.
            (None, [])
                if ["url", "endpoints"]
                    .iter()
                    .any(|key| self.refused.contains(&format!("{path}.{key}"))) =>
            {
                Vec::new()
            }
            (None, []) => {
                let advice = "add url = \"https://…\", or endpoints = [\"https://…\", …]";
                self.error(place, format!("`{path}` has no URL"), advice);
                Vec::new()
            }
            (url, several) => {
                if let Some(url) = url {
                    let message = format!("`{path}` has both `url` and `endpoints`");
                    self.error(&blame([&from.endpoints.place, &url.place]), message, "keep one");
                }
                several.iter().map(|url| url.0.clone()).collect()
            }
        };
        to::Upstream { endpoints, calls: self.calls(&path, &from.calls.0) }
    }

    fn calls(&mut self, path: &str, from: &from_file::Calls) -> to::Calls {
        let retry = &from.retry.inner;
        self.ordered(path, "retry.backoff", &retry.backoff_ms, &retry.backoff_max_ms);
        to::Calls {
            connect_timeout: from.connect_timeout_ms.value.0,
            first_data_timeout: unless_zero(from.first_data_timeout_ms.value.0),
            idle_timeout: unless_zero(from.idle_timeout_ms.value.0),
            total_timeout: unless_zero(from.total_timeout_ms.value.0),
            definitive: statuses(&from.definitive.value),
            retry: to::Retry {
                max: retry.max.value.get(),
                backoff: retry.backoff_ms.value.0,
                backoff_max: retry.backoff_max_ms.value.0,
                statuses: statuses(&retry.statuses.value),
            },
            hedge: from.hedge.as_ref().map(|hedge| self.hedge(path, &hedge.inner)),
            budget: to::Budget {
                ratio: from.budget.inner.ratio.value.0,
                burst: from.budget.inner.burst.value.get(),
            },
            breaker: from.breaker.as_ref().map(|sub| breaker(&sub.inner)),
            buffer_limit: from.buffer_limit.value.0,
            response_buffer_limit: from.response_buffer_limit.value.0,
            body_limit: from.body_limit.value.0,
            demote: to::Demote {
                after: from.demote.inner.after.value.get(),
                cooldown: from.demote.inner.cooldown_ms.value.0,
            },
            batch_max_hedges: Some(from.batch_max_hedges.value.0).filter(|n| *n > 0),
            price_per_call: from.price.inner.per_call.value.0,
            tls_ca: from.tls_ca.as_ref().map(|set| self.absolute(&set.value)),
            protocol: from.protocol.value,
        }
    }

    fn hedge(&mut self, path: &str, from: &from_file::Hedge) -> to::Hedge {
        if let Some(set) = from.after_quantile.as_ref().filter(|set| set.value.0 >= 1.0) {
            let message = format!("`{path}.hedge.after_quantile` is {}", set.value.0);
            self.error(&set.place, message, "expected a number above 0 and below 1, such as 0.95");
        }
        let after = from.after_ms.as_ref().map(|set| set.value.0);
        let idle = from.idle_ms.as_ref().map(|set| set.value.0);
        let quantile = from.after_quantile.as_ref().map(|set| set.value.0);
        to::Hedge {
            after,
            // A hedge with nothing said about when is one by quantile.
            after_quantile: quantile.or_else(|| (after.or(idle).is_none()).then_some(0.95)),
            idle,
            max: from.max.value.get(),
            answer: from.answer.value,
            progress: from.progress.value,
            non_idempotent: from.non_idempotent.value,
            mode: from.mode.value,
            min_useful: from.min_useful_ms.value.0,
            floor: from.floor_ms.value.0,
            min_samples: from.min_samples.value.get(),
        }
    }

    pub(super) fn plan(&mut self, from: &from_file::Plan) -> to::Plan {
        if from.allow_fixtures.value && from.fixture_root.value.is_empty() {
            let message = "`plan.allow_fixtures` is true, but `plan.fixture_root` is not set";
            self.error(&from.allow_fixtures.place, message, "name the folder of the fixtures");
        }
        let root = from_file::path_or_none(&from.fixture_root.value);
        to::Plan {
            allow_hosts: from.allow_hosts.value.0.iter().map(|host| host.0.clone()).collect(),
            allow_fixtures: from.allow_fixtures.value,
            fixture_root: root.map(|root| self.absolute(&root)),
            max_open: from.max_open.value.get(),
            state_limit: from.state_limit.value.0,
            results_limit: from.results_limit.value.0,
            calls: self.calls("plan", &from.calls.0),
        }
    }

    pub(super) fn egress(&mut self, from: &from_file::Egress) -> to::Egress {
        if let Some(listen) = from.listen.value.0.filter(|listen| !is_loopback(*listen)) {
            let message = format!("`egress.listen` is {listen}, which can be reached from outside");
            let advice = "it has no password: use a loopback address such as 127.0.0.1:8081";
            self.error(&from.listen.place, message, advice);
        }
        to::Egress { listen: from.listen.value.0 }
    }

    pub(super) fn cache(&mut self, from: &from_file::Cache) -> to::Cache {
        let store = match from.store.value.0.as_str() {
            "memory" => to::CacheStore::Memory,
            url => to::CacheStore::Redis(to::Secret(url.to_owned())),
        };
        let canary = from.canary.0.as_ref().map(|sub| {
            let from = &sub.inner;
            let first =
                Set { value: from.interval_ms.value, place: from.interval_ms.place.clone() };
            if first.value.0 > from.max_interval_ms.value.0 {
                let place = blame([&first.place, &from.max_interval_ms.place]);
                self.longer(&place, "cache.canary.interval_ms", "cache.canary.max_interval_ms");
            }
            to::Canary {
                interval: first.value.0,
                max_interval: from.max_interval_ms.value.0,
                successes: from.successes.value.get(),
                early_close: from.early_close.value,
            }
        });
        let (stall, journal) = (&from.breaker.inner, &from.journal.inner);
        // Before those who wait give up: else they would wait once more, for their saves.
        let before = (from.call_timeout_ms.value.0 * 4 / 5).min(Duration::from_millis(250));
        let silence = stall.stall_ms.as_ref().map_or(before, |set| set.value.0);
        to::Cache {
            store,
            tls_ca: from_file::path_or_none(&from.tls_ca.value),
            max_bytes: from.max_bytes.value.0,
            call_timeout: from.call_timeout_ms.value.0,
            connect_timeout: from.connect_timeout_ms.value.0,
            liveness_timeout: from.liveness_timeout_ms.value.0,
            key_prefix: from.key_prefix.value.clone(),
            breaker: to::CacheBreaker {
                breaker: breaker(&stall.breaker.0),
                stall: unless_zero(silence),
                stall_outstanding: stall.stall_outstanding.value.get(),
            },
            canary,
            journal: to::Journal {
                capacity: journal.capacity.value.get(),
                file: from_file::path_or_none(&journal.file.value),
                overflow: journal.overflow.value,
            },
            stale: from.stale_ms.value.0,
            resp: self.resp(&from.resp.inner),
        }
    }

    fn resp(&mut self, from: &from_file::Resp) -> to::Resp {
        let password = (!from.password.value.0.is_empty()).then(|| from.password.value.clone());
        let listen = from.listen.value.0;
        if let Some(listen) = listen.filter(|at| password.is_none() && !is_loopback(*at)) {
            let message =
                format!("`cache.resp.password` is empty, and {listen} can be reached from outside");
            let advice =
                "set cache.resp.password, or use a loopback address such as 127.0.0.1:6380";
            self.error(&from.listen.place, message, advice);
        }
        to::Resp {
            listen,
            password,
            max_clients: from.max_clients.value.get(),
            output_limit: from.output_limit.value.0,
            input_limit: from.input_limit.value.0,
            total_limit: from.total_limit.value.0,
            shed: from.shed.value,
        }
    }

    fn ordered(
        &mut self,
        path: &str,
        name: &str,
        first: &Set<crate::config::value::Millis>,
        longest: &Set<crate::config::value::Millis>,
    ) {
        let (short, long): (Duration, Duration) = (first.value.0, longest.value.0);
        if short > long {
            let place = blame([&first.place, &longest.place]);
            self.longer(&place, &format!("{path}.{name}_ms"), &format!("{path}.{name}_max_ms"));
        }
    }

    fn longer(&mut self, place: &Place, first: &str, longest: &str) {
        let message = format!("`{first}` is longer than `{longest}`");
        self.error(place, message, "the first pause cannot exceed the longest");
    }
}

fn breaker(from: &from_file::Breaker) -> to::Breaker {
    to::Breaker {
        window: from.window_ms.value.0,
        failure_ratio: from.failure_ratio.value.0,
        min_throughput: from.min_throughput.value.get(),
        open: from.open_ms.value.0,
        success_threshold: from.success_threshold.value.get(),
        half_open_probes: from.half_open_probes.value.get(),
    }
}
