//! The table.

use super::requirement::{Row, Unmet};

/// How many requirements failed.
pub(super) fn failures(rows: &[Row]) -> usize {
    rows.iter().filter(|row| matches!(row.verdict, Err(Unmet::Failed(_)))).count()
}

/// The line of one requirement, and under it what was seen if it failed.
pub(super) fn row(Row { id, sentence, verdict }: &Row) -> String {
    match verdict {
        Ok(()) => format!("pass  {id:<12}  {sentence}\n"),
        Err(Unmet::Failed(seen)) => {
            format!("FAIL  {id:<12}  {sentence}\n{:<20}seen: {}\n", "", line(seen))
        }
        Err(Unmet::Skipped(why)) => format!("skip  {id:<12}  {sentence} ({why})\n"),
    }
}

/// The last line.
pub(super) fn count(rows: &[Row]) -> String {
    let failed = failures(rows);
    let passed = rows.iter().filter(|row| row.verdict.is_ok()).count();
    let skipped = rows.len() - failed - passed;
    format!("\n{passed} passed, {failed} failed, {skipped} skipped\n")
}

/// What a worker sent, fit for a terminal.
fn line(seen: &str) -> String {
    seen.chars().take(400).map(|c| if c.is_control() { ' ' } else { c }).collect()
}
