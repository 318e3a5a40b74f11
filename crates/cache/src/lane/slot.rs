//! Where the replies to one call arrive.
//!
//! Invariant: a slot has one caller and one lane; when the caller is gone only the lane holds it,
//! and the lane then discards what comes. A slot is used again only when the lane has let go of it.
//! What it holds is of its client's share, and is given back with it.

use crate::fault::Fault;
use crate::share::Share;
use hedgerow_wire::resp::Frame;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// The replies of one call, in order, as they come.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    frames: Vec<Frame>,
    /// Replies that are still to come.
    missing: u32,
    fault: Option<Fault>,
    waker: Option<Waker>,
    /// The share of whose client it is; without one its replies are not asked about.
    share: Option<Arc<Share>>,
    /// Bytes of that share.
    held: usize,
}

impl Slot {
    /// A slot for `replies` replies: `last` once more if the lane has let go of it.
    pub(crate) fn next(last: Option<Arc<Slot>>, replies: u32) -> Arc<Slot> {
        let slot = last.filter(|slot| Arc::strong_count(slot) == 1).unwrap_or_default();
        {
            let mut state = slot.lock();
            state.frames.clear();
            state.missing = replies;
            state.fault = None;
        }
        slot
    }

    /// The same for a client, of whose share is what comes.
    pub(crate) fn of_client(
        last: Option<Arc<Slot>>,
        replies: u32,
        share: &Arc<Share>,
    ) -> Arc<Slot> {
        let slot = Slot::next(last, replies);
        {
            let mut state = slot.lock();
            state.let_go();
            if state.share.is_none() {
                state.share = Some(share.clone());
            }
        }
        slot
    }

    /// Whether nobody waits any more.
    pub(crate) fn abandoned(slot: &Arc<Slot>) -> bool {
        Arc::strong_count(slot) == 1
    }

    /// The lane has a reply.
    pub(crate) fn deliver(&self, frame: Frame) {
        let mut state = self.lock();
        let (held, frame) = match &state.share {
            Some(share) => share.receive(frame),
            None => (0, frame),
        };
        state.held += held;
        state.frames.push(frame);
        state.missing = state.missing.saturating_sub(1);
        if state.missing == 0
            && let Some(waker) = state.waker.take()
        {
            drop(state);
            waker.wake();
        }
    }

    /// No further reply will come.
    pub(crate) fn fail(&self, fault: Fault) {
        let mut state = self.lock();
        state.fault = Some(fault);
        if let Some(waker) = state.waker.take() {
            drop(state);
            waker.wake();
        }
    }

    /// Ready once all replies are there, or none will come any more.
    pub(crate) fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.missing == 0 || state.fault.is_some() {
            return Poll::Ready(());
        }
        match &mut state.waker {
            Some(waker) if waker.will_wake(context.waker()) => {}
            waker => *waker = Some(context.waker().clone()),
        }
        Poll::Pending
    }

    /// Whether [`Slot::poll`] would be ready.
    pub(crate) fn is_settled(&self) -> bool {
        let state = self.lock();
        state.missing == 0 || state.fault.is_some()
    }

    /// Ready as [`Slot::poll`] is.
    pub(crate) async fn settled(&self) {
        std::future::poll_fn(|context| self.poll(context)).await;
    }

    /// What has come, and why the rest will not, if that is known.
    pub(crate) fn take(&self, into: &mut Vec<Frame>) -> Option<Fault> {
        let mut state = self.lock();
        into.append(&mut state.frames);
        state.waker = None;
        state.fault.clone()
    }

    /// What was taken is counted elsewhere from now on.
    pub(crate) fn let_go(&self) {
        self.lock().let_go();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn let_go(&mut self) {
        let held = std::mem::take(&mut self.held);
        if held > 0
            && let Some(share) = &self.share
        {
            share.let_go(held);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.lock().let_go();
    }
}
