//! Case 50, in earnest: the repair rule in `policy` is mutated in a copy of the sources, and the
//! drill's figures must change. It compiles five times, so it runs only where it is asked for:
//!
//! `cargo test -p hedgerow-lab --test repair_rule -- --ignored --nocapture`

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is changed in `crates/policy/src/repair.rs`, and into what: as few words of it as will do,
/// because the rule is written anew now and then.
const MUTATIONS: [(&str, &str, &str); 5] = [
    (
        "a shut gate lets writes through",
        "Gate::Shut | Gate::ShutForGood => false,",
        "Gate::Shut | Gate::ShutForGood => true,",
    ),
    (
        "a good canary does not re-open it",
        "Gate::Shut if good => self.shut(Gate::Trial),",
        "Gate::Shut if good => {}",
    ),
    (
        "a proven gate lets nothing through",
        "Gate::Proven => self.in_flight.",
        "Gate::Proven => now == Moment::NEVER && self.in_flight.",
    ),
    (
        "any number of unproven repairs at once",
        "Gate::Unproven | Gate::Trial => self.in_flight.is_empty(),",
        "Gate::Unproven | Gate::Trial => true,",
    ),
    (
        "canaries never end an episode",
        "self.canary.good_in_a_row() >= config.successes",
        "self.canary.good_in_a_row() == u32::MAX",
    ),
];

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("readable") {
        let entry = entry.expect("readable");
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(&from, &to).expect("copied");
        }
    }
}

/// Whether case 50 of the drill's own tests passes in the copy.
fn passes(copy: &Path) -> bool {
    let output = Command::new(env!("CARGO"))
        .args(["test", "--offline", "--quiet", "-p", "hedgerow-lab", "--lib", "case_50"])
        .current_dir(copy)
        .env("CARGO_TARGET_DIR", copy.join("target"))
        // The figures are to notice, not an assertion in the machine.
        .env("CARGO_PROFILE_DEV_DEBUG_ASSERTIONS", "false")
        .env("CARGO_PROFILE_TEST_DEBUG_ASSERTIONS", "false")
        .env_remove("HEDGEROW_BLESS")
        .output()
        .expect("cargo runs");
    let text = String::from_utf8_lossy(&output.stdout);
    // A mutation that does not compile proves nothing.
    assert!(text.contains("running 1 test"), "{}", String::from_utf8_lossy(&output.stderr));
    output.status.success()
}

#[test]
#[ignore = "compiles the policies five times over"]
fn a_mutated_repair_rule_changes_the_figures() {
    let root: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", ".."].iter().collect();
    let there = Path::new(env!("CARGO_TARGET_TMPDIR")).join("repair-rule");
    for part in ["crates/policy", "crates/lab"] {
        let _ = fs::remove_dir_all(there.join(part));
        copy(&root.join(part), &there.join(part));
    }
    for file in ["Cargo.toml", "Cargo.lock"] {
        fs::copy(root.join(file), there.join(file)).expect("copied");
    }
    assert!(passes(&there), "without a mutation the figures are the known ones");
    let rule = there.join("crates/policy/src/repair.rs");
    let original = fs::read_to_string(&rule).expect("readable");
    for (name, from, to) in MUTATIONS {
        assert!(original.contains(from), "{name}: the rule is written differently now");
        fs::write(&rule, original.replace(from, to)).expect("written");
        assert!(!passes(&there), "{name}: and the drill did not notice");
        println!("noticed: {name}");
    }
}
