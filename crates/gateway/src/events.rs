//! The event log's lines.

use crate::live::Entry;
use crate::record::Inner;
use hedgerow_policy::Failure;
use hedgerow_policy::observe::{Event, Observer};
use std::net::IpAddr;

pub(crate) fn dropped(_out: &mut Vec<u8>, _count: u64) {}
pub(crate) fn stream_error(_inner: &Inner, _entry: &Entry, _failure: &Failure) {}
pub(crate) fn bad_head(_inner: &Inner, _remote: IpAddr, _reason: &'static str) {}

impl Observer for crate::record::Recorder {
    fn on(&self, _event: &Event<'_>) {}
}
