//! The reference of all keys, derived from the registry.

use std::fmt::Write as _;

use super::keys::{ENTRIES, Entry, Form, flag_of, settable, variable_of};
use super::lint::in_effect;

const HEAD: &str = "\
# Configuration

This page is made from the program: `hedgerow docs configuration > docs/configuration.md`.

A flag wins over an environment variable, that over the file, and that over the default. The file
is the one that `-c FILE` names (or a bare `*.toml` argument); without one, `hedgerow.toml` in the
working directory, if it is there. A key `worker.read_timeout_ms` is also the flag
`--worker-read-timeout-ms` and the variable `HEDGEROW_WORKER_READ_TIMEOUT_MS`. In both, arrays are
written with commas (`a,b`) and `worker.env` as `A=1,B=2`.

- Times are milliseconds (`3000`) or text with a unit: `\"200ms\"`, `\"3s\"`, `\"1m\"`, `\"1h\"`, `\"1d\"`.
- Sizes are bytes (`1048576`) or text with a unit: `\"64KiB\"`, `\"16MiB\"`, `\"1GiB\"`, `\"10MB\"` (thousands).
- `${env.NAME}` in text is replaced by that variable, `${env.NAME:-text}` by the text where it is
  unset or empty. `$${` is a plain `${`. Text that contained a variable may stand for a number too.
- A relative path starts at the working directory; `php.app` and a program with a `/` in
  `worker.command` start at `worker.cwd`.

`hedgerow check` says what is wrong, and where. `hedgerow check --print` shows every value in effect
and where it came from; tokens, passwords and variables that look like one are shown as `***`.
";

/// `docs/configuration.md`
#[must_use]
pub fn markdown() -> String {
    let mut out = HEAD.to_owned();
    for entry in ENTRIES.iter().filter(|entry| !as_an_upstream(entry.path())) {
        let Entry::Table { path, form, about } = entry else { continue };
        let head = match form {
            Form::Many => format!("[[{path}]]"),
            _ => format!("[{}]", path.replace('*', "NAME")),
        };
        let level = if path.replace(".*", "").contains('.') { "###" } else { "##" };
        let note = match form {
            Form::Many => " It cannot be set by flags or variables.",
            _ => "",
        };
        let not_yet =
            if in_effect(path) { "" } else { " Accepted, not in effect in this version." };
        let _ = writeln!(out, "\n{level} `{head}`\n\n{about}{note}{not_yet}");
        rows(path, &mut out);
    }
    out
}

/// The keys of one table, wherever in the registry they stand.
fn rows(table: &str, out: &mut String) {
    let mut head = "\n| key | type | default | |\n| --- | --- | --- | --- |\n";
    for entry in ENTRIES.iter() {
        let Entry::Key { path, accepts, default, about, .. } = entry else { continue };
        let Some((parent, key)) = path.rsplit_once('.') else { continue };
        if parent != table || as_an_upstream(path) {
            continue;
        }
        let default = if default.is_empty() { "–".to_owned() } else { format!("`{default}`") };
        let accepts = accepts.replace('|', "\\|");
        let not_yet = in_effect(parent) && !in_effect(path);
        let not_yet = if not_yet { " Accepted, not in effect in this version." } else { "" };
        let _ = writeln!(out, "{head}| `{key}` | {accepts} | {default} | {about}{not_yet} |");
        head = "";
    }
}

/// Whether it is one of the keys that plans share with upstreams: those are described once.
fn as_an_upstream(path: &str) -> bool {
    let same = path.strip_prefix("plan.").map(|rest| format!("upstream.*.{rest}"));
    same.is_some_and(|same| ENTRIES.iter().any(|entry| entry.path() == same))
}

/// Every key with its flag, its variable and its sentence, for the terminal.
#[must_use]
pub fn key_list() -> String {
    let mut out = String::new();
    for (path, accepts, about) in settable() {
        let path = path.replace('*', "NAME");
        let flag = flag_of(&path);
        let variable = variable_of(&path);
        let _ = writeln!(out, "--{flag}\n    {about}\n    {accepts}; {variable}\n");
    }
    out
}
