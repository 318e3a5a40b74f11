//! A worker answered with a plan: its call is made here, and the worker is free.
//!
//! Invariant: a plan fails as any request does, through the one way out, until its first byte; a
//! client of events gets the failure as events. After the first byte the status stays, and the
//! stream ends as its output ends.

use crate::answer;
use crate::connection::Response;
use crate::record::Stage;
use crate::service::{Inner, NoAnswer, Turn};
use bytes::Bytes;
use hedgerow_policy::Moment;
use hedgerow_policy::failure::{At, Class, Failure};
use hedgerow_upstream::{PlanContext, PlanFailure};
use http::HeaderMap;

impl Inner {
    /// The answer to a request whose worker answered with this plan.
    pub(crate) async fn plan(
        &self,
        turn: Turn,
        method: &http::Method,
        asked: &HeaderMap,
        frame: &[u8],
    ) -> Result<Response, NoAnswer> {
        let Some(calls) = self.shared.calls() else {
            return self.fail(turn, nobody_calls(), asked, false);
        };
        calls.plan_came();
        turn.active.set_stage(Stage::Calling);
        let opened = calls.current();
        let opened = tokio::select! {
            biased;
            opened = opened.open_frame(frame, context(&turn)) => opened,
            failure = self.ended(&turn) => {
                Err(PlanFailure { failure, events: None, report: None })
            }
        };
        let planned = match opened {
            Ok(stream) => {
                let trailers = turn.takes_trailers(asked);
                answer::planned(stream, calls.clone(), method, &turn.live.names, trailers)
            }
            Err(failed) => {
                calls.plan_failed();
                return self.fail_with(turn, failed.failure, asked, false, failed.events);
            }
        };
        match planned {
            Ok(reply) => Ok(self.reply(turn, reply)),
            Err(failure) => self.fail(turn, failure, asked, false),
        }
    }
}

/// The request on whose behalf calls are made. Their own limits rule, not the request's.
pub(crate) fn context(turn: &Turn) -> PlanContext {
    PlanContext {
        trace: turn.ids.trace.clone(),
        request_id: turn.ids.request.to_string(),
        traceparent: turn.active.traceparent(),
        deadline: Moment::NEVER,
    }
}

pub(crate) fn nobody_calls() -> Failure {
    let text = "this gateway makes no calls for workers";
    Failure::new(Class::UnsupportedTransport, At::Gateway, text)
}

/// A body of events in place of the reason phrase.
pub(crate) fn as_events(headers: &mut HeaderMap, body: &mut Bytes, events: Bytes) {
    use http::header::{CONTENT_TYPE, HeaderValue};
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    *body = events;
}
