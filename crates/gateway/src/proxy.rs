//! A route to an upstream: the request goes through a hedged call, and the answer passes through.
//!
//! Invariant: the request is there in full before the call begins, and its own time bounds the wait
//! for the head of the answer. What the upstream answers is the answer, a final 500 included; no
//! answer leaves as every failure does. Who asked is said by this gateway, not by the client.

use crate::answer;
use crate::connection::Response;
use crate::head::Head;
use crate::pieces::Pieces;
use crate::plan::nobody_calls;
use crate::record::Stage;
use crate::sequence::Sequence;
use crate::service::{Inner, NoAnswer, Turn};
use hedgerow_policy::Deadline;
use hedgerow_policy::failure::{At, Class, Failure};
use hedgerow_upstream::{Body, CallOptions};
use hedgerow_worker::Body as Received;

impl Inner {
    /// The answer to a request whose route leads to that upstream.
    pub(crate) async fn proxy(
        &self,
        mut turn: Turn,
        head: &Head,
        upstream: &str,
        body: Received,
        deadline: Deadline,
    ) -> Result<Response, NoAnswer> {
        let Some(calls) = self.shared.calls() else {
            return self.fail(turn, nobody_calls(), &head.headers, false);
        };
        turn.active.set_stage(Stage::Calling);
        let client = calls.current().client().clone();
        let options = CallOptions { trace: turn.ids.trace.clone(), ..Default::default() };
        let body = match body {
            Received::Memory(bytes) => Body::from(bytes),
            Received::File(file, length) => {
                Body::stream(Sequence::new(Pieces::new(file, 0, length)))
            }
        };
        let request = match head.request(body) {
            Ok(request) => request,
            Err(failure) => return self.fail(turn, failure, &head.headers, false),
        };
        let calling = client.call_with(upstream, request, options);
        let called = tokio::select! {
            biased;
            called = self.shared.clock.until(deadline.at, calling) => called,
            failure = self.ended(&turn) => return self.fail(turn, failure, &head.headers, false),
        };
        let called = match called {
            Some(Ok(response)) => {
                turn.report = response.report();
                Ok(response)
            }
            Some(Err(error)) => {
                turn.report = error.report;
                Err(error.failure)
            }
            None => {
                let text = "no answer of the upstream before the request's deadline";
                let failure = Failure::new(Class::UpstreamTimeout, At::Upstream, text);
                Err(failure.in_phase(deadline.phase))
            }
        };
        turn.active.set_call(upstream.to_owned(), turn.report);
        let names = &turn.live.names;
        match called.map(|response| answer::passed(response, &head.method, names)) {
            Ok(reply) => Ok(self.reply(turn, reply)),
            Err(failure) => self.fail(turn, failure, &head.headers, false),
        }
    }
}
