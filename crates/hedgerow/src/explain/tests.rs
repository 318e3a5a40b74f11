//! Stories of fixed logs, held to the files in `tests/explain/`: the id, the log, and what is told of
//! it, with a rule between them. `UPDATE_GOLDEN=1` writes the last part anew.

use super::event::{stamp, unix_ms};
use super::evidence::{Found, find};
use super::source::Events;
use super::{missing, remedy, story};
use hedgerow_policy::Class;
use std::fs;
use std::path::{Path, PathBuf};

const RULE: &str = "----------\n";

fn goldens() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/explain");
    let files = fs::read_dir(folder).expect("the folder");
    let mut files: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    files.sort();
    files
}

fn events(log: &str) -> Events {
    Events::Answer(([127, 0, 0, 1], 9080).into(), log.as_bytes().to_vec())
}

fn story(log: &str, id: &str) -> Option<story::Story> {
    match find(&events(log), id).expect("memory can be read") {
        Found::Evidence(evidence) => Some(story::of(&evidence, id)),
        Found::Nothing { .. } => None,
    }
}

#[test]
fn each_log_has_its_story() {
    let mut wrong = Vec::new();
    let files = goldens();
    assert!(files.len() >= 8, "{files:?}");
    for path in files {
        let text = fs::read_to_string(&path).expect("text");
        let [id, log, expected] =
            text.splitn(3, RULE).collect::<Vec<_>>().try_into().expect("parts");
        let name = events(log).name();
        let told = match find(&events(log), id.trim()).expect("memory can be read") {
            Found::Evidence(evidence) => story::of(&evidence, id.trim()).text(false),
            Found::Nothing { near } => missing(id.trim(), &[name], &near) + "\n",
        };
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&path, format!("{id}{RULE}{log}{RULE}{told}")).expect("it can be written");
        } else if told != expected {
            wrong.push(format!("{}\n{told}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_parts_add_up_to_the_whole() {
    let mut seen = 0;
    for path in goldens() {
        let text = fs::read_to_string(&path).expect("text");
        let [id, log, _] = text.splitn(3, RULE).collect::<Vec<_>>().try_into().expect("parts");
        let Some(story) = story(log, id.trim()).filter(|story| !story.parts.is_empty()) else {
            continue;
        };
        let sum: f64 = story.parts.iter().map(|part| part.ms).sum();
        assert!((sum - story.duration_ms).abs() < 0.06, "{}: {story:?}", path.display());
        let json: serde_json::Value = serde_json::from_str(&story.json()).expect("JSON");
        assert_eq!(json["duration_ms"], story.duration_ms, "{json}");
        seen += 1;
    }
    assert!(seen >= 6);
}

#[test]
fn colours_are_only_where_they_are_asked_for_and_change_no_word() {
    let log = fs::read_to_string(&goldens()[0]).expect("text");
    let [id, log, _] = log.splitn(3, RULE).collect::<Vec<_>>().try_into().expect("parts");
    let story = story(log, id.trim()).expect("a story");
    let (plain, coloured) = (story.text(false), story.text(true));
    assert!(!plain.contains('\x1b') && coloured.contains("\x1b["));
    let mut words = String::new();
    for part in coloured.split("\x1b[") {
        words.push_str(
            part.split_once('m').filter(|(code, _)| code.len() < 3).map_or(part, |p| p.1),
        );
    }
    assert_eq!(words, plain);
}

#[test]
fn every_class_has_a_meaning_and_something_to_look_at() {
    for &class in Class::ALL {
        let (meaning, look_at) = remedy::of(class, None);
        assert!(meaning.len() > 15 && look_at.len() > 15, "{}", class.name());
        assert!(!meaning.ends_with('.') && !look_at.ends_with('.'), "{}", class.name());
    }
}

#[test]
fn days_are_counted_as_the_log_writes_them() {
    assert_eq!(unix_ms("1970-01-01T00:00:00.000Z"), Some(0.0));
    assert_eq!(unix_ms("2000-02-29T00:00:00.000Z"), Some(951_782_400_000.0));
    assert_eq!(unix_ms("2024-03-01T00:00:00.001Z"), Some(1_709_251_200_001.0));
    assert_eq!(unix_ms("yesterday"), None);
    for day in 0..40_000 {
        let at = f64::from(day) * 86_400_000.0 + 12_345.0;
        assert_eq!(unix_ms(&(stamp(at).replace(' ', "T") + "Z")), Some(at));
    }
}
