//! A configuration as the drills take it.

use std::sync::Arc;
use std::time::Duration;

use hedgerow_lab::drill::{PoolSettings, Yours};
use hedgerow_policy::breaker::BreakerSettings;
use hedgerow_policy::budget::BudgetConfig;
use hedgerow_policy::endpoints::DemoteConfig;
use hedgerow_policy::guard::GuardSettings;
use hedgerow_policy::hedge::{self, HedgeConfig, RaceConfig, RetryConfig, UpstreamConfig};
use hedgerow_policy::queue::QueueConfig;
use hedgerow_policy::repair::CanaryConfig;

use crate::config::{Answer, Cache, Calls, Config, Hedge, HedgeMode, Progress, Upstream};

/// The settings of a configuration, and of one of its upstreams.
pub(super) fn of(config: &Config, name: Option<&str>) -> Result<Yours, String> {
    let worker = &config.worker;
    let queue = QueueConfig { capacity: worker.queue_capacity, timeout: worker.queue_timeout };
    Ok(Yours {
        guard: guard(&config.cache),
        pool: PoolSettings {
            size: u32::try_from(worker.pool_size).unwrap_or(u32::MAX),
            queue: if queue.enabled() { queue } else { QueueConfig::NONE },
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

fn guard(cache: &Cache) -> GuardSettings {
    let breaker = &cache.breaker.breaker;
    GuardSettings {
        breaker: BreakerSettings {
            window: breaker.window,
            failure_ratio: breaker.failure_ratio,
            min_throughput: breaker.min_throughput,
            open: breaker.open,
            success_threshold: breaker.success_threshold,
            half_open_probes: breaker.half_open_probes,
            stall: cache.breaker.stall.unwrap_or(Duration::ZERO),
            stall_outstanding: cache.breaker.stall_outstanding,
            ..BreakerSettings::default()
        },
        canary: cache.canary.map(|canary| CanaryConfig {
            interval: canary.interval,
            max_interval: canary.max_interval,
            successes: canary.successes,
            early_close: canary.early_close,
        }),
        call_timeout: cache.call_timeout,
        liveness_timeout: cache.liveness_timeout,
    }
}

fn upstream(upstream: &Upstream) -> UpstreamConfig {
    let calls = &upstream.calls;
    UpstreamConfig {
        race: Arc::new(race(calls)),
        budget: BudgetConfig { ratio: calls.budget.ratio, burst: calls.budget.burst },
        demote: DemoteConfig { after: calls.demote.after, cooldown: calls.demote.cooldown },
        endpoints: upstream.endpoints.len().max(1),
    }
}

fn race(calls: &Calls) -> RaceConfig {
    let retry = &calls.retry;
    RaceConfig {
        hedge: calls.hedge.as_ref().map(hedging),
        retry: RetryConfig {
            max: retry.max,
            backoff: retry.backoff,
            backoff_max: retry.backoff_max,
            statuses: retry.statuses.clone(),
        },
        definitive: calls.definitive.clone(),
        connect_timeout: Some(calls.connect_timeout),
        first_data_timeout: calls.first_data_timeout,
        idle_timeout: calls.idle_timeout,
        total_timeout: calls.total_timeout,
    }
}

fn hedging(hedge: &Hedge) -> HedgeConfig {
    HedgeConfig {
        after: hedge.after,
        after_quantile: hedge.after_quantile,
        idle: hedge.idle,
        max: hedge.max,
        answer: match hedge.answer {
            Answer::Full => hedge::Answer::Full,
            Answer::FirstData => hedge::Answer::FirstData,
            Answer::Headers => hedge::Answer::Headers,
        },
        progress: match hedge.progress {
            Progress::Data => hedge::Progress::Data,
            Progress::Bytes => hedge::Progress::Bytes,
        },
        non_idempotent: hedge.non_idempotent,
        mode: match hedge.mode {
            HedgeMode::On => hedge::HedgeMode::On,
            HedgeMode::Observe => hedge::HedgeMode::Observe,
        },
        min_useful: hedge.min_useful,
        floor: hedge.floor,
        min_samples: hedge.min_samples,
    }
}
