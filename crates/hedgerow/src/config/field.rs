//! Reads a document field by field: flag before variable before file before default.
//!
//! Promise: reading never stops. A value that is refused is reported and its default used, so that
//! one run finds every error; a key that nobody asked for is unknown, and that is an error too.
//! serde would stop at the first, and knows no place of a key; hence this small reader.

mod kinds;
mod print;

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

pub(crate) use kinds::{Flat, Many, Named, OrFalse, Reserved, Sub};
pub(crate) use print::{Printer, comment};

use super::guess::Guesses;
use super::keys::{ENTRIES, Entry, path_of_key};
use super::report::{Place, Problem, Severity};
use super::value::{Refusal, Value};

/// A value and where it came from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Set<T> {
    pub(crate) value: T,
    pub(crate) place: Place,
}

/// A table of the document, while its keys are being taken out of it.
pub(crate) struct Table<'a> {
    /// Dotted, without the last key: `worker`, `upstream.api.hedge`; empty for the document.
    pub(crate) path: String,
    /// Where it begins, for messages about what is missing.
    pub(crate) place: Place,
    entries: BTreeMap<&'a str, (Range<usize>, &'a Spanned<DeValue<'a>>)>,
    known: Vec<&'static str>,
}

impl<'a> Table<'a> {
    pub(crate) fn new(path: String, place: Place, table: Option<&'a DeTable<'a>>) -> Self {
        let entries = table.into_iter().flat_map(DeTable::iter);
        let entries = entries.map(|(key, value)| (key.get_ref().as_ref(), (key.span(), value)));
        Self { path, place, entries: entries.collect(), known: Vec::new() }
    }

    pub(crate) fn join(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn take(&mut self, key: &'static str) -> Option<(Range<usize>, &'a Spanned<DeValue<'a>>)> {
        self.known.push(key);
        self.entries.remove(key)
    }
}

/// What flags and variables set, by dotted path.
pub(crate) type Overrides = BTreeMap<String, (Place, String)>;

/// Collects values and problems.
pub(crate) struct Reader {
    pub(crate) overrides: Overrides,
    /// Starts of the strings that contained `${env.…}`: they are read as text, whatever the type.
    pub(crate) expanded: HashSet<usize>,
    pub(crate) problems: Vec<Problem>,
    /// Bytes of the file that must not be shown.
    pub(crate) secrets: Vec<Range<usize>>,
    /// Keys whose value was refused: what follows from their absence is no news.
    pub(crate) refused: HashSet<String>,
    /// Every key that differs from its default, with its place.
    pub(crate) changed: Vec<(String, Place)>,
    /// What was meant by names that are unknown.
    pub(crate) guesses: Guesses,
}

impl Reader {
    pub(crate) fn error(&mut self, place: Place, message: String, advice: impl Into<String>) {
        let advice = advice.into();
        self.problems.push(Problem { severity: Severity::Error, place, message, advice });
    }

    fn refuse(&mut self, path: &str, place: Place, refusal: Refusal) {
        self.refused.insert(path.to_owned());
        let place = match (refusal.span, place) {
            (Some(span), Place::File(_)) => Place::File(span),
            (_, place) => place,
        };
        self.error(place, format!("`{path}` {}", refusal.what), refusal.accept);
    }

    /// The value of a key, if anybody set it. One that is refused is reported and not set.
    fn value<T: Value>(&mut self, table: &mut Table<'_>, key: &'static str) -> Option<Set<T>> {
        let path = table.join(key);
        let in_file = table.take(key);
        if let Some((_, value)) = &in_file {
            self.secrets.extend(T::secret_spans(value));
        }
        if let Some((place, text)) = self.overrides.remove(&path) {
            return match T::from_text(&text) {
                Ok(value) => Some(Set { value, place }),
                Err(refusal) => {
                    self.refuse(&path, place, refusal);
                    None
                }
            };
        }
        let (_, spanned) = in_file?;
        let place = Place::File(spanned.span());
        let read = match spanned.get_ref() {
            DeValue::String(text) if self.expanded.contains(&spanned.span().start) => {
                T::from_text(text)
            }
            value => T::from_toml(value),
        };
        match read {
            Ok(value) => Some(Set { value, place }),
            Err(refusal) => {
                self.refuse(&path, place, refusal);
                None
            }
        }
    }

    /// Whether a flag or variable sets something below this path.
    fn overrides_below(&self, path: &str) -> Option<Place> {
        let below = format!("{path}.");
        let (key, (place, _)) = self.overrides.range(below.clone()..).next()?;
        key.starts_with(&below).then(|| place.clone())
    }

    /// Reads a table to its end: what is left in it is unknown.
    pub(crate) fn section<S: Section>(&mut self, mut table: Table<'_>) -> S {
        let section = S::read(self, &mut table);
        let mut unknown: Vec<_> = std::mem::take(&mut table.entries).into_iter().collect();
        // In their order in the file, in which they are shown: not all of them are guessed at.
        unknown.sort_by_key(|(_, (span, _))| span.start);
        for (key, (span, _)) in unknown {
            let message = if table.path.is_empty() {
                format!("unknown section or key `{key}`")
            } else {
                format!("unknown key `{key}` in `{}`", table.path)
            };
            // The right key in the wrong section is likelier than another key of this one.
            let advice = if !self.guesses.may_compare(ENTRIES.len()) {
                String::new()
            } else if let Some(elsewhere) = path_of_key(key) {
                format!("did you mean `{elsewhere}`?")
            } else if let Some(known) = self.guesses.closest(key, table.known.iter().copied()) {
                format!("did you mean `{known}`?")
            } else {
                format!("known are: {}", table.known.join(", "))
            };
            self.error(Place::File(span), message, advice);
        }
        section
    }

    /// The table in a key, or nothing; anything else there is reported.
    fn table<'a>(&mut self, table: &mut Table<'a>, key: &'static str) -> Option<Table<'a>> {
        let path = table.join(key);
        let (key_span, value) = table.take(key)?;
        let DeValue::Table(inner) = value.get_ref() else {
            let message = format!("`{path}` is not a table");
            self.error(Place::File(value.span()), message, format!("write [{path}] or {{ … }}"));
            return None;
        };
        Some(Table::new(path, Place::File(key_span), Some(inner)))
    }
}

/// A group of keys, made by `options!`.
pub(crate) trait Section: Sized {
    /// One sentence about the group.
    const ABOUT: &'static str;
    /// Takes its keys out of the table.
    fn read(reader: &mut Reader, table: &mut Table<'_>) -> Self;
    /// Adds its keys to the registry.
    fn describe(path: &str, entries: &mut Vec<Entry>);
    /// Prints its keys, then its tables.
    fn print(&self, printer: &mut Printer<'_>);
}

/// One member of a section: a value, or a table of its own.
pub(crate) trait Field: Sized {
    /// Takes the member out of the table. `default` is TOML, or empty where there is none.
    fn read(reader: &mut Reader, table: &mut Table<'_>, key: &'static str, default: &str) -> Self;
    /// Adds it to the registry.
    fn describe(path: &str, key: &str, default: &str, about: &str, entries: &mut Vec<Entry>);
    /// Prints it, if it is a value.
    fn print_value(&self, _key: &str, _printer: &mut Printer<'_>) {}
    /// Prints it, if it is a table.
    fn print_table(&self, _key: &str, _printer: &mut Printer<'_>) {}
}

/// The default of a key. That every default is valid is a test of the registry.
fn default_of<T: Value>(default: &str) -> T {
    let value = DeValue::parse(default).expect("a default is TOML");
    T::from_toml(value.get_ref()).expect("a default is in range")
}

impl<T: Value> Field for Set<T> {
    fn read(reader: &mut Reader, table: &mut Table<'_>, key: &'static str, default: &str) -> Self {
        let fallback: T = default_of(default);
        let Some(set) = reader.value::<T>(table, key) else {
            return Self { value: fallback, place: Place::Default };
        };
        if set.value.to_toml() != fallback.to_toml() {
            reader.changed.push((table.join(key), set.place.clone()));
        }
        set
    }

    fn describe(path: &str, key: &str, default: &str, about: &str, entries: &mut Vec<Entry>) {
        entries.push(Entry::key(path, key, T::accepts(), default, about).secret(T::SECRET));
    }

    fn print_value(&self, key: &str, printer: &mut Printer<'_>) {
        printer.value(key, &self.value.to_toml(), &self.place);
    }
}

impl<T: Value> Field for Option<Set<T>> {
    fn read(reader: &mut Reader, table: &mut Table<'_>, key: &'static str, _: &str) -> Self {
        let set = reader.value::<T>(table, key)?;
        reader.changed.push((table.join(key), set.place.clone()));
        Some(set)
    }

    fn describe(path: &str, key: &str, _: &str, about: &str, entries: &mut Vec<Entry>) {
        entries.push(Entry::key(path, key, T::accepts(), "", about).secret(T::SECRET));
    }

    fn print_value(&self, key: &str, printer: &mut Printer<'_>) {
        if let Some(set) = self {
            set.print_value(key, printer);
        }
    }
}

/// Defines groups of keys, each key once: its name, its kind, its default, and its sentence. From
/// this come the reader, the flags, the variables, `--print` and the reference.
macro_rules! options {
    ($($(#[doc = $about:literal])+ $section:ident {
        $($(#[doc = $doc:literal])+ $key:ident: $kind:ty $(= $default:tt)?;)*
    })+) => { $(
        $(#[doc = $about])+
        #[derive(Clone, Debug)]
        pub(crate) struct $section { $($(#[doc = $doc])+ pub(crate) $key: $kind,)* }

        impl $crate::config::field::Section for $section {
            const ABOUT: &'static str = concat!($($about),+);
            fn read(
                reader: &mut $crate::config::field::Reader,
                table: &mut $crate::config::field::Table<'_>,
            ) -> Self {
                Self { $($key: $crate::config::field::Field::read(
                    reader, table, stringify!($key), concat!($(stringify!($default))?),
                ),)* }
            }
            fn describe(path: &str, entries: &mut Vec<$crate::config::keys::Entry>) {
                $(<$kind as $crate::config::field::Field>::describe(
                    path, stringify!($key), concat!($(stringify!($default))?), concat!($($doc),+),
                    entries,
                );)*
            }
            fn print(&self, printer: &mut $crate::config::field::Printer<'_>) {
                $($crate::config::field::Field::print_value(&self.$key, stringify!($key), printer);)*
                $($crate::config::field::Field::print_table(&self.$key, stringify!($key), printer);)*
            }
        }
    )+ };
}
pub(crate) use options;
