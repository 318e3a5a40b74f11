//! The bounded line of requests that wait for a worker.
//!
//! Invariant: first come, first served among those who still wait; the line is never longer than
//! its capacity, but for those that had a worker before; and nobody's wait exceeds the smaller of the
//! queue timeout and its deadline.
//! A capacity or a timeout of zero means there is no queue at all: fail fast.

use crate::deadline::Deadline;
use crate::failure::Phase;
use crate::moment::Moment;
use std::collections::VecDeque;
use std::time::Duration;

/// The bounds of the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueConfig {
    /// How many may wait. Zero: no queue.
    pub capacity: usize,
    /// How long one may wait. Zero: no queue.
    pub timeout: Duration,
}

impl QueueConfig {
    /// No queue: a request that finds no idle worker is refused at once.
    pub const NONE: QueueConfig = QueueConfig { capacity: 0, timeout: Duration::ZERO };

    /// Whether there is a queue.
    #[must_use]
    pub fn enabled(&self) -> bool {
        self.capacity > 0 && !self.timeout.is_zero()
    }
}

/// A place in the queue. Numbers rise with arrival and are never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ticket(u64);

/// A request that waits: its place and until when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waiting {
    /// The place.
    pub ticket: Ticket,
    /// When the wait ends without a worker.
    pub until: Moment,
}

#[derive(Clone, Copy, Debug)]
struct Waiter {
    ticket: Ticket,
    arrived: Moment,
    until: Moment,
}

/// The line itself. See the module's head.
#[derive(Clone, Debug)]
pub struct Queue {
    config: QueueConfig,
    /// Those that had a worker before and are to go on with another: in front of the line, and not
    /// counted against its capacity.
    resumed: VecDeque<Waiter>,
    line: VecDeque<Waiter>,
    /// Streams that want their next step: in the line by their tickets, and not counted against its
    /// capacity.
    steps: VecDeque<Waiter>,
    next: u64,
}

impl Queue {
    /// An empty queue.
    #[must_use]
    pub fn new(config: QueueConfig) -> Queue {
        let (resumed, line, steps) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
        Queue { config, resumed, line, steps, next: 0 }
    }

    /// Takes new bounds; those who already wait keep their places and their times.
    pub fn reconfigure(&mut self, config: QueueConfig) {
        self.config = config;
    }

    /// Whether there is a queue at all.
    #[must_use]
    pub fn enabled(&self) -> bool {
        self.config.enabled()
    }

    /// The bounds in force.
    #[must_use]
    pub fn config(&self) -> QueueConfig {
        self.config
    }

    /// How many wait.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.resumed.len() + self.line.len() + self.steps.len()
    }

    /// Takes a place in front of the line, whatever its capacity and its timeout: what is resumed is
    /// no arrival. It waits until its deadline.
    pub fn on_resume(&mut self, now: Moment, deadline: Deadline) -> Waiting {
        let ticket = self.ticket();
        self.resumed.push_back(Waiter { ticket, arrived: now, until: deadline.at });
        self.check_invariants();
        Waiting { ticket, until: deadline.at }
    }

    /// Takes a place at the end, whatever the capacity and the timeout: a stream goes on, and takes
    /// its turn with those who wait, so that it never starves them. It waits until its deadline.
    pub fn on_step(&mut self, now: Moment, deadline: Deadline) -> Waiting {
        let ticket = self.ticket();
        self.steps.push_back(Waiter { ticket, arrived: now, until: deadline.at });
        self.check_invariants();
        Waiting { ticket, until: deadline.at }
    }

    fn ticket(&mut self) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += 1;
        ticket
    }

    /// Takes a place at the end, or `None` when the queue is full. `patience` is waited in place of
    /// the queue's own timeout.
    pub fn on_arrive(
        &mut self,
        now: Moment,
        deadline: Deadline,
        patience: Option<Duration>,
    ) -> Option<Waiting> {
        if self.line.len() >= self.config.capacity {
            self.drop_expired(now);
        }
        if self.line.len() >= self.config.capacity {
            return None;
        }
        let ticket = self.ticket();
        let patience = patience.unwrap_or(self.config.timeout);
        let until = deadline.within(now, patience, Phase::Queue).at;
        self.line.push_back(Waiter { ticket, arrived: now, until });
        self.check_invariants();
        Some(Waiting { ticket, until })
    }

    /// A worker is free: the first who still waits leaves the line for it, with how long it waited.
    pub fn on_free(&mut self, now: Moment) -> Option<(Ticket, Duration)> {
        while let Some(waiter) = self.resumed.pop_front().or_else(|| self.first_come()) {
            // One that has expired is answered by its own timer, not with a worker.
            if waiter.until > now {
                return Some((waiter.ticket, now - waiter.arrived));
            }
        }
        None
    }

    /// The first of the line and of the streams in it.
    fn first_come(&mut self) -> Option<Waiter> {
        match (self.line.front(), self.steps.front()) {
            (Some(arrival), Some(step)) if step.ticket < arrival.ticket => self.steps.pop_front(),
            (None, Some(_)) => self.steps.pop_front(),
            _ => self.line.pop_front(),
        }
    }

    /// A request gave up its place: its client left, or its time is over. False if it had none.
    pub fn on_leave(&mut self, ticket: Ticket) -> bool {
        [&mut self.resumed, &mut self.line, &mut self.steps].into_iter().any(|line| {
            match line.binary_search_by_key(&ticket, |w| w.ticket) {
                Ok(at) => line.remove(at).is_some(),
                Err(_) => false,
            }
        })
    }

    fn drop_expired(&mut self, now: Moment) {
        self.line.retain(|w| w.until > now);
    }

    fn check_invariants(&self) {
        for line in [&self.resumed, &self.line, &self.steps] {
            debug_assert!(
                line.iter().zip(line.iter().skip(1)).all(|(a, b)| a.ticket < b.ticket),
                "tickets rise along the line"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(n: u64) -> Moment {
        Moment::from_millis(n)
    }

    fn queue(capacity: usize, timeout_ms: u64) -> Queue {
        Queue::new(QueueConfig { capacity, timeout: Duration::from_millis(timeout_ms) })
    }

    #[test]
    fn order_is_kept_and_leavers_are_skipped() {
        let mut q = queue(3, 1_000);
        let a = q.on_arrive(ms(0), Deadline::NEVER, None).unwrap().ticket;
        let b = q.on_arrive(ms(1), Deadline::NEVER, None).unwrap().ticket;
        let c = q.on_arrive(ms(2), Deadline::NEVER, None).unwrap().ticket;
        assert_eq!(q.on_arrive(ms(3), Deadline::NEVER, None), None);
        assert!(q.on_leave(b));
        assert!(!q.on_leave(b));
        assert_eq!(q.on_free(ms(10)).unwrap(), (a, Duration::from_millis(10)));
        assert_eq!(q.on_free(ms(10)).unwrap().0, c);
        assert_eq!(q.on_free(ms(10)), None);
        assert_eq!(q.depth(), 0);
    }

    #[test]
    fn what_is_resumed_goes_first_whatever_the_capacity() {
        let mut q = queue(1, 100);
        let first = q.on_arrive(ms(0), Deadline::NEVER, None).unwrap().ticket;
        let deadline = Deadline::new(ms(5_000), Phase::Request);
        let resumed: Vec<Waiting> = (0..3).map(|_| q.on_resume(ms(1), deadline)).collect();
        assert!(resumed.iter().all(|w| w.until == ms(5_000)) && q.depth() == 4);
        assert!(q.on_leave(resumed[1].ticket));
        let order: Vec<Ticket> =
            std::iter::from_fn(|| q.on_free(ms(50))).map(|(ticket, _)| ticket).collect();
        assert_eq!(order, [resumed[0].ticket, resumed[2].ticket, first]);
        let mut none = queue(0, 0);
        none.on_resume(ms(1), deadline);
        assert!(none.on_free(ms(2)).is_some(), "even where there is no queue");
    }

    #[test]
    fn a_step_takes_its_turn_whatever_the_capacity() {
        let mut q = queue(1, 100);
        let deadline = Deadline::new(ms(5_000), Phase::Request);
        let step = q.on_step(ms(0), deadline).ticket;
        let first = q.on_arrive(ms(0), Deadline::NEVER, None).unwrap().ticket;
        let later = q.on_step(ms(1), deadline);
        assert_eq!((later.until, q.depth()), (ms(5_000), 3));
        assert_eq!(q.on_arrive(ms(1), Deadline::NEVER, None), None, "full, by arrivals alone");
        let resumed = q.on_resume(ms(2), deadline).ticket;
        let left = q.on_step(ms(2), deadline).ticket;
        assert!(q.on_leave(left));
        let order: Vec<Ticket> =
            std::iter::from_fn(|| q.on_free(ms(50))).map(|(ticket, _)| ticket).collect();
        assert_eq!(order, [resumed, step, first, later.ticket]);
        let mut none = queue(0, 0);
        none.on_step(ms(1), deadline);
        assert!(none.on_free(ms(2)).is_some(), "even where there is no queue");
    }

    #[test]
    fn the_wait_ends_at_the_smaller_of_timeout_and_deadline() {
        let mut q = queue(2, 100);
        let early = Deadline::new(ms(30), Phase::Request);
        assert_eq!(q.on_arrive(ms(0), early, None).unwrap().until, ms(30));
        assert_eq!(q.on_arrive(ms(0), Deadline::NEVER, None).unwrap().until, ms(100));
        // The first has expired and is passed over; a place is free again.
        assert!(q.on_arrive(ms(40), Deadline::NEVER, None).is_some());
        assert_eq!(q.depth(), 2);
    }

    proptest! {
        #[test]
        fn never_over_capacity_never_out_of_order(
            ops in proptest::collection::vec((0u8..4, 0u64..50), 1..200), capacity in 1usize..6
        ) {
            let mut q = queue(capacity, 40);
            let (mut now, mut known, mut last) = (0, Vec::new(), None);
            for (op, step) in ops {
                now += step;
                match op {
                    0 | 1 => if let Some(w) = q.on_arrive(ms(now), Deadline::NEVER, None) {
                        prop_assert!(w.until <= ms(now) + Duration::from_millis(40));
                        known.push(w.ticket);
                    },
                    2 => if let Some((t, waited)) = q.on_free(ms(now)) {
                        prop_assert!(last.is_none_or(|l| l < t));
                        prop_assert!(waited < Duration::from_millis(40));
                        last = Some(t);
                    },
                    _ => if let Some(t) = known.pop() { q.on_leave(t); },
                }
                prop_assert!(q.depth() <= capacity);
            }
        }
    }
}
