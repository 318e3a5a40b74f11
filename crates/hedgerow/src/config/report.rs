//! What is wrong, said so that it can be put right: place, line, caret, and what to write instead.

use std::fmt;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nobody set it.
    Default,
    /// These bytes of the configuration file.
    File(Range<usize>),
    /// This environment variable.
    Environment(String),
    /// This flag, with its hyphens.
    Flag(String),
}

/// Problems that are shown. Nobody reads more, and each is drawn with the file at hand.
const SHOWN: usize = 100;

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It cannot work: the exit code is 2.
    Error,
    /// It is useless or risky; an error only with `--strict`.
    Warning,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// Where it is.
    pub place: Place,
    /// One sentence, naming the key.
    pub message: String,
    /// What would be accepted, or what to write instead.
    pub advice: String,
}

/// A configuration file: its name for messages, and its text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The path as it was given; empty without a file.
    pub name: String,
    /// The text, with secrets replaced by `*`.
    pub text: String,
}

impl Source {
    /// `file:line:column` of a byte, each counted from one, the column in characters.
    #[must_use]
    pub fn position(&self, byte: usize) -> (usize, usize) {
        let before = self.text.get(..byte).unwrap_or(&self.text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }
}

/// Everything found in one run. Its `Display` is what the user reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The file, for its lines.
    pub source: Source,
    /// Errors first, each kind in the order of the file.
    pub problems: Vec<Problem>,
}

impl Report {
    /// Whether there is anything that cannot work.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.problems.iter().any(|problem| problem.severity == Severity::Error)
    }

    /// Puts errors first, then by place: file, variables, flags, the rest.
    pub(crate) fn sort(&mut self) {
        self.problems.sort_by_key(|problem| {
            let (kind, at) = match &problem.place {
                Place::File(span) => (0, span.start),
                Place::Environment(_) => (1, 0),
                Place::Flag(_) => (2, 0),
                Place::Default => (3, 0),
            };
            (problem.severity, kind, at)
        });
        self.problems.dedup();
    }

    fn render(&self, problem: &Problem) -> String {
        let level = match problem.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let title = level.primary_title(problem.message.as_str());
        let advice = (!problem.advice.is_empty()).then_some(problem.advice.as_str());
        let group = match &problem.place {
            Place::File(span) => {
                let caret = AnnotationKind::Primary.span(self.drawable(span));
                let snippet = Snippet::source(self.source.text.as_str())
                    .path(self.source.name.as_str())
                    .annotation(caret.label(advice));
                return Renderer::plain().render(&[title.element(snippet)]);
            }
            Place::Environment(name) => {
                Group::with_title(title).element(Origin::path(format!("environment: {name}")))
            }
            Place::Flag(name) => {
                Group::with_title(title).element(Origin::path(format!("command line: {name}")))
            }
            Place::Default => {
                // The renderer would draw an empty margin for a place that is none.
                let help = advice.map(|advice| format!("\n = help: {advice}")).unwrap_or_default();
                let word = if problem.severity == Severity::Error { "error" } else { "warning" };
                return format!("{word}: {}{help}", problem.message);
            }
        };
        let group = match advice {
            Some(advice) => group.element(Level::HELP.message(advice)),
            None => group,
        };
        Renderer::plain().render(&[group])
    }

    /// A span the renderer can draw: inside the text, on character borders, on one line, so that
    /// a table of fifty lines is not printed to say that its head is wrong.
    fn drawable(&self, span: &Range<usize>) -> Range<usize> {
        let text = &self.source.text;
        let mut start = span.start.min(text.len());
        while !text.is_char_boundary(start) {
            start -= 1;
        }
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let mut end = span.end.clamp(start, line_end);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        start..end
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in self.problems.iter().take(SHOWN) {
            writeln!(f, "{}\n", self.render(problem))?;
        }
        match self.problems.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => writeln!(f, "and {more} more\n"),
        }
    }
}

impl std::error::Error for Report {}
