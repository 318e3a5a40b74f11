use super::*;
use crate::wall;
use proptest::prelude::*;
use serde_json::Value;

fn written(limit: usize, fill: impl FnOnce(&mut Line<'_>)) -> String {
    let mut out = Vec::new();
    let mut line = Line::event(&mut out, limit, "test", wall::now());
    fill(&mut line);
    line.end();
    String::from_utf8(out).expect("UTF-8")
}

fn parsed(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

#[test]
fn type_and_ts_come_first() {
    let line = written(4_096, |line| line.num(&"n", 7_u32));
    assert!(line.starts_with("{\"type\":\"test\",\"ts\":\"20"), "{line}");
    assert!(line.ends_with("Z\",\"n\":7}\n"), "{line}");
}

#[test]
fn what_could_mislead_a_reader_is_escaped() {
    let line = written(4_096, |line| line.str(&"s", "\u{1b}[2J\u{202e}\u{7f}\u{85}\"\\\n\t/é😀"));
    let shown = r#""s":"\u001b[2J\u202e\u007f\u0085\"\\\n\t/é😀"}"#;
    assert!(line.trim_end().ends_with(shown), "{line}");
}

#[test]
fn a_long_message_is_cut_and_marked() {
    let line = written(1_024, |line| line.message(&"m", &"\n".repeat(5_000)));
    assert!(line.len() <= 1_024 && line.len() > 900, "{}", line.len());
    assert_eq!(parsed(&line)["truncated"], true);
}

#[test]
fn a_long_field_leaves_room_for_the_next() {
    let line = written(1_024, |line| {
        line.str(&"path", &"p".repeat(5_000));
        line.num(&"status", 504_u16);
        line.message(&"m", "silent");
    });
    let line = parsed(&line);
    assert_eq!((&line["status"], &line["m"]), (&Value::from(504), &Value::from("silent")));
}

#[test]
fn milliseconds_have_as_many_decimals_as_they_need() {
    let shown = |micros| {
        let mut out = Vec::new();
        millis(&mut out, Duration::from_micros(micros));
        String::from_utf8(out).expect("ASCII")
    };
    assert_eq!(
        [0, 412, 50, 12_500, 300_000, 300_010].map(shown),
        ["0", "0.412", "0.05", "12.5", "300", "300.01"]
    );
    let mut out = Vec::new();
    millis(&mut out, Duration::MAX);
    assert!(serde_json::from_slice::<f64>(&out).is_ok());
}

proptest! {
    #[test]
    fn no_string_makes_an_invalid_line(
        fields in proptest::collection::vec(any::<String>(), 0..12),
        number in any::<u64>(),
        limit in 0_usize..3_000,
    ) {
        let line = written(limit, |line| {
            for field in &fields {
                line.str(&"field", field);
                line.num(&"number", number);
            }
            line.message(&"message", &fields.concat());
        });
        prop_assert!(line.ends_with("}\n"), "open: {line}");
        prop_assert_eq!(line.matches('\n').count(), 1);
        prop_assert!(line.len() <= limit.max(512), "{} > {}", line.len(), limit);
        prop_assert!(parsed(&line).is_object());
        prop_assert!(!line.trim_end().chars().any(char::is_control));
    }

    #[test]
    fn a_string_that_fits_comes_back(value in any::<String>()) {
        let line = written(1 << 20, |line| line.message(&"value", &value));
        prop_assert_eq!(&parsed(&line)["value"], &Value::from(value));
    }
}

#[test]
fn a_list_that_does_not_fit_is_cut_between_its_objects() {
    for limit in [512, 600, 700, 4096] {
        let mut out = Vec::new();
        let mut line = Line::event(&mut out, limit, "x", crate::wall::now());
        line.list("items", 0..20u64, |line, n| {
            line.num(&"n", n);
            line.str(&"name", "some \"words\" of an item");
        });
        line.flag(&"after", true);
        line.end();
        assert!(out.len() <= limit, "{limit}: {}", out.len());
        let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
        let items = value["items"].as_array().unwrap();
        assert!(items.iter().all(|item| item["name"] == "some \"words\" of an item"));
        assert_eq!(items.len() < 20, value.get("truncated").is_some(), "{value}");
        assert!(!items.is_empty());
    }
}
