//! Counters.

use hedgerow_policy::Class;

pub(crate) struct Metrics;

impl Metrics {
    pub(crate) fn new() -> Metrics {
        Metrics
    }
    pub(crate) fn stream_error(&self, _class: Class) {}
    pub(crate) fn bad_head(&self, _reason: &'static str) {}
    pub(crate) fn connection_opened(&self) {}
    pub(crate) fn connection_closed(&self) {}
    pub(crate) fn set_body_memory(&self, _bytes: u64) {}
    pub(crate) fn spooled(&self) {}
}
