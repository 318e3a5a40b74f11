//! The calls out of a configuration: upstreams, plans, batches, and the egress port.
//!
//! Invariant: nothing is decided here. A value goes from the one shape to the other; what cannot be
//! used is one sentence.

use crate::config::{self, Config};
use hedgerow_clock::Clock;
use hedgerow_gateway::Calls;
use hedgerow_policy::Observer;
use hedgerow_policy::breaker::{BreakerConfig, BreakerSettings};
use hedgerow_policy::budget::BudgetConfig;
use hedgerow_policy::endpoints::DemoteConfig;
use hedgerow_policy::hedge::{Answer, HedgeConfig, HedgeMode, Progress, RaceConfig, RetryConfig};
use hedgerow_upstream::{
    AllowList, Client, LedgerConfig, Opened, Origin, PlanSettings, Protocol, Settings, Trust,
};
use std::sync::Arc;
use std::time::Duration;

/// Calls out as a configuration has them. `clock` is that of the rest of the gateway.
///
/// # Errors
/// One sentence on what cannot be used.
pub fn start(config: &Config, observer: Arc<dyn Observer>, clock: Clock) -> Result<Calls, String> {
    let ledger = LedgerConfig { file: config.log.ledger.clone(), ..LedgerConfig::default() };
    let builder = Client::builder().ledger(ledger).clock(clock).observer(observer);
    let client = builder.build(upstreams(config)?).map_err(|error| error.to_string())?;
    opened(config, client).map(Calls::new)
}

/// Puts another configuration in force. Upstreams that stay the same keep what they have learned.
///
/// # Errors
/// One sentence on what cannot be used; what was in force stays.
pub fn reload(config: &Config, calls: &Calls) -> Result<(), String> {
    let client = calls.current().client().with_upstreams(upstreams(config)?);
    let client = client.map_err(|error| error.to_string())?;
    calls.replace(opened(config, client)?);
    Ok(())
}

fn opened(config: &Config, client: Client) -> Result<Opened, String> {
    let plan = &config.plan;
    let allow = AllowList::new(plan.allow_hosts.iter().map(String::as_str));
    let settings = PlanSettings {
        allow: allow.map_err(|error| format!("plan.allow_hosts: {error}"))?,
        fixture_root: plan.fixture_root.clone().filter(|_| plan.allow_fixtures),
        max_open: plan.max_open,
        results_limit: plan.results_limit,
        state_limit: plan.state_limit,
        calls: settings("plan", &[], &plan.calls)?,
    };
    Opened::new(client, settings).map_err(|error| error.to_string())
}

fn upstreams(config: &Config) -> Result<Vec<Settings>, String> {
    let named = config.upstreams.iter();
    named.map(|(name, upstream)| settings(name, &upstream.endpoints, &upstream.calls)).collect()
}

fn settings(name: &str, endpoints: &[String], calls: &config::Calls) -> Result<Settings, String> {
    let parsed: Result<Vec<Origin>, _> = endpoints.iter().map(|url| Origin::parse(url)).collect();
    let parsed = parsed.map_err(|error| format!("upstream.{name}: {error}"))?;
    let breaker = calls.breaker.as_ref().map(breaker).transpose();
    Ok(Settings {
        name: name.to_owned(),
        endpoints: parsed,
        race: race(calls),
        budget: budget(calls),
        demote: demote(calls),
        breaker: breaker.map_err(|error| format!("upstream.{name}.breaker: {error}"))?,
        buffer_limit: usize::try_from(calls.buffer_limit).unwrap_or(usize::MAX),
        response_buffer_limit: usize::try_from(calls.response_buffer_limit).unwrap_or(usize::MAX),
        body_limit: calls.body_limit,
        batch_max_hedges: calls.batch_max_hedges.map(|n| u32::try_from(n).unwrap_or(u32::MAX)),
        price_per_call: calls.price_per_call,
        protocol: match calls.protocol {
            config::Protocol::Auto => Protocol::Auto,
            config::Protocol::Http1 => Protocol::Http1,
            config::Protocol::Http2 => Protocol::Http2,
        },
        trust: calls.tls_ca.clone().map_or(Trust::Public, Trust::File),
    })
}

/// What the hedges and retries of an upstream may cost.
pub(crate) fn budget(calls: &config::Calls) -> BudgetConfig {
    BudgetConfig { ratio: calls.budget.ratio, burst: calls.budget.burst }
}

/// When an endpoint that had to be hedged against is passed over.
pub(crate) fn demote(calls: &config::Calls) -> DemoteConfig {
    DemoteConfig { after: calls.demote.after, cooldown: calls.demote.cooldown }
}

/// How the attempts of one key race.
pub(crate) fn race(calls: &config::Calls) -> RaceConfig {
    RaceConfig {
        hedge: calls.hedge.as_ref().map(hedge),
        retry: RetryConfig {
            max: calls.retry.max,
            backoff: calls.retry.backoff,
            backoff_max: calls.retry.backoff_max,
            statuses: calls.retry.statuses.clone(),
        },
        definitive: calls.definitive.clone(),
        connect_timeout: Some(calls.connect_timeout),
        first_data_timeout: calls.first_data_timeout,
        idle_timeout: calls.idle_timeout,
        total_timeout: calls.total_timeout,
    }
}

fn hedge(from: &config::Hedge) -> HedgeConfig {
    HedgeConfig {
        after: from.after,
        after_quantile: from.after_quantile,
        idle: from.idle,
        max: from.max,
        answer: match from.answer {
            config::Answer::Full => Answer::Full,
            config::Answer::FirstData => Answer::FirstData,
            config::Answer::Headers => Answer::Headers,
        },
        progress: match from.progress {
            config::Progress::Data => Progress::Data,
            config::Progress::Bytes => Progress::Bytes,
        },
        non_idempotent: from.non_idempotent,
        mode: match from.mode {
            config::HedgeMode::On => HedgeMode::On,
            config::HedgeMode::Observe => HedgeMode::Observe,
        },
        min_useful: from.min_useful,
        floor: from.floor,
        min_samples: from.min_samples,
    }
}

fn breaker(from: &config::Breaker) -> Result<BreakerConfig, String> {
    let settings = BreakerSettings {
        window: from.window,
        failure_ratio: from.failure_ratio,
        min_throughput: from.min_throughput,
        open: from.open,
        success_threshold: from.success_threshold,
        half_open_probes: from.half_open_probes,
        // A call may be silent for long and healthy: its probe keeps its place as long as that.
        probe_timeout: from.open.max(Duration::from_secs(60)),
        ..BreakerSettings::default()
    };
    BreakerConfig::new(settings).map_err(|error| error.to_string())
}
