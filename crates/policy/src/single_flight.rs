//! One fetch for one key, however many ask for it at once.
//!
//! Invariants:
//! - a key has at most one flight that newcomers join, and a flight at most one leader;
//! - a leader that dies is followed by exactly one of those who wait, or the flight is over;
//! - a flight outlives its callers: an answer that comes after all of them have left is stored;
//! - an invalidation of the key detaches its flight: those who wait get the answer, it is not
//!   stored, and the next to ask begins anew;
//! - flights and those who wait for one are bounded; who finds no room fetches alone, and does not
//!   store, because no invalidation could reach it.
//!
//! (The idea: Go's `singleflight`, and leases as in "Scaling Memcache at Facebook", 2013.)

#[cfg(all(test, not(hedgerow_loom)))]
mod tests;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;

/// The bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SingleFlightConfig {
    /// Flights at once, detached ones among them.
    pub flights: usize,
    /// Who may wait for one flight.
    pub followers: usize,
}

impl Default for SingleFlightConfig {
    fn default() -> SingleFlightConfig {
        SingleFlightConfig { flights: 10_000, followers: 10_000 }
    }
}

/// The right and the duty to fetch. Settled exactly once: by [`SingleFlight::on_answer`] or
/// [`SingleFlight::on_leader_died`].
#[must_use = "a leader that is never settled keeps its followers waiting"]
#[derive(PartialEq, Eq, Debug)]
pub struct Leader {
    flight: u64,
    /// Which leader of the flight, from 0.
    term: u32,
}

/// A place among those who wait for a flight. Never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Follower {
    flight: u64,
    number: u64,
}

/// The answer to one who asks for a key.
#[derive(PartialEq, Eq, Debug)]
pub enum Joined {
    /// Fetch, for all.
    Lead(Leader),
    /// Wait.
    Follow(Follower),
    /// There is no room: fetch for yourself, and do not store it.
    Alone,
}

/// What becomes of an answer.
#[derive(PartialEq, Eq, Debug)]
pub struct Landed<K> {
    /// Who waits for it, in the order they came.
    pub followers: Vec<Follower>,
    /// The key to store it under; none: it was invalidated meanwhile, or the leader was no longer
    /// the leader.
    pub store: Option<K>,
}

/// What a leader's death leads to.
#[derive(PartialEq, Eq, Debug)]
pub enum Succession {
    /// The one who waited longest leads now.
    Elected(Follower, Leader),
    /// Nobody waits: the flight is over.
    Over,
}

#[derive(Debug)]
struct Flight<K> {
    key: K,
    term: u32,
    /// Newcomers do not join, and the answer is not stored.
    detached: bool,
    followers: VecDeque<u64>,
}

/// What there is to show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SingleFlightSnapshot {
    /// Flights.
    pub flights: usize,
    /// Detached ones among them.
    pub detached: usize,
    /// Who waits, over all flights.
    pub followers: usize,
}

/// The machine. See the module's head.
#[derive(Debug)]
pub struct SingleFlight<K> {
    config: SingleFlightConfig,
    flights: BTreeMap<u64, Flight<K>>,
    /// The flight of a key that newcomers join.
    current: HashMap<K, u64>,
    next_flight: u64,
    next_follower: u64,
}

impl<K: Hash + Eq + Clone> SingleFlight<K> {
    /// Nothing in flight.
    #[must_use]
    pub fn new(config: SingleFlightConfig) -> SingleFlight<K> {
        let (flights, current) = (BTreeMap::new(), HashMap::new());
        SingleFlight { config, flights, current, next_flight: 0, next_follower: 0 }
    }

    /// Somebody asks for a key.
    pub fn on_ask(&mut self, key: &K) -> Joined {
        let current = self.current.get(key).copied();
        let joined = if let Some(id) = current {
            match self.flights.get_mut(&id) {
                Some(flight) if flight.followers.len() < self.config.followers => {
                    self.next_follower += 1;
                    flight.followers.push_back(self.next_follower);
                    Joined::Follow(Follower { flight: id, number: self.next_follower })
                }
                _ => Joined::Alone,
            }
        } else if self.flights.len() < self.config.flights {
            self.next_flight += 1;
            let id = self.next_flight;
            let (key, followers) = (key.clone(), VecDeque::new());
            self.current.insert(key.clone(), id);
            self.flights.insert(id, Flight { key, term: 0, detached: false, followers });
            Joined::Lead(Leader { flight: id, term: 0 })
        } else {
            Joined::Alone
        };
        self.check_invariants();
        joined
    }

    /// The leader has the answer, a value or a failure that all share.
    #[expect(clippy::needless_pass_by_value, reason = "a leader is settled once")]
    pub fn on_answer(&mut self, leader: Leader) -> Landed<K> {
        let is_it = self.flights.get(&leader.flight).is_some_and(|f| f.term == leader.term);
        let flight = if is_it { self.flights.remove(&leader.flight) } else { None };
        let Some(flight) = flight else {
            return Landed { followers: Vec::new(), store: None };
        };
        if !flight.detached {
            self.current.remove(&flight.key);
        }
        let number = |number| Follower { flight: leader.flight, number };
        let followers = flight.followers.into_iter().map(number).collect();
        self.check_invariants();
        Landed { followers, store: (!flight.detached).then_some(flight.key) }
    }

    /// The leader's work ended without an answer (it panicked, or was aborted). Its caller's
    /// leaving is no such thing: the work goes on.
    #[expect(clippy::needless_pass_by_value, reason = "a leader is settled once")]
    pub fn on_leader_died(&mut self, leader: Leader) -> Succession {
        let Some(flight) = self.flights.get_mut(&leader.flight) else { return Succession::Over };
        if flight.term != leader.term {
            return Succession::Over;
        }
        let succession = match flight.followers.pop_front() {
            Some(number) => {
                flight.term += 1;
                let id = leader.flight;
                let leader = Leader { flight: id, term: flight.term };
                Succession::Elected(Follower { flight: id, number }, leader)
            }
            None => {
                if !flight.detached {
                    self.current.remove(&flight.key);
                }
                self.flights.remove(&leader.flight);
                Succession::Over
            }
        };
        self.check_invariants();
        succession
    }

    /// One who waits has left. False if it does not wait any more: it leads, or it was answered.
    pub fn on_leave(&mut self, follower: Follower) -> bool {
        let Some(flight) = self.flights.get_mut(&follower.flight) else { return false };
        match flight.followers.binary_search(&follower.number) {
            Ok(at) => flight.followers.remove(at).is_some(),
            Err(_) => false,
        }
    }

    /// A key was invalidated: what is in flight for it may be older.
    pub fn on_invalidate(&mut self, key: &K) {
        let flight = self.current.remove(key).and_then(|id| self.flights.get_mut(&id));
        if let Some(flight) = flight {
            flight.detached = true;
        }
        self.check_invariants();
    }

    /// Everything was invalidated.
    pub fn on_flush(&mut self) {
        self.current.clear();
        self.flights.values_mut().for_each(|flight| flight.detached = true);
        self.check_invariants();
    }

    /// Everything there is to show.
    #[must_use]
    pub fn snapshot(&self) -> SingleFlightSnapshot {
        SingleFlightSnapshot {
            flights: self.flights.len(),
            detached: self.flights.len() - self.current.len(),
            followers: self.flights.values().map(|flight| flight.followers.len()).sum(),
        }
    }

    /// Holds in every state; debug builds ask after every event.
    pub fn check_invariants(&self) {
        // Looks at everything, and so only while that is little.
        if !cfg!(debug_assertions) || self.flights.len() > 16 {
            return;
        }
        assert!(self.flights.len() <= self.config.flights, "flights are bounded");
        for (id, flight) in &self.flights {
            assert!(flight.followers.len() <= self.config.followers, "followers are bounded");
            let joined = self.current.get(&flight.key) == Some(id);
            assert_eq!(joined, !flight.detached, "newcomers join exactly what is not detached");
        }
        assert!(
            self.current.values().all(|id| self.flights.contains_key(id)),
            "none is joined twice"
        );
    }
}
