//! A line on a terminal that says how far something is.
//!
//! Invariant: nothing is written unless standard error is a terminal that can erase a line, and what
//! was shown is erased before anything else is printed: a report reads the same wherever it goes.
//! Colours follow the same rule, and <https://no-color.org>.

use hedgerow_clock::Clock;
use hedgerow_policy::Moment;
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

/// What is over sooner is not announced.
const PATIENCE: Duration = Duration::from_millis(300);
/// Between two lines: as often as an eye can follow.
const EVERY: Duration = Duration::from_millis(100);
/// Cells of the bar.
const WIDTH: usize = 24;

/// The line.
#[derive(Debug)]
pub(crate) struct Progress {
    clock: Clock,
    terminal: bool,
    coloured: bool,
    next: Moment,
    shown: bool,
}

impl Progress {
    /// For something that begins now and may be over at once.
    #[must_use]
    pub(crate) fn new() -> Progress {
        Progress::after(PATIENCE)
    }

    /// For something that is known to take long.
    #[must_use]
    pub(crate) fn at_once() -> Progress {
        Progress::after(Duration::ZERO)
    }

    fn after(patience: Duration) -> Progress {
        let clock = Clock::start();
        let terminal = std::io::stderr().is_terminal() && set("TERM").is_none_or(|t| t != "dumb");
        let coloured = terminal && set("NO_COLOR").is_none();
        Progress { clock, terminal, coloured, next: clock.now() + patience, shown: false }
    }

    /// It is at `what`, and this share of it is done, 0 to 1.
    pub(crate) fn show(&mut self, what: &str, share: f64) {
        if !self.terminal || self.clock.now() < self.next {
            return;
        }
        self.next = self.clock.now() + EVERY;
        self.shown = true;
        let line = line(what, share, self.coloured);
        let _ = write!(std::io::stderr(), "\r\x1b[K{line}");
    }

    /// Nothing is to be seen any more; the next [`Progress::show`] is at once.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
            self.next = self.clock.now();
        }
    }
}

impl Default for Progress {
    fn default() -> Progress {
        Progress::new()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A variable that is there and says something.
fn set(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Fits any terminal of 80 columns: a line that wraps cannot be erased.
fn line(what: &str, share: f64, coloured: bool) -> String {
    let share = share.clamp(0.0, 1.0);
    let full = (share * WIDTH as f64).round() as usize;
    let (done, left) = ("#".repeat(full), ".".repeat(WIDTH - full));
    let (on, off) = if coloured { ("\x1b[36m", "\x1b[0m") } else { ("", "") };
    let what: String = what.chars().filter(|c| !c.is_control()).take(44).collect();
    format!("[{on}{done}{off}{left}] {:3.0} % {what}", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_fits_a_terminal_and_has_colours_only_where_they_are_wanted() {
        assert_eq!(line("reading", 0.5, false), "[############............]  50 % reading");
        assert!(line("reading", 1.0, true).contains("\u{1b}[36m########################\u{1b}[0m"));
        let long = line(&"w\u{1b}".repeat(100), 7.0, false);
        assert!(long.chars().count() < 80 && !long.contains('\u{1b}'), "{long}");
    }
}
