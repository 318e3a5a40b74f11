//! The shape of the workspace (ARCHITECTURE.md), held by what cargo and the files say of it: who
//! may depend on whom, which crate may know which library, and where a clock, `unsafe` and the types
//! of TLS may stand.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The layers: each crate and what it may depend on within the workspace, tests apart.
const LAYERS: &[(&str, &[&str])] = &[
    ("policy", &[]),
    ("wire", &[]),
    ("clock", &["policy"]),
    ("worker", &["policy", "wire", "clock"]),
    ("upstream", &["policy", "wire", "clock"]),
    ("cache", &["policy", "wire", "clock"]),
    ("lab", &["policy"]),
    ("gateway", &["policy", "wire", "clock", "worker", "upstream", "cache", "lab"]),
    ("stage", &["wire"]),
    ("testkit", &["policy", "wire"]),
    (
        "hedgerow",
        &["policy", "wire", "clock", "worker", "upstream", "cache", "lab", "gateway", "stage"],
    ),
];

/// Libraries that only these crates may know.
const WALLS: &[(&str, &[&str])] = &[
    ("hyper", &["worker", "upstream", "gateway"]),
    ("clap", &["hedgerow"]),
    ("toml", &["hedgerow"]),
    ("rustls", &["upstream", "gateway", "cache"]),
    ("tokio-rustls", &["upstream", "gateway", "cache"]),
    ("prometheus-client", &["gateway"]),
];

/// What waits, or makes others wait: not even by a detour under the crates that only decide.
const WAITS: &[&str] = &["tokio", "hyper", "mio", "async-std", "smol", "rustix", "socket2"];

/// The files that may read a clock.
const CLOCKS: &[&str] = &[
    "clock/src/lib.rs",
    "clock/src/unix.rs",
    "gateway/src/wall.rs",
    "stage/src/clock.rs",
    "testkit/src/until.rs",
];

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace")
}

fn metadata() -> Value {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(workspace())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value[key].as_array().unwrap_or_else(|| panic!("no list {key}"))
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_else(|| panic!("no text {key}"))
}

/// The packages of the workspace by their short names.
fn members(metadata: &Value) -> BTreeMap<&str, &Value> {
    let ids = list(metadata, "workspace_members");
    let packages = list(metadata, "packages").iter().filter(|p| ids.contains(&p["id"]));
    packages.map(|package| (short(text(package, "name")), package)).collect()
}

fn short(name: &str) -> &str {
    name.strip_prefix("hedgerow-").unwrap_or(name)
}

/// What the package itself names, tests apart.
fn dependencies(package: &Value) -> BTreeSet<&str> {
    let named = list(package, "dependencies").iter().filter(|d| d["kind"] != "dev");
    named.map(|dependency| text(dependency, "name")).collect()
}

#[test]
fn the_layers_hold() {
    let metadata = metadata();
    let members = members(&metadata);
    let mut wrong = Vec::new();
    for (name, package) in &members {
        let Some((_, allowed)) = LAYERS.iter().find(|(layer, _)| layer == name) else {
            wrong.push(format!("{name} is in no layer: give it one here and in ARCHITECTURE.md"));
            continue;
        };
        for dependency in dependencies(package) {
            let dependency = short(dependency);
            if members.contains_key(dependency) && !allowed.contains(&dependency) {
                wrong.push(format!("{name} must not depend on {dependency}"));
            }
        }
    }
    assert!(members.len() >= 7, "{:?}", members.keys());
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_walls_hold() {
    let metadata = metadata();
    let mut wrong = Vec::new();
    let mut known = BTreeSet::new();
    for (name, package) in members(&metadata) {
        for dependency in dependencies(package) {
            let Some((library, allowed)) = WALLS.iter().find(|(wall, _)| *wall == dependency)
            else {
                continue;
            };
            known.insert(*library);
            if !allowed.contains(&name) {
                wrong.push(format!("{name} must not know {library}"));
            }
        }
    }
    assert_eq!(known.len(), WALLS.len(), "a wall around nothing: {known:?}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn what_decides_depends_on_nothing_that_waits() {
    let metadata = metadata();
    let nodes: BTreeMap<_, _> =
        list(&metadata["resolve"], "nodes").iter().map(|node| (text(node, "id"), node)).collect();
    let names: BTreeMap<_, _> =
        list(&metadata, "packages").iter().map(|p| (text(p, "id"), text(p, "name"))).collect();
    // The model checker of shared machines stands behind a cfg of our own: it is a test.
    let counts = |kind: &Value| kind["kind"] != "dev" && kind["target"] != "cfg(hedgerow_loom)";
    let below = |crate_name: &str| {
        let root = names.iter().find(|(_, name)| **name == crate_name).expect("the crate").0;
        let (mut found, mut next) = (BTreeSet::new(), vec![*root]);
        while let Some(id) = next.pop() {
            for dep in list(nodes[id], "deps") {
                if list(dep, "dep_kinds").iter().any(counts) && found.insert(text(dep, "pkg")) {
                    next.push(text(dep, "pkg"));
                }
            }
        }
        found.into_iter().map(|id| names[id]).collect::<BTreeSet<_>>()
    };
    for decides in ["hedgerow-policy", "hedgerow-wire"] {
        let found: Vec<_> = below(decides).into_iter().filter(|n| WAITS.contains(n)).collect();
        assert!(found.is_empty(), "{decides} depends on {found:?}");
    }
    assert!(below("hedgerow-worker").contains("tokio"), "the search finds what is there");
}

/// Every Rust file below the folders of this name in the crates: the crate, the path, the text.
fn sources(folders: &[&str]) -> Vec<(String, PathBuf, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(workspace().join("crates")).expect("crates").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let mut next: Vec<PathBuf> =
            folders.iter().map(|f| entry.path().join(f)).filter(|p| p.is_dir()).collect();
        while let Some(folder) = next.pop() {
            for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
                let path = entry.path();
                if path.is_dir() {
                    next.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    let text = std::fs::read_to_string(&path).expect("a text");
                    found.push((name.clone(), path, text));
                }
            }
        }
    }
    assert!(found.len() > 100, "{} files", found.len());
    found
}

fn file_name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).expect("a name")
}

/// The code of a file without its comments.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(|line| line.split("//").next().unwrap_or(""))
}

/// Whether the keyword stands in this line, not just the word.
fn opens_unsafe(line: &str) -> bool {
    // In two halves, so that this file has it nowhere.
    let keyword = format!("un{} ", "safe");
    let follows = ["{", "fn ", "impl ", "trait ", "extern "];
    let mut found = line.match_indices(&keyword).map(|(at, _)| &line[at + keyword.len()..]);
    found.any(|rest| follows.iter().any(|next| rest.starts_with(next)))
}

#[test]
fn unsafe_code_stands_in_one_file() {
    let mut seen = 0;
    for (name, path, text) in sources(&["src", "tests", "benches"]) {
        let shown = path.display();
        let folder = path.parent().expect("a folder");
        let is_root = folder.ends_with("src/bin")
            || folder.ends_with("src") && ["lib.rs", "main.rs"].contains(&file_name(&path));
        if is_root && name != "worker" {
            assert!(text.contains("\n#![forbid(unsafe_code)]\n"), "{shown} does not forbid unsafe");
            seen += 1;
        }
        let allowed = name == "worker" && path.ends_with("src/spawn.rs");
        let found = code(&text).any(opens_unsafe);
        assert_eq!(found, allowed, "unsafe in {shown}");
    }
    assert!(seen >= 7, "{seen} roots");
}

#[test]
fn a_clock_is_read_where_it_may_be() {
    // Put together, so that this file is none of those that read one.
    let now = ["Instant", "SystemTime"].map(|clock| format!("{clock}::{}", "now"));
    let lint = format!("clippy::{}", "disallowed_methods");
    let mut readers = BTreeSet::new();
    for (_, path, text) in sources(&["src", "tests", "benches"]) {
        let reads = code(&text).any(|line| now.iter().any(|clock| line.contains(clock.as_str())));
        let lets = text.contains(&lint);
        if reads || lets {
            readers.insert(path);
        }
    }
    let may = |path: &Path| CLOCKS.iter().any(|clock| path.ends_with(clock));
    let wrong: Vec<_> = readers.iter().filter(|path| !may(path)).collect();
    assert!(wrong.is_empty(), "a clock is read, or the lint against it put off, in {wrong:#?}");
    assert_eq!(readers.len(), CLOCKS.len(), "{readers:#?}");
}

#[test]
fn the_types_of_tls_stand_in_one_file_a_crate() {
    let mut files: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for (name, path, text) in sources(&["src"]) {
        if code(&text).any(|line| line.contains("rustls::")) {
            files.entry(name).or_default().push(path);
        }
    }
    assert!(files.contains_key("gateway"), "{files:#?}");
    assert!(files.values().all(|paths| paths.len() == 1), "{files:#?}");
}

#[test]
fn files_can_be_read_in_one_sitting() {
    let long: Vec<_> = sources(&["src", "tests"])
        .into_iter()
        .map(|(_, path, text)| (text.lines().count(), path))
        .filter(|(lines, _)| *lines > 450)
        .collect();
    assert!(long.is_empty(), "split these: {long:#?}");
}
