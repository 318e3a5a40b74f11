//! The end of a turn.
//!
//! Invariant: what is put off is done in the task's next poll, which the runtime owes it at once,
//! behind the tasks that are ready now.
//!
//! A proxy that writes as soon as it has read wakes its peer for every message. When all that has
//! come is read before anything is written, the messages follow each other closely, and the first
//! wakes the peer for all of them (Redis writes its replies so, once in each round of its loop).

use std::task::{Context, Poll};

/// Puts something off until the end of the turn, once each time.
#[derive(Debug, Default)]
pub struct EndOfTurn {
    put_off: bool,
}

impl EndOfTurn {
    /// Pending, with the task woken, and ready in its next poll; and so on from there.
    pub fn poll(&mut self, cx: &Context<'_>) -> Poll<()> {
        self.put_off = !self.put_off;
        if self.put_off {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    }

    /// Whether something is put off.
    #[must_use]
    pub fn is_put_off(&self) -> bool {
        self.put_off
    }

    /// What was put off is done otherwise.
    pub fn done(&mut self) {
        self.put_off = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::sync::{Arc, Mutex};

    #[tokio::test]
    async fn all_that_is_ready_comes_before_what_was_put_off() {
        let said: Arc<Mutex<Vec<(&str, u32)>>> = Arc::default();
        let tasks: Vec<_> = (0..3)
            .map(|n| {
                let said = said.clone();
                tokio::spawn(async move {
                    let mut turn = EndOfTurn::default();
                    for _ in 0..2 {
                        said.lock().unwrap().push(("read", n));
                        poll_fn(|cx| turn.poll(cx)).await;
                        said.lock().unwrap().push(("write", n));
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let said: Vec<&str> = said.lock().unwrap().iter().map(|(what, _)| *what).collect();
        // Each task reads on in the poll in which it wrote.
        let pairs = ["write", "read"].repeat(3);
        let expected = [vec!["read"; 3], pairs, vec!["write"; 3]].concat();
        assert_eq!(said, expected);
    }
}
