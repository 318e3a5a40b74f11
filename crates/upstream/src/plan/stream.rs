//! A plan's output under way.
//!
//! Invariant: what was complete before a failure is passed on before it, and nothing follows the
//! ending.

use super::fixture::Fixture;
use super::for_plans;
use crate::client::Client;
use crate::registry::Opening;
use crate::response::Response;
use bytes::{Bytes, BytesMut};
use hedgerow_policy::failure::{At, Class, Failure};
use hedgerow_policy::observe::CallEvent;
use hedgerow_wire::plan as wire;
use hedgerow_wire::plan::stream::Stream;
use std::sync::Arc;

/// A piece of a plan's output.
#[derive(Debug)]
pub enum Piece {
    /// Bytes for the client.
    Bytes(Bytes),
    /// The stream fails here. Nothing follows.
    Failed {
        /// What went wrong.
        failure: Failure,
        /// The ending for the client; `None`: its connection is to be aborted.
        ending: Option<Bytes>,
    },
}

/// A plan's output under way. Dropped, the upstream is told to stop.
pub struct PlanStream {
    pub(super) source: Source,
    pub(super) stream: Stream,
    pub(super) trace: Arc<str>,
    /// What was ready before the stream was handed over.
    pub(super) ready: Option<Bytes>,
    pub(super) failed: Option<Failure>,
    pub(super) ended: bool,
    pub(super) content_type: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) output: wire::Output,
    pub(super) on_decode_error: Option<(Client, String)>,
    pub(super) _open: Opening,
}

pub(super) enum Source {
    Call(Box<Response>),
    Fixture(Fixture),
}

impl PlanStream {
    /// The content type for the client.
    #[must_use]
    pub fn content_type(&self) -> &str {
        &self.content_type
    }

    /// Further headers for the client, as the worker sent them: whoever writes them checks them.
    #[must_use]
    pub fn headers(&self) -> &[(String, String)] {
        &self.headers
    }

    /// What the client gets.
    #[must_use]
    pub fn output(&self) -> wire::Output {
        self.output
    }

    /// The next piece; `None` at the end.
    pub async fn next(&mut self) -> Option<Piece> {
        if let Some(ready) = self.ready.take() {
            return Some(Piece::Bytes(ready));
        }
        if self.failed.is_none()
            && let Some(bytes) = self.pull().await
        {
            return Some(Piece::Bytes(bytes));
        }
        let failure = self.failed.take()?;
        let mut ending = BytesMut::new();
        let written = self.stream.fail(failure.class.name(), &self.trace, &mut ending);
        self.ended = true;
        Some(Piece::Failed { failure, ending: written.then(|| ending.freeze()) })
    }

    /// Reads until there is output; `None` at the end, or with what ended it in `failed`.
    pub(super) async fn pull(&mut self) -> Option<Bytes> {
        let mut out = BytesMut::new();
        while out.is_empty() && !self.ended {
            let piece = match &mut self.source {
                Source::Call(response) => response.next().await,
                Source::Fixture(fixture) => fixture.next().await,
            };
            let mapped = match piece {
                Some(Ok(bytes)) => self.stream.feed(&bytes, &mut out),
                Some(Err(failure)) => {
                    self.fail(for_plans(failure));
                    break;
                }
                None => {
                    self.ended = true;
                    self.stream.finish(&mut out)
                }
            };
            if let Err(error) = mapped {
                if let Some((client, upstream)) = &self.on_decode_error {
                    let error = error.to_string();
                    let event = CallEvent::PlanDecodeFailed { error: &error };
                    let (upstream, trace) = (upstream.as_str(), &*self.trace);
                    let event = hedgerow_policy::Event::Call { upstream, trace, event };
                    client.around.observer.on(&event);
                }
                let text = format!("decoding: {error}");
                self.fail(Failure::new(Class::UpstreamError, At::Upstream, text));
            }
        }
        (!out.is_empty()).then(|| out.freeze())
    }

    fn fail(&mut self, failure: Failure) {
        self.failed = Some(failure);
        self.ended = true;
    }
}
