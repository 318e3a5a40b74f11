//! Who asks for what and when: one tape for all policies.
//!
//! Invariant: equal model and seed give an equal tape, and the cache's content at the start is part
//! of it.

use super::Model;
use hedgerow_policy::Moment;
use hedgerow_policy::jitter::Jitter;

/// Arrivals in order, and the cache as it is found.
pub(super) struct Tape {
    /// When each request arrives, and the key it asks for.
    pub(super) arrivals: Vec<(Moment, u32)>,
    /// Until when each key is in the cache at the start.
    pub(super) warm: Vec<Moment>,
}

impl Tape {
    pub(super) fn record(model: &Model, seed: u64) -> Tape {
        let mut jitter = Jitter::new(seed);
        let popularity = Zipf::new(model.keys);
        let warm = (1..=model.keys).map(|rank| warm(model, &popularity, rank, &mut jitter));
        let warm = warm.collect();
        let end = model.duration.as_secs_f64();
        let mut arrivals = Vec::with_capacity((end * model.rate) as usize);
        let mut now = 0.0;
        loop {
            // The time between two of a Poisson stream; 1 − u is never 0.
            now -= (1.0 - jitter.ratio()).ln() / model.rate;
            if now >= end {
                return Tape { arrivals, warm };
            }
            arrivals.push((at(now), popularity.draw(jitter.ratio())));
        }
    }
}

/// A cache that has been running for long: a key is in it with the probability that its request
/// stream keeps it there, and the rest of its life is anything up to all of it.
fn warm(model: &Model, popularity: &Zipf, rank: u32, jitter: &mut Jitter) -> Moment {
    let ttl = model.ttl.as_secs_f64();
    let asked = model.rate * popularity.share(rank) * ttl;
    let (present, left) = (jitter.ratio(), jitter.ratio());
    if present < asked / (1.0 + asked) { at(left * ttl) } else { Moment::START }
}

fn at(seconds: f64) -> Moment {
    Moment::from_nanos((seconds * 1e9) as u64)
}

/// Keys by popularity: the one of rank k is asked for in proportion to 1/k.
struct Zipf {
    /// `up_to[k]`: the sum of 1/1 … 1/(k+1).
    up_to: Vec<f64>,
}

impl Zipf {
    fn new(keys: u32) -> Zipf {
        let mut sum = 0.0;
        let sums = (1..=keys).map(|rank| {
            sum += 1.0 / f64::from(rank);
            sum
        });
        Zipf { up_to: sums.collect() }
    }

    fn total(&self) -> f64 {
        self.up_to.last().copied().unwrap_or(1.0)
    }

    fn share(&self, rank: u32) -> f64 {
        1.0 / f64::from(rank) / self.total()
    }

    /// The key, from 0, at this place between 0 and 1.
    fn draw(&self, place: f64) -> u32 {
        let wanted = place * self.total();
        let key = self.up_to.partition_point(|&sum| sum <= wanted);
        key.min(self.up_to.len() - 1) as u32
    }
}
