//! What attempts report, and what follows for the key.
//!
//! Invariant: an event of an attempt that has ended, or of a key that is settled with another,
//! changes nothing.

use super::attempt::{Attempt, AttemptId, Cut, Outcome, Phase, Resend};
use super::config::{Answer, Progress, Replay};
use super::upstream::Upstream;
use super::{Action, Fault, Head, Race, State, Verdict};
use crate::digest::Sample;
use crate::endpoints::Role;
use crate::moment::Moment;

impl Race {
    /// The attempt has a connection: its request is being written.
    pub fn on_connected(&mut self, attempt: AttemptId) {
        if let Some(attempt) = self.attempts.get_mut(attempt.index()) {
            attempt.connected = true;
        }
    }

    /// A piece of a request body that is still arriving was last sent at that moment. As long as it
    /// goes on, a response is not late.
    pub fn on_upload(&mut self, at: Moment) {
        self.attempts.iter_mut().filter(|a| a.is_running()).for_each(|a| a.on_upload(at));
    }

    /// The head of the attempt's response.
    pub fn on_head(
        &mut self,
        now: Moment,
        upstream: &mut Upstream,
        attempt: AttemptId,
        head: Head,
    ) {
        if !self.takes_part(attempt) {
            return;
        }
        let Head { status, retry_after, streams } = head;
        let (progress, accepted) = (self.progress(), self.config.accepts(status));
        let answer = match self.config.answer() {
            Answer::Full if streams => Answer::FirstData,
            answer => answer,
        };
        let it = &mut self.attempts[attempt.index()];
        it.on_head(now, status, progress);
        it.accepted = accepted;
        it.answer = answer;
        if let Some(wait) = retry_after.filter(|_| !accepted) {
            upstream.endpoints.on_retry_after(it.endpoint, now + wait);
        }
        if !accepted {
            it.phase = Phase::Refused { whole: false };
            let took = now.since(it.started);
            let verdict = it.verdict(Outcome::Failed, None);
            upstream.endpoints.settle(now, it.endpoint, it.permit.take(), verdict);
            if it.role == Role::Hedge {
                upstream.counters.hedge_outcomes[Outcome::Failed as usize] += 1;
            }
            upstream.sample(now, Sample::Censored(took));
            self.after_failure(now, upstream, attempt);
        } else if answer == Answer::Headers {
            self.win(now, upstream, attempt);
        }
        self.check_invariants();
    }

    /// Bytes of the response's body arrived. `data`: not only comments or pings.
    ///
    /// Once the key is settled, [`Race::on_flow`] says the same without the upstream.
    pub fn on_data(&mut self, now: Moment, upstream: &mut Upstream, id: AttemptId, data: bool) {
        let progress = self.progress();
        let wins = self.takes_part(id) && self.attempts[id.index()].answer == Answer::FirstData;
        let Some(attempt) = self.attempts.get_mut(id.index()).filter(|a| a.is_open()) else {
            return;
        };
        if data {
            attempt.on_data(now);
        } else {
            attempt.on_bytes(now, progress);
        }
        if wins && data {
            self.win(now, upstream, id);
        }
        self.check_invariants();
    }

    /// Bytes of the response that is the key's arrived.
    pub fn on_flow(&mut self, now: Moment) {
        if let State::Committed(id) = self.state {
            self.attempts[id.index()].on_data(now);
        }
    }

    /// The caller takes again: from now on silence is the upstream's.
    pub fn on_resume(&mut self, now: Moment) {
        if let State::Committed(id) = self.state {
            self.attempts[id.index()].on_resumed(now);
        }
    }

    /// The caller takes nothing at present, so nothing is read: silence is not the upstream's.
    pub fn on_hold(&mut self) {
        if let State::Committed(id) = self.state {
            self.attempts[id.index()].on_hold();
        }
    }

    /// More of the response has arrived than is held back: the attempt is committed.
    pub fn on_overflow(&mut self, now: Moment, upstream: &mut Upstream, attempt: AttemptId) {
        if self.takes_part(attempt) {
            self.win(now, upstream, attempt);
            self.check_invariants();
        }
    }

    /// The attempt's response is complete.
    pub fn on_end(&mut self, now: Moment, upstream: &mut Upstream, id: AttemptId) {
        let Some(attempt) = self.attempts.get(id.index()).filter(|a| a.is_open()) else { return };
        match (self.state, attempt.phase) {
            (State::Racing, Phase::Running) => {
                self.win(now, upstream, id);
                self.end(now, upstream, id, Outcome::Won, None);
                self.state = State::Over;
            }
            (State::Committed(committed), _) if committed == id => {
                let outcome = if attempt.accepted { Outcome::Won } else { Outcome::Failed };
                self.end(now, upstream, id, outcome, None);
                self.state = State::Over;
            }
            (_, Phase::Refused { .. }) => {
                upstream.endpoints.on_end(attempt.endpoint);
                let it = &mut self.attempts[id.index()];
                it.phase = Phase::Refused { whole: true };
                it.ended = Some(now);
            }
            _ => {}
        }
        self.check_invariants();
    }

    /// The attempt broke.
    pub fn on_failed(&mut self, now: Moment, upstream: &mut Upstream, id: AttemptId, fault: Fault) {
        let Some(attempt) = self.attempts.get(id.index()).filter(|a| a.is_open()) else { return };
        let phase = attempt.phase;
        self.attempts[id.index()].fault = Some(fault);
        self.end(now, upstream, id, Outcome::Failed, None);
        match (self.state, phase) {
            (State::Racing, Phase::Running) => self.after_failure(now, upstream, id),
            (State::Committed(committed), _) if committed == id => self.state = State::Over,
            _ => {}
        }
        self.check_invariants();
    }

    /// How much of the request body can be sent again has changed.
    pub fn on_body(&mut self, body: Replay) {
        self.call.body = body;
    }

    /// The caller went away: everything ends, and is nobody's failure.
    pub fn on_cancel(&mut self, now: Moment, upstream: &mut Upstream) {
        match self.state {
            State::Racing => {
                upstream.counters.abandoned += 1;
                self.give_up(now, upstream, Verdict::Abandoned, Cut::Abandoned);
            }
            State::Committed(attempt) => {
                self.actions.push_back(Action::Cancel { attempt, cut: Cut::Abandoned });
                let won = self.attempts[attempt.index()].accepted;
                let outcome = if won { Outcome::Won } else { Outcome::Failed };
                self.end(now, upstream, attempt, outcome, Some(Cut::Abandoned));
                self.state = State::Over;
            }
            State::Over => {}
        }
        self.check_invariants();
    }

    /// Whether what this attempt says can still decide something: its answer is to be read.
    #[must_use]
    pub fn is_running(&self, attempt: AttemptId) -> bool {
        self.takes_part(attempt)
    }

    /// Whether the attempt's request may be written once more, on another connection, when the one
    /// it was written to brought no byte of an answer.
    #[must_use]
    pub fn may_resend(&self, attempt: AttemptId) -> Resend {
        let silent = self.attempts.get(attempt.index()).is_some_and(|a| a.status.is_none());
        if !silent || !self.takes_part(attempt) || self.call.body == Replay::Lost {
            Resend::Never
        } else if self.call.repeatable {
            Resend::IfGivenUp
        } else {
            Resend::IfUnprocessed
        }
    }

    fn progress(&self) -> Progress {
        self.config.hedge.as_ref().map_or(Progress::Bytes, |h| h.progress)
    }

    /// Whether what this attempt says can still decide something.
    fn takes_part(&self, attempt: AttemptId) -> bool {
        self.racing() && self.attempts.get(attempt.index()).is_some_and(Attempt::is_running)
    }

    /// The attempt is the key's answer; the others are cancelled and not waited for.
    fn win(&mut self, now: Moment, upstream: &mut Upstream, id: AttemptId) {
        let attempt = &mut self.attempts[id.index()];
        let took = now.since(attempt.started);
        let verdict = attempt.verdict(Outcome::Won, None);
        upstream.endpoints.settle(now, attempt.endpoint, attempt.permit.take(), verdict);
        if !attempt.quiet {
            upstream.endpoints.on_prompt(attempt.endpoint);
        }
        upstream.sample(now, Sample::Took(took));
        upstream.counters.succeeded += 1;
        if attempt.role == Role::Hedge {
            let rest = upstream.digest.mean_residual(now.since(self.started));
            upstream.counters.saved_micros += rest.as_micros() as u64;
        }
        self.winner = Some(id);
        self.commit(now, upstream, id, true);
    }

    fn commit(&mut self, now: Moment, upstream: &mut Upstream, id: AttemptId, success: bool) {
        self.state = State::Committed(id);
        self.attempts[id.index()].on_resumed(now);
        self.settle(Verdict::Answer { attempt: id, success });
        self.close_others(now, upstream, Some(id), Cut::Lost, Outcome::Lost);
    }

    /// An attempt has failed: the key lives on while something runs or may start.
    pub(super) fn after_failure(
        &mut self,
        now: Moment,
        upstream: &mut Upstream,
        failed: AttemptId,
    ) {
        let waits = self.running().next().is_some() || self.retry_at.is_some();
        if !waits && !self.plan_retry(now, upstream, failed) {
            self.fail(now, upstream);
        }
    }

    /// Nothing runs and nothing may start: what the primary was answered is the key's.
    pub(super) fn fail(&mut self, now: Moment, upstream: &mut Upstream) {
        upstream.counters.failed += 1;
        let primary = &self.attempts[0];
        let id = primary.id;
        match primary.phase {
            Phase::Refused { whole: false } => self.commit(now, upstream, id, false),
            Phase::Refused { whole: true } => {
                self.commit(now, upstream, id, false);
                self.state = State::Over;
            }
            Phase::Running | Phase::Ended(_) => {
                let fault = primary.fault.unwrap_or(Fault::Broken);
                self.state = State::Over;
                self.settle(Verdict::Failed { attempt: id, fault });
                self.close_others(now, upstream, None, Cut::Lost, Outcome::Lost);
            }
        }
    }

    /// The attempt is over for the upstream's books. Its phase says with what.
    pub(super) fn end(
        &mut self,
        now: Moment,
        upstream: &mut Upstream,
        id: AttemptId,
        outcome: Outcome,
        cut: Option<Cut>,
    ) {
        let attempt = &mut self.attempts[id.index()];
        debug_assert!(attempt.is_open(), "an attempt ends once");
        let refused = matches!(attempt.phase, Phase::Refused { .. });
        attempt.phase = Phase::Ended(outcome);
        attempt.ended = Some(now);
        let verdict = attempt.verdict(outcome, cut);
        upstream.endpoints.settle(now, attempt.endpoint, attempt.permit.take(), verdict);
        upstream.endpoints.on_end(attempt.endpoint);
        if outcome != Outcome::Won && !refused {
            upstream.sample(now, Sample::Censored(now.since(attempt.started)));
        }
        if attempt.role == Role::Hedge && !refused {
            upstream.counters.hedge_outcomes[outcome as usize] += 1;
        }
    }
}
