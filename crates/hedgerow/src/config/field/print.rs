//! Shows a document as TOML, with the origin of every value.

use std::fmt::Write as _;

use super::Place;
use crate::config::report::Source;

/// Writes keys and tables; the result reads back as the same configuration, but for secrets.
pub(crate) struct Printer<'a> {
    source: &'a Source,
    path: Vec<String>,
    out: String,
    values: bool,
    tables: bool,
}

impl<'a> Printer<'a> {
    pub(crate) fn new(source: &'a Source) -> Self {
        Self { source, path: Vec::new(), out: String::new(), values: true, tables: true }
    }

    pub(crate) fn finish(self) -> String {
        self.out.trim_start().to_owned()
    }

    pub(crate) fn value(&mut self, key: &str, value: &str, place: &Place) {
        if self.values {
            let origin = self.origin(place);
            let _ = writeln!(self.out, "{:<46} # {origin}", format!("{key} = {value}"));
        }
    }

    pub(crate) fn table(
        &mut self,
        key: &str,
        many: bool,
        place: &Place,
        inner: impl FnOnce(&mut Self),
    ) {
        if !self.tables {
            return;
        }
        self.path.push(key.to_owned());
        let head = self.path.join(".");
        let head = if many { format!("[[{head}]]") } else { format!("[{head}]") };
        let origin = self.origin(place);
        let _ = match place {
            Place::Default => writeln!(self.out, "\n{head}"),
            _ => writeln!(self.out, "\n{head:<46} # {origin}"),
        };
        let (values, tables) = (self.values, self.tables);
        (self.values, self.tables) = (true, true);
        inner(self);
        (self.values, self.tables) = (values, tables);
        self.path.pop();
    }

    pub(crate) fn only_values(&mut self, inner: impl FnOnce(&mut Self)) {
        let tables = std::mem::replace(&mut self.tables, false);
        inner(self);
        self.tables = tables;
    }

    pub(crate) fn only_tables(&mut self, inner: impl FnOnce(&mut Self)) {
        let values = std::mem::replace(&mut self.values, false);
        inner(self);
        self.values = values;
    }

    fn origin(&self, place: &Place) -> String {
        let origin = match place {
            Place::Default => "default".into(),
            Place::File(span) => {
                format!("{}:{}", self.source.name, self.source.position(span.start).0)
            }
            Place::Environment(name) | Place::Flag(name) => name.clone(),
        };
        comment(&origin)
    }
}

/// Text that is safe in a comment: nothing in it can end the line.
pub(crate) fn comment(text: &str) -> String {
    text.replace(char::is_control, " ")
}
