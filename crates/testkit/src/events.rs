//! An observer that remembers.

use crate::until::until;
use hedgerow_policy::{Event, Observer};
use std::sync::Mutex;

/// Keeps every event in its debug form, in order.
#[derive(Debug, Default)]
pub struct Events(Mutex<Vec<String>>);

impl Events {
    /// Everything so far.
    ///
    /// # Panics
    /// When a test that held the lock panicked.
    #[must_use]
    pub fn all(&self) -> Vec<String> {
        self.0.lock().expect("no test panicked").clone()
    }

    /// How many events so far contain `text`.
    #[must_use]
    pub fn count(&self, text: &str) -> usize {
        self.all().iter().filter(|e| e.contains(text)).count()
    }

    /// Waits until `count` events contain `text`.
    pub fn wait(&self, text: &str, count: usize) {
        until(text, || (self.count(text) >= count).then_some(()));
    }
}

impl Observer for Events {
    fn on(&self, event: &Event<'_>) {
        self.0.lock().expect("no test panicked").push(format!("{event:?}"));
    }
}
