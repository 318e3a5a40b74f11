//! The pool's rules, one by one; then all of them under random and exhaustive sequences.

use super::*;
use crate::deadline::Deadline;
use crate::failure::{Class, Failure};
use std::collections::BTreeSet;

fn ms(n: u64) -> Moment {
    Moment::from_millis(n)
}

fn config(size: u32, capacity: usize) -> PoolConfig {
    PoolConfig {
        size,
        supervised: true,
        queue: QueueConfig { capacity, timeout: Duration::from_millis(100) },
        backoff: BackoffConfig {
            base: Duration::from_millis(500),
            max: Duration::from_millis(8_000),
            reset_after: Duration::from_secs(10),
        },
        start_timeout: Duration::from_secs(5),
        max_requests: 0,
        max_requests_jitter: 0.0,
        max_rss: 0,
    }
}

fn actions(pool: &mut Pool) -> Vec<Action> {
    std::iter::from_fn(|| pool.next_action()).collect()
}

fn starts(actions: &[Action]) -> Vec<WorkerId> {
    let started = actions.iter().filter_map(|a| match a {
        Action::Start { worker, .. } => Some(*worker),
        _ => None,
    });
    started.collect()
}

/// A pool whose workers are all ready, with their ids.
fn ready_pool(config: PoolConfig) -> (Pool, Vec<WorkerId>) {
    let mut pool = Pool::new(config, ms(0), 1);
    let workers = starts(&actions(&mut pool));
    for &worker in &workers {
        pool.on_ready(ms(1), worker);
    }
    assert!(actions(&mut pool).is_empty());
    (pool, workers)
}

fn granted(pool: &mut Pool, now: Moment) -> Permit {
    match pool.on_arrive(now, Deadline::NEVER) {
        Admission::Granted(permit) => permit,
        other => panic!("expected a worker at once, got {other:?}"),
    }
}

fn refused(pool: &mut Pool, now: Moment) -> Class {
    match pool.on_arrive(now, Deadline::NEVER) {
        Admission::Refused(refusal) => Failure::from(refusal).class,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

fn queued(pool: &mut Pool, now: Moment) -> Ticket {
    match pool.on_arrive(now, Deadline::NEVER) {
        Admission::Queued(waiting) => waiting.ticket,
        other => panic!("expected a place in the queue, got {other:?}"),
    }
}

#[test]
fn without_a_queue_a_busy_pool_refuses_at_once() {
    for (capacity, timeout_ms) in [(0, 100), (5, 0)] {
        let mut config = config(1, capacity);
        config.queue.timeout = Duration::from_millis(timeout_ms);
        let (mut pool, _) = ready_pool(config);
        let permit = granted(&mut pool, ms(10));
        assert_eq!(refused(&mut pool, ms(10)), Class::WorkerPoolExhausted);
        pool.settle(ms(20), permit, Outcome::Done);
        let _ = granted(&mut pool, ms(20));
    }
}

#[test]
fn of_four_at_once_one_is_served_two_wait_one_is_refused() {
    let (mut pool, _) = ready_pool(config(1, 2));
    let permit = granted(&mut pool, ms(10));
    let first = queued(&mut pool, ms(10));
    let second = queued(&mut pool, ms(10));
    assert_eq!(refused(&mut pool, ms(10)), Class::WorkerQueueFull);
    pool.settle(ms(40), permit, Outcome::Done);
    let [Action::Grant { ticket, permit, waited }] = &mut actions(&mut pool)[..] else { panic!() };
    assert_eq!((*ticket, *waited), (first, Duration::from_millis(30)));
    let permit = Permit { worker: permit.worker, granted: permit.granted };
    assert!(pool.on_leave(second));
    pool.settle(ms(50), permit, Outcome::Done);
    assert!(actions(&mut pool).is_empty());
    assert_eq!(pool.snapshot().queue_depth, 0);
}

#[test]
fn a_request_may_bring_a_patience_of_its_own() {
    let (mut pool, _) = ready_pool(config(1, 2));
    let _permit = granted(&mut pool, ms(10));
    let own = Some(Duration::from_millis(700));
    let Admission::Queued(waiting) = pool.on_arrive_with(ms(10), Deadline::NEVER, own) else {
        panic!("there is a place")
    };
    assert_eq!(waiting.until, ms(710));
    let none = pool.on_arrive_with(ms(10), Deadline::NEVER, Some(Duration::ZERO));
    assert!(matches!(none, Admission::Refused(Refusal { kind: RefusalKind::Busy, .. })));
}

#[test]
fn a_timed_out_worker_is_replaced_at_once_however_often() {
    let (mut pool, workers) = ready_pool(config(1, 0));
    let mut present = workers[0];
    for round in 0..50 {
        let permit = granted(&mut pool, ms(100 * round + 10));
        pool.settle(ms(100 * round + 20), permit, Outcome::TimedOut);
        let done = actions(&mut pool);
        assert_eq!(done[0], Action::Kill { worker: present, reason: EndReason::Timeout });
        assert!(matches!(done[1], Action::Start { .. }) && done.len() == 2, "no backoff: {done:?}");
        present = starts(&done)[0];
        // The old one's exit changes nothing.
        pool.on_exit(ms(100 * round + 21), workers[0], false);
        pool.on_ready(ms(100 * round + 30), present);
    }
}

#[test]
fn a_crash_while_idle_backs_off_unless_it_was_healthy_for_long() {
    let (mut pool, workers) = ready_pool(config(1, 0));
    pool.on_exit(ms(1_000), workers[0], false);
    let done = actions(&mut pool);
    let [Action::Postponed { delay, failures: 1, .. }] = done[..] else { panic!("{done:?}") };
    assert!(delay <= Duration::from_millis(500) && delay >= Duration::from_millis(375));
    assert_eq!(refused(&mut pool, ms(1_001)), Class::WorkerPoolExhausted);
    assert_eq!(pool.next_wake(), Some(ms(1_000) + delay));
    pool.on_wake(ms(1_500));
    let next = starts(&actions(&mut pool))[0];
    pool.on_ready(ms(1_510), next);
    pool.on_exit(ms(20_000), next, false);
    assert_eq!(starts(&actions(&mut pool)).len(), 1, "healthy for 18 s: started at once");
}

#[test]
fn never_booted_is_the_applications_fault_and_later_death_is_not() {
    let mut pool = Pool::new(config(1, 5), ms(0), 1);
    let first = starts(&actions(&mut pool))[0];
    pool.on_boot_failed(ms(10), first, "syntax error");
    assert_eq!(pool.boot_error(), Some("syntax error"));
    for now in [20, 30] {
        assert_eq!(refused(&mut pool, ms(now)), Class::WorkerRuntimeError);
    }
    pool.on_wake(ms(600));
    let next = *starts(&actions(&mut pool)).last().unwrap();
    assert_eq!(refused(&mut pool, ms(601)), Class::WorkerRuntimeError, "still never ready");
    pool.on_ready(ms(610), next);
    pool.on_exit(ms(620), next, false);
    assert_eq!(refused(&mut pool, ms(630)), Class::WorkerPoolExhausted);
}

#[test]
fn a_worker_that_never_gets_ready_is_killed_and_backs_off() {
    let mut pool = Pool::new(config(1, 5), ms(0), 1);
    let first = starts(&actions(&mut pool))[0];
    assert_eq!(pool.next_wake(), Some(ms(5_000)));
    pool.on_wake(ms(5_000));
    let done = actions(&mut pool);
    assert_eq!(done[0], Action::Kill { worker: first, reason: EndReason::StartTimeout });
    assert!(matches!(done[1], Action::Postponed { .. }));
}

#[test]
fn max_requests_boots_the_successor_first_and_not_all_at_once() {
    let mut recycling = config(4, 0);
    recycling.max_requests = 2;
    let (mut pool, workers) = ready_pool(recycling);
    let mut started = Vec::new();
    for round in 0..4 {
        let permits: Vec<Permit> = (0..4).map(|_| granted(&mut pool, ms(10 + round))).collect();
        for permit in permits {
            pool.settle(ms(10 + round), permit, Outcome::Done);
        }
        started.extend(starts(&actions(&mut pool)));
    }
    assert_eq!(started.len(), 1, "a quarter of four at a time");
    assert_eq!(pool.snapshot().slots.iter().filter(|s| s.phase == SlotPhase::Idle).count(), 4);
    pool.on_ready(ms(50), started[0]);
    let done = actions(&mut pool);
    let old = workers.iter().find(|w| w.slot == started[0].slot).copied().unwrap();
    assert!(done.contains(&Action::Retire { worker: old, reason: EndReason::MaxRequests }));
    assert_eq!(starts(&done).len(), 1, "then the next");
}

#[test]
fn a_busy_worker_that_lost_its_slot_ends_after_its_request() {
    let (mut pool, workers) = ready_pool(config(1, 1));
    let permit = granted(&mut pool, ms(10));
    assert!(pool.on_restart(ms(11), 0) && !pool.on_restart(ms(11), 9));
    let next = starts(&actions(&mut pool))[0];
    let _ticket = queued(&mut pool, ms(12));
    pool.on_ready(ms(20), next);
    assert!(matches!(actions(&mut pool)[..], [Action::Grant { .. }]), "the successor serves");
    pool.settle(ms(30), permit, Outcome::Done);
    let retire = Action::Retire { worker: workers[0], reason: EndReason::Restart };
    assert_eq!(actions(&mut pool), [retire]);
}

#[test]
fn a_reload_changes_all_or_nothing() {
    let (mut pool, old) = ready_pool(config(2, 0));
    pool.on_reload(ms(10), config(3, 0)).unwrap();
    assert_eq!(pool.on_reload(ms(10), config(3, 0)), None, "one at a time");
    let new = starts(&actions(&mut pool));
    assert_eq!(new.len(), 3);
    pool.on_ready(ms(20), new[0]);
    pool.on_boot_failed(ms(21), new[1], "no such class");
    let done = actions(&mut pool);
    assert!(done.contains(&Action::ReloadAbandoned { error: "no such class".into() }));
    assert_eq!(pool.snapshot().slots.len(), 2);
    assert_eq!(pool.snapshot().slots[0].worker, Some(old[0]));

    pool.on_reload(ms(30), config(3, 0)).unwrap();
    let new = starts(&actions(&mut pool));
    let busy = granted(&mut pool, ms(31));
    for &worker in &new {
        pool.on_ready(ms(40), worker);
    }
    let done = actions(&mut pool);
    assert_eq!(done.last(), Some(&Action::ReloadDone));
    let idle = old.iter().find(|w| **w != busy.worker).copied().unwrap();
    assert!(done.contains(&Action::Retire { worker: idle, reason: EndReason::Reload }));
    assert_eq!(pool.snapshot().slots.len(), 3);
    let worker = busy.worker;
    pool.settle(ms(50), busy, Outcome::Done);
    assert_eq!(actions(&mut pool), [Action::Retire { worker, reason: EndReason::Reload }]);
}

#[test]
fn external_workers_rest_instead_of_being_replaced() {
    let mut external = config(1, 0);
    external.supervised = false;
    let (mut pool, _) = ready_pool(external);
    let permit = granted(&mut pool, ms(10));
    pool.settle(ms(11), permit, Outcome::Fault);
    let done = actions(&mut pool);
    assert!(matches!(done[..], [Action::Kill { .. }, Action::Postponed { failures: 1, .. }]));
    assert_eq!(refused(&mut pool, ms(12)), Class::WorkerPoolExhausted);
    pool.on_wake(ms(511));
    assert_eq!(starts(&actions(&mut pool)).len(), 1);
}

#[test]
fn stopping_ends_idle_workers_now_and_busy_ones_after_their_request() {
    let (mut pool, _) = ready_pool(config(2, 0));
    let permit = granted(&mut pool, ms(10));
    pool.on_stop(ms(20));
    assert!(matches!(actions(&mut pool)[..], [Action::Retire { reason: EndReason::Shutdown, .. }]));
    assert_eq!(refused(&mut pool, ms(21)), Class::Draining);
    pool.settle(ms(30), permit, Outcome::TimedOut);
    assert!(matches!(actions(&mut pool)[..], [Action::Kill { .. }]));
    assert_eq!(pool.next_wake(), None);
}

/// What a driver would know, kept beside the machine to steer and to check it.
struct World {
    pool: Pool,
    now: Moment,
    booting: Vec<WorkerId>,
    alive: BTreeSet<WorkerId>,
    permits: Vec<Permit>,
    waiting: Vec<Ticket>,
}

impl World {
    fn new(config: PoolConfig, seed: u64) -> World {
        let pool = Pool::new(config, ms(0), seed);
        let (booting, permits, waiting) = (Vec::new(), Vec::new(), Vec::new());
        let mut world =
            World { pool, now: ms(0), booting, alive: BTreeSet::new(), permits, waiting };
        world.carry_out();
        world
    }

    fn carry_out(&mut self) {
        while let Some(action) = self.pool.next_action() {
            match action {
                Action::Start { worker, .. } => {
                    assert!(self.alive.insert(worker), "an id is used once");
                    self.booting.push(worker);
                }
                Action::Kill { worker, .. } => {
                    self.alive.remove(&worker);
                    self.booting.retain(|w| *w != worker);
                }
                Action::Retire { worker, .. } => {
                    let busy = self.permits.iter().any(|p| p.worker == worker);
                    assert!(!busy, "a worker with a request is not asked to end");
                    self.alive.remove(&worker);
                }
                Action::Grant { ticket, permit, .. } => {
                    assert_eq!(self.waiting.first(), Some(&ticket), "in order");
                    self.waiting.remove(0);
                    self.take(permit);
                }
                Action::Postponed { .. } | Action::ReloadDone => {}
                Action::ReloadAbandoned { .. } => {}
            }
        }
        self.pool.check_invariants();
        let idle = self.pool.snapshot().slots.iter().any(|s| s.phase == SlotPhase::Idle);
        assert!(!idle || self.waiting.is_empty(), "nobody waits while a worker is idle");
    }

    fn take(&mut self, permit: Permit) {
        assert!(self.alive.contains(&permit.worker), "only a live worker is granted");
        assert!(self.permits.iter().all(|p| p.worker != permit.worker), "one request each");
        self.permits.push(permit);
    }

    /// One event of `choice`, on the `pick`-th thing it can apply to.
    fn step(&mut self, choice: u64, pick: u64) {
        let nth = |len: usize| (pick as usize) % len.max(1);
        match choice {
            3 if pick.is_multiple_of(5) => {
                if let Some(permit) = self.pool.on_second_try(self.now) {
                    self.take(permit);
                }
            }
            0..=3 => match self.pool.on_arrive(self.now, Deadline::NEVER) {
                Admission::Granted(permit) => self.take(permit),
                Admission::Queued(waiting) => self.waiting.push(waiting.ticket),
                Admission::Refused(refusal) => assert!((1..=30).contains(&refusal.retry_after_s)),
            },
            4..=7 if !self.permits.is_empty() => {
                let permit = self.permits.swap_remove(nth(self.permits.len()));
                let outcomes = [Outcome::Done, Outcome::Unused, Outcome::TimedOut, Outcome::Fault];
                let outcome = if pick.is_multiple_of(7) {
                    Outcome::DoneLast
                } else {
                    outcomes[choice as usize - 4]
                };
                self.pool.settle(self.now, permit, outcome);
            }
            8..=9 if !self.booting.is_empty() => {
                let worker = self.booting.swap_remove(nth(self.booting.len()));
                self.pool.on_ready(self.now, worker);
            }
            10 if !self.booting.is_empty() => {
                let worker = self.booting[nth(self.booting.len())];
                self.pool.on_boot_failed(self.now, worker, "no");
            }
            11 if !self.alive.is_empty() => {
                let worker = *self.alive.iter().nth(nth(self.alive.len())).unwrap();
                self.alive.remove(&worker);
                self.booting.retain(|w| *w != worker);
                // The exchange of a dead worker breaks too, sooner or later.
                self.pool.on_exit(self.now, worker, pick.is_multiple_of(2));
                if let Some(at) = self.permits.iter().position(|p| p.worker == worker) {
                    let permit = self.permits.swap_remove(at);
                    self.carry_out();
                    self.pool.settle(self.now, permit, Outcome::Fault);
                }
            }
            12 if !self.waiting.is_empty() => {
                let ticket = self.waiting.remove(nth(self.waiting.len()));
                assert!(self.pool.on_leave(ticket));
            }
            13 => {
                self.now = self.now + Duration::from_millis(pick % 700);
                // Waiters have a timer each; the driver fires it before anything else.
                let (pool, now) = (&mut self.pool, self.now);
                self.waiting.drain(..).for_each(|t| drop(pool.on_expired(now, t)));
                self.pool.on_wake(self.now);
                if let Some(wake) = self.pool.next_wake() {
                    assert!(wake > self.now, "a wake in the past would spin");
                }
            }
            14 if pick.is_multiple_of(4) => {
                self.pool.on_reload(self.now, config(1 + (pick % 3) as u32, 2));
            }
            15 => {
                self.pool.on_restart(self.now, (pick % 3) as u32);
            }
            _ => {}
        }
        self.carry_out();
    }
}

#[test]
fn random_sequences_keep_every_invariant() {
    for seed in 0..400 {
        let mut random = Jitter::new(seed);
        let mut recycling = config(1 + (seed % 3) as u32, (seed % 4) as usize);
        recycling.max_requests = seed % 5;
        recycling.max_requests_jitter = 0.3;
        recycling.supervised = seed % 7 != 0;
        let mut world = World::new(recycling, seed);
        for _ in 0..1_500 {
            world.step(random.bits() % 16, random.bits() >> 8);
        }
    }
}

#[test]
fn every_short_sequence_keeps_every_invariant() {
    // 16 kinds of event, all sequences of five after a ready start: about a million steps.
    let sequence_count = 16u64.pow(5);
    for number in 0..sequence_count {
        let mut world = World::new(config(1, 1), 1);
        world.step(8, 0);
        let mut rest = number;
        for _ in 0..5 {
            world.step(rest % 16, number % 11);
            rest /= 16;
        }
    }
}
