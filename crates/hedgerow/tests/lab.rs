//! `plan hedge` and `drill` through the real binary.

use std::path::PathBuf;
use std::process::{Command, Output};

/// A file of its own for each test.
fn file(name: &str, text: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).expect("written");
    path
}

fn hedgerow(words: &str, path: Option<&PathBuf>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hedgerow"));
    command.args(words.split(' '));
    command.args(path);
    command.output().expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn json(output: &Output) -> serde_json::Value {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn itinerary(name: &str) -> PathBuf {
    file(name, &("60\n".repeat(95) + &"330\n".repeat(5)))
}

#[test]
fn case_32_and_35_one_call_in_twenty_stalls() {
    let path = itinerary("case-32");
    let plan = json(&hedgerow("plan hedge --at 100s --fan-out 5 --cost 0.04 --json", Some(&path)));
    assert_eq!(plan["samples"], 100);
    let row = &plan["thresholds"][0];
    assert_eq!(plan["thresholds"].as_array().map(Vec::len), Some(1));
    assert_eq!((&row["after"], &row["extra"]), (&100.0.into(), &0.05.into()));
    assert_eq!((&row["p95"], &row["p99"]), (&60.0.into(), &160.0.into()));
    assert_eq!((&row["p999"], &row["mean"]), (&330.0.into(), &65.425.into()));
    assert_eq!((&row["duplicated"], &row["cost"]), (&3.425.into(), &2.0.into()));
    let stalled = |row: &serde_json::Value| {
        (row["stalled_builds"].as_f64().expect("a number") * 1e4).round() / 1e4
    };
    assert!((stalled(&plan["baseline"]) - 0.2262).abs() < 1e-9);
    assert!((stalled(row) - 0.0124).abs() < 1e-9);
}

#[test]
fn case_33_ties_with_the_threshold_do_not_fire() {
    let lines: String = (1..10).map(|ten| format!("{ten}0\n")).collect();
    let path = file("case-33", &(lines + "1000\n"));
    let plan = json(&hedgerow("plan hedge --at 90 --budget 10% --json", Some(&path)));
    let row = &plan["thresholds"][0];
    assert_eq!((&row["extra"], &row["mean"]), (&0.1.into(), &67.6.into()));
    assert_eq!((&row["p95"], &row["p99"]), (&140.0.into(), &180.0.into()));
    assert_eq!((&row["p999"], &row["duplicated"]), (&1000.0.into(), &13.6.into()));
}

#[test]
fn case_34_a_budget_that_cannot_help() {
    let path = itinerary("case-34");
    let plan = json(&hedgerow("plan hedge --target p95 --budget 2% --json", Some(&path)));
    assert!(plan["warnings"][0].as_str().expect("a warning").contains("p95 < p98"));
    assert!(plan["best"]["randomised"]["probability"].as_f64().expect("offered") < 1.0);
}

#[test]
fn case_36_bad_data_names_its_line() {
    for (name, text_of, line) in [
        ("empty", "", "line 1"),
        ("nan", "1\n2\nNaN\n", "line 3"),
        ("negative", "1\n-2\n", "line 2"),
        ("words", "1\n2\n3\nfour\n", "line 4"),
    ] {
        let output = hedgerow("plan hedge", Some(&file(&format!("case-36-{name}"), text_of)));
        assert_eq!(output.status.code(), Some(2), "{name}");
        assert!(text(&output.stderr).contains(line), "{name}: {}", text(&output.stderr));
        assert!(output.stdout.is_empty());
    }
    let few = json(&hedgerow("plan hedge --json", Some(&file("case-36-few", "1\n2\n3\n"))));
    assert!(few["warnings"][0].as_str().expect("a warning").contains("3 samples"));
    let missing = hedgerow("plan hedge", Some(&PathBuf::from("no-such-file")));
    assert_eq!(missing.status.code(), Some(2));
}

#[test]
fn the_lines_to_apply_are_a_configuration() {
    let output = hedgerow("plan hedge --apply --at 100s", Some(&itinerary("apply")));
    let lines = text(&output.stdout)
        .replace("[upstream.NAME]", "[upstream.slow]\nurl = \"http://127.0.0.1:1\"");
    assert!(lines.contains("after_ms = 100000"), "{lines}");
    let path = file("apply.toml", &("[worker]\ncommand = \"true\"\n".to_owned() + &lines));
    let checked = hedgerow("check -c", Some(&path));
    assert_eq!(checked.status.code(), Some(0), "{}", text(&checked.stderr));
}

#[test]
fn a_drill_gives_the_same_bytes_for_the_same_seed() {
    let small = "drill cache-stall --policy none,full --rate 100 --keys 300 --ttl 20s \
                 --duration 140s --seed 7 --csv";
    let words = small.split_whitespace().collect::<Vec<_>>().join(" ");
    let paths = ["drill-1.csv", "drill-2.csv"].map(|name| file(name, ""));
    let [first, again] = paths.map(|path| {
        let output = hedgerow(&words, Some(&path));
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(output.stderr.is_empty(), "no progress where there is no terminal");
        std::fs::read_to_string(path).expect("written")
    });
    assert_eq!(first, again);
    let head = "policy,second,requests,hits,misses,sheds,cache_timeouts,db_arrivals,db_served,failed,\
                repairs_tried,repairs_landed,repairs_refused,canaries";
    assert_eq!(first.lines().next(), Some(head));
    assert_eq!(first.lines().count(), 1 + 2 * 140);
}

#[test]
fn drills_are_listed_and_unknown_ones_refused() {
    let listed = text(&hedgerow("drill list", None).stdout);
    for name in ["cache-stall", "hedge-stall", "worker-hang", "queue-overload", "brown-out"] {
        assert!(listed.contains(name), "{listed}");
    }
    for words in ["drill flood", "drill cache-stall --policy fast", "drill worker-hang --ttl 3s"] {
        let output = hedgerow(words, None);
        assert_eq!(output.status.code(), Some(2), "{words}");
    }
}

#[test]
fn the_summary_as_json() {
    let drill = json(&hedgerow("drill worker-hang --json", None));
    assert_eq!(drill["drill"], "worker-hang");
    assert_eq!(drill["policies"].as_array().map(Vec::len), Some(5));
}

#[test]
fn a_configuration_can_be_drilled() {
    let config = "[worker]\ncommand = \"true\"\npool_size = 2\nqueue_capacity = 8\nqueue_timeout_ms = 100\n\
                  [cache.breaker]\nopen_ms = 5000\n[upstream.a]\nurl = \"http://127.0.0.1:1\"\n\
                  hedge = { after_ms = 90000 }\n[upstream.b]\nurl = \"http://127.0.0.1:1\"\n";
    let path = file("drilled.toml", config);
    let short = "--rate 100 --keys 300 --ttl 20s --duration 140s";
    for words in [
        format!("drill cache-stall --policy plain,yours {short} --json --config"),
        "drill queue-overload --json --config".to_owned(),
        "drill worker-hang --policy yours --json --config".to_owned(),
        "drill brown-out --policy wait,yours --json --config".to_owned(),
        "drill hedge-stall --policy yours --json --upstream b --config".to_owned(),
    ] {
        let drill = json(&hedgerow(&words, Some(&path)));
        let policies = drill["policies"].as_array().expect("rows");
        assert!(policies.iter().any(|row| row["policy"] == "yours"), "{words}");
    }
    for (words, says) in [
        ("drill brown-out --upstream c --config", "no upstream \"c\""),
        ("drill worker-hang --policy yours --csv", "--config FILE"),
    ] {
        let path = if words.ends_with("--csv") { file("unused.csv", "") } else { path.clone() };
        let output = hedgerow(words, Some(&path));
        assert_eq!(output.status.code(), Some(2), "{words}");
        assert!(text(&output.stderr).contains(says), "{words}: {}", text(&output.stderr));
    }
}
