//! Where a planned call goes, and what it changes about hedging.
//!
//! Invariant: bare URLs share what they have learned by origin, and no more origins are remembered
//! than the bound.

use super::{Opened, PlanSettings, refused};
use crate::client::{CallOptions, Client, unknown};
use crate::dial::Tcp;
use crate::origin::Origin;
use crate::report::CallError;
use crate::settings::SettingsError;
use crate::tls::Tls;
use crate::upstream::{Surroundings, Upstream};
use hedgerow_policy::failure::{At, Class, Failure};
use hedgerow_policy::hedge::{Answer, Counters, HedgeConfig, HedgeMode, Progress, RaceConfig};
use hedgerow_wire::plan as wire;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Origins of bare URLs that are remembered.
const MAX_ORIGINS: usize = 256;

/// What the ledger and metrics call all upstreams that have no name.
const BARE_NAME: &str = "url";

/// A call's upstream and its path there.
pub(crate) struct Target {
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) path: String,
}

/// The upstreams behind bare URLs.
pub(crate) struct Bare {
    around: Surroundings,
    settings: crate::Settings,
    tls: Tls,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// With the number of their last use.
    origins: HashMap<Origin, (u64, Arc<Upstream>)>,
    /// What those have counted that are forgotten.
    forgotten: Counters,
}

impl Bare {
    /// How many origins are remembered, and may be.
    pub(super) fn remembered(&self) -> (usize, usize) {
        (self.known().origins.len(), MAX_ORIGINS)
    }

    /// What the calls to all of them have counted.
    pub(super) fn counters(&self) -> Counters {
        let known = self.known();
        let counted = known.origins.values().map(|(_, upstream)| upstream.state().counters());
        counted.fold(known.forgotten, Counters::plus)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn new(client: &Client, plan: &PlanSettings) -> Result<Bare, SettingsError> {
        let mut settings = plan.calls.clone();
        settings.name = BARE_NAME.to_owned();
        let tls = Tls::new(&settings.trust, settings.protocol)
            .map_err(|reason| SettingsError::Trust { name: settings.name.clone(), reason })?;
        let dial = Arc::new(Tcp::to(plan.allow.clone()));
        let around = Surroundings { dial, ..client.around.clone() };
        Ok(Bare { around, settings, tls, known: Mutex::default() })
    }

    fn upstream(&self, origin: Origin) -> Arc<Upstream> {
        let mut known = self.known();
        let newest = known.origins.values().map(|(used, _)| *used).max().unwrap_or(0) + 1;
        if let Some((used, upstream)) = known.origins.get_mut(&origin) {
            *used = newest;
            return upstream.clone();
        }
        if known.origins.len() >= MAX_ORIGINS {
            let oldest = known.origins.iter().min_by_key(|(_, (used, _))| *used);
            let oldest = oldest.map(|(origin, _)| origin.clone());
            if let Some((_, gone)) = oldest.and_then(|oldest| known.origins.remove(&oldest)) {
                known.forgotten = known.forgotten.plus(gone.state().counters());
            }
        }
        let mut settings = self.settings.clone();
        settings.endpoints = vec![origin.clone()];
        let upstream = Arc::new(Upstream::with_tls(settings, self.around.clone(), &self.tls));
        known.origins.insert(origin, (newest, upstream.clone()));
        upstream
    }
}

impl Opened {
    pub(crate) fn target(&self, target: &wire::Target) -> Result<Target, CallError> {
        match target {
            wire::Target::Upstream { name, path } => {
                let upstream = self.client.named(name).ok_or_else(|| unknown(name))?;
                Ok(Target { upstream, path: path.clone() })
            }
            wire::Target::Url(url) => {
                let (origin, path) = Origin::split(url).map_err(|error| {
                    let text = error.to_string();
                    refused(Failure::new(Class::UpstreamForbidden, At::Worker, text))
                })?;
                if !self.settings.allow.may_resolve(&origin.host, origin.port) {
                    let text = format!("{} is not on the allow-list", origin.authority());
                    return Err(refused(super::forbidden(text)));
                }
                Ok(Target { upstream: self.bare.upstream(origin), path })
            }
        }
    }
}

/// The call's options, with what the plan says about hedging over what its upstream does.
pub(super) fn overridden(
    mut options: CallOptions,
    says: &wire::HedgeOverride,
    race: &RaceConfig,
) -> CallOptions {
    if says.enabled == Some(false) {
        options.hedging = false;
        return options;
    }
    if *says == wire::HedgeOverride::default() {
        return options;
    }
    let mut hedge = race.hedge.clone().unwrap_or_else(|| HedgeConfig {
        after_quantile: (says.after_ms.or(says.idle_ms).is_none()).then_some(0.95),
        ..HedgeConfig::default()
    });
    if let Some(ms) = says.after_ms {
        hedge.after = Some(Duration::from_millis(ms));
        hedge.after_quantile = None;
    }
    hedge.after_quantile = says.after_quantile.or(hedge.after_quantile);
    hedge.idle = says.idle_ms.map(Duration::from_millis).or(hedge.idle);
    hedge.max = says.max.unwrap_or(hedge.max).min(MAX_TWINS);
    hedge.non_idempotent = says.non_idempotent.unwrap_or(hedge.non_idempotent);
    hedge.min_useful = says.min_useful_ms.map_or(hedge.min_useful, Duration::from_millis);
    hedge.answer = match says.answer {
        Some(wire::Answer::Full) => Answer::Full,
        Some(wire::Answer::FirstData) => Answer::FirstData,
        Some(wire::Answer::Headers) => Answer::Headers,
        None => hedge.answer,
    };
    hedge.progress = match says.progress {
        Some(wire::Progress::Data) => Progress::Data,
        Some(wire::Progress::Bytes) => Progress::Bytes,
        None => hedge.progress,
    };
    hedge.mode = match says.mode {
        Some(wire::Mode::On) => HedgeMode::On,
        Some(wire::Mode::Observe) => HedgeMode::Observe,
        None => hedge.mode,
    };
    let rules = RaceConfig { hedge: Some(hedge), ..race.clone() };
    options.rules = Some(Arc::new(rules));
    options
}

/// Twins that a plan may ask for, whatever it says.
const MAX_TWINS: u32 = 8;
