//! The breakers, all with the same bounds as far as they have them, behind one face.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use failsafe::failure_policy::{FailurePolicy, success_rate_over_time_window};
use failsafe::{Instrument, StateMachine, backoff};
use hedgerow_policy::Moment;
use hedgerow_policy::breaker::{Admission, Breaker, BreakerConfig, BreakerSettings, Outcome};
use layered::{Execute, Stack as _};
use recloser::{AsyncRecloser, Recloser};
use seatbelt::breaker::{Breaker as Seatbelt, HalfOpenMode};
use seatbelt::{RecoveryInfo, ResilienceContext};
use tower_resilience_circuitbreaker::{
    CircuitBreaker, CircuitBreakerLayer, DefaultClassifier, SlidingWindowType,
};
use tower_service::Service;

/// The sliding window.
pub const WINDOW: Duration = Duration::from_secs(1);
/// How long a circuit stays open.
pub const OPEN: Duration = Duration::from_millis(200);
/// Calls below which nothing is judged; half of them must have failed.
pub const LEAST: u32 = 20;

pub type Work = Pin<Box<dyn Future<Output = Result<(), ()>> + Send>>;
/// `None`: shed, the work was never polled.
pub type Got = Option<Result<(), ()>>;
pub type Called<'a> = Pin<Box<dyn Future<Output = Got> + 'a>>;

pub trait Peer {
    fn call(&self, work: Work) -> Called<'_>;
}

pub fn all() -> Vec<(&'static str, Box<dyn Peer>)> {
    vec![
        ("Hedgerow", Box::new(Own::new())),
        ("failsafe 1.3", Box::new(Failsafe(failsafe()))),
        ("recloser 1.4", Box::new(AsyncRecloser::from(recloser()))),
        ("seatbelt 0.11", Box::new(Belt(seatbelt()))),
        ("tower-resilience 0.14", Box::new(Tower(tower()))),
    ]
}

pub fn own() -> Breaker {
    let settings = BreakerSettings {
        window: WINDOW,
        failure_ratio: 0.5,
        min_throughput: LEAST,
        open: OPEN,
        success_threshold: 1,
        half_open_probes: 1,
        ..BreakerSettings::default()
    };
    Breaker::new(BreakerConfig::new(settings).unwrap(), Moment::START)
}

struct Own {
    breaker: Breaker,
    start: Instant,
}

impl Own {
    fn new() -> Own {
        Own { breaker: own(), start: Instant::now() }
    }

    fn now(&self) -> Moment {
        Moment::START + self.start.elapsed()
    }
}

impl Peer for Own {
    fn call(&self, work: Work) -> Called<'_> {
        Box::pin(async {
            let Admission::Admitted(permit) = self.breaker.admit(self.now()) else { return None };
            let said = work.await;
            let outcome = if said.is_ok() { Outcome::Ok } else { Outcome::ServerError };
            self.breaker.settle(self.now(), permit, outcome);
            Some(said)
        })
    }
}

pub fn failsafe() -> StateMachine<impl FailurePolicy, ()> {
    let policy = success_rate_over_time_window(0.5, LEAST, WINDOW, backoff::constant(OPEN));
    StateMachine::new(policy, ())
}

struct Failsafe<P, I>(StateMachine<P, I>);

impl<P: FailurePolicy, I: Instrument> Peer for Failsafe<P, I> {
    fn call(&self, work: Work) -> Called<'_> {
        Box::pin(async {
            if !self.0.is_call_permitted() {
                return None;
            }
            let said = work.await;
            match said {
                Ok(()) => self.0.on_success(),
                Err(()) => self.0.on_error(),
            }
            Some(said)
        })
    }
}

pub fn recloser() -> Recloser {
    let counted = LEAST as usize;
    Recloser::custom().error_rate(0.5).closed_len(counted).half_open_len(1).open_wait(OPEN).build()
}

impl Peer for AsyncRecloser {
    fn call(&self, work: Work) -> Called<'_> {
        Box::pin(async {
            match AsyncRecloser::call(self, work).await {
                Ok(()) => Some(Ok(())),
                Err(recloser::Error::Inner(())) => Some(Err(())),
                Err(recloser::Error::Rejected) => None,
            }
        })
    }
}

pub fn seatbelt() -> impl layered::Service<Work, Out = Result<(), bool>> {
    let context = ResilienceContext::new(&tick::Clock::new_tokio());
    let stack = (
        Seatbelt::layer("bench", &context)
            .recovery_with(|said: &Result<(), bool>, _| match said {
                Ok(()) => RecoveryInfo::never(),
                Err(_) => RecoveryInfo::retry(),
            })
            .rejected_input_error(|_: Work, _| true)
            .failure_threshold(0.5)
            .min_throughput(LEAST)
            .sampling_duration(WINDOW)
            .break_duration(OPEN)
            .half_open_mode(HalfOpenMode::quick()),
        Execute::new(|work: Work| async move { work.await.map_err(|()| false) }),
    );
    stack.into_service()
}

struct Belt<S>(S);

impl<S: layered::Service<Work, Out = Result<(), bool>>> Peer for Belt<S> {
    fn call(&self, work: Work) -> Called<'_> {
        Box::pin(async {
            match self.0.execute(work).await {
                Ok(()) => Some(Ok(())),
                Err(shed) => (!shed).then_some(Err(())),
            }
        })
    }
}

/// Does the work that it is given.
#[derive(Clone)]
pub struct Does;

impl Service<Work> for Does {
    type Response = ();
    type Error = ();
    type Future = Work;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, work: Work) -> Work {
        work
    }
}

pub fn tower() -> Arc<CircuitBreaker<Does, DefaultClassifier>> {
    let layer = CircuitBreakerLayer::builder()
        .failure_rate_threshold(0.5)
        .sliding_window_type(SlidingWindowType::TimeBased)
        .sliding_window_duration(WINDOW)
        .minimum_number_of_calls(LEAST as usize)
        .wait_duration_in_open(OPEN)
        .permitted_calls_in_half_open(1)
        .build();
    Arc::new(layer.unwrap().layer_fn(Does))
}

struct Tower(Arc<CircuitBreaker<Does, DefaultClassifier>>);

impl Peer for Tower {
    fn call(&self, work: Work) -> Called<'_> {
        let mut service = CircuitBreaker::clone(&self.0);
        Box::pin(async move {
            if poll_fn(|cx| Service::<Work>::poll_ready(&mut service, cx)).await.is_err() {
                return None;
            }
            match service.call(work).await {
                Ok(()) => Some(Ok(())),
                Err(error) if error.is_circuit_open() => None,
                Err(_) => Some(Err(())),
            }
        })
    }
}
