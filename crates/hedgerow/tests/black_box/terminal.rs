//! What a person at a terminal sees of commands that take long, and what nobody sees in a pipe.
//!
//! The terminal is that of `script`: what it shows comes back with its escape sequences.

use crate::server::HEDGEROW;
use hedgerow_testkit::scratch::Scratch;
use std::process::{Command, Output, Stdio};

/// What `hedgerow WORDS` shows on a terminal.
fn on_a_terminal(words: &str, variables: &[(&str, &str)]) -> String {
    let mut command = Command::new("script");
    command.args(["-qec", &format!("{HEDGEROW} {words}"), "/dev/null"]).stdin(Stdio::null());
    command.env("TERM", "xterm").env_remove("NO_COLOR").envs(variables.iter().copied());
    let output = command.output().expect("script is there");
    let shown = String::from_utf8_lossy(&output.stdout).replace("\r\n", "\n");
    assert!(output.status.success(), "{shown}");
    shown
}

fn piped(words: &str) -> Output {
    let mut command = Command::new(HEDGEROW);
    command.args(words.split(' ')).env("TERM", "xterm");
    command.output().expect("it runs")
}

const ERASE: &str = "\r\u{1b}[K";
const COLOUR: &str = "\u{1b}[36m";

/// What to type for work of that length; each next one is twice as long.
type Words<'w> = &'w dyn Fn(u32) -> String;

/// The first of longer and longer works that takes longer than a person waits unasked, and what it
/// shows: machines differ, and so do two runs on one.
fn seen(what: &str, words: Words<'_>, variables: &[(&str, &str)]) -> (String, String) {
    let seen = (0..5).map(words).find_map(|words| {
        let shown = on_a_terminal(&words, variables);
        shown.contains(&format!(" % {what}")).then_some((words, shown))
    });
    seen.expect("the longest of them takes longer than that")
}

/// The line is seen, in colour where that is wanted, and gone when the report comes, which is the one
/// that goes into a pipe. In a pipe nothing else is written.
fn shows_its_progress(what: &str, words: Words<'_>) {
    let (words_of_it, shown) = seen(what, words, &[]);
    assert!(shown.contains(&format!("{ERASE}[{COLOUR}")), "{shown:?}");
    let (_, report) = shown.rsplit_once(ERASE).expect("the line is erased");
    let alone = piped(&words_of_it);
    assert_eq!(report.trim_end(), String::from_utf8_lossy(&alone.stdout).trim_end());
    assert_eq!(String::from_utf8_lossy(&alone.stderr), "");
    let (_, plain) = seen(what, words, &[("NO_COLOR", "1")]);
    assert!(!plain.contains(COLOUR), "{plain:?}");
    let dumb = on_a_terminal(&words_of_it, &[("TERM", "dumb")]);
    assert!(!dumb.contains('\u{1b}'), "{dumb:?}");
}

#[test]
fn a_drill_says_how_far_it_is() {
    shows_its_progress("none", &|length| {
        let seconds = 500 * 2_u32.pow(length);
        format!("drill cache-stall --policy none --duration {seconds}s")
    });
}

#[test]
fn plan_hedge_says_how_much_of_a_large_file_it_has_read() {
    let scratch = Scratch::new();
    shows_its_progress("reading", &|length| {
        let row = "{\"type\":\"http.request\",\"status\":200,\"duration_ms\":60.5}\n";
        let rows = row.repeat(100_000 * 2_usize.pow(length));
        let path = scratch.file("log.ndjson", rows);
        format!("plan hedge {}", path.display())
    });
}

#[test]
fn conform_says_what_it_looks_at() {
    let words = format!("conform -- {HEDGEROW} stage worker");
    let shown = on_a_terminal(&words, &[]);
    assert!(shown.contains(&format!("{ERASE}[{COLOUR}")), "{shown:?}");
    let lines = shown.split(ERASE).filter(|line| !line.starts_with('['));
    let alone = piped(&words);
    assert_eq!(lines.collect::<String>(), String::from_utf8_lossy(&alone.stdout));
    assert_eq!(String::from_utf8_lossy(&alone.stderr), "");
}

#[test]
fn no_colour_and_no_line_where_nobody_looks() {
    for words in ["help", "serve --help", "drill list", "check --nonsense 1", "version"] {
        let output = piped(words);
        let said = [output.stdout, output.stderr].concat();
        assert!(!said.contains(&0x1b) && !said.is_empty(), "{words}");
    }
}
