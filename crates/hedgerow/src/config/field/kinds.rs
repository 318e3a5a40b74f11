//! The kinds of tables a document can contain.

use std::collections::BTreeMap;

use toml::de::{DeTable, DeValue};

use super::{Field, Place, Printer, Reader, Section, Table};
use crate::config::keys::{Entry, Form};

/// A table that is always there, with its defaults. `Option` of it: only where somebody wrote it.
#[derive(Clone, Debug)]
pub(crate) struct Sub<S> {
    pub(crate) inner: S,
    pub(crate) place: Place,
}

/// The keys of another section, in this same table.
#[derive(Clone, Debug)]
pub(crate) struct Flat<S>(pub(crate) S);

/// A table with defaults, or `false`.
#[derive(Clone, Debug)]
pub(crate) struct OrFalse<S>(pub(crate) Option<Sub<S>>, Place);

/// Tables with names of the user's choice.
#[derive(Clone, Debug)]
pub(crate) struct Named<S>(pub(crate) BTreeMap<String, Sub<S>>);

/// An array of tables.
#[derive(Clone, Debug)]
pub(crate) struct Many<S>(pub(crate) Vec<Sub<S>>);

/// A name that is kept for a later version.
#[derive(Clone, Debug)]
pub(crate) struct Reserved;

fn describe<S: Section>(path: &str, form: Form, about: &str, entries: &mut Vec<Entry>) {
    entries.push(Entry::table(path, form, about, S::ABOUT));
    S::describe(path, entries);
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

impl<S: Section> Field for Sub<S> {
    fn read(reader: &mut Reader, table: &mut Table<'_>, key: &'static str, _: &str) -> Self {
        let inner = reader.table(table, key);
        let inner = inner.unwrap_or_else(|| Table::new(table.join(key), Place::Default, None));
        let place = inner.place.clone();
        Self { inner: reader.section(inner), place }
    }

    fn describe(path: &str, key: &str, _: &str, about: &str, entries: &mut Vec<Entry>) {
        describe::<S>(&join(path, key), Form::Always, about, entries);
    }

    fn print_table(&self, key: &str, printer: &mut Printer<'_>) {
        printer.table(key, false, &self.place, |printer| self.inner.print(printer));
    }
}

impl<S: Section> Field for Option<Sub<S>> {
    fn read(reader: &mut Reader, table: &mut Table<'_>, key: &'static str, _: &str) -> Self {
        let path = table.join(key);
        let inner = match reader.table(table, key) {
            Some(inner) => inner,
            None => Table::new(path.clone(), reader.overrides_below(&path)?, None),
        };
        let place = inner.place.clone();
        reader.changed.push((path, place.clone()));
        Some(Sub { inner: reader.section(inner), place })
    }

    fn describe(path: &str, key: &str, _: &str, about: &str, entries: &mut Vec<Entry>) {
        describe::<S>(&join(path, key), Form::Optional, about, entries);
    }

    fn print_table(&self, key: &str, printer: &mut Printer<'_>) {
        if let Some(sub) = self {
            sub.print_table(key, printer);
        }
    }
}

impl<S: Section> Field for Flat<S> {
    fn read(reader: &mut Reader, table: &mut Table<'_>, _: &'static str, _: &str) -> Self {
        Self(S::read(reader, table))
    }

    fn describe(path: &str, _: &str, _: &str, _: &str, entries: &mut Vec<Entry>) {
        S::describe(path, entries);
    }

    // Its values and its tables are printed apart, as if they were members of the outer section.
    fn print_value(&self, _: &str, printer: &mut Printer<'_>) {
        printer.only_values(|printer| self.0.print(printer));
    }

    fn print_table(&self, _: &str, printer: &mut Printer<'_>) {
        printer.only_tables(|printer| self.0.print(printer));
    }
}

impl<S: Section> Field for OrFalse<S> {
    fn read(reader: &mut Reader, table: &mut Table<'_>, key: &'static str, default: &str) -> Self {
        let path = table.join(key);
        let off = match table.entries.get(key) {
            Some((_, value)) if value.get_ref().as_bool() == Some(false) => {
                Some(Place::File(value.span()))
            }
            _ => None,
        };
        let off = match reader.overrides.remove(&path) {
            Some((place, text)) if text == "false" => Some(place),
            Some((place, text)) => {
                let message = format!("`{path}` is {text:?}");
                reader.error(place, message, "expected false, or the keys of its table");
                None
            }
            None => off,
        };
        if let Some(place) = off {
            table.take(key);
            reader.changed.push((path, place.clone()));
            return Self(None, place);
        }
        Self(Some(Sub::read(reader, table, key, default)), Place::Default)
    }

    fn describe(path: &str, key: &str, _: &str, about: &str, entries: &mut Vec<Entry>) {
        entries.push(Entry::key(path, key, "table, or false".into(), "", about));
        describe::<S>(&join(path, key), Form::Always, about, entries);
    }

    fn print_value(&self, key: &str, printer: &mut Printer<'_>) {
        if self.0.is_none() {
            printer.value(key, "false", &self.1);
        }
    }

    fn print_table(&self, key: &str, printer: &mut Printer<'_>) {
        if let Some(sub) = &self.0 {
            sub.print_table(key, printer);
        }
    }
}

impl<S: Section> Field for Named<S> {
    fn read(reader: &mut Reader, table: &mut Table<'_>, key: &'static str, _: &str) -> Self {
        let path = table.join(key);
        let mut named = BTreeMap::new();
        let tables = reader.table(table, key);
        for (name, (span, value)) in tables.map(|tables| tables.entries).unwrap_or_default() {
            let path = format!("{path}.{name}");
            let good = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
            if name.is_empty() || !name.bytes().all(good) {
                let message = format!("{name:?} is no name for `{key}`");
                reader.error(Place::File(span), message, "use letters, digits, \"-\" and \"_\"");
                continue;
            }
            let DeValue::Table(inner) = value.get_ref() else {
                let message = format!("`{path}` is not a table");
                reader.error(Place::File(value.span()), message, format!("write [{path}]"));
                continue;
            };
            let place = Place::File(span);
            reader.changed.push((path.clone(), place.clone()));
            let inner = reader.section(Table::new(path, place.clone(), Some(inner)));
            named.insert(name.to_owned(), Sub { inner, place });
        }
        // What is left belongs to names that only flags or variables know.
        while let Some(place) = reader.overrides_below(&path) {
            let below = format!("{path}.");
            let first = reader.overrides.range(below.clone()..).next();
            let name = first.and_then(|(key, _)| key[below.len()..].split('.').next());
            let Some(name) = name.map(str::to_owned) else { break };
            let path = format!("{below}{name}");
            reader.changed.push((path.clone(), place.clone()));
            let inner = reader.section(Table::new(path.clone(), place.clone(), None));
            named.insert(name, Sub { inner, place });
            // A key that the section did not take must not keep this loop alive.
            let below = format!("{path}.");
            reader.overrides.retain(|key, _| !key.starts_with(&below));
        }
        Self(named)
    }

    fn describe(path: &str, key: &str, _: &str, about: &str, entries: &mut Vec<Entry>) {
        describe::<S>(&join(path, &format!("{key}.*")), Form::Named, about, entries);
    }

    fn print_table(&self, key: &str, printer: &mut Printer<'_>) {
        for (name, sub) in &self.0 {
            sub.print_table(&format!("{key}.{name}"), printer);
        }
    }
}

impl<S: Section> Field for Many<S> {
    fn read(reader: &mut Reader, table: &mut Table<'_>, key: &'static str, _: &str) -> Self {
        let Some((_, value)) = table.take(key) else { return Self(Vec::new()) };
        let tables: Option<Vec<(_, &DeTable<'_>)>> = value.get_ref().as_array().and_then(|array| {
            array.iter().map(|item| Some((item.span(), item.get_ref().as_table()?))).collect()
        });
        let Some(tables) = tables else {
            let message = format!("`{key}` is not an array of tables");
            reader.error(Place::File(value.span()), message, format!("write [[{key}]]"));
            return Self(Vec::new());
        };
        let read = |(span, inner)| {
            let place = Place::File(span);
            let table = Table::new(key.to_owned(), place.clone(), Some(inner));
            Sub { inner: reader.section(table), place }
        };
        Self(tables.into_iter().map(read).collect())
    }

    fn describe(path: &str, key: &str, _: &str, about: &str, entries: &mut Vec<Entry>) {
        describe::<S>(&join(path, key), Form::Many, about, entries);
    }

    fn print_table(&self, key: &str, printer: &mut Printer<'_>) {
        for sub in &self.0 {
            printer.table(key, true, &sub.place, |printer| sub.inner.print(printer));
        }
    }
}

impl Field for Reserved {
    fn read(reader: &mut Reader, table: &mut Table<'_>, key: &'static str, _: &str) -> Self {
        if let Some((span, _)) = table.take(key) {
            let message = format!("`{key}` is reserved for a later version");
            reader.error(Place::File(span), message, "remove it");
        }
        Self
    }

    fn describe(_: &str, _: &str, _: &str, _: &str, _: &mut Vec<Entry>) {}
}
