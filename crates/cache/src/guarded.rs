//! A store behind its guard.
//!
//! Invariants:
//! - a read while the circuit is open reaches nothing and costs nothing; a save, a touch and an
//!   invalidation still try, as the policies allow;
//! - no method fails: see [`Cache`];
//! - what was invalidated is never read again through this value, whatever the store missed.
//!
//! ```
//! use hedgerow_cache::{Cache, Guarded, Saved};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let cache = Guarded::memory(16 << 20);
//! assert_eq!(cache.load(b"k").await, None);
//! assert_eq!(cache.save(b"k", b"v", None).await, Saved::Stored);
//! assert_eq!(cache.load(b"k").await.as_deref(), Some(&b"v"[..]));
//! cache.purge(b"k").await;
//! assert_eq!(cache.load(b"k").await, None);
//! # });
//! ```

mod asking;
mod canary;
mod remote;
mod resume;
mod snapshot;

pub(crate) use remote::{Remote, hash};
pub use resume::ResumeError;
pub use snapshot::{BreakerShown, CacheShown, LaneBounds};

use crate::cache::{Cache, Hold, Lease, Leased, Purged, Saved};
use crate::journal_file;
use crate::keeper::Keeper;
use crate::lane::stream::Tls;
use crate::lane::{Store, Told, Waits};
use crate::lanes::Lanes;
use crate::memory::Memory;
use crate::near::Near;
use crate::settings::{GuardedSettings, RedisSettings};
use bytes::Bytes;
use hedgerow_clock::Clock;
use hedgerow_policy::breaker::Override;
use hedgerow_policy::guard::{Guard, GuardConfig, GuardSettings};
use hedgerow_policy::journal::{Journal, JournalConfig};
use hedgerow_policy::observe::Silent;
use hedgerow_policy::{Moment, Observer};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// A guarded store. Clones share it; the connections end with the last of them.
#[derive(Clone)]
pub struct Guarded {
    owned: Arc<Owned>,
}

struct Owned {
    part: Part,
    warden: Option<JoinHandle<()>>,
}

#[derive(Clone)]
enum Part {
    Memory(Arc<Memory>, Arc<Keeper>),
    Remote(Arc<Remote>),
}

/// Why a guarded store could not be made.
#[derive(Debug, thiserror::Error)]
pub enum GuardedError {
    /// A setting cannot work.
    #[error("{0}")]
    Setting(String),
    /// The journal's file cannot be used.
    #[error("the journal file {path}: {reason}")]
    Journal {
        /// The file.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// The certificates cannot be used.
    #[error("the certificates of the store: {0}")]
    Certificates(String),
}

impl Guarded {
    /// The embedded store. It cannot stall, so its guard never has to do anything.
    #[must_use]
    pub fn memory(max_bytes: u64) -> Guarded {
        Guarded::memory_with(max_bytes, Clock::start())
    }

    /// The same, with the clock of its driver.
    #[must_use]
    pub fn memory_with(max_bytes: u64, clock: Clock) -> Guarded {
        let now = clock.now();
        let config = GuardConfig::new(GuardSettings::default());
        // The contract's defaults can work; a test holds it.
        let guard = config.map(|config| Guard::new(config, now));
        let Ok(guard) = guard else { unreachable!("the defaults can work") };
        let journal = Journal::new(JournalConfig::default());
        let keeper =
            Keeper::new(Arc::new(guard), clock, Arc::new(Silent), Arc::default(), journal, None);
        let part = Part::Memory(Arc::new(Memory::new(max_bytes)), Arc::new(keeper));
        Guarded { owned: Arc::new(Owned { part, warden: None }) }
    }

    /// A Redis or Valkey server. Connects in the background: a store that is down is no error.
    ///
    /// # Errors
    /// When a setting cannot work, or a file that is named cannot be used.
    pub fn redis(
        redis: RedisSettings,
        settings: GuardedSettings,
        observer: Arc<dyn Observer>,
        clock: Clock,
    ) -> Result<Guarded, GuardedError> {
        redis.check().map_err(GuardedError::Setting)?;
        let policy = GuardSettings {
            call_timeout: redis.call_timeout,
            liveness_timeout: redis.liveness_timeout,
            ..settings.guard
        };
        let config = GuardConfig::new(policy).map_err(|e| GuardedError::Setting(e.to_string()))?;
        let waits = Waits::new(&redis, policy.breaker.stall);
        let guard = Arc::new(Guard::new(config, clock.now()));
        let tls =
            Tls::new(redis.tls.as_ref()).map_err(|e| GuardedError::Certificates(e.to_string()))?;
        let (journal, file) = match &settings.journal_file {
            None => (Journal::new(settings.journal), None),
            Some(path) => {
                let open = journal_file::open(path, settings.journal, observer.clone());
                let (journal, file) = open.map_err(|error| GuardedError::Journal {
                    path: path.display().to_string(),
                    reason: error.to_string(),
                })?;
                (journal, Some(file))
            }
        };
        let stir = Arc::new(Notify::new());
        let keeper =
            Keeper::new(guard.clone(), clock, observer.clone(), stir.clone(), journal, file);
        let store = Store {
            settings: redis,
            tls,
            clock,
            guard,
            observer,
            stir,
            waits,
            told: Told::default(),
        };
        let remote = Arc::new(Remote {
            lanes: Lanes::new(Arc::new(store)),
            keeper: Arc::new(keeper),
            near: Near::new(settings.stale, settings.near_bytes),
            key_prefix: settings.key_prefix.into(),
        });
        let warden = Some(tokio::spawn(canary::keep_watch(remote.clone())));
        Ok(Guarded { owned: Arc::new(Owned { part: Part::Remote(remote), warden }) })
    }

    pub(crate) fn keeper(&self) -> &Arc<Keeper> {
        match &self.owned.part {
            Part::Memory(_, keeper) => keeper,
            Part::Remote(remote) => &remote.keeper,
        }
    }

    pub(crate) fn embedded(&self) -> Option<&Arc<Memory>> {
        match &self.owned.part {
            Part::Memory(memory, _) => Some(memory),
            Part::Remote(_) => None,
        }
    }

    pub(crate) fn remote(&self) -> Option<&Arc<Remote>> {
        match &self.owned.part {
            Part::Memory(..) => None,
            Part::Remote(remote) => Some(remote),
        }
    }

    /// Takes other bounds of the breaker and the canary, the deadlines in `guard` for calls, and
    /// `connect` for connecting. The window keeps what it holds; what is in flight keeps the deadline
    /// it began with.
    ///
    /// # Errors
    /// Names the first bound that cannot work; nothing is changed then.
    pub fn reconfigure(&self, guard: GuardSettings, connect: Duration) -> Result<(), GuardedError> {
        let config = GuardConfig::new(guard).map_err(|e| GuardedError::Setting(e.to_string()))?;
        let keeper = self.keeper();
        if let Some(remote) = self.remote() {
            remote.lanes.store.waits.set(&guard, connect);
        }
        keeper.guard.reconfigure(keeper.clock.now(), config);
        keeper.stir.notify_one();
        Ok(())
    }

    /// Holds the circuit open or closed, or lets it decide again.
    pub fn hold(&self, to: Override) {
        let keeper = self.keeper();
        keeper.guard.set_override(keeper.clock.now(), to);
        keeper.stir.notify_one();
    }

    fn now(&self) -> Moment {
        self.keeper().clock.now()
    }

    fn until(&self, ttl: Option<Duration>) -> Moment {
        ttl.map_or(Moment::NEVER, |ttl| self.now() + ttl)
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if let Some(warden) = &self.warden {
            warden.abort();
        }
        if let Part::Remote(remote) = &self.part {
            remote.lanes.stop();
        }
    }
}

impl Cache for Guarded {
    async fn load(&self, key: &[u8]) -> Option<Bytes> {
        match &self.owned.part {
            Part::Memory(memory, _) => memory.load(0, key, self.now()),
            Part::Remote(remote) => remote.load(key).await,
        }
    }

    async fn list(&self, prefix: &[u8], most: usize) -> Vec<Bytes> {
        match &self.owned.part {
            Part::Memory(memory, _) => memory.list(0, prefix, most, self.now()),
            Part::Remote(remote) => remote.list(prefix, most).await,
        }
    }

    async fn size(&self) -> u64 {
        match &self.owned.part {
            Part::Memory(memory, _) => memory.size(0, self.now()),
            Part::Remote(remote) => remote.size().await,
        }
    }

    async fn ping(&self) -> bool {
        match &self.owned.part {
            Part::Memory(..) => true,
            Part::Remote(remote) => remote.ping().await,
        }
    }

    async fn generation(&self, key: &[u8]) -> Lease {
        match &self.owned.part {
            Part::Memory(memory, _) => Lease(Hold::Number(memory.lease())),
            Part::Remote(remote) => remote.generation(key).await,
        }
    }

    async fn save(&self, key: &[u8], value: &[u8], ttl: Option<Duration>) -> Saved {
        match &self.owned.part {
            Part::Memory(memory, _) => {
                memory.save(0, key, value, self.now(), self.until(ttl));
                Saved::Stored
            }
            Part::Remote(remote) => remote.save(key, value, ttl).await,
        }
    }

    async fn save_with_lease(
        &self,
        key: &[u8],
        value: &[u8],
        ttl: Option<Duration>,
        lease: &Lease,
    ) -> Leased {
        match (&self.owned.part, &lease.0) {
            (Part::Memory(memory, _), Hold::Number(number)) => {
                let (now, until) = (self.now(), self.until(ttl));
                match memory.save_with_lease(0, key, value, *number, now, until) {
                    true => Leased::Stored,
                    false => Leased::Refused,
                }
            }
            // A lease of another store.
            (Part::Memory(..), Hold::Token(..)) => Leased::Refused,
            (Part::Remote(remote), _) => remote.save_with_lease(key, value, ttl, lease).await,
        }
    }

    async fn touch(&self, key: &[u8], ttl: Duration) -> bool {
        match &self.owned.part {
            Part::Memory(memory, _) => memory.touch(0, key, self.now(), self.now() + ttl),
            Part::Remote(remote) => remote.touch(key, ttl).await,
        }
    }

    async fn purge(&self, key: &[u8]) -> Purged {
        match &self.owned.part {
            Part::Memory(memory, _) => {
                memory.purge(0, key, self.now());
                Purged::Done
            }
            Part::Remote(remote) => remote.purge(key).await,
        }
    }

    async fn flush(&self) -> Purged {
        match &self.owned.part {
            Part::Memory(memory, _) => {
                memory.flush(0);
                Purged::Done
            }
            Part::Remote(remote) => remote.flush().await,
        }
    }
}
