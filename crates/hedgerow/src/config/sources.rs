//! What was said, before anybody reads it: the file's text, the environment, the flags.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::Read as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::field::{Overrides, Reader};
use super::guess::{Guesses, closest};
use super::keys::{flag_of, path_of_flag, settable, variable_of};
use super::report::{Place, Problem, Report, Severity, Source};
use crate::cli::ConfigArguments;

/// Longest file that is read, in bytes: what is longer is no configuration, and may have no end.
const LONGEST: u64 = 4 << 20;

/// What a configuration is made of. [`super::read`] reads it; nothing else is looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// Name of the file for messages, and its text.
    pub file: Option<(String, String)>,
    /// The environment.
    pub environment: BTreeMap<String, String>,
    /// Flags in order: the name without hyphens, and the value. A later one wins.
    pub flags: Vec<(String, String)>,
}

/// Parses the text. Every syntax error is reported; what could be read is kept. The second part
/// tells where the parser had to guess what was meant.
pub(super) fn parse<'a>(
    text: &'a str,
    problems: &mut Vec<Problem>,
) -> (DeTable<'a>, Vec<Range<usize>>) {
    let mut guessed = Vec::new();
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let span = error.span().unwrap_or(0..0);
        let key = text.get(span.clone()).unwrap_or_default();
        let (message, advice) = match error.message() {
            "duplicate key" => (format!("`{key}` is set twice"), "keep one"),
            other => {
                guessed.push(span.clone());
                (other.to_owned(), "")
            }
        };
        problems.push(Problem {
            severity: Severity::Error,
            place: Place::File(span),
            message,
            advice: advice.to_owned(),
        });
    }
    (table.into_inner(), guessed)
}

/// What flags and variables set, by path; names of upstreams as the file spells them.
pub(super) fn overrides(
    sources: &Sources,
    document: &DeTable<'_>,
    problems: &mut Vec<Problem>,
    guesses: &Guesses,
) -> Overrides {
    let mut overrides = Overrides::new();
    // Without the common beginning of variables, which would make everything look alike.
    let flags: Vec<String> = settable().map(|(path, ..)| flag_of(path)).collect();
    let known = || flags.iter().map(String::as_str);
    let mut wrong = |place, message, advice| {
        problems.push(Problem { severity: Severity::Error, place, message, advice });
    };
    for (name, text) in &sources.environment {
        let Some(rest) = name.strip_prefix("HEDGEROW_") else { continue };
        let flag = rest.to_ascii_lowercase().replace('_', "-");
        let place = Place::Environment(name.clone());
        if let Some(path) = path_of_flag(&flag).filter(|_| !rest.contains('-')) {
            overrides.insert(spelled(path, document), (place, text.clone()));
        } else if is_of_a_section(&flag) {
            // Other HEDGEROW_ names belong to others (HEDGEROW_READY_FD); these can only be meant
            // for here.
            let advice = if flag.starts_with("route-") {
                "routes are set in the file only".into()
            } else {
                match guesses.closest(&flag, known()) {
                    Some(known) => {
                        format!("did you mean {}?", variable_of(known).replace('*', "NAME"))
                    }
                    None => "`hedgerow docs keys` lists every variable".into(),
                }
            };
            wrong(place, format!("unknown variable {name}"), advice);
        } else if let Some(near) = guesses.slip_of(&flag, known()) {
            let advice = format!("did you mean {}?", variable_of(near).replace('*', "NAME"));
            wrong(place, format!("unknown variable {name}"), advice);
        }
    }
    for (name, text) in &sources.flags {
        let place = Place::Flag(format!("--{name}"));
        match path_of_flag(name) {
            Some(path) => {
                overrides.insert(spelled(path, document), (place, text.clone()));
            }
            None => {
                let advice = meant(guesses.closest(name, known()));
                wrong(place, format!("unknown flag --{name}"), advice);
            }
        }
    }
    overrides
}

/// "did you mean" for a flag that no key has.
pub(crate) fn suggestion(flag: &str) -> String {
    let known: Vec<String> = settable().map(|(path, ..)| flag_of(path)).collect();
    meant(closest(flag, known.iter().map(String::as_str)))
}

fn meant(flag: Option<&str>) -> String {
    match flag {
        Some(known) => format!("did you mean --{}?", known.replace('*', "NAME")),
        None => "`hedgerow docs keys` lists every key".into(),
    }
}

fn is_of_a_section(flag: &str) -> bool {
    let section = flag.split('-').next().unwrap_or_default();
    let sections = settable().filter_map(|(path, ..)| path.split('.').next());
    flag.len() > section.len() && sections.chain(["route", "pool"]).any(|known| known == section)
}

/// A flag `--upstream-my-api-url` and a variable `…_MY_API_URL` both mean `my_api`, if the file
/// has one of that name: neither can say whether it was `-`, `_` or a capital.
fn spelled(path: String, document: &DeTable<'_>) -> String {
    let mut parts = path.splitn(3, '.');
    let (Some("upstream"), Some(name), Some(rest)) = (parts.next(), parts.next(), parts.next())
    else {
        return path;
    };
    let upstreams = document.get("upstream").and_then(|value| value.get_ref().as_table());
    let plain = |name: &str| name.to_ascii_lowercase().replace('_', "-");
    let names = upstreams.into_iter().flat_map(DeTable::keys).map(Spanned::get_ref);
    let mut same = names.filter(|known| plain(known) == plain(name));
    same.next().map(|known| format!("upstream.{known}.{rest}")).unwrap_or(path)
}

/// Replaces `${env.NAME}` and `${env.NAME:-default}` in every string; `$${` is a plain `${`.
pub(super) fn expand(
    table: &mut DeTable<'_>,
    environment: &BTreeMap<String, String>,
    problems: &mut Vec<Problem>,
) -> HashSet<usize> {
    let mut expander = Expander { environment, problems, expanded: HashSet::new() };
    for (_, value) in table.iter_mut() {
        expander.value(value);
    }
    expander.expanded
}

struct Expander<'a> {
    environment: &'a BTreeMap<String, String>,
    problems: &'a mut Vec<Problem>,
    expanded: HashSet<usize>,
}

impl Expander<'_> {
    fn value(&mut self, spanned: &mut Spanned<DeValue<'_>>) {
        let span = spanned.span();
        match spanned.get_mut() {
            DeValue::String(text) if text.contains("${") => {
                let (new, found) = self.text(text, &span);
                if found {
                    self.expanded.insert(span.start);
                }
                *text = new.into();
            }
            DeValue::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            DeValue::Table(table) => table.iter_mut().for_each(|(_, item)| self.value(item)),
            _ => {}
        }
    }

    fn text(&mut self, text: &str, span: &Range<usize>) -> (String, bool) {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        let mut found = false;
        while let Some(at) = rest.find("${") {
            let (before, after) = rest.split_at(at);
            if let Some(kept) = before.strip_suffix('$') {
                out.push_str(kept);
                out.push_str("${");
                rest = &after[2..];
                continue;
            }
            out.push_str(before);
            let Some(name) = after.strip_prefix("${env.") else {
                out.push_str("${");
                rest = &after[2..];
                continue;
            };
            found = true;
            let Some((name, after)) = name.split_once('}') else {
                self.error(
                    span,
                    "`${env.` is not closed",
                    "write ${env.NAME} or ${env.NAME:-default}",
                );
                return (out, found);
            };
            rest = after;
            let (name, default) = name.split_once(":-").map_or((name, None), |(n, d)| (n, Some(d)));
            // As in a shell, `:-` also replaces what is set but empty.
            let set = self.environment.get(name).filter(|set| default.is_none() || !set.is_empty());
            match set.map(String::as_str).or(default) {
                Some(set) => out.push_str(set),
                None => {
                    let message = format!("environment variable {name} is not set");
                    let advice = format!("set it, or write ${{env.{name}:-default}}");
                    self.error(span, &message, &advice);
                }
            }
        }
        out.push_str(rest);
        (out, found)
    }

    fn error(&mut self, span: &Range<usize>, message: &str, advice: &str) {
        self.problems.push(Problem {
            severity: Severity::Error,
            place: Place::File(span.clone()),
            message: message.to_owned(),
            advice: advice.to_owned(),
        });
    }
}

impl Reader {
    pub(super) fn new(
        overrides: Overrides,
        expanded: HashSet<usize>,
        problems: Vec<Problem>,
        guesses: Guesses,
    ) -> Self {
        Self {
            overrides,
            expanded,
            problems,
            secrets: Vec::new(),
            refused: HashSet::new(),
            changed: Vec::new(),
            guesses,
        }
    }
}

impl Sources {
    /// Takes the file that the command line names, and this process's environment.
    ///
    /// # Errors
    /// The file cannot be read, or is not UTF-8.
    pub fn gather(arguments: &ConfigArguments) -> Result<Self, Report> {
        let default = PathBuf::from(super::DEFAULT_FILE);
        let file = arguments.file.clone().or_else(|| default.exists().then_some(default));
        let file = match file {
            Some(path) => Some((path.display().to_string(), text_of(&path)?)),
            None => None,
        };
        let mut environment = BTreeMap::new();
        for (name, value) in std::env::vars_os() {
            let Some(name) = name.to_str() else { continue };
            match value.into_string() {
                Ok(value) => {
                    environment.insert(name.to_owned(), value);
                }
                // Of other names it is no business; `${env.…}` finds such a variable unset.
                Err(_) if name.starts_with("HEDGEROW_") => {
                    let message = format!("the variable {name} is not UTF-8");
                    return Err(failed(message, "set it again, or unset it"));
                }
                Err(_) => {}
            }
        }
        Ok(Self { file, environment, flags: arguments.flags.clone() })
    }
}

fn failed(message: String, advice: &str) -> Report {
    let advice = advice.to_owned();
    let problem = Problem { severity: Severity::Error, place: Place::Default, message, advice };
    Report { source: Source::default(), problems: vec![problem] }
}

fn text_of(path: &Path) -> Result<String, Report> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LONGEST + 1).read_to_end(&mut bytes));
    let advice = "check the path after -c";
    read.map_err(|error| failed(format!("cannot read {}: {error}", path.display()), advice))?;
    if bytes.len() as u64 > LONGEST {
        return Err(failed(format!("{} is over {} MiB", path.display(), LONGEST >> 20), advice));
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let text = String::from_utf8_lossy(good).into_owned();
        let at = text.len();
        let (line, column) = Source { name: String::new(), text }.position(at);
        let message = format!("{}:{line}:{column}: not UTF-8", path.display());
        failed(message, "save the file as UTF-8")
    })
}
