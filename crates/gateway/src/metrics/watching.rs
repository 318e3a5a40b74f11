//! The part of the page about the history and those who look on.

use super::page::Writer;
use crate::admin::Watched;
use crate::history::ROWS;
use crate::record::Inner;
use std::fmt::Error;

/// Writes it.
pub(super) fn write(to: &mut Writer<'_>, inner: &Inner, watched: Watched) -> Result<(), Error> {
    let held = inner.history.held() as u64;
    to.gauge("history_rows", "Seconds of history held for the dashboard", held)?;
    to.gauge("history_rows_limit", "Seconds of history that are held at most", ROWS as u64)?;
    let help = "Streams of the dashboard that are open";
    to.gauge("dashboard_streams", help, watched.open as u64)?;
    let help = "Streams of the dashboard that may be open";
    to.gauge("dashboard_streams_limit", help, watched.limit as u64)?;
    let help = "Streams of the dashboard that were cut off because their reader took nothing";
    to.counter("dashboard_streams_cut_off", help, watched.cut_off)
}
