//! What happens when nothing happens: the deadline, the limits of attempts, retries and twins.

use super::attempt::{AttemptId, Cut, Outcome, Phase};
use super::upstream::Upstream;
use super::{Action, Fault, Race, State, Verdict};
use crate::moment::Moment;

impl Race {
    /// When [`Race::on_wake`] has something to do without another event.
    #[must_use]
    pub fn next_wake(&self) -> Option<Moment> {
        let until = Some(self.until).filter(|at| *at != Moment::NEVER);
        let limits = self.next_limit().map(|(at, _, _)| at);
        match self.state {
            State::Racing => {
                let times = [until, limits, self.retry_at, self.ask_at()];
                times.into_iter().flatten().min()
            }
            State::Committed(_) => until.into_iter().chain(limits).min(),
            State::Over => None,
        }
    }

    /// Time has passed. What has arrived by `now` must have been delivered before.
    pub fn on_wake(&mut self, now: Moment, upstream: &mut Upstream) {
        if self.state != State::Over && now >= self.until {
            self.deadline(now, upstream);
        }
        while let Some((at, id, cut)) = self.next_limit()
            && at <= now
        {
            self.out_of_time(now, upstream, id, cut);
        }
        if self.racing() && self.retry_at.is_some_and(|at| at <= now) {
            self.start_retry(now, upstream);
        }
        if self.racing() && self.ask_at().is_some_and(|at| at <= now) {
            self.ask_for_twin(now, upstream);
        }
        self.check_invariants();
    }

    /// The first limit that an attempt will run into. A refused one that is only kept has none.
    fn next_limit(&self) -> Option<(Moment, AttemptId, Cut)> {
        let bound = self.attempts.iter().filter(|a| match self.state {
            State::Racing => a.is_running(),
            State::Committed(id) => a.id == id,
            State::Over => false,
        });
        let limits = bound.filter_map(|a| a.limit(&self.config).map(|(at, cut)| (at, a.id, cut)));
        limits.min_by_key(|(at, ..)| *at)
    }

    fn out_of_time(&mut self, now: Moment, upstream: &mut Upstream, id: AttemptId, cut: Cut) {
        self.actions.push_back(Action::Cancel { attempt: id, cut });
        self.attempts[id.index()].fault = Some(Fault::TimedOut(cut));
        self.end(now, upstream, id, Outcome::Failed, Some(cut));
        match self.state {
            State::Racing => self.after_failure(now, upstream, id),
            State::Committed(_) | State::Over => self.state = State::Over,
        }
    }

    fn deadline(&mut self, now: Moment, upstream: &mut Upstream) {
        match self.state {
            State::Racing => {
                upstream.counters.failed += 1;
                self.give_up(now, upstream, Verdict::TimedOut, Cut::Deadline);
            }
            State::Committed(id) => {
                self.actions.push_back(Action::Cancel { attempt: id, cut: Cut::Deadline });
                self.end(now, upstream, id, Outcome::Failed, Some(Cut::Deadline));
                self.state = State::Over;
            }
            State::Over => {}
        }
    }

    /// Ends everything for a reason that is no attempt's.
    pub(super) fn give_up(
        &mut self,
        now: Moment,
        upstream: &mut Upstream,
        verdict: Verdict,
        cut: Cut,
    ) {
        if self.retry_at.take().is_some() {
            self.retries -= 1;
        }
        self.state = State::Over;
        self.settle(verdict);
        self.close_others(now, upstream, None, cut, Outcome::Abandoned);
    }

    /// Cancels every open attempt but one. What runs gets `outcome`; what was refused has failed.
    pub(super) fn close_others(
        &mut self,
        now: Moment,
        upstream: &mut Upstream,
        but: Option<AttemptId>,
        cut: Cut,
        outcome: Outcome,
    ) {
        for index in 0..self.attempts.len() {
            let attempt = &self.attempts[index];
            let id = attempt.id;
            if Some(id) == but || !attempt.is_open() {
                continue;
            }
            let outcome = if attempt.phase == Phase::Running { outcome } else { Outcome::Failed };
            self.actions.push_back(Action::Cancel { attempt: id, cut });
            self.end(now, upstream, id, outcome, Some(cut));
        }
    }
}
