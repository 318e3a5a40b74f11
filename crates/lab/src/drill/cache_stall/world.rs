//! The store, the database and the callers, for one policy.
//!
//! Invariant: every request is counted once among hits, misses, sheds and cache timeouts, in the
//! second in which it arrived.

use super::gate::{Gate, Pass, Rules};
use super::outcome::Second;
use super::tape::Tape;
use super::{Model, STALL_AT};
use crate::drill::DrillError;
use crate::drill::agenda::Agenda;
use hedgerow_policy::Moment;
use hedgerow_policy::breaker::Outcome;
use hedgerow_policy::guard::GuardSettings;
use hedgerow_policy::repair::CanaryPermit;
use hedgerow_policy::single_flight::{Follower, Joined, Leader, SingleFlight, SingleFlightConfig};
use std::time::Duration;

enum Event {
    /// The store answers a read of a request of that second.
    Read { pass: Pass, key: u32, second: usize },
    /// A read has waited long enough.
    ReadTimeout { pass: Pass, key: u32 },
    /// The database answers.
    Fetched { key: u32, asked: Moment, leader: Option<Leader> },
    /// One who waited for somebody else's fetch leaves.
    Leave(Follower),
    /// The store has stored.
    Saved { pass: Pass, key: u32, repair: bool },
    /// A save has waited long enough.
    SaveTimeout { pass: Pass },
    /// The canary is back.
    Canary { permit: CanaryPermit, good: bool },
    /// The connection has been silent too long and is replaced.
    Replace,
    /// The store is back.
    Back,
}

/// One policy's world.
pub(super) struct World<'a> {
    model: &'a Model,
    tape: &'a Tape,
    rules: Rules,
    settings: GuardSettings,
    gate: Gate,
    agenda: Agenda<Event>,
    seconds: Vec<Second>,
    stall: (Moment, Moment),
    /// Until when each key is in the cache.
    cached: Vec<Moment>,
    /// Replies that will come, if at all, when the store is back.
    late: u64,
    /// Keys of saves among them: the store executes them when it wakes.
    unheard: Vec<u32>,
    /// The connection has been replaced; its owed commands were ended.
    replaced: bool,
    /// Keys of saves that were ended: in doubt, and so removed when the store is back.
    in_doubt: Vec<u32>,
    service: Duration,
    in_line: usize,
    /// When the database will have done all that waits.
    free: Moment,
    flights: Option<SingleFlight<u32>>,
    /// When the flight of a key lands.
    lands: Vec<Moment>,
    wake: Option<Moment>,
}

impl<'a> World<'a> {
    pub(super) fn new(
        model: &'a Model,
        tape: &'a Tape,
        rules: Rules,
    ) -> Result<World<'a>, DrillError> {
        let keys = tape.warm.len();
        let settings = rules.settings(model);
        // Everyone may wait for anyone: the bounds are the server's business, not the drill's.
        let flights = SingleFlightConfig { flights: usize::MAX, followers: usize::MAX };
        let mut agenda = Agenda::default();
        let stall = (Moment::START + STALL_AT, Moment::START + STALL_AT + model.stall);
        agenda.put(stall.1, Event::Back);
        Ok(World {
            gate: Gate::new(settings, rules)?,
            settings,
            agenda,
            seconds: vec![Second::default(); model.duration.as_secs_f64().ceil() as usize],
            stall,
            cached: tape.warm.clone(),
            late: 0,
            unheard: Vec::new(),
            replaced: false,
            in_doubt: Vec::new(),
            service: Duration::from_secs_f64(1.0 / model.mu),
            in_line: 0,
            free: Moment::START,
            flights: rules.late.then(|| SingleFlight::new(flights)),
            lands: if rules.late { vec![Moment::START; keys] } else { Vec::new() },
            wake: None,
            model,
            tape,
            rules,
        })
    }

    /// Plays the tape, then whatever is still on its way.
    pub(super) fn run(mut self, progress: &mut dyn FnMut(f64)) -> Vec<Second> {
        let total = self.tape.arrivals.len().max(1);
        for (at, &(now, key)) in self.tape.arrivals.iter().enumerate() {
            self.until(now);
            self.arrive(now, key);
            self.ask_for_wake();
            if at % 65_536 == 0 {
                progress(at as f64 / total as f64);
            }
        }
        self.until(Moment::START + self.model.duration);
        while let Some((now, event)) = self.agenda.take() {
            self.happen(now, event);
        }
        self.seconds
    }

    /// Everything up to `end`, the end itself not.
    fn until(&mut self, end: Moment) {
        loop {
            let event = self.agenda.next_at().unwrap_or(Moment::NEVER);
            match self.wake.filter(|&wake| wake < event) {
                Some(now) if now < end => {
                    self.wake = None;
                    self.woken(now);
                    self.wake = self.gate.next_wake().map(|at| at.max(now));
                    // Whoever asks to be woken again at once would be asked for ever.
                    if self.wake == Some(now) {
                        self.wake = Some(now + Duration::from_millis(1));
                    }
                }
                None if event < end => {
                    let Some((now, event)) = self.agenda.take() else { return };
                    self.happen(now, event);
                    self.ask_for_wake();
                }
                _ => return,
            }
        }
    }

    fn ask_for_wake(&mut self) {
        if self.gate.stirred() {
            self.wake = self.gate.next_wake();
        }
    }

    fn second(&mut self, at: Moment) -> Option<&mut Second> {
        self.seconds.get_mut(index(at))
    }

    fn count(&mut self, at: Moment, what: impl FnOnce(&mut Second)) {
        if let Some(second) = self.second(at) {
            what(second);
        }
    }

    /// When the store answers what is sent now, if within the deadline.
    fn answer(&mut self, now: Moment, takes: Duration, commands: u64) -> Option<Moment> {
        self.gate.on_sent(now, commands);
        let stalled = self.stall.0 <= now && now < self.stall.1;
        let at = if stalled { self.stall.1 } else { now } + takes;
        if at.since(now) <= self.deadline() {
            return Some(at);
        }
        if self.gate.replaces_connections() && !self.replaced && self.late == 0 {
            self.agenda.put(now + self.settings.liveness_timeout, Event::Replace);
        }
        self.late += commands;
        None
    }

    fn deadline(&self) -> Duration {
        self.settings.call_timeout
    }

    fn arrive(&mut self, now: Moment, key: u32) {
        let second = index(now);
        self.count(now, |second| second.requests += 1);
        let Some(pass) = self.gate.read(now) else {
            self.count(now, |second| second.sheds += 1);
            return self.fetch(now, key);
        };
        match self.answer(now, self.model.latency, 1) {
            Some(at) => self.agenda.put(at, Event::Read { pass, key, second }),
            None => {
                self.count(now, |second| {
                    second.cache_timeouts += 1;
                    second.paid += 1;
                });
                self.agenda.put(now + self.deadline(), Event::ReadTimeout { pass, key });
            }
        }
    }

    fn happen(&mut self, now: Moment, event: Event) {
        match event {
            Event::Read { pass, key, second } => {
                self.gate.on_heard(now, 1);
                let hit = self.cached[key as usize] > now;
                self.gate.settle(now, pass, if hit { Outcome::Ok } else { Outcome::Miss });
                if let Some(second) = self.seconds.get_mut(second) {
                    let count = if hit { &mut second.hits } else { &mut second.misses };
                    *count += 1;
                }
                if !hit {
                    self.fetch(now, key);
                }
            }
            Event::ReadTimeout { pass, key } => {
                self.gate.settle(now, pass, Outcome::Timeout);
                self.fetch(now, key);
            }
            Event::Fetched { key, asked, leader } => self.fetched(now, key, asked, leader),
            Event::Leave(follower) => {
                let flights = self.flights.as_mut();
                if flights.is_some_and(|flights| flights.on_leave(follower)) {
                    self.count(now, |second| second.failed += 1);
                }
            }
            Event::Saved { pass, key, repair } => {
                self.gate.on_heard(now, 1);
                self.cached[key as usize] = now + self.model.ttl;
                self.gate.settle(now, pass, Outcome::Ok);
                if repair {
                    self.count(now, |second| second.repairs_landed += 1);
                }
            }
            Event::SaveTimeout { pass } => self.gate.settle(now, pass, Outcome::Timeout),
            Event::Canary { permit, good } => {
                if good {
                    self.gate.on_heard(now, 2);
                }
                self.gate.settle_canary(now, permit, good);
            }
            Event::Replace => {
                if now < self.stall.1 {
                    self.replaced = true;
                    self.gate.on_lost(std::mem::take(&mut self.late));
                    self.in_doubt.append(&mut self.unheard);
                }
            }
            Event::Back => {
                // What was owed comes late; or the new connection is greeted at last.
                if self.late > 0 || self.replaced {
                    self.gate.on_heard(now, std::mem::take(&mut self.late));
                    self.gate.on_sign_of_life(now);
                }
                for key in self.in_doubt.drain(..) {
                    self.cached[key as usize] = Moment::START;
                }
                // Nobody waits for them any more, but they are executed.
                for key in self.unheard.drain(..) {
                    self.cached[key as usize] = now + self.model.ttl;
                }
            }
        }
    }

    fn woken(&mut self, now: Moment) {
        let Some(permit) = self.gate.on_wake(now) else { return };
        self.count(now, |second| second.canaries += 1);
        // It writes a key of its own and reads it back.
        match self.answer(now, self.model.latency * 2, 2) {
            Some(at) => self.agenda.put(at, Event::Canary { permit, good: true }),
            None => {
                self.agenda.put(now + self.deadline(), Event::Canary { permit, good: false });
            }
        }
    }

    /// A request has no value from the cache.
    fn fetch(&mut self, now: Moment, key: u32) {
        let joined = self.flights.as_mut().map(|flights| flights.on_ask(&key));
        match joined {
            Some(Joined::Follow(follower)) => {
                if self.lands[key as usize].since(now) > self.model.patience {
                    self.agenda.put(now + self.model.patience, Event::Leave(follower));
                }
            }
            Some(Joined::Lead(leader)) => self.ask(now, key, Some(leader)),
            Some(Joined::Alone) | None => self.ask(now, key, None),
        }
    }

    /// Asks the database.
    fn ask(&mut self, now: Moment, key: u32, leader: Option<Leader>) {
        self.count(now, |second| second.db_arrivals += 1);
        let line = if self.rules.late { self.model.bounded_line } else { self.model.line };
        if self.in_line >= line {
            self.count(now, |second| second.failed += 1);
            if let (Some(leader), Some(flights)) = (leader, self.flights.as_mut()) {
                // Refused at once: nobody can have joined yet.
                let _ = flights.on_answer(leader);
            }
            return;
        }
        self.in_line += 1;
        self.free = self.free.max(now) + self.service;
        if self.free.since(now) > self.model.patience {
            self.count(now + self.model.patience, |second| second.failed += 1);
        }
        if leader.is_some() {
            self.lands[key as usize] = self.free;
        }
        self.agenda.put(self.free, Event::Fetched { key, asked: now, leader });
    }

    fn fetched(&mut self, now: Moment, key: u32, asked: Moment, leader: Option<Leader>) {
        self.in_line -= 1;
        self.count(now, |second| second.db_served += 1);
        let mut awaited = now.since(asked) <= self.model.patience;
        let mut keep = awaited;
        if let (Some(leader), Some(flights)) = (leader, self.flights.as_mut()) {
            let landed = flights.on_answer(leader);
            awaited |= !landed.followers.is_empty();
            // An answer that comes after its callers have left is stored too.
            keep = landed.store.is_some();
        }
        if keep {
            self.save(now, key, awaited);
        }
    }

    fn save(&mut self, now: Moment, key: u32, awaited: bool) {
        let pass = self.gate.write(now);
        // Asked first: the write may have moved the circuit.
        let open = self.gate.is_open();
        let Some(pass) = pass else {
            if open {
                self.count(now, |second| second.repairs_refused += 1);
            }
            return;
        };
        let repair = open && pass.is_repair();
        if repair {
            self.count(now, |second| second.repairs_tried += 1);
        }
        match self.answer(now, self.model.latency, 1) {
            Some(at) => self.agenda.put(at, Event::Saved { pass, key, repair }),
            None => {
                if awaited {
                    self.count(now, |second| second.paid += 1);
                }
                // On a connection that was replaced, nothing is owed: it is greeted first.
                let keys = if self.replaced { &mut self.in_doubt } else { &mut self.unheard };
                keys.push(key);
                self.agenda.put(now + self.deadline(), Event::SaveTimeout { pass });
            }
        }
    }
}

fn index(at: Moment) -> usize {
    (at.as_nanos() / 1_000_000_000) as usize
}
