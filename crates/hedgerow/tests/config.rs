//! Golden files: a configuration, what surrounds it, and what `hedgerow check` says.
//!
//! A file in `tests/config/` begins with lines for the surroundings (`flag:`, `env:`, `files:`,
//! `file:` with a text, `programs:`, `folders:`, `args:`, `kernel: old`, each optional), then `----------`, the configuration,
//! `----------`, and the expected output. `UPDATE_GOLDEN=1` writes the last part anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use hedgerow::cli::{CheckArguments, ConfigArguments, judge};
use hedgerow::config::machine::Machine;
use hedgerow::config::{Config, Secret, Sources, read};
use proptest::prelude::*;

const RULE: &str = "----------\n";

/// A machine that has what the golden file names. `/` is everywhere a folder.
#[derive(Default)]
struct Paper {
    files: BTreeMap<PathBuf, String>,
    folders: BTreeSet<PathBuf>,
    programs: BTreeSet<PathBuf>,
    old_kernel: bool,
}

impl Machine for Paper {
    fn working_dir(&self) -> PathBuf {
        "/srv/app".into()
    }
    fn program_dir(&self) -> Option<PathBuf> {
        Some("/opt/hedgerow/bin".into())
    }
    fn exists(&self, path: &Path) -> bool {
        self.is_file(path) || self.is_dir(path) || self.is_program(path)
    }
    fn text(&self, path: &Path) -> std::io::Result<String> {
        let text = self.files.get(path).filter(|text| *text != "unreadable");
        text.cloned().ok_or_else(|| std::io::ErrorKind::PermissionDenied.into())
    }
    fn is_file(&self, path: &Path) -> bool {
        self.files.contains_key(path)
    }
    fn is_dir(&self, path: &Path) -> bool {
        path == Path::new("/") || path == Path::new("/srv/app") || self.folders.contains(path)
    }
    fn is_program(&self, path: &Path) -> bool {
        self.programs.contains(path) || path == Path::new("/usr/bin/app")
    }
    fn files_can_be_served(&self) -> std::io::Result<()> {
        // ENOSYS
        if self.old_kernel { Err(std::io::Error::from_raw_os_error(38)) } else { Ok(()) }
    }
    fn cpus(&self) -> usize {
        6
    }
}

fn surroundings(head: &str, text: &str) -> (CheckArguments, Sources, Paper) {
    let (mut arguments, mut paper) = (CheckArguments::default(), Paper::default());
    let mut sources = Sources::default();
    if !text.is_empty() {
        sources.file = Some(("hedgerow.toml".into(), text.into()));
    }
    sources.environment.insert("PATH".into(), "/usr/bin".into());
    for line in head.lines() {
        let (kind, words) = line.split_once(':').expect("kind: words");
        let words = words.trim();
        let paths = words.split(' ').map(PathBuf::from);
        match kind {
            "args" => {
                arguments.print = words.contains("--print");
                arguments.strict = words.contains("--strict");
            }
            "flag" => {
                let (name, value) = words.split_once('=').expect("--name=value");
                sources.flags.push((name[2..].into(), value.into()));
            }
            "env" => {
                let (name, value) = words.split_once('=').expect("NAME=value");
                sources.environment.insert(name.into(), value.into());
            }
            "files" => paper.files.extend(paths.map(|path| (path, String::new()))),
            "file" => {
                let (path, text) = words.split_once('=').expect("path=text");
                paper.files.insert(path.into(), text.into());
            }
            "folders" => paper.folders.extend(paths),
            "kernel" => paper.old_kernel = words == "old",
            "programs" => paper.programs.extend(paths),
            _ => panic!("unknown line {line:?}"),
        }
    }
    (arguments, sources, paper)
}

/// Two configurations are compared without their secrets: those are masked on purpose.
fn without_secrets(mut config: Config) -> Config {
    let hidden = || Secret("***".into());
    config.admin.token = config.admin.token.map(|_| hidden());
    config.cache.resp.password = config.cache.resp.password.map(|_| hidden());
    config
}

#[test]
fn golden_files() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config");
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut wrong = Vec::new();
    let mut seen = 0;
    for entry in folder.read_dir().expect("tests/config") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let golden = std::fs::read_to_string(&path).expect("readable");
        let parts: Vec<&str> = golden.splitn(3, RULE).collect();
        let [head, text, expected] = parts[..] else { panic!("{name}: not three parts") };
        let (arguments, sources, paper) = surroundings(head, text);
        let outcome = judge(&arguments, &sources, &paper);
        let mut found = format!("exit {}\n", outcome.code);
        for (title, part) in [("output", &outcome.output), ("errors", &outcome.errors)] {
            if !part.is_empty() {
                let _ = write!(found, "--- {title}\n{part}");
            }
        }
        if update {
            std::fs::write(&path, [head, text, found.as_str()].join(RULE)).expect("writable");
        } else if found != expected {
            wrong.push(format!("{name}: expected\n{expected}\nfound\n{found}"));
        }
        shown_reads_back(&name, &sources, &paper);
        seen += 1;
    }
    assert!(seen > 10, "the golden files are missing");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What `--print` shows is the same configuration.
fn shown_reads_back(name: &str, sources: &Sources, paper: &Paper) {
    let first = read(sources, paper);
    if first.report.has_errors() {
        return;
    }
    let file = Some(("shown.toml".to_owned(), first.effective.clone()));
    // The environment that is used for PATH is no part of what is shown.
    let environment = [("PATH".to_owned(), "/usr/bin".to_owned())].into();
    let second = read(&Sources { file, environment, flags: Vec::new() }, paper);
    assert!(!second.report.has_errors(), "{name}: {}\n{}", second.report, first.effective);
    assert_eq!(without_secrets(first.config), without_secrets(second.config), "{name}");
}

#[test]
fn the_reference_on_disk_is_the_one_of_the_program() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let made = hedgerow::config::reference::markdown();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &made).expect("writable");
    }
    let on_disk = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(on_disk == made, "run: hedgerow docs configuration > docs/configuration.md");
}

/// Case 20 of the acceptance cases, by the program itself.
#[test]
fn the_program_prints_the_defaults() {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_hedgerow"));
    command.args([
        "check",
        "--print",
        "--worker-command",
        "sh",
        "--worker-read-timeout-ms",
        "3000",
    ]);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    command.env_clear().env("PATH", "/usr/bin:/bin").current_dir(folder);
    let output = command.output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let shown = String::from_utf8(output.stdout).expect("UTF-8");
    for line in
        ["connect_timeout_ms = 200 ", "read_timeout_ms = 3000 ", "request_timeout_ms = 5000 "]
    {
        assert!(shown.lines().any(|shown| shown.starts_with(line)), "{line}\n{shown}");
    }
}

/// A reload reads again: the file, and what `Config::load` says of it, may have changed.
#[test]
fn a_configuration_is_loaded_again() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("reload.toml");
    let flags = vec![("admin-listen".to_owned(), "127.0.0.1:9".to_owned())];
    let arguments = ConfigArguments { file: Some(path.clone()), flags };
    std::fs::write(&path, "worker = { command = \"sh\", pool_size = 2 }").expect("writable");
    let loaded = Config::load(&arguments).expect("good");
    assert_eq!((loaded.config.worker.pool_size, loaded.config.admin.listen.port()), (2, 9));
    std::fs::write(&path, "worker = { command = \"sh\", pool_size = \"two\" }").expect("writable");
    let report = Config::load(&arguments).expect_err("bad").to_string();
    assert!(report.contains("reload.toml:1:40"), "{report}");
    std::fs::remove_file(&path).expect("removable");
    let report = Config::load(&arguments).expect_err("gone").to_string();
    assert!(report.contains("cannot read"), "{report}");
}

#[test]
fn a_file_that_is_not_utf_8_is_reported_with_line_and_column() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("latin.toml");
    std::fs::write(&path, b"[worker]\ncommand = \"\xc3\xa4\xe4\"").expect("writable");
    let arguments = ConfigArguments { file: Some(path), flags: Vec::new() };
    let report = Config::load(&arguments).expect_err("bad").to_string();
    assert!(report.contains("latin.toml:2:13: not UTF-8"), "{report}");
}

#[test]
fn what_is_no_configuration_is_not_read_to_its_end() {
    let arguments = ConfigArguments { file: Some("/dev/zero".into()), flags: Vec::new() };
    let report = Config::load(&arguments).expect_err("endless").to_string();
    assert!(report.contains("/dev/zero is over 4 MiB"), "{report}");
}

#[test]
fn of_many_problems_the_first_are_shown() {
    let text = (0..2_000).map(|n| format!("k{n} = 1\n")).collect();
    let file = Some(("any.toml".to_owned(), text));
    let reading = read(&Sources { file, ..Sources::default() }, &Paper::default());
    let (all, shown) = (reading.report.problems.len(), reading.report.to_string());
    assert!(all >= 2_000 && shown.contains(&format!("and {} more", all - 100)), "{all}");
    assert_eq!(shown.matches("--> any.toml:").count(), 100);
    // What was meant is guessed for more of them than are shown, and not for all.
    let guessed = reading.report.problems.iter().filter(|problem| !problem.advice.is_empty());
    assert!((100..1_000).contains(&guessed.count()));
    assert!(!shown.contains("^\n"), "each that is shown has its advice");
}

proptest! {
    #[test]
    fn no_text_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        check_text(&String::from_utf8_lossy(&bytes));
    }

    /// Text that gets past the parser: real keys with any value.
    #[test]
    fn no_value_panics(
        which in proptest::collection::vec((any::<proptest::sample::Index>(), value()), 0..8),
    ) {
        let keys: Vec<_> = hedgerow::config::keys::settable().map(|(path, ..)| path).collect();
        let mut text = String::new();
        for (index, value) in which {
            let _ = writeln!(text, "{} = {value}", index.get(&keys).replace('*', "name"));
        }
        check_text(&text);
    }

    /// The same of routes, which no flag sets.
    #[test]
    fn no_route_panics(
        which in proptest::collection::vec((any::<proptest::sample::Index>(), value()), 0..8),
    ) {
        let keys = hedgerow::config::keys::ENTRIES.iter();
        let keys: Vec<_> = keys.filter_map(|entry| entry.path().strip_prefix("route.")).collect();
        let mut text = "[worker]\ncommand = \"app\"\n[[route]]\n".to_owned();
        for (index, value) in which {
            let _ = writeln!(text, "{} = {value}", index.get(&keys));
        }
        check_text(&text);
    }

    #[test]
    fn no_flag_panics(name in "[a-z-]{0,30}", value in any::<String>()) {
        let flags = vec![(name, value.clone()), ("worker-read-timeout-ms".into(), value)];
        let reading = read(&Sources { flags, ..Sources::default() }, &Paper::default());
        let _ = reading.report.to_string();
    }
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i64>().prop_map(|n| n.to_string()),
        any::<f64>().prop_map(|n| format!("{n:?}").to_lowercase()),
        any::<bool>().prop_map(|b| b.to_string()),
        "\"[ -!#-\\[\\]-~äö${}.:/*0-9a-z]{0,20}\"",
        "\\[(\"[a-z0-9./:]{0,8}\", ?){0,3}\\]",
        "\"(static|upstream:a|/x/\\*|/x|get|\\*\\.a)\"",
        Just("{ a = 1, max = \"x\" }".to_owned()),
        Just("[{ path = \"/x\" }]".to_owned()),
    ]
}

fn check_text(text: &str) {
    let file = Some(("any.toml".to_owned(), text.to_owned()));
    let reading = read(&Sources { file, ..Sources::default() }, &Paper::default());
    let _ = reading.report.to_string();
}
