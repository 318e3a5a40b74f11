//! A driver in virtual time: what each attempt will do is written down beforehand.

use crate::budget::BudgetConfig;
use crate::endpoints::DemoteConfig;
use crate::hedge::{
    Action, AttemptId, Call, Cut, Endpoint, Fault, HedgeConfig, Outcome, Race, RaceConfig, Reason,
    RetryConfig, Role, Upstream, UpstreamConfig, Verdict,
};
use crate::moment::Moment;
use std::sync::Arc;
use std::time::Duration;

pub(super) fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(super) fn at(seconds: u64) -> Moment {
    Moment::START + s(seconds)
}

/// What an attempt does, some seconds after its start.
#[derive(Clone, Copy, Debug)]
pub(super) enum Does {
    Head(u16),
    Later(u16, u64),
    Data,
    Comment,
    End,
    Breaks,
    Refused,
}
pub(super) use Does::{Breaks, Comment, Data, End, Head, Later, Refused};

pub(super) fn head(status: u16, retry_after: Option<Duration>) -> crate::hedge::Head {
    crate::hedge::Head { status, retry_after, streams: false }
}

/// An attempt's script. What is not in it is silence.
pub(super) type Script = Vec<(u64, Does)>;

/// A complete answer with this status.
pub(super) fn answers(status: u16, after: u64) -> Script {
    vec![(after, Head(status)), (after, Data), (after, End)]
}

pub(super) fn ok(after: u64) -> Script {
    answers(200, after)
}

pub(super) fn silent() -> Script {
    Vec::new()
}

/// A hedge after 100 s, as the cases have it.
pub(super) fn hedge() -> HedgeConfig {
    HedgeConfig { after: Some(s(100)), after_quantile: None, ..HedgeConfig::default() }
}

/// The rules that most cases share: the hedge above, no limits of an attempt's own.
pub(super) fn rules(hedge: HedgeConfig) -> RaceConfig {
    RaceConfig { hedge: Some(hedge), ..RaceConfig::default() }
}

pub(super) fn retries(max: u32, statuses: &[u16]) -> RetryConfig {
    RetryConfig { max, backoff: s(4), backoff_max: s(60), statuses: statuses.to_vec() }
}

pub(super) fn upstream(race: RaceConfig, endpoints: usize, budget: (f64, u32)) -> Upstream {
    Upstream::new(UpstreamConfig {
        race: Arc::new(race),
        budget: BudgetConfig { ratio: budget.0, burst: budget.1 },
        demote: DemoteConfig { after: 3, cooldown: s(30) },
        endpoints,
    })
}

/// One key under way: its scripts, and everything that happened.
pub(super) struct Key {
    pub(super) race: Race,
    scripts: Vec<Script>,
    /// Start and script of every attempt, and how much of it has happened.
    running: Vec<(Moment, Script)>,
    open: Vec<bool>,
    pub(super) starts: Vec<(u64, Role, Endpoint)>,
    pub(super) verdict: Option<(Duration, Verdict)>,
    pub(super) cuts: Vec<(u64, u32, Cut)>,
    pub(super) suppressed: Vec<(u64, Reason)>,
    pub(super) observed: usize,
}

impl Key {
    pub(super) fn new(now: Moment, up: &mut Upstream, call: Call, scripts: &[Script]) -> Key {
        let mut key = Key {
            race: Race::new(now, up, call),
            scripts: scripts.to_vec(),
            running: Vec::new(),
            open: Vec::new(),
            starts: Vec::new(),
            verdict: None,
            cuts: Vec::new(),
            suppressed: Vec::new(),
            observed: 0,
        };
        key.carry_out(now);
        key
    }

    fn carry_out(&mut self, now: Moment) {
        let second = now.as_millis() / 1_000;
        while let Some(action) = self.race.next_action() {
            match action {
                Action::Start { attempt, role, endpoint } => {
                    assert_eq!(attempt.index(), self.running.len());
                    self.starts.push((second, role, endpoint));
                    let script = self.scripts.get(attempt.index()).cloned().unwrap_or_default();
                    self.running.push((now, script));
                    self.open.push(true);
                    self.race.on_connected(attempt);
                }
                Action::Cancel { attempt, cut } => {
                    assert!(std::mem::take(&mut self.open[attempt.index()]), "cancelled once");
                    self.cuts.push((second, attempt.0, cut));
                }
                Action::Settle(verdict) => {
                    assert!(self.verdict.is_none(), "settled once");
                    self.verdict = Some((now.since(Moment::START), verdict));
                }
                Action::Suppressed(reason) => self.suppressed.push((second, reason)),
                Action::Observed => self.observed += 1,
                Action::Hedged { .. } | Action::RetryAt(_) | Action::Demoted(_) => {}
            }
        }
    }

    fn next_event(&self) -> Option<(Moment, usize)> {
        let open = self.running.iter().enumerate().filter(|(index, _)| self.open[*index]);
        let next = open.filter_map(|(index, (start, script))| {
            script.first().map(|(after, _)| (*start + s(*after), index))
        });
        next.min()
    }

    /// When something happens next.
    pub(super) fn next(&self) -> Option<Moment> {
        self.next_event().map(|(at, _)| at).into_iter().chain(self.race.next_wake()).min()
    }

    /// Everything that happens at `now`: what arrives first, then time.
    pub(super) fn step(&mut self, now: Moment, up: &mut Upstream) {
        while let Some((at, index)) = self.next_event()
            && at <= now
        {
            let (_, does) = self.running[index].1.remove(0);
            let (race, id) = (&mut self.race, AttemptId(index as u32));
            match does {
                Head(status) => race.on_head(now, up, id, head(status, None)),
                Later(status, wait) => race.on_head(now, up, id, head(status, Some(s(wait)))),
                Data => race.on_data(now, up, id, true),
                Comment => race.on_data(now, up, id, false),
                End => race.on_end(now, up, id),
                Breaks => race.on_failed(now, up, id, Fault::Broken),
                Refused => race.on_failed(now, up, id, Fault::Unsent),
            }
            if matches!(does, End | Breaks | Refused) {
                self.open[index] = false;
            }
            self.carry_out(now);
        }
        if self.race.next_wake().is_some_and(|at| at <= now) {
            self.race.on_wake(now, up);
            self.carry_out(now);
        }
    }

    /// Lives until nothing more happens.
    pub(super) fn run(&mut self, up: &mut Upstream) {
        while let Some(now) = self.next() {
            self.step(now, up);
        }
        assert!(self.race.over(), "the key has come to its end");
        assert!(self.open.iter().all(|open| !open), "nothing is left behind");
    }

    pub(super) fn cancel(&mut self, now: Moment, up: &mut Upstream) {
        self.race.on_cancel(now, up);
        self.carry_out(now);
    }

    /// The second and the attempt of a success.
    pub(super) fn won(&self) -> (u64, u32) {
        match self.verdict {
            Some((when, Verdict::Answer { attempt, success: true })) => (when.as_secs(), attempt.0),
            other => panic!("expected a success, got {other:?}"),
        }
    }

    /// The second of a failure, and what the caller gets.
    pub(super) fn failed(&self) -> (u64, Verdict) {
        match self.verdict {
            Some((_, Verdict::Answer { success: true, .. })) | None => {
                panic!("expected a failure, got {:?}", self.verdict)
            }
            Some((when, verdict)) => (when.as_secs(), verdict),
        }
    }

    pub(super) fn outcomes(&self) -> Vec<Option<Outcome>> {
        self.race.report().attempts.iter().map(|a| a.outcome).collect()
    }

    pub(super) fn start_seconds(&self) -> Vec<u64> {
        self.starts.iter().map(|(second, ..)| *second).collect()
    }
}

/// One key alone, from 0 to its end, on an upstream with two endpoints and money enough.
pub(super) fn play(race: RaceConfig, call: Call, scripts: &[Script]) -> (Key, Upstream) {
    let mut up = upstream(race, 2, (0.0, 10));
    let mut key = Key::new(at(0), &mut up, call, scripts);
    key.run(&mut up);
    (key, up)
}

/// The same, with the usual call.
pub(super) fn plain(race: RaceConfig, scripts: &[Script]) -> Key {
    play(race, Call::default(), scripts).0
}

/// Several keys at once, each step in the order of the keys.
pub(super) fn run_all(keys: &mut [Key], up: &mut Upstream) {
    while let Some(now) = keys.iter().filter_map(Key::next).min() {
        keys.iter_mut().for_each(|key| key.step(now, up));
    }
}
