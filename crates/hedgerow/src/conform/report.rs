//! The table.

use std::fmt::Write as _;

use super::requirement::{Row, Unmet};

/// How many requirements failed.
pub(super) fn failures(rows: &[Row]) -> usize {
    rows.iter().filter(|row| matches!(row.verdict, Err(Unmet::Failed(_)))).count()
}

/// One line a requirement, what was seen under those that failed, and the count.
pub(super) fn table(rows: &[Row]) -> String {
    let mut out = String::new();
    for Row { id, sentence, verdict } in rows {
        // Writing to a String does not fail.
        let _ = match verdict {
            Ok(()) => writeln!(out, "pass  {id:<12}  {sentence}"),
            Err(Unmet::Failed(seen)) => {
                writeln!(out, "FAIL  {id:<12}  {sentence}\n      {:<12}  seen: {}", "", line(seen))
            }
            Err(Unmet::Skipped(why)) => writeln!(out, "skip  {id:<12}  {sentence} ({why})"),
        };
    }
    let failed = failures(rows);
    let passed = rows.iter().filter(|row| row.verdict.is_ok()).count();
    let skipped = rows.len() - failed - passed;
    let _ = writeln!(out, "\n{passed} passed, {failed} failed, {skipped} skipped");
    out
}

/// What a worker sent, fit for a terminal.
fn line(seen: &str) -> String {
    seen.chars().take(400).map(|c| if c.is_control() { ' ' } else { c }).collect()
}
