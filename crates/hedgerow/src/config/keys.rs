//! The registry of every key, derived from `file`, and the names each has outside the file.
//!
//! A key `worker.read_timeout_ms` is the flag `--worker-read-timeout-ms` and the variable
//! `HEDGEROW_WORKER_READ_TIMEOUT_MS`.

use std::sync::LazyLock;

use super::field::Section;
use super::file::Document;

/// How a table comes to be in a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// It is always there, with its defaults.
    Always,
    /// It is there only when something in it is set.
    Optional,
    /// Any number of them, each with a name.
    Named,
    /// Any number of them, in order; flags and variables do not reach them.
    Many,
}

/// One line of the registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A table.
    Table {
        /// Dotted; `*` stands for a name.
        path: String,
        /// How it comes to be there.
        form: Form,
        /// What it is about.
        about: String,
    },
    /// A key.
    Key {
        /// Dotted; `*` stands for a name.
        path: String,
        /// What it accepts.
        accepts: String,
        /// Its default as TOML; empty where it is not set.
        default: String,
        /// One sentence.
        about: String,
        /// Whether its value must never be shown.
        secret: bool,
    },
}

impl Entry {
    /// Its dotted path; `*` stands for a name.
    #[must_use]
    pub fn path(&self) -> &str {
        let (Self::Table { path, .. } | Self::Key { path, .. }) = self;
        path
    }

    pub(crate) fn key(path: &str, key: &str, accepts: String, default: &str, about: &str) -> Self {
        let path = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        let (default, about) = (default.to_owned(), about.trim().to_owned());
        Self::Key { path, accepts, default, about, secret: false }
    }

    pub(crate) fn secret(mut self, is: bool) -> Self {
        if let Self::Key { secret, .. } = &mut self {
            *secret = is;
        }
        self
    }

    pub(crate) fn table(path: &str, form: Form, about: &str, section: &str) -> Self {
        // The place of use says more than the group itself, where it says anything.
        let about = if about.trim().is_empty() { section } else { about };
        Self::Table { path: path.to_owned(), form, about: about.trim().to_owned() }
    }
}

/// Every table and key, in the order of the reference.
pub static ENTRIES: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    let mut entries = Vec::new();
    Document::describe("", &mut entries);
    entries
});

/// The paths that flags and variables can set, with what they accept and their sentence.
pub fn settable() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let mut list: Option<&str> = None;
    ENTRIES.iter().filter_map(move |entry| match entry {
        Entry::Table { path, form, .. } => {
            let inside = list.is_some_and(|list| is_below(path, list));
            if !inside {
                list = (*form == Form::Many).then_some(path.as_str());
            }
            None
        }
        Entry::Key { path, .. } if list.is_some_and(|list| is_below(path, list)) => None,
        Entry::Key { path, accepts, about, .. } => {
            Some((path.as_str(), accepts.as_str(), about.as_str()))
        }
    })
}

/// Whether a dotted path lies below another.
pub(crate) fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.starts_with('.'))
}

/// Whether a dotted path is this one, or lies below it.
pub(crate) fn is_within(path: &str, above: &str) -> bool {
    path == above || is_below(path, above)
}

/// `worker.read_timeout_ms` → `worker-read-timeout-ms`
#[must_use]
pub fn flag_of(path: &str) -> String {
    path.replace(['.', '_'], "-")
}

/// `worker.read_timeout_ms` → `HEDGEROW_WORKER_READ_TIMEOUT_MS`
#[must_use]
pub fn variable_of(path: &str) -> String {
    format!("HEDGEROW_{}", path.replace(['.', '-'], "_").to_ascii_uppercase())
}

/// The key that a flag name (without its hyphens) sets, with a name in place of `*`.
#[must_use]
pub fn path_of_flag(flag: &str) -> Option<String> {
    let mut best: Option<(usize, String)> = None;
    for (path, ..) in settable() {
        let Some((before, after)) = path.split_once('*') else {
            if flag_of(path) == flag {
                return Some(path.to_owned());
            }
            continue;
        };
        let name =
            flag.strip_prefix(&flag_of(before)).and_then(|rest| rest.strip_suffix(&flag_of(after)));
        // `upstream-api-hedge-max`: the longest ending is meant, not a `max` of `api-hedge`.
        let good = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        if let Some(name) = name.filter(|name| !name.is_empty() && name.bytes().all(good))
            && best.as_ref().is_none_or(|(length, _)| after.len() > *length)
        {
            best = Some((after.len(), path.replacen('*', name, 1)));
        }
    }
    best.map(|(_, path)| path)
}

/// The first key with this last name, wherever it is: for one that was written in the wrong section.
pub(crate) fn path_of_key(key: &str) -> Option<String> {
    let mut paths = ENTRIES.iter().filter_map(|entry| match entry {
        Entry::Key { path, .. } if path.rsplit('.').next() == Some(key) => Some(path),
        _ => None,
    });
    paths.next().map(|path| path.replace('*', "NAME"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_name_is_unique_and_found_again() {
        let mut seen = HashSet::new();
        for (path, ..) in settable() {
            let path = path.replace('*', "name");
            assert!(seen.insert(flag_of(&path)), "two keys have the flag of {path}");
            assert_eq!(path_of_flag(&flag_of(&path)), Some(path));
        }
        assert!(seen.len() > 100);
    }

    #[test]
    fn every_key_has_one_sentence() {
        for entry in ENTRIES.iter() {
            let (Entry::Key { path, about, .. } | Entry::Table { path, about, .. }) = entry;
            assert!(about.ends_with('.') && about.len() > 10, "{path}: {about:?}");
        }
    }

    #[test]
    fn routes_have_no_flags() {
        assert_eq!(path_of_flag("route-path"), None);
        assert_eq!(path_of_flag("upstream--url"), None);
    }
}
