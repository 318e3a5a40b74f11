//! The part of the page about the history and those who look on.

use super::catalogue::process as names;
use super::writer::Writer;
use crate::admin::Watched;
use crate::history::ROWS;
use crate::record::Inner;
use std::fmt::Error;

/// Writes it.
pub(super) fn write(to: &mut Writer<'_>, inner: &Inner, watched: Watched) -> Result<(), Error> {
    to.size(&names::HISTORY, inner.history.held())?;
    to.size(&names::HISTORY_LIMIT, ROWS)?;
    to.size(&names::DASHBOARDS, watched.open)?;
    to.size(&names::DASHBOARDS_LIMIT, watched.limit)?;
    to.one(&names::DASHBOARDS_CUT_OFF, watched.cut_off)
}
