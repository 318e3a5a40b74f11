//! The sliding window: results by age, in buckets, counted by any thread without a lock.
//!
//! Invariant: a result is in the sums until it is as old as the window, to the width of one
//! bucket, and never after. A count belongs to the generation it was counted for: in the sums of
//! another generation it does not appear, however late its thread ran.
//!
//! A cell is one word: a tag over a count. The tag is the bucket's number shifted by its
//! generation, so a cell left from another turn of the ring, or from another generation, does not
//! match and starts anew; nothing ever has to be cleared. (The idea of a ring of buckets:
//! Hystrix's rolling number; of the tag: ours.)

use crate::moment::Moment;
use crate::sync::{AtomicU64, Ordering};

/// How many buckets the window has.
pub(super) const BUCKETS: u64 = if cfg!(hedgerow_loom) { 2 } else { 10 };

const COUNT_BITS: u32 = 32;
const COUNT_MAX: u64 = u32::MAX as u64;
/// An odd number with no short multiple near zero (2³² over the golden ratio), so that generations lie far apart.
const APART: u32 = 0x9e37_79b9;

/// Results in the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Results that count: successes and failures.
    pub calls: u64,
    /// Failures among them.
    pub failures: u64,
}

#[derive(Debug)]
struct Bucket {
    good: AtomicU64,
    failed: AtomicU64,
}

#[derive(Debug)]
pub(super) struct Window {
    buckets: [Bucket; BUCKETS as usize],
    /// Nanoseconds of one bucket. Never zero.
    width: AtomicU64,
    /// The tag of the latest failure: without one near, a success need not be judged.
    last_failure: AtomicU64,
}

impl Window {
    pub(super) fn new(width: u64) -> Window {
        Window {
            buckets: std::array::from_fn(|_| Bucket {
                good: AtomicU64::new(0),
                failed: AtomicU64::new(0),
            }),
            width: AtomicU64::new(width.max(1)),
            // Half a circle from every tag that is used soon.
            last_failure: AtomicU64::new(1 << 31),
        }
    }

    fn place(&self, now: Moment, generation: u64) -> (usize, u32) {
        let number = now.as_nanos() / self.width.load(Ordering::Relaxed).max(1);
        let tag = (number as u32).wrapping_add((generation as u32).wrapping_mul(APART));
        ((number % BUCKETS) as usize, tag)
    }

    /// Counts one result for `generation`, and says whether the sums could now call for opening.
    /// `is_current` is asked before a cell of another turn or generation is taken over.
    #[inline]
    pub(super) fn record(
        &self,
        now: Moment,
        generation: u64,
        failed: bool,
        is_current: impl Fn() -> bool,
    ) -> bool {
        let (at, tag) = self.place(now, generation);
        let bucket = &self.buckets[at];
        let cell = if failed { &bucket.failed } else { &bucket.good };
        let mut seen = cell.load(Ordering::Acquire);
        loop {
            let next = if tag_of(seen) == tag {
                if count_of(seen) == COUNT_MAX {
                    break;
                }
                seen + 1
            } else {
                // The cell is ahead: this thread slept through a whole window, and so its result
                // is as old as that. Or it is of a later generation: then ours is over.
                if count_of(seen) > 0 && is_ahead(tag_of(seen), tag) || !is_current() {
                    return false;
                }
                u64::from(tag) << COUNT_BITS | 1
            };
            match cell.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break,
                Err(now_there) => seen = now_there,
            }
        }
        if failed {
            self.last_failure.store(u64::from(tag), Ordering::Relaxed);
            return true;
        }
        is_near(self.last_failure.load(Ordering::Relaxed) as u32, tag)
    }

    /// The sums of `generation` at `now`.
    pub(super) fn counts(&self, now: Moment, generation: u64) -> Counts {
        let (_, tag) = self.place(now, generation);
        let (mut good, mut failures) = (0, 0);
        for bucket in &self.buckets {
            good += count_if_near(bucket.good.load(Ordering::Acquire), tag);
            failures += count_if_near(bucket.failed.load(Ordering::Acquire), tag);
        }
        Counts { calls: good + failures, failures }
    }

    /// Takes another width; what is in the window stays in it, as if it had happened now.
    /// A thread that counts at this very moment may leave one count in the old measure; it goes
    /// with the window.
    pub(super) fn resize(&self, now: Moment, generation: u64, width: u64) {
        if self.width.load(Ordering::Relaxed) == width.max(1) {
            return;
        }
        let counts = self.counts(now, generation);
        self.width.store(width.max(1), Ordering::Relaxed);
        let (here, tag) = self.place(now, generation);
        let far = u64::from(tag.wrapping_add(1 << 31)) << COUNT_BITS;
        for (at, bucket) in self.buckets.iter().enumerate() {
            let keep = |count: u64| {
                if at == here { u64::from(tag) << COUNT_BITS | count.min(COUNT_MAX) } else { far }
            };
            bucket.good.store(keep(counts.calls - counts.failures), Ordering::Release);
            bucket.failed.store(keep(counts.failures), Ordering::Release);
        }
        let last = if counts.failures > 0 { tag } else { tag.wrapping_add(1 << 31) };
        self.last_failure.store(u64::from(last), Ordering::Relaxed);
    }
}

fn tag_of(cell: u64) -> u32 {
    (cell >> COUNT_BITS) as u32
}

fn count_of(cell: u64) -> u64 {
    cell & COUNT_MAX
}

/// Whether `tag` lies after `mine`, by at most one turn of the ring.
fn is_ahead(tag: u32, mine: u32) -> bool {
    (1..=BUCKETS as u32).contains(&tag.wrapping_sub(mine))
}

/// Whether `tag` lies within the window that ends at `mine`, or just after it: the clocks of two
/// threads are read at different times.
fn is_near(tag: u32, mine: u32) -> bool {
    mine.wrapping_sub(tag) < BUCKETS as u32 || is_ahead(tag, mine)
}

fn count_if_near(cell: u64, mine: u32) -> u64 {
    if is_near(tag_of(cell), mine) { count_of(cell) } else { 0 }
}
