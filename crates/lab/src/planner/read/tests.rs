use super::*;
use proptest::prelude::*;

fn seconds(text: &str) -> Vec<f64> {
    let input = read(text, Unit::Seconds, None).expect("readable");
    input.samples.iter().map(|sample| sample.nanos as f64 / 1e9).collect()
}

fn refusal(text: &str) -> String {
    read(text, Unit::Seconds, None).expect_err("unreadable").to_string()
}

#[test]
fn plain_numbers() {
    assert_eq!(seconds("60\n\n330.5\n# a remark\n250ms\r\n1e1\n"), [60.0, 330.5, 0.25, 10.0]);
    let input = read("250\n", Unit::Milliseconds, None).expect("readable");
    assert_eq!(input.samples[0].nanos, 250_000_000);
}

#[test]
fn what_was_cut_off_is_marked() {
    let input = read("60\n>160\n170+\n", Unit::Seconds, None).expect("readable");
    let censored: Vec<bool> = input.samples.iter().map(|sample| sample.censored).collect();
    assert_eq!(censored, [false, true, true]);
}

#[test]
fn refusals_name_the_line() {
    assert_eq!(refusal(""), "line 1: the file holds no duration");
    assert_eq!(refusal("\n# nothing\n"), "line 1: the file holds no duration");
    assert_eq!(refusal("1\n2\nNaN\n"), "line 3: NaN is no duration");
    assert_eq!(refusal("1\n-2\n"), "line 2: -2 is negative; a duration is 0 or more");
    assert_eq!(refusal("1\n\ninf\n"), "line 3: inf is longer than any call");
    assert_eq!(refusal("1\nsixty\n"), "line 2: \"sixty\" is no number");
}

#[test]
fn columns() {
    assert_eq!(seconds("path,duration_ms\n/a,250\n\"/b,c\",500\n"), [0.25, 0.5]);
    assert_eq!(seconds("duration\n3\n4\n"), [3.0, 4.0]);
    assert_eq!(seconds("when;seconds\nx;3\n"), [3.0]);
    let third = read("1,2,3\n4,5,6\n", Unit::Seconds, Some("3")).expect("readable");
    assert_eq!(third.samples[1].nanos, 6_000_000_000);
    assert!(refusal("1,2\n").contains("line 1: 2 columns and no head"));
    assert!(refusal("a,b\n1,2\n").contains("line 1: there is no column of durations among a, b"));
    assert_eq!(refusal("a,duration\nx,1\ny\n"), "line 3: there is no column 2");
    assert_eq!(refusal("a,duration\nx,-1\n"), "line 2: -1 is negative; a duration is 0 or more");
}

#[test]
fn ndjson_and_the_event_log() {
    assert_eq!(seconds("{\"duration_ms\":250,\"x\":1}\n{\"duration_ms\":\"5s\"}\n"), [0.25, 5.0]);
    let log = "{\"type\":\"server.started\",\"ts\":1}\n\
        {\"type\":\"http.request\",\"ts\":1,\"status\":200,\"duration_ms\":60000}\n\
        {\"type\":\"http.request\",\"ts\":1,\"status\":504,\"error_class\":\"timeout\",\"duration_ms\":1}\n";
    let input = read(log, Unit::Seconds, None).expect("readable");
    assert_eq!((input.samples.len(), input.failed), (1, 1));
    assert_eq!(input.source, "event log, http.request, member duration_ms");
    let inner = read("{\"a\":{\"took_ms\":7}}\n", Unit::Seconds, Some("a.took_ms")).expect("ok");
    assert_eq!(inner.samples[0].nanos, 7_000_000);
    assert!(refusal("{\"duration\":1}\n{\"duration\":").starts_with("line 2: this is no JSON"));
    assert!(refusal("{\"a\":1}\n").starts_with("line 1: there is no member for a duration"));
    assert!(refusal("{\"duration\":null}\n").starts_with("line 1: duration is no number"));
}

#[test]
fn the_ledger_counts_attempts() {
    let usage = r#"{"upstreams":{},"recent":[{"key":"a","attempts":[
        {"role":"primary","start_ms":0,"end_ms":160000,"outcome":"cancelled"},
        {"role":"hedge","start_ms":100000,"end_ms":160000,"outcome":"ok"},
        {"role":"retry","start_ms":0,"end_ms":5,"outcome":"failed"},
        {"role":"hedge","start_ms":0,"end_ms":null,"outcome":"ok"}]}]}"#;
    let input = read(usage, Unit::Seconds, None).expect("readable");
    let expected = [
        Sample { nanos: 160_000_000_000, censored: true },
        Sample { nanos: 60_000_000_000, censored: false },
    ];
    assert_eq!((input.samples.as_slice(), input.failed), (expected.as_slice(), 1));
}

#[test]
fn nginx_logs() {
    let log = "10.0.0.1 - - [30/Nov/2029:03:05:00 +0000] \"GET /a HTTP/1.1\" 200 12 \"-\" \"x/1.123\" 0.250\n\
        10.0.0.1 - - [30/Nov/2029:03:05:01 +0000] \"GET /b HTTP/1.1\" 504 12 \"-\" \"x\" 60.001\n\
        10.0.0.1 - - [30/Nov/2029:03:05:01 +0000] \"GET /b HTTP/1.1\" 200 12 rt=0.004 urt=\"0.003\"\n";
    let input = read(log, Unit::Seconds, None).expect("readable");
    assert_eq!((input.samples.len(), input.failed), (2, 1));
    assert_eq!((input.samples[0].nanos, input.samples[1].nanos), (250_000_000, 4_000_000));
    let without = "1.1.1.1 - - [30/Nov/2029:03:05:00 +0000] \"GET /a HTTP/1.1\" 200 12\n";
    assert!(refusal(without).contains("line 1: no $request_time"));
}

proptest! {
    #[test]
    fn nothing_panics(text in "\\PC{0,60}(\\n\\PC{0,60}){0,4}", column in proptest::option::of("\\PC{0,5}")) {
        let _ = read(&text, Unit::Seconds, column.as_deref());
    }

    #[test]
    fn nothing_panics_near_the_formats(text in "[\\[\\]{}\":,;.0-9a-z\\n+>-]{0,80}") {
        let _ = read(&text, Unit::Milliseconds, None);
    }
}
