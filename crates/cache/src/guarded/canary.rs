//! The guard's own task: it wakes the policies, tells what they did, and sends canaries.
//!
//! Invariant: it sleeps until the moment the guard names or until something has moved; it never
//! polls. A canary runs beside it, so that a slow one holds up nothing.

use super::remote::Remote;
use hedgerow_policy::Moment;
use hedgerow_policy::observe::{CacheEvent, Event};
use std::sync::Arc;
use std::time::Duration;

/// What is due and cannot be done (a circuit held by hand) must not spin.
const LEAST: Duration = Duration::from_millis(1);

/// Runs until it is aborted.
pub(super) async fn keep_watch(remote: Arc<Remote>) {
    let keeper = remote.keeper.clone();
    loop {
        let now = keeper.clock.now();
        keeper.guard.on_wake(now);
        while let Some(transition) = keeper.guard.next_transition() {
            let event = Event::BreakerTransition { name: "cache", transition: &transition };
            keeper.observer.on(&event);
        }
        if let Some(permit) = keeper.guard.canary_due(now) {
            let remote = remote.clone();
            tokio::spawn(async move {
                let good = remote.canary().await;
                let keeper = &remote.keeper;
                keeper.counts.canary(good);
                keeper.observer.on(&Event::Cache(CacheEvent::Canary { good }));
                keeper.guard.settle_canary(keeper.clock.now(), permit, good);
                keeper.stir.notify_one();
            });
        }
        let wake = keeper.guard.next_wake().map(|wake| wake.max(keeper.clock.now() + LEAST));
        keeper.clock.until(wake.unwrap_or(Moment::NEVER), keeper.stir.notified()).await;
    }
}
