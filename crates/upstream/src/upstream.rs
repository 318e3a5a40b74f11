//! One named upstream: what its calls share.
//!
//! Invariant: the lock around the policy's state is never held across an await, nor while an
//! observer is told.

use crate::dial::Dial;
use crate::ledger::Ledger;
use crate::pool::Pool;
use crate::settings::{Settings, SettingsError};
use crate::tls::Tls;
use hedgerow_clock::Clock;
use hedgerow_policy::breaker::Breaker;
use hedgerow_policy::hedge::{Upstream as State, UpstreamConfig};
use hedgerow_policy::observe::CallEvent;
use hedgerow_policy::{Event, Observer};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What all upstreams of a client share.
#[derive(Clone)]
pub(crate) struct Surroundings {
    pub(crate) clock: Clock,
    pub(crate) dial: Arc<dyn Dial>,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) ledger: Arc<Ledger>,
}

pub(crate) struct Upstream {
    pub(crate) settings: Settings,
    pub(crate) name: Arc<str>,
    pub(crate) urls: Vec<Arc<str>>,
    pub(crate) pools: Vec<Arc<Pool>>,
    pub(crate) breakers: Vec<Arc<Breaker>>,
    pub(crate) around: Surroundings,
    state: Mutex<State>,
    keys: AtomicU64,
}

impl Upstream {
    pub(crate) fn new(settings: Settings, around: Surroundings) -> Result<Upstream, SettingsError> {
        let tls = Tls::new(&settings.trust, settings.protocol)
            .map_err(|reason| SettingsError::Trust { name: settings.name.clone(), reason })?;
        Ok(Upstream::with_tls(settings, around, &tls))
    }

    /// The same, where the certificates were read before.
    pub(crate) fn with_tls(settings: Settings, around: Surroundings, tls: &Tls) -> Upstream {
        let (clock, protocol) = (around.clock, settings.protocol);
        let mut state = State::new(UpstreamConfig {
            race: Arc::new(settings.race.clone()),
            budget: settings.budget,
            demote: settings.demote,
            endpoints: settings.endpoints.len(),
        });
        let breakers: Vec<_> = match settings.breaker {
            None => Vec::new(),
            Some(config) => {
                let fresh = || Arc::new(Breaker::new(config, clock.now()));
                settings.endpoints.iter().map(|_| fresh()).collect()
            }
        };
        if !breakers.is_empty() {
            state.endpoints.guard_with(breakers.clone());
        }
        let pool = |origin: &crate::origin::Origin| {
            let dial = around.dial.clone();
            Arc::new(Pool::new(origin.clone(), dial, tls.clone(), protocol, clock))
        };
        Upstream {
            urls: settings.endpoints.iter().map(|origin| origin.url().into()).collect(),
            pools: settings.endpoints.iter().map(pool).collect(),
            breakers,
            state: Mutex::new(state),
            keys: AtomicU64::new(0),
            name: settings.name.as_str().into(),
            settings,
            around,
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number that no other key of this upstream has.
    pub(crate) fn next_key(&self) -> u64 {
        self.keys.fetch_add(1, Ordering::Relaxed)
    }

    /// Tells what moved in the breakers, each move once.
    pub(crate) fn tell_transitions(&self) {
        for (breaker, url) in self.breakers.iter().zip(&self.urls) {
            // Asked after every key; true after a move only.
            while breaker.stirred()
                && let Some(transition) = breaker.next_transition()
            {
                let name = match self.breakers.len() {
                    1 => self.settings.name.clone(),
                    _ => format!("{} {url}", self.settings.name),
                };
                let event = Event::BreakerTransition { name: &name, transition: &transition };
                self.around.observer.on(&event);
            }
        }
    }

    pub(crate) fn tell(&self, trace: &str, event: CallEvent<'_>) {
        let upstream = self.settings.name.as_str();
        self.around.observer.on(&Event::Call { upstream, trace, event });
    }
}
