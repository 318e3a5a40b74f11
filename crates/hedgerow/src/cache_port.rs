//! The guarded cache of a configuration: its store, its guard and its port.
//!
//! Invariant: a store that is down is no reason not to start; a setting or a file that cannot be used
//! is, in one sentence.

use crate::config::{CacheStore, Config, JournalOverflow, Shed as ShedKey};
use hedgerow_cache::settings::{Shed, Trust};
use hedgerow_cache::{Guarded, GuardedSettings, Port, PortSettings, PortView, RedisSettings};
use hedgerow_clock::Clock;
use hedgerow_policy::Observer;
use hedgerow_policy::breaker::BreakerSettings;
use hedgerow_policy::guard::GuardSettings;
use hedgerow_policy::journal::{JournalConfig, Overflow};
use hedgerow_policy::repair::CanaryConfig;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Bound on what clients of the port may still finish when it stops.
const STOP: Duration = Duration::from_secs(2);

/// A running cache with its port.
pub struct CachePort {
    guarded: Guarded,
    port: Port,
}

impl CachePort {
    /// Opens the port, where the configuration names one. `clock` is that of the rest of the gateway.
    ///
    /// # Errors
    /// One sentence on what cannot be used.
    pub async fn start(
        config: &Config,
        observer: Arc<dyn Observer>,
        clock: Clock,
    ) -> Result<Option<CachePort>, String> {
        let Some(listen) = config.cache.resp.listen else { return Ok(None) };
        let guarded = match &config.cache.store {
            CacheStore::Memory => Guarded::memory_with(config.cache.max_bytes, clock),
            CacheStore::Redis(url) => {
                let redis = redis(config, url.reveal())?;
                let made = Guarded::redis(redis, guarded_settings(config), observer, clock);
                made.map_err(|e| format!("the cache cannot start: {e}"))?
            }
        };
        let port = Port::start(port_settings(config, listen), guarded.clone(), clock);
        let port = port.await.map_err(|e| format!("cache.resp.listen: {e}"))?;
        Ok(Some(CachePort { guarded, port }))
    }

    /// The cache behind the port.
    #[must_use]
    pub fn guarded(&self) -> Guarded {
        self.guarded.clone()
    }

    /// Looks at the port.
    #[must_use]
    pub fn view(&self) -> PortView {
        self.port.view()
    }

    /// Where Redis clients connect.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.port.local_addr()
    }

    /// Puts the thresholds and deadlines of a new configuration in force; the window keeps what it
    /// holds.
    ///
    /// # Errors
    /// Names what cannot work; the old thresholds stay.
    pub fn reconfigure(&self, config: &Config) -> Result<(), String> {
        let guard = guard_settings(config);
        self.guarded.reconfigure(guard, config.cache.connect_timeout).map_err(|e| e.to_string())
    }

    /// Takes no new client and lets those there finish what they have sent.
    pub async fn stop(self) {
        self.port.stop(STOP).await;
    }
}

fn redis(config: &Config, url: &str) -> Result<RedisSettings, String> {
    let mut redis = RedisSettings::from_url(url).map_err(|e| format!("cache.store: {e}"))?;
    if let (Some(_), Some(file)) = (&redis.tls, &config.cache.tls_ca) {
        redis.tls = Some(Trust::File(file.clone()));
    }
    redis.call_timeout = config.cache.call_timeout;
    redis.connect_timeout = config.cache.connect_timeout;
    redis.liveness_timeout = config.cache.liveness_timeout;
    Ok(redis)
}

/// The breaker, the repair gate and the canary.
pub(crate) fn guard_settings(config: &Config) -> GuardSettings {
    let from = &config.cache.breaker;
    GuardSettings {
        breaker: BreakerSettings {
            window: from.breaker.window,
            failure_ratio: from.breaker.failure_ratio,
            min_throughput: from.breaker.min_throughput,
            open: from.breaker.open,
            success_threshold: from.breaker.success_threshold,
            half_open_probes: from.breaker.half_open_probes,
            stall: from.stall.unwrap_or(Duration::ZERO),
            stall_outstanding: from.stall_outstanding,
            ..BreakerSettings::default()
        },
        canary: config.cache.canary.map(|canary| CanaryConfig {
            interval: canary.interval,
            max_interval: canary.max_interval,
            successes: canary.successes,
            early_close: canary.early_close,
        }),
        call_timeout: config.cache.call_timeout,
        liveness_timeout: config.cache.liveness_timeout,
    }
}

fn guarded_settings(config: &Config) -> GuardedSettings {
    let journal = &config.cache.journal;
    let overflow = match journal.overflow {
        JournalOverflow::StayShed => Overflow::StayShed,
        JournalOverflow::Flush => Overflow::Flush,
    };
    let max_bytes = journal.capacity.saturating_mul(256);
    GuardedSettings {
        guard: guard_settings(config),
        journal: JournalConfig {
            capacity: journal.capacity,
            max_bytes,
            overflow,
            ..JournalConfig::default()
        },
        journal_file: journal.file.clone(),
        stale: config.cache.stale,
        key_prefix: config.cache.key_prefix.clone().into_bytes(),
        ..GuardedSettings::default()
    }
}

fn port_settings(config: &Config, listen: SocketAddr) -> PortSettings {
    let resp = &config.cache.resp;
    PortSettings {
        listen,
        password: resp.password.as_ref().map_or_else(String::new, |p| p.reveal().to_owned()),
        max_clients: resp.max_clients,
        output_limit: usize::try_from(resp.output_limit).unwrap_or(usize::MAX),
        input_limit: usize::try_from(resp.input_limit).unwrap_or(usize::MAX),
        total_limit: usize::try_from(resp.total_limit).unwrap_or(usize::MAX),
        shed: match resp.shed {
            ShedKey::Fallback => Shed::Fallback,
            ShedKey::Error => Shed::Error,
        },
    }
}
