//! What may start: the primary, a twin, a retry; and why not.
//!
//! Invariant: something is spent only for an attempt that does start, and a refusal changes nothing
//! else.

use super::attempt::{Attempt, AttemptId};
use super::config::{Call, HedgeMode, Replay};
use super::upstream::{self, Upstream};
use super::{Action, Fault, Race, State, Verdict};
use crate::backoff::{Backoff, BackoffConfig};
use crate::breaker::Permit;
use crate::endpoints::{Endpoint, Role};
use crate::jitter::Jitter;
use crate::moment::Moment;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident => $name:literal,)+) => {
        /// Why a twin was not started.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Reason { $($(#[$doc])* $variant,)+ }

        impl Reason {
            /// Every reason, in order.
            pub const ALL: [Reason; [$($name),+].len()] = [$(Reason::$variant),+];

            /// The reason as metric labels and the ledger spell it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Reason::$variant => $name,)+ }
            }
        }
    };
}

reasons! {
    /// Nothing is left in the window of hedges and retries.
    Budget => "budget",
    /// Running the request twice could do something twice.
    Unsafe => "unsafe",
    /// The request body cannot be sent again.
    Body => "body",
    /// Too little time is left for a twin to be of use.
    Deadline => "deadline",
    /// The batch has no twins left.
    BatchCap => "batch_cap",
    /// The call asked not to be hedged.
    Disabled => "disabled",
    /// There is no endpoint that a twin may be sent to.
    Endpoint => "endpoint",
}

/// How many twins the keys of one batch may start together.
#[derive(Debug)]
pub struct HedgeCap(AtomicU32);

impl HedgeCap {
    /// So many.
    #[must_use]
    pub fn new(twins: u32) -> HedgeCap {
        HedgeCap(AtomicU32::new(twins))
    }

    fn take(&self) -> bool {
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1)).is_ok()
    }

    fn give_back(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

impl Race {
    /// A key whose primary starts now, or which is settled at once because every endpoint is shed.
    #[must_use]
    pub fn new(now: Moment, upstream: &mut Upstream, call: Call) -> Race {
        let config = call.config.clone().unwrap_or_else(|| upstream.config.race.clone());
        let after = config.hedge.as_ref().and_then(|hedge| upstream.threshold(hedge));
        let until = config.total_timeout.map_or(Moment::NEVER, |limit| now + limit);
        let backoff = BackoffConfig {
            base: config.retry.backoff,
            max: config.retry.backoff_max,
            reset_after: Duration::MAX,
        };
        let mut race = Race {
            until: until.min(call.deadline),
            after,
            started: now,
            attempts: Vec::with_capacity(2),
            state: State::Racing,
            hedges: 0,
            retries: 0,
            last_twin: None,
            muted: false,
            retry_at: None,
            backoff: Backoff::new(backoff),
            jitter: Jitter::new(call.seed),
            winner: None,
            hedged_after: None,
            settled: false,
            actions: VecDeque::with_capacity(4),
            config,
            call,
        };
        match upstream.endpoints.pick(now, Role::Primary, &[]) {
            Some(place) => {
                upstream.budget.on_call(now, race.window());
                race.start(now, upstream, Role::Primary, place);
            }
            None => {
                upstream.counters.shed += 1;
                race.state = State::Over;
                let until = upstream.endpoints.all_shed_until(now);
                race.settle(Verdict::Shed { until });
            }
        }
        race.check_invariants();
        race
    }

    fn window(&self) -> Duration {
        upstream::window(self.config.hedge.as_ref(), self.after)
    }

    fn start(
        &mut self,
        now: Moment,
        upstream: &mut Upstream,
        role: Role,
        (endpoint, permit): (Endpoint, Option<Permit>),
    ) {
        let attempt = AttemptId(self.attempts.len() as u32);
        let mut started = Attempt::new(attempt, role, endpoint, now);
        started.permit = permit;
        self.attempts.push(started);
        upstream.on_start(role);
        self.actions.push_back(Action::Start { attempt, role, endpoint });
    }

    fn used(&self) -> Vec<Endpoint> {
        self.attempts.iter().map(|a| a.endpoint).collect()
    }

    /// When everything that runs will have gone quiet, if a twin may still be asked for.
    pub(super) fn ask_at(&self) -> Option<Moment> {
        let hedge = self.config.hedge.as_ref()?;
        if self.muted || self.hedges >= hedge.max {
            return None;
        }
        let mut latest = None;
        for attempt in self.running() {
            latest = latest.max(Some(attempt.quiet_at(hedge, self.after)?));
        }
        // The next twin gives the last one its time, however that one ended.
        let pause = self.after.or(hedge.idle).unwrap_or_default();
        let paused = self.last_twin.map(|at| at + pause);
        latest.map(|at| paused.map_or(at, |paused| at.max(paused)))
    }

    /// Everything that runs has gone quiet: a twin, or the reason why not.
    pub(super) fn ask_for_twin(&mut self, now: Moment, upstream: &mut Upstream) {
        let config = self.config.clone();
        let Some(hedge) = &config.hedge else { return };
        let observes = hedge.mode == HedgeMode::Observe;
        if self.call.hedging && !observes {
            self.count_quiet(now, upstream);
        }
        let left = self.until.since(now);
        let reason = if !self.call.hedging {
            Some(Reason::Disabled)
        } else if !self.call.repeatable && !hedge.non_idempotent {
            Some(Reason::Unsafe)
        } else if self.call.body != Replay::Whole {
            Some(Reason::Body)
        } else if left < hedge.min_useful || left.is_zero() {
            Some(Reason::Deadline)
        } else {
            None
        };
        let refused = match reason {
            Some(reason) => Err(reason),
            None if observes => {
                self.muted = true;
                upstream.counters.observed += 1;
                self.actions.push_back(Action::Observed);
                return;
            }
            None => self.start_twin(now, upstream),
        };
        if let Err(reason) = refused {
            self.muted = true;
            upstream.counters.suppressed[reason as usize] += 1;
            self.actions.push_back(Action::Suppressed(reason));
        }
    }

    fn start_twin(&mut self, now: Moment, upstream: &mut Upstream) -> Result<(), Reason> {
        if !upstream.endpoints.has_room_for_twin(now) {
            return Err(Reason::Endpoint);
        }
        let cap = self.call.cap.clone();
        if cap.as_ref().is_some_and(|cap| !cap.take()) {
            return Err(Reason::BatchCap);
        }
        if !upstream.budget.try_spend(now, self.window()) {
            cap.inspect(|cap| cap.give_back());
            return Err(Reason::Budget);
        }
        let used = self.used();
        let place = upstream.endpoints.pick(now, Role::Hedge, &used).ok_or(Reason::Endpoint)?;
        self.hedges += 1;
        self.last_twin = Some(now);
        let after = now.since(self.started);
        self.hedged_after.get_or_insert(after);
        self.actions.push_back(Action::Hedged { after });
        self.start(now, upstream, Role::Hedge, place);
        Ok(())
    }

    fn count_quiet(&mut self, now: Moment, upstream: &mut Upstream) {
        for attempt in self.attempts.iter_mut().filter(|a| a.is_running() && !a.quiet) {
            attempt.quiet = true;
            if upstream.endpoints.on_quiet(now, attempt.endpoint) {
                self.actions.push_back(Action::Demoted(attempt.endpoint));
            }
        }
    }

    /// Puts off a retry, if there may be one after this failure.
    pub(super) fn plan_retry(
        &mut self,
        now: Moment,
        upstream: &mut Upstream,
        failed: AttemptId,
    ) -> bool {
        let (retry, failed) = (&self.config.retry, &self.attempts[failed.index()]);
        let refusal = failed.status.filter(|_| failed.fault.is_none());
        let worth = refusal.is_none_or(|status| retry.statuses.contains(&status));
        let safe = self.call.repeatable || failed.fault == Some(Fault::Unsent);
        if self.retries >= retry.max || !worth || !safe || self.call.body == Replay::Lost {
            return false;
        }
        let open = upstream.endpoints.retry_from(now);
        let pause = self.backoff.on_failure(Duration::ZERO, self.jitter.ratio());
        let at = (now + pause).max(open);
        if at >= self.until || !upstream.budget.try_spend(now, self.window()) {
            return false;
        }
        self.retry_at = Some(at);
        self.retries += 1;
        self.actions.push_back(Action::RetryAt(at));
        true
    }

    /// The retry is due. Where its place has gone meanwhile, the key fails after all.
    pub(super) fn start_retry(&mut self, now: Moment, upstream: &mut Upstream) {
        self.retry_at = None;
        let used: Vec<Endpoint> = self.attempts.last().map(|a| a.endpoint).into_iter().collect();
        match upstream.endpoints.pick(now, Role::Retry, &used) {
            Some(place) => {
                self.muted = false;
                self.start(now, upstream, Role::Retry, place);
            }
            None => {
                self.retries -= 1;
                self.fail(now, upstream);
            }
        }
    }
}
