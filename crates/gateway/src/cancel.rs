//! An operator may cancel a request; whoever waits for it learns.
//!
//! Invariant: a wait that is polled after the request was cancelled is ready, and one that is pending
//! is woken. Every request is waited for and hardly any is cancelled, so a wait costs next to
//! nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Whether a request was cancelled.
#[derive(Debug, Default)]
pub(crate) struct Cancel {
    asked: AtomicBool,
    waiting: Mutex<Waiting>,
}

/// A request is served by one task, so there is one to be woken as good as always.
#[derive(Debug, Default)]
struct Waiting {
    first: Option<Waker>,
    others: Vec<Waker>,
}

impl Cancel {
    /// Cancels.
    pub(crate) fn ask(&self) {
        self.asked.store(true, Ordering::Release);
        let Waiting { first, others } = std::mem::take(&mut *self.waiting());
        first.into_iter().chain(others).for_each(Waker::wake);
    }

    /// Ready once cancelled.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.asked.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        self.waiting().add(cx.waker());
        // It may have been cancelled before the waker was there to be woken.
        if self.asked.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn add(&mut self, waker: &Waker) {
        match &self.first {
            None => self.first = Some(waker.clone()),
            Some(first) if first.will_wake(waker) => {}
            Some(_) if self.others.iter().any(|other| other.will_wake(waker)) => {}
            Some(_) => self.others.push(waker.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl Wake for Counted {
        fn wake(self: Arc<Counted>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn everybody_who_waits_is_woken_once() {
        let cancel = Cancel::default();
        let tasks: [Arc<Counted>; 3] = Default::default();
        for task in tasks.iter().chain(&tasks) {
            let waker = Waker::from(task.clone());
            assert!(cancel.poll(&mut Context::from_waker(&waker)).is_pending());
        }
        cancel.ask();
        cancel.ask();
        assert!(tasks.iter().all(|task| task.0.load(Ordering::Relaxed) == 1));
        assert!(cancel.poll(&mut Context::from_waker(Waker::noop())).is_ready());
    }

    #[test]
    fn one_that_is_cancelled_meanwhile_learns_of_it() {
        for _ in 0..2_000 {
            let (cancel, task) = (Arc::new(Cancel::default()), Arc::new(Counted::default()));
            let asking = std::thread::spawn({
                let cancel = cancel.clone();
                move || cancel.ask()
            });
            let waker = Waker::from(task.clone());
            let ready = cancel.poll(&mut Context::from_waker(&waker)).is_ready();
            asking.join().unwrap();
            assert!(ready || task.0.load(Ordering::Relaxed) == 1);
        }
    }
}
