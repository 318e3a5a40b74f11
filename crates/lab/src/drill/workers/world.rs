//! Requests, workers and time, for one policy.
//!
//! Invariant: every request is counted once: answered, or under the class with which it failed.

use super::outcome::Second;
use super::{Rules, Scene};
use crate::drill::agenda::Agenda;
use hedgerow_policy::backoff::BackoffConfig;
use hedgerow_policy::failure::Phase;
use hedgerow_policy::jitter::Jitter;
use hedgerow_policy::pool::{
    Action, Admission, Outcome, Permit, Pool, PoolConfig, RefusalKind, WorkerId,
};
use hedgerow_policy::queue::Ticket;
use hedgerow_policy::{Deadline, Moment};
use std::collections::BTreeMap;
use std::time::Duration;

/// One request of the tape.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    at: Moment,
    takes: Duration,
    /// It needs the service that hangs.
    hangs: bool,
}

/// Requests in order; one tape for all policies.
pub(super) fn record(scene: &Scene, seed: u64) -> Vec<Arrival> {
    let mut jitter = Jitter::new(seed);
    let (from, to) = (scene.trouble.0.as_secs_f64(), scene.trouble.1.as_secs_f64());
    let end = scene.duration.as_secs_f64();
    let mut tape = Vec::new();
    // The workers boot first.
    let mut now = 1.0;
    loop {
        let rate = if (from..to).contains(&now) { scene.rate * scene.surge } else { scene.rate };
        now -= (1.0 - jitter.ratio()).ln() / rate;
        if now >= end {
            return tape;
        }
        tape.push(Arrival {
            at: Moment::from_nanos((now * 1e9) as u64),
            takes: Duration::from_secs_f64(0.01 + 0.02 * jitter.ratio()),
            hangs: jitter.ratio() < scene.hanging,
        });
    }
}

enum Event {
    Ready(WorkerId),
    /// The worker is free again, and has answered if that was awaited.
    Free(Permit),
    ReadTimeout(Permit),
    Expired(Ticket),
}

pub(super) struct World<'a> {
    scene: &'a Scene,
    rules: Rules,
    pool: Pool,
    agenda: Agenda<Event>,
    waiting: BTreeMap<Ticket, Arrival>,
    seconds: Vec<Second>,
    /// Time from arrival to answer, of requests that arrived in trouble.
    waits: Vec<Duration>,
}

impl<'a> World<'a> {
    pub(super) fn new(scene: &'a Scene, rules: Rules, seed: u64) -> World<'a> {
        let config = PoolConfig {
            size: scene.workers,
            supervised: true,
            queue: rules.queue,
            backoff: BackoffConfig {
                base: Duration::from_millis(500),
                max: Duration::from_secs(8),
                reset_after: Duration::from_secs(10),
            },
            start_timeout: Duration::from_secs(5),
            max_requests: 0,
            max_requests_jitter: 0.0,
            max_rss: 0,
        };
        let mut world = World {
            scene,
            rules,
            pool: Pool::new(config, Moment::START, seed),
            agenda: Agenda::default(),
            waiting: BTreeMap::new(),
            seconds: vec![Second::default(); scene.duration.as_secs_f64().ceil() as usize],
            waits: Vec::new(),
        };
        world.carry_out(Moment::START);
        world
    }

    pub(super) fn run(mut self, tape: &[Arrival]) -> (Vec<Second>, Vec<Duration>) {
        for &arrival in tape {
            self.until(arrival.at);
            self.arrive(arrival);
        }
        self.until(Moment::START + self.scene.duration + self.scene.patience);
        (self.seconds, self.waits)
    }

    fn until(&mut self, end: Moment) {
        loop {
            let event = self.agenda.next_at().unwrap_or(Moment::NEVER);
            match self.pool.next_wake().filter(|&wake| wake < event) {
                Some(now) if now < end => {
                    self.pool.on_wake(now);
                    self.carry_out(now);
                }
                None if event < end => {
                    let Some((now, event)) = self.agenda.take() else { return };
                    self.happen(now, event);
                    self.carry_out(now);
                }
                _ => return,
            }
        }
    }

    fn count(&mut self, at: Moment, what: impl FnOnce(&mut Second)) {
        let second = (at.as_nanos() / 1_000_000_000) as usize;
        if let Some(second) = self.seconds.get_mut(second) {
            what(second);
        }
    }

    fn arrive(&mut self, arrival: Arrival) {
        let now = arrival.at;
        self.count(now, |second| second.requests += 1);
        let deadline = Deadline::new(now + self.scene.patience, Phase::Request);
        match self.pool.on_arrive(now, deadline) {
            Admission::Granted(permit) => self.serve(now, arrival, permit),
            Admission::Queued(waiting) => {
                self.waiting.insert(waiting.ticket, arrival);
                self.agenda.put(waiting.until, Event::Expired(waiting.ticket));
            }
            Admission::Refused(refusal) => self.count(now, |second| match refusal.kind {
                RefusalKind::QueueFull => second.queue_full += 1,
                _ => second.exhausted += 1,
            }),
        }
        self.carry_out(now);
    }

    /// A worker has the request.
    fn serve(&mut self, now: Moment, arrival: Arrival, permit: Permit) {
        let (from, to) = self.scene.trouble;
        let (from, to) = (Moment::START + from, Moment::START + to);
        let hangs = arrival.hangs && from <= now && now < to;
        let free = now + arrival.takes;
        let answer = if hangs { to + arrival.takes } else { free };
        let free = if self.rules.plan { free } else { answer };
        let limit = self.rules.read_timeout.map(|limit| now + limit);
        if let Some(limit) = limit.filter(|&limit| limit < free) {
            self.agenda.put(limit, Event::ReadTimeout(permit));
            let seen = limit.min(arrival.at + self.scene.patience);
            return self.count(seen, |second| second.timeouts += 1);
        }
        self.agenda.put(free, Event::Free(permit));
        let waited = answer.since(arrival.at);
        if waited > self.scene.patience {
            // The worker is busy until it answers, whoever waits for that.
            return self.count(arrival.at + self.scene.patience, |second| second.timeouts += 1);
        }
        self.count(answer, |second| second.answered += 1);
        if (from..to).contains(&arrival.at) {
            self.waits.push(waited);
        }
    }

    fn happen(&mut self, now: Moment, event: Event) {
        match event {
            Event::Ready(worker) => self.pool.on_ready(now, worker),
            Event::Free(permit) => self.pool.settle(now, permit, Outcome::Done),
            Event::ReadTimeout(permit) => self.pool.settle(now, permit, Outcome::TimedOut),
            Event::Expired(ticket) => {
                if self.waiting.remove(&ticket).is_some() {
                    self.pool.on_expired(now, ticket);
                    self.count(now, |second| second.queue_timeouts += 1);
                }
            }
        }
    }

    fn carry_out(&mut self, now: Moment) {
        while let Some(action) = self.pool.next_action() {
            match action {
                Action::Start { worker, .. } => {
                    self.agenda.put(now + self.scene.boot, Event::Ready(worker));
                }
                Action::Kill { .. } => self.count(now, |second| second.kills += 1),
                Action::Grant { ticket, permit, .. } => match self.waiting.remove(&ticket) {
                    Some(arrival) => self.serve(now, arrival, permit),
                    None => self.pool.settle(now, permit, Outcome::Unused),
                },
                _ => {}
            }
        }
    }
}
