//! A configuration as the drills take it.

use std::sync::Arc;

use hedgerow_lab::drill::{PoolSettings, Yours};
use hedgerow_policy::hedge::UpstreamConfig;

use crate::config::{Config, Upstream};
use crate::{cache_port, calls, wiring};

/// The settings of a configuration, and of one of its upstreams.
pub(super) fn of(config: &Config, name: Option<&str>) -> Result<Yours, String> {
    let worker = &config.worker;
    Ok(Yours {
        guard: cache_port::guard_settings(config),
        pool: PoolSettings {
            size: u32::try_from(worker.pool_size).unwrap_or(u32::MAX),
            queue: wiring::queue(config),
            read_timeout: worker.read_timeout,
            request_timeout: config.server.request_timeout,
        },
        upstream: chosen(config, name)?.map(upstream),
    })
}

/// The upstream of that name; or else the only one that hedges, or the only one.
fn chosen<'c>(config: &'c Config, name: Option<&str>) -> Result<Option<&'c Upstream>, String> {
    let known = || config.upstreams.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
    if let Some(name) = name {
        let found = config.upstreams.get(name);
        return found.map(Some).ok_or_else(|| {
            format!("the configuration has no upstream {name:?}; it has {}", known())
        });
    }
    let hedging: Vec<&Upstream> =
        config.upstreams.values().filter(|upstream| upstream.calls.hedge.is_some()).collect();
    match (hedging.as_slice(), config.upstreams.len()) {
        ([only], _) => Ok(Some(only)),
        (_, 0 | 1) => Ok(config.upstreams.values().next()),
        _ => Err(format!("say which --upstream to drill: {}", known())),
    }
}

fn upstream(upstream: &Upstream) -> UpstreamConfig {
    let calls = &upstream.calls;
    UpstreamConfig {
        race: Arc::new(calls::race(calls)),
        budget: calls::budget(calls),
        demote: calls::demote(calls),
        endpoints: upstream.endpoints.len().max(1),
    }
}
