//! Bytes of an answer that nobody is to get: what follows the head that HEAD asked for, and the
//! body beside a reported failure.
//!
//! Invariant: the worker is busy until it has said all of it, so it is read and dropped, and the
//! lease is settled, before the caller hears the answer and can ask for the worker again. A worker
//! that takes long does not keep the answer from the caller for longer than the read timeout.

use super::{Exchange, outcome_of};
use crate::answer::Answer;
use crate::transport::connection::timed_out;
use hedgerow_policy::Failure;
use hedgerow_policy::pool::Outcome;
use hedgerow_wire::stream::Event;

impl Exchange {
    /// Drops `left` raw bytes, then gives the caller its `answer`. Each piece has the read timeout,
    /// as it has where somebody wants it.
    pub(super) async fn unwanted(
        &mut self,
        mut left: u64,
        answer: Result<Answer, Failure>,
        done: Outcome,
    ) {
        let patience = self.read_bound().at.min(self.caller.until());
        let mut answer = Some(answer);
        while left > 0 {
            let bound = self.read_bound();
            let at = if answer.is_some() { bound.at.min(patience) } else { bound.at };
            let failure = match self.pool.clock.until(at, self.connection.piece(left)).await {
                Some(Ok(piece)) => {
                    left -= piece.len() as u64;
                    continue;
                }
                Some(Err(failure)) => failure,
                None if at < bound.at => {
                    if let Some(answer) = answer.take() {
                        self.caller.answer(answer);
                    }
                    continue;
                }
                None => timed_out(bound),
            };
            // What the worker said of itself tells more than that it broke off after it.
            if let Some(Err(reported)) = answer {
                self.caller.answer(Err(reported));
            }
            return self.broken(failure);
        }
        self.settle(done);
        if let Some(answer) = answer {
            self.caller.answer(answer);
        }
    }

    /// The chunks of a stream whose head was all that was asked for: as where a client has left, a
    /// worker that understands it is told, and any worker has the read timeout to come to its end.
    pub(super) async fn unwanted_stream(&mut self, answer: Answer) {
        let bound = self.client_left().await;
        let mut answer = Some(Ok(answer));
        let outcome = loop {
            let at = match answer {
                Some(_) => bound.at.min(self.caller.until()),
                None => bound.at,
            };
            let payload = match self.pool.clock.until(at, self.connection.frame()).await {
                Some(payload) => payload,
                None if at < bound.at => {
                    if let Some(answer) = answer.take() {
                        self.caller.answer(answer);
                    }
                    continue;
                }
                None => break Outcome::TimedOut,
            };
            match payload.and_then(|payload| self.event(&payload)) {
                Ok(Event::Chunk(_)) => {}
                Ok(Event::End) => break Outcome::Done,
                Ok(Event::Error(error)) => break outcome_of(Some(&error)),
                Err(_) => break Outcome::Fault,
            }
        };
        self.settle(outcome);
        if let Some(answer) = answer {
            self.caller.answer(answer);
        }
    }
}
