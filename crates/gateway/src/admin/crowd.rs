//! Whom the admin listener lets go of when all its places are taken.
//!
//! Invariant: a connection that asks nothing keeps nobody out. The place is taken from the oldest one
//! that has not sent a complete request yet, else from the one that has been quiet for longest.

use hedgerow_policy::Moment;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// How long after its request a connection keeps its place whoever waits.
const QUIET: Duration = Duration::from_secs(2);

/// The place of one connection: when its last complete request came, or it last took a frame of a
/// stream, and whether it is given up.
#[derive(Debug, Default)]
pub(super) struct Place {
    asked: AtomicU64,
    given_up: Notify,
}

impl Place {
    pub(super) fn asked(&self, now: Moment) {
        self.asked.store(now.as_nanos().max(1), Relaxed);
    }

    /// Its reader takes nothing: the connection is to be closed.
    pub(super) fn give_up(&self) {
        self.given_up.notify_one();
    }

    pub(super) async fn given_up(&self) {
        self.given_up.notified().await;
    }
}

/// The connections there are, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Crowd(Vec<(Arc<Place>, AbortHandle)>);

impl Crowd {
    pub(super) fn enter(&mut self, place: Arc<Place>, task: AbortHandle) {
        self.0.retain(|(_, task)| !task.is_finished());
        self.0.push((place, task));
    }

    fn quietest(&self, now: Moment) -> Option<usize> {
        let places = self.0.iter().enumerate().filter(|(_, (_, task))| !task.is_finished());
        let (index, last) = places
            .map(|(index, (place, _))| (index, place.asked.load(Relaxed)))
            .min_by_key(|p| p.1)?;
        (last == 0 || now >= Moment::from_nanos(last) + QUIET).then_some(index)
    }

    /// Whether somebody could be let go.
    pub(super) fn gives_way(&self, now: Moment) -> bool {
        self.quietest(now).is_some()
    }

    /// Lets one go.
    pub(super) fn give_way(&mut self, now: Moment) {
        if let Some(index) = self.quietest(now) {
            self.0.remove(index).1.abort();
        }
    }
}
