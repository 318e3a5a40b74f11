//! Whom the admin listener lets go of when all its places are taken.
//!
//! Invariant: a connection that asks nothing keeps nobody out. The place is taken from the oldest one
//! that has not sent a complete request yet, else from the one that has been quiet for longest. One
//! that has only just come (a browser opens several at a time) goes last: its request is on the way.

use hedgerow_policy::Moment;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// How long after its request a connection keeps its place whoever waits.
const QUIET: Duration = Duration::from_secs(2);

/// How long a request may be on its way.
const FRESH: Duration = Duration::from_millis(500);

/// The place of one connection: when its last complete request came, or it last took a frame of a
/// stream, and whether it is given up.
#[derive(Debug)]
pub(super) struct Place {
    accepted: Moment,
    asked: AtomicU64,
    given_up: Notify,
}

impl Place {
    pub(super) fn new(now: Moment) -> Place {
        Place { accepted: now, asked: AtomicU64::new(0), given_up: Notify::new() }
    }

    pub(super) fn asked(&self, now: Moment) {
        self.asked.store(now.as_nanos().max(1), Relaxed);
    }

    /// Who goes first; `None` keeps its place.
    fn rank(&self, now: Moment) -> Option<(u8, u64)> {
        let asked = self.asked.load(Relaxed);
        let quiet = now >= Moment::from_nanos(asked) + QUIET;
        match asked {
            0 if now >= self.accepted + FRESH => Some((0, self.accepted.as_nanos())),
            0 => Some((2, self.accepted.as_nanos())),
            _ => quiet.then_some((1, asked)),
        }
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
        let rated = places.filter_map(|(index, (place, _))| Some((place.rank(now)?, index)));
        rated.min().map(|(_, index)| index)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_nothing_goes_before_who_is_quiet_and_who_has_only_just_come() {
        let at = |millis| Moment::START + Duration::from_millis(millis);
        let asked = |millis| {
            let place = Place::new(at(0));
            place.asked(at(millis));
            place
        };
        let now = at(10_000);
        let order = [Place::new(at(100)), Place::new(at(9_500)), asked(1_000), asked(8_000)];
        let ranks: Vec<_> = order.iter().map(|place| place.rank(now)).collect();
        assert!(ranks.iter().all(Option::is_some) && ranks.is_sorted(), "{ranks:?}");
        let fresh = Place::new(at(9_501)).rank(now);
        assert!(fresh > ranks[3], "a request may be on its way");
        assert_eq!(asked(8_001).rank(now), None, "it may ask again");
    }
}
