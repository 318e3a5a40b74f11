//! Calls to one upstream, through [`hedgerow_policy::hedge::Race`] and the budget it shares.
//!
//! Invariant: nothing is decided here. What starts, what is cut off and what answers is the race's
//! to say; the service only says how long an attempt takes. An attempt's own words are delivered
//! before the timers of the same moment, as the server's driver does.

use super::agenda::Agenda;
use hedgerow_policy::Moment;
use hedgerow_policy::hedge::{
    Action, AttemptId, Call, Counters, Head, Race, Upstream, UpstreamConfig,
};
use std::time::Duration;

/// Every response of these upstreams is a success.
const HEAD: Head = Head { status: 200, retry_after: None, streams: false };

/// One attempt of one call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Who {
    pub(super) call: usize,
    pub(super) attempt: u32,
}

/// What an attempt says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// The head of a response, 200.
    Head,
    /// Data.
    Data,
    /// The end of the response.
    End,
}

/// What an attempt says, and how long after it was begun. The last step is the end.
pub(super) type Script = Vec<(Duration, Step)>;

/// Whoever answers the attempts.
pub(super) trait Service {
    /// An attempt was sent. `None`: it waits for its turn.
    fn sent(&mut self, now: Moment, who: Who) -> Option<Script>;
    /// An attempt has come to its own end, whether anybody still listens or not. Whose turn it is.
    fn ended(&mut self, now: Moment, who: Who) -> Option<(Who, Script)>;
    /// Nobody listens to this attempt any more.
    fn cancelled(&mut self, who: Who);
}

/// What became of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Done {
    pub(super) started: Moment,
    pub(super) ended: Moment,
    pub(super) answered: bool,
    pub(super) attempts: u32,
}

enum Event {
    Says(Who, Step),
    Wake(usize),
}

struct Running {
    race: Race,
    open: Vec<bool>,
    /// The wake that lies in the agenda.
    wake: Option<Moment>,
}

/// The calls under way.
pub(super) struct Calls<'a> {
    upstream: Upstream,
    service: &'a mut dyn Service,
    agenda: Agenda<Event>,
    running: Vec<Option<Running>>,
    done: Vec<Done>,
}

/// Plays calls that arrive at these moments, in order; each is given up after `patience`.
pub(super) fn play(
    config: UpstreamConfig,
    arrivals: &[Moment],
    patience: Option<Duration>,
    service: &mut dyn Service,
) -> (Vec<Done>, Counters) {
    let mut calls = Calls {
        upstream: Upstream::new(config),
        service,
        agenda: Agenda::default(),
        running: Vec::with_capacity(arrivals.len()),
        done: Vec::with_capacity(arrivals.len()),
    };
    for (number, &now) in arrivals.iter().enumerate() {
        calls.until(now);
        let deadline = patience.map_or(Moment::NEVER, |patience| now + patience);
        let call = Call { deadline, seed: number as u64, ..Call::default() };
        let race = Race::new(now, &mut calls.upstream, call);
        calls.running.push(Some(Running { race, open: Vec::new(), wake: None }));
        calls.done.push(Done { started: now, ended: now, answered: false, attempts: 0 });
        calls.carry_out(now, number);
    }
    calls.until(Moment::NEVER);
    let counters = calls.upstream.snapshot(Moment::NEVER).counters;
    (calls.done, counters)
}

impl Calls<'_> {
    fn until(&mut self, end: Moment) {
        while self.agenda.next_at().is_some_and(|at| at < end) {
            let Some((now, event)) = self.agenda.take() else { return };
            match event {
                Event::Says(who, step) => self.says(now, who, step),
                Event::Wake(call) => self.woken(now, call),
            }
        }
    }

    fn says(&mut self, now: Moment, who: Who, step: Step) {
        let id = AttemptId(who.attempt);
        if let Some(running) = &mut self.running[who.call]
            && running.open.get(id.index()).copied().unwrap_or(false)
        {
            let (race, upstream) = (&mut running.race, &mut self.upstream);
            match step {
                Step::Head => race.on_head(now, upstream, id, HEAD),
                Step::Data => race.on_data(now, upstream, id, true),
                Step::End => {
                    running.open[id.index()] = false;
                    race.on_end(now, upstream, id);
                    self.done[who.call].answered |= race.over();
                }
            }
            self.carry_out(now, who.call);
        }
        if step == Step::End
            && let Some((next, script)) = self.service.ended(now, who)
        {
            self.say(now, next, script);
        }
    }

    fn woken(&mut self, now: Moment, call: usize) {
        let Some(running) = &mut self.running[call] else { return };
        running.wake = None;
        if running.race.next_wake().is_some_and(|at| at <= now) {
            running.race.on_wake(now, &mut self.upstream);
        }
        self.carry_out(now, call);
    }

    fn carry_out(&mut self, now: Moment, call: usize) {
        let Some(running) = &mut self.running[call] else { return };
        let mut sent = Vec::new();
        while let Some(action) = running.race.next_action() {
            match action {
                Action::Start { attempt, .. } => {
                    running.open.push(true);
                    running.race.on_connected(attempt);
                    sent.push(Who { call, attempt: attempt.0 });
                    self.done[call].attempts += 1;
                }
                Action::Cancel { attempt, .. } => {
                    if let Some(open) = running.open.get_mut(attempt.index()) {
                        *open = false;
                    }
                    self.service.cancelled(Who { call, attempt: attempt.0 });
                }
                _ => {}
            }
        }
        if running.race.over() {
            self.done[call].ended = now;
            self.running[call] = None;
        } else if let Some(at) = running.race.next_wake()
            && running.wake.is_none_or(|wake| at < wake)
        {
            running.wake = Some(at);
            self.agenda.put_timer(at.max(now), Event::Wake(call));
        }
        for who in sent {
            if let Some(script) = self.service.sent(now, who) {
                self.say(now, who, script);
            }
        }
    }

    fn say(&mut self, now: Moment, who: Who, script: Script) {
        for (after, step) in script {
            self.agenda.put(now + after, Event::Says(who, step));
        }
    }
}
