//! Case 35, part by part, with the embedded store.

use super::*;
use crate::guarded::Guarded;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::Notify;

type Fetching = Coalesced<Guarded, String>;

struct Source {
    calls: AtomicU32,
    go: Notify,
    begun: Notify,
}

fn source() -> Arc<Source> {
    Arc::new(Source { calls: AtomicU32::new(0), go: Notify::new(), begun: Notify::new() })
}

impl Source {
    /// Answers with its number once it may go on.
    async fn answer(self: Arc<Self>) -> Result<Bytes, String> {
        let number = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        self.begun.notify_one();
        self.go.notified().await;
        Ok(Bytes::from(number.to_string()))
    }
}

fn ask(
    cache: &Fetching,
    source: &Arc<Source>,
) -> tokio::task::JoinHandle<Result<Bytes, FetchError<String>>> {
    let (cache, source) = (cache.clone(), source.clone());
    tokio::spawn(async move { cache.fetch(b"k", None, || source.answer()).await })
}

fn followers(cache: &Fetching) -> usize {
    cache.inner.state().flights.snapshot().followers
}

async fn until(mut done: impl FnMut() -> bool) {
    while !done() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_hundred_misses_are_one_fetch_case_35() {
    let (cache, source) = (Coalesced::new(Guarded::memory(1 << 20)), source());
    let all: Vec<_> = (0..100).map(|_| ask(&cache, &source)).collect();
    until(|| followers(&cache) == 99).await;
    source.go.notify_one();
    for one in all {
        assert_eq!(one.await.unwrap().unwrap(), "1");
    }
    assert_eq!(source.calls.load(Ordering::SeqCst), 1);
    assert_eq!(ask(&cache, &source).await.unwrap().unwrap(), "1", "stored");
}

#[tokio::test]
async fn a_fetch_whose_callers_left_is_still_stored_case_35() {
    let (cache, source) = (Coalesced::new(Guarded::memory(1 << 20)), source());
    let caller = ask(&cache, &source);
    source.begun.notified().await;
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    source.go.notify_one();
    let mut found = None;
    while found.is_none() {
        tokio::task::yield_now().await;
        found = cache.cache().load(b"k").await;
    }
    assert_eq!(found.unwrap(), "1");
}

#[tokio::test]
async fn a_leader_that_dies_has_one_successor_case_35() {
    let (cache, source) = (Coalesced::new(Guarded::memory(1 << 20)), source());
    let die = Arc::new(Notify::new());
    let (own, signal) = (cache.clone(), die.clone());
    let dying = tokio::spawn(async move {
        own.fetch(b"k", None, || async move {
            signal.notified().await;
            panic!("the fetch dies")
        })
        .await
    });
    until(|| cache.inner.state().flights.snapshot().flights == 1).await;
    let all: Vec<_> = (0..10).map(|_| ask(&cache, &source)).collect();
    until(|| followers(&cache) == 10).await;
    die.notify_one();
    assert_eq!(dying.await.unwrap(), Err(FetchError::Died));
    source.begun.notified().await;
    source.go.notify_one();
    for one in all {
        assert_eq!(one.await.unwrap().unwrap(), "1");
    }
    assert_eq!(source.calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn an_invalidation_cuts_a_fetch_off_case_35() {
    let (cache, source) = (Coalesced::new(Guarded::memory(1 << 20)), source());
    let old = ask(&cache, &source);
    source.begun.notified().await;
    assert_eq!(cache.purge(b"k").await, Purged::Done);
    source.go.notify_one();
    assert_eq!(old.await.unwrap().unwrap(), "1", "those who wait get the answer");
    let new = ask(&cache, &source);
    source.begun.notified().await;
    source.go.notify_one();
    assert_eq!(new.await.unwrap().unwrap(), "2", "it was not stored");
}

#[tokio::test]
async fn an_invalidation_past_the_flights_is_seen_by_the_lease() {
    let (cache, source) = (Coalesced::new(Guarded::memory(1 << 20)), source());
    let old = ask(&cache, &source);
    source.begun.notified().await;
    cache.cache().purge(b"k").await;
    source.go.notify_one();
    assert_eq!(old.await.unwrap().unwrap(), "1");
    until(|| cache.inner.state().flights.snapshot().flights == 0).await;
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert_eq!(cache.cache().load(b"k").await, None);
}
