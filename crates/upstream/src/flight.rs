//! One key under way: the race decides, this carries it out.
//!
//! Invariant: what has arrived is delivered before time is, so an answer at the very moment of a
//! timer wins; and a flight that is dropped is one whose caller went away: everything it still runs
//! ends with it.

use crate::attempt::{Answered, Attempt, Event, Key};
use crate::client::CallOptions;
use crate::ledger::KeyEntry;
use crate::report::{CallError, Report};
use crate::response::Response;
use crate::upstream::Upstream;
use hedgerow_clock::Timer;
use hedgerow_policy::failure::{At, Class, Failure, Phase};
use hedgerow_policy::hedge::{
    self, Action, AttemptId, Call, Cut, Outcome, Race, RaceReport, Upstream as State, Verdict,
};
use hedgerow_policy::observe::{AttemptFacts, CallEvent};
use hedgerow_policy::{Jitter, Moment};
use http::Request;
use std::sync::Arc;
use std::task::{Context, Poll};

pub(crate) struct Flight {
    upstream: Arc<Upstream>,
    trace: Arc<str>,
    label: Option<Arc<str>>,
    key: Key,
    race: Race,
    attempts: Vec<Attempt>,
    timer: Timer,
    started: Moment,
    verdict: Option<Verdict>,
    settled: Report,
    recorded: bool,
}

impl Flight {
    pub(crate) fn start(
        upstream: Arc<Upstream>,
        mut request: Request<crate::Body>,
        options: CallOptions,
    ) -> Result<Box<Flight>, CallError> {
        let (clock, settings) = (upstream.around.clock, &upstream.settings);
        let mut template = crate::head::Template::new(&mut request);
        if let Some(context) = &options.traceparent {
            template.trace_under(context);
        }
        let (keep, limit) = (settings.buffer_limit, settings.body_limit);
        let body = crate::body::Replayed::new(request.into_body(), keep, limit, clock);
        let body = body.map_err(|error| {
            let failure = Failure::new(Class::RequestTooLarge, At::Client, error.to_string());
            CallError { failure, report: Report::default(), last_status: None }
        })?;
        let seed = upstream.next_key();
        let call = Call {
            config: options.rules,
            deadline: options.deadline,
            repeatable: hedge::repeatable(template.method.as_str(), template.is_keyed()),
            body: body.replay(),
            hedging: options.hedging,
            cap: options.cap,
            seed,
        };
        let now = clock.now();
        let race = Race::new(now, &mut upstream.state(), call);
        let mut flight = Box::new(Flight {
            key: Key {
                template,
                body,
                jitter: Jitter::new(seed ^ now.as_nanos()),
                taken: options.taken,
                hold_limit: settings.response_buffer_limit,
            },
            trace: options.trace,
            label: options.label,
            race,
            attempts: Vec::with_capacity(1),
            timer: Timer::default(),
            started: now,
            verdict: None,
            settled: Report::default(),
            recorded: false,
            upstream,
        });
        flight.carry_out(now);
        Ok(flight)
    }

    /// Ready once the key is settled.
    pub(crate) fn poll_settled(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let clock = self.upstream.around.clock;
        loop {
            let mut index = 0;
            while index < self.attempts.len() && self.verdict.is_none() {
                let attempt = &mut self.attempts[index];
                if !self.race.is_running(attempt.id) {
                    index += 1;
                    continue;
                }
                let may_resend = self.race.may_resend(attempt.id);
                match attempt.poll(&mut self.key, may_resend, cx) {
                    Poll::Ready(event) => self.on_event(index, event),
                    Poll::Pending => index += 1,
                }
            }
            if self.verdict.is_some() {
                return Poll::Ready(());
            }
            match self.timer.poll(clock, self.race.next_wake(), cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(()) => self.with(|race, state, now| race.on_wake(now, state)),
            }
        }
    }

    fn on_event(&mut self, index: usize, event: Event) {
        let id = self.attempts[index].id;
        match event {
            Event::Connected => self.race.on_connected(id),
            Event::Head(head) => self.with(|race, up, now| race.on_head(now, up, id, head)),
            Event::Data { data, over } => self.with(|race, up, now| {
                race.on_data(now, up, id, data);
                if over {
                    race.on_overflow(now, up, id);
                }
            }),
            Event::End => self.with(|race, up, now| race.on_end(now, up, id)),
            Event::Failed(fault, failure) => {
                self.attempts[index].failure = Some(failure);
                self.with(|race, up, now| race.on_failed(now, up, id, fault));
            }
        }
    }

    /// One event under the lock, and everything that follows from it.
    fn with(&mut self, event: impl FnOnce(&mut Race, &mut State, Moment)) {
        let now = self.upstream.around.clock.now();
        self.race.on_body(self.key.body.replay());
        if let Some(at) = self.key.body.taken() {
            self.race.on_upload(at);
        }
        event(&mut self.race, &mut self.upstream.state(), now);
        self.carry_out(now);
    }

    fn carry_out(&mut self, now: Moment) {
        while let Some(action) = self.race.next_action() {
            match action {
                Action::Start { attempt, role, endpoint } => {
                    let used: Vec<_> = self.attempts.iter().filter_map(|a| a.connection).collect();
                    let pool = &self.upstream.pools[endpoint];
                    let span = self.key.jitter.bits() | 1;
                    self.attempts.push(Attempt::start(attempt, pool, &used, span));
                    let endpoint = &self.upstream.urls[endpoint];
                    self.tell(CallEvent::AttemptStarted { role, endpoint });
                }
                Action::Cancel { attempt, cut } => {
                    let attempt = &mut self.attempts[attempt.index()];
                    attempt.cancel();
                    attempt.failure.get_or_insert_with(|| failure_of(cut));
                }
                Action::Settle(verdict) => self.settled(now, verdict),
                Action::Hedged { after } => self.tell(CallEvent::HedgeFired { after }),
                Action::Suppressed(reason) => self.tell(CallEvent::HedgeSuppressed { reason }),
                Action::Observed => self.tell(CallEvent::HedgeObserved),
                Action::RetryAt(at) => {
                    self.tell(CallEvent::RetryScheduled { delay: at.since(now) });
                }
                Action::Demoted(endpoint) => {
                    let endpoint = &self.upstream.urls[endpoint];
                    self.tell(CallEvent::EndpointDemoted { endpoint });
                }
            }
        }
        if self.race.over() {
            self.record(now);
        }
    }

    fn settled(&mut self, now: Moment, verdict: Verdict) {
        self.verdict = Some(verdict);
        self.settled = self.report(now.since(self.started));
        let Report { winner, hedged_after, attempts, duration, .. } = self.settled;
        self.tell(CallEvent::KeySettled { winner, duration, attempts, hedged_after });
    }

    fn tell(&self, event: CallEvent<'_>) {
        self.upstream.tell(&self.trace, event);
    }

    fn report(&self, duration: std::time::Duration) -> Report {
        let hedge::Summary { attempts, winner, hedged_after, retries } = self.race.summary();
        Report { attempts, winner, hedged_after, retries, duration }
    }

    /// The answer, once the key is settled.
    pub(crate) fn into_answer(mut self: Box<Flight>) -> Result<Response, CallError> {
        let report = self.settled;
        let failure = match self.verdict {
            Some(Verdict::Answer { attempt, .. }) => {
                match self.attempts[attempt.index()].take_answer() {
                    Some(answered) => {
                        if answered.is_over() {
                            self.with(|race, up, now| race.on_end(now, up, attempt));
                        }
                        return Ok(Response::new(self, attempt, answered, report));
                    }
                    None => lost(),
                }
            }
            Some(Verdict::Failed { attempt, .. }) => {
                self.attempts[attempt.index()].failure.clone().unwrap_or_else(lost)
            }
            Some(Verdict::TimedOut) => failure_of(Cut::Deadline),
            Some(Verdict::Shed { until }) => {
                let wait = until.since(self.started).as_secs().clamp(1, 30) as u32;
                let text = "every endpoint is shed by its breaker";
                Failure::new(Class::CircuitOpen, At::Upstream, text).retry_after(wait)
            }
            Some(Verdict::Abandoned) | None => {
                Failure::new(Class::ClientClosed, At::Client, "nobody waits any more")
            }
        };
        let last_status = self.race.report().attempts.iter().rev().find_map(|a| a.status);
        Err(CallError { failure, report, last_status })
    }

    /// The next frame of the response that is the key's.
    pub(crate) fn poll_frame(
        &mut self,
        id: AttemptId,
        answered: &mut Answered,
        held_back: &mut bool,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<bytes::Bytes>, Failure>>> {
        if let Some(frame) = answered.held.pop_front() {
            return Poll::Ready(Some(Ok(frame)));
        }
        if self.race.over() {
            return Poll::Ready(None);
        }
        let clock = self.upstream.around.clock;
        match answered.poll_live(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(bytes) = frame.data_ref() {
                    self.attempts[id.index()].bytes += bytes.len() as u64;
                }
                if answered.is_over() {
                    self.with(|race, up, now| {
                        race.on_flow(now);
                        race.on_end(now, up, id);
                    });
                } else {
                    self.race.on_flow(clock.now());
                    // Until the caller comes back for more, silence is its own.
                    self.race.on_hold();
                    *held_back = true;
                }
                return Poll::Ready(Some(Ok(frame)));
            }
            Poll::Ready(Some(Err(failure))) => {
                self.attempts[id.index()].failure = Some(failure.clone());
                let fault = hedge::Fault::Broken;
                self.with(|race, up, now| race.on_failed(now, up, id, fault));
                return Poll::Ready(Some(Err(failure)));
            }
            Poll::Ready(None) => {
                self.with(|race, up, now| race.on_end(now, up, id));
                return Poll::Ready(None);
            }
            Poll::Pending => {}
        }
        if std::mem::take(held_back) {
            self.race.on_resume(clock.now());
        }
        while self.timer.poll(clock, self.race.next_wake(), cx).is_ready() {
            self.with(|race, up, now| race.on_wake(now, up));
            if self.race.over() {
                answered.cut();
                let failure = self.attempts[id.index()].failure.clone();
                return Poll::Ready(Some(Err(failure.unwrap_or_else(lost))));
            }
        }
        Poll::Pending
    }

    /// One line in the ledger, once everything is over.
    fn record(&mut self, now: Moment) {
        if std::mem::replace(&mut self.recorded, true) {
            return;
        }
        let race = self.race.report();
        for (attempt, report) in self.attempts.iter().zip(&race.attempts) {
            self.tell(CallEvent::AttemptEnded {
                role: report.role,
                endpoint: &self.upstream.urls[report.endpoint],
                outcome: report.outcome.unwrap_or(Outcome::Abandoned),
                status: report.status,
                error: attempt.failure.as_ref().map(|failure| failure.message.as_ref()),
            });
        }
        self.tell_over(now, &race);
        let bytes = self.attempts.iter().map(|attempt| attempt.bytes);
        let upstream = &self.upstream;
        let duration = self.settled.duration;
        let entry =
            KeyEntry::new(upstream, self.label.clone(), self.trace.clone(), duration, &race, bytes);
        upstream.around.ledger.record(entry);
        upstream.tell_transitions();
    }
}

impl Flight {
    /// Tells all that was done for the key.
    fn tell_over(&self, now: Moment, race: &RaceReport) {
        let traceparent = self.key.template.traceparent();
        let facts =
            self.attempts.iter().zip(&race.attempts).map(|(attempt, report)| AttemptFacts {
                role: report.role,
                endpoint: &self.upstream.urls[report.endpoint],
                span: traceparent.map(|_| attempt.span),
                start: report.start,
                first_data: report.first_data,
                end: report.end,
                outcome: report.outcome.unwrap_or(Outcome::Abandoned),
                status: report.status,
                bytes: attempt.bytes,
                error: attempt.failure.as_ref().map(|failure| failure.message.as_ref()),
            });
        let attempts: Vec<AttemptFacts<'_>> = facts.collect();
        self.tell(CallEvent::KeyOver {
            key: self.label.as_deref(),
            method: self.key.template.method.as_str(),
            traceparent,
            age: now.since(self.started),
            duration: self.settled.duration,
            winner: race.winner,
            hedged_after: race.hedged_after,
            attempts: &attempts,
        });
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if !self.race.over() {
            self.with(|race, up, now| race.on_cancel(now, up));
        }
    }
}

fn failure_of(cut: Cut) -> Failure {
    let timed_out = |text: &'static str, phase| {
        Failure::new(Class::UpstreamTimeout, At::Upstream, text).in_phase(phase)
    };
    match cut {
        Cut::ConnectTimeout => timed_out("no connection in time", Phase::Connect),
        Cut::FirstDataTimeout => timed_out("no data of the response in time", Phase::Read),
        Cut::IdleTimeout => timed_out("the response was silent for too long", Phase::Read),
        Cut::Deadline => timed_out("no answer before the deadline", Phase::Request),
        Cut::Lost => Failure::new(Class::UpstreamError, At::Upstream, "another attempt won"),
        Cut::Abandoned => Failure::new(Class::ClientClosed, At::Client, "the caller went away"),
    }
}

fn lost() -> Failure {
    Failure::new(Class::UpstreamError, At::Upstream, "the attempt ended without a word")
}
