//! One fetch for all who miss the same key at once.
//!
//! Invariants:
//! - a fetch is a task of its own: it goes on when its callers leave, and what it brings is stored;
//! - when it dies, exactly one of those who wait fetches next;
//! - an invalidation through this value cuts a fetch off: those who wait get its answer, the store
//!   does not.
//!
//! Who leads, who waits and what is stored is decided by `hedgerow_policy::single_flight`.
//!
//! ```
//! use hedgerow_cache::{Coalesced, Guarded};
//! use std::time::Duration;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let cache = Coalesced::new(Guarded::memory(16 << 20));
//! let minute = Some(Duration::from_secs(60));
//! let value = cache
//!     .fetch(b"price:7", minute, || async { Ok::<_, String>(Vec::from("19.90").into()) })
//!     .await
//!     .unwrap();
//! assert_eq!(value, "19.90");
//! # });
//! ```

use crate::cache::{Cache, Leased, Purged};
use bytes::Bytes;
use hedgerow_policy::single_flight::{
    Follower, Joined, Landed, Leader, SingleFlight, SingleFlightConfig, Succession,
};
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

type Work<E> = Pin<Box<dyn Future<Output = Result<Bytes, E>> + Send>>;

/// What one who waits is told.
enum Told<E> {
    /// What the fetch brought.
    Answer(Result<Bytes, E>),
    /// The leader died: fetch.
    Lead(Leader),
}

/// A cache whose misses are fetched once. Clones share it.
pub struct Coalesced<C, E> {
    inner: Arc<Inner<C, E>>,
}

struct Inner<C, E> {
    cache: C,
    state: Mutex<State<E>>,
}

struct State<E> {
    flights: SingleFlight<Bytes>,
    waiting: HashMap<Follower, oneshot::Sender<Told<E>>>,
}

/// Why there is no value.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FetchError<E> {
    /// The work said so.
    #[error("{0}")]
    Work(E),
    /// The work died before it said anything.
    #[error("the fetch died")]
    Died,
}

impl<C, E> Clone for Coalesced<C, E> {
    fn clone(&self) -> Coalesced<C, E> {
        Coalesced { inner: self.inner.clone() }
    }
}

impl<C, E> Coalesced<C, E>
where
    C: Cache + Clone + 'static,
    E: Clone + Send + 'static,
{
    /// In front of a cache, with the usual bounds.
    pub fn new(cache: C) -> Coalesced<C, E> {
        Coalesced::with(cache, SingleFlightConfig::default())
    }

    /// In front of a cache.
    pub fn with(cache: C, config: SingleFlightConfig) -> Coalesced<C, E> {
        let state = State { flights: SingleFlight::new(config), waiting: HashMap::new() };
        Coalesced { inner: Arc::new(Inner { cache, state: Mutex::new(state) }) }
    }

    /// The value under a key: from the cache, or else from `work`, which is then stored for `ttl`.
    /// However many ask at once, `work` runs once.
    ///
    /// # Errors
    /// What `work` failed with, shared by all who wait; nothing is stored then.
    pub async fn fetch<F, W>(
        &self,
        key: &[u8],
        ttl: Option<Duration>,
        work: F,
    ) -> Result<Bytes, FetchError<E>>
    where
        F: FnOnce() -> W,
        W: Future<Output = Result<Bytes, E>> + Send + 'static,
    {
        if let Some(value) = self.inner.cache.load(key).await {
            return Ok(value);
        }
        let key = Bytes::copy_from_slice(key);
        let (joined, told) = {
            let mut state = self.inner.state();
            let joined = state.flights.on_ask(&key);
            let told = match &joined {
                Joined::Follow(follower) => {
                    let (tell, told) = oneshot::channel();
                    state.waiting.insert(*follower, tell);
                    Some((*follower, told))
                }
                _ => None,
            };
            (joined, told)
        };
        match joined {
            Joined::Alone => work().await.map_err(FetchError::Work),
            Joined::Lead(leader) => self.lead(key, ttl, leader, Box::pin(work())).await,
            Joined::Follow(_) => {
                let Some((follower, told)) = told else { return Err(FetchError::Died) };
                let mut place = Place { inner: &self.inner, follower: Some(follower) };
                let told = told.await;
                place.follower = None;
                match told {
                    Ok(Told::Answer(answer)) => answer.map_err(FetchError::Work),
                    Ok(Told::Lead(leader)) => self.lead(key, ttl, leader, Box::pin(work())).await,
                    Err(_) => Err(FetchError::Died),
                }
            }
        }
    }

    /// Fetches in a task of its own and waits for it.
    async fn lead(
        &self,
        key: Bytes,
        ttl: Option<Duration>,
        leader: Leader,
        work: Work<E>,
    ) -> Result<Bytes, FetchError<E>> {
        let (done, answer) = oneshot::channel();
        let mut duty = Duty { inner: self.inner.clone(), leader: Some(leader) };
        tokio::spawn(async move {
            let cache = duty.inner.cache.clone();
            let lease = cache.generation(&key).await;
            let answer = work.await;
            let Some(leader) = duty.leader.take() else { return };
            let store = duty.inner.land(leader, &answer);
            let value = answer.clone();
            let _ = done.send(answer);
            if let (Some(key), Ok(value)) = (store, value) {
                let _: Leased = cache.save_with_lease(&key, &value, ttl, &lease).await;
            }
        });
        answer.await.map_err(|_| FetchError::Died)?.map_err(FetchError::Work)
    }

    /// Removes a key, and cuts off what is being fetched for it.
    pub async fn purge(&self, key: &[u8]) -> Purged {
        self.inner.state().flights.on_invalidate(&Bytes::copy_from_slice(key));
        self.inner.cache.purge(key).await
    }

    /// Removes everything, and cuts off whatever is being fetched.
    pub async fn flush(&self) -> Purged {
        self.inner.state().flights.on_flush();
        self.inner.cache.flush().await
    }

    /// The cache behind it.
    pub fn cache(&self) -> &C {
        &self.inner.cache
    }
}

impl<C, E: Clone> Inner<C, E> {
    fn state(&self) -> MutexGuard<'_, State<E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer is there: all who wait are told. Returns the key to store it under.
    fn land(&self, leader: Leader, answer: &Result<Bytes, E>) -> Option<Bytes> {
        let (told, store) = {
            let mut state = self.state();
            let Landed { followers, store } = state.flights.on_answer(leader);
            let told: Vec<_> = followers.iter().filter_map(|f| state.waiting.remove(f)).collect();
            (told, store)
        };
        for tell in told {
            let _ = tell.send(Told::Answer(answer.clone()));
        }
        store
    }

    /// The leader is gone without an answer: the next one takes its place.
    fn succeed(&self, mut leader: Leader) {
        loop {
            let (tell, next) = {
                let mut state = self.state();
                match state.flights.on_leader_died(leader) {
                    Succession::Over => return,
                    Succession::Elected(follower, next) => (state.waiting.remove(&follower), next),
                }
            };
            // One who has just left cannot lead: then the next of them does.
            match tell.map(|tell| tell.send(Told::Lead(next))) {
                Some(Ok(())) => return,
                Some(Err(Told::Lead(back))) => leader = back,
                _ => return,
            }
        }
    }
}

/// A leader's duty: handed on when its task dies.
struct Duty<C, E: Clone> {
    inner: Arc<Inner<C, E>>,
    leader: Option<Leader>,
}

impl<C, E: Clone> Drop for Duty<C, E> {
    fn drop(&mut self) {
        if let Some(leader) = self.leader.take() {
            self.inner.succeed(leader);
        }
    }
}

/// A place among those who wait: given up when its caller leaves.
struct Place<'a, C, E: Clone> {
    inner: &'a Inner<C, E>,
    follower: Option<Follower>,
}

impl<C, E: Clone> Drop for Place<'_, C, E> {
    fn drop(&mut self) {
        if let Some(follower) = self.follower.take() {
            let mut state = self.inner.state();
            state.flights.on_leave(follower);
            state.waiting.remove(&follower);
        }
    }
}

#[cfg(test)]
mod tests;
