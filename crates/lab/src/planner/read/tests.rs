use super::*;
use proptest::prelude::*;

fn taken(text: &str, unit: Unit, column: Option<&str>) -> Result<Input, ReadError> {
    read(text, Wanted { unit, column, upstream: None }, &mut |_| ())
}

fn seconds(text: &str) -> Vec<f64> {
    let input = taken(text, Unit::Seconds, None).expect("readable");
    input.samples.iter().map(|sample| sample.nanos as f64 / 1e9).collect()
}

fn refusal(text: &str) -> String {
    taken(text, Unit::Seconds, None).expect_err("unreadable").to_string()
}

#[test]
fn plain_numbers() {
    assert_eq!(seconds("60\n\n330.5\n# a remark\n250ms\r\n1e1\n"), [60.0, 330.5, 0.25, 10.0]);
    let input = taken("250\n", Unit::Milliseconds, None).expect("readable");
    assert_eq!(input.samples[0].nanos, 250_000_000);
}

#[test]
fn what_was_cut_off_is_marked() {
    let input = taken("60\n>160\n170+\n", Unit::Seconds, None).expect("readable");
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
    let third = taken("1,2,3\n4,5,6\n", Unit::Seconds, Some("3")).expect("readable");
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
    let input = taken(log, Unit::Seconds, None).expect("readable");
    assert_eq!((input.samples.len(), input.failed), (1, 1));
    assert_eq!(input.source, "event log, http.request, member duration_ms");
    let inner = taken("{\"a\":{\"took_ms\":7}}\n", Unit::Seconds, Some("a.took_ms")).expect("ok");
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
    let input = taken(usage, Unit::Seconds, None).expect("readable");
    let expected = [
        Sample { nanos: 160_000_000_000, censored: true },
        Sample { nanos: 60_000_000_000, censored: false },
    ];
    assert_eq!((input.samples.as_slice(), input.failed), (expected.as_slice(), 1));
}

/// As `GET /admin/usage` and the event log have it: the same lines, of two upstreams.
#[test]
fn an_event_log_with_calls_is_about_calls() {
    let call = |kind: &str, upstream: &str, end: u32, outcome: &str| {
        format!(
            "{{{kind}\"upstream\":\"{upstream}\",\"duration_ms\":9,\"attempts\":[{{\"role\":\"primary\",\
             \"start_ms\":0,\"end_ms\":{end},\"outcome\":\"{outcome}\"}}]}}\n"
        )
    };
    let kind = "\"type\":\"upstream.call\",\"ts\":1,";
    let log = "{\"type\":\"server.started\",\"ts\":1}\n\
        {\"type\":\"http.request\",\"ts\":1,\"status\":200,\"duration_ms\":70000}\n"
        .to_owned()
        + &call(kind, "a", 20, "won")
        + &call(kind, "a", 30, "lost")
        + &call(kind, "b", 40, "won");
    let of = |upstream| {
        let wanted = Wanted { upstream, ..Wanted::default() };
        let input = read(&log, wanted, &mut |_| ())?;
        let millis = input.samples.iter().map(|s| (s.nanos / 1_000_000, s.censored));
        Ok::<_, ReadError>((millis.collect::<Vec<_>>(), input.source))
    };
    let all = vec![(20, false), (30, true), (40, false)];
    assert_eq!(of(None), Ok((all, "event log, upstream.call, attempts".to_owned())));
    let source = "event log, upstream.call, attempts of upstream b".to_owned();
    assert_eq!(of(Some("b")), Ok((vec![(40, false)], source)));
    let none = of(Some("c")).expect_err("there is none");
    let said = "--upstream \"c\": the file holds calls to \"a\", \"b\"";
    assert_eq!(none.to_string(), said, "the flag is to blame, and no line");
    let column = Wanted { column: Some("duration_ms"), ..Wanted::default() };
    assert_eq!(read(&log, column, &mut |_| ()).map(|input| input.samples.len()), Ok(4));
    let keys = call("", "a", 20, "won") + &call("", "b", 40, "won");
    let usage = format!("{{\"recent\":[{}]}}", keys.trim_end().replace('\n', ","));
    for text in [usage.clone(), usage.replace("{\"recent\"", "{\n\"recent\"")] {
        let wanted = Wanted { upstream: Some("b"), ..Wanted::default() };
        let found = read(&text, wanted, &mut |_| ()).expect("readable");
        assert_eq!(
            (found.samples.len(), found.source.as_str()),
            (1, "ledger, attempts of upstream b")
        );
        let wanted = Wanted { upstream: Some("c"), ..Wanted::default() };
        let none = read(&text, wanted, &mut |_| ()).expect_err("there is none");
        assert_eq!(none.to_string(), said);
    }
    let wanted = Wanted { upstream: Some("b"), ..Wanted::default() };
    let refused = |text: &str| read(text, wanted, &mut |_| ()).expect_err("no call").to_string();
    assert!(refused("1\n2\n").starts_with("--upstream is for Hedgerow's event log"));
    let requests = "{\"type\":\"http.request\",\"duration_ms\":1}\n";
    assert_eq!(refused(requests), "--upstream \"b\": the file holds no call to any upstream");
    let many: String = (10..35).map(|n| call("", &format!("u{n}"), 20, "won")).collect();
    assert!(refused(&many).ends_with("\"u29\" and 5 more"), "{}", refused(&many));
}

#[test]
fn how_far_it_is_is_told() {
    let text = "0.25\n".repeat(3 * EVERY);
    let mut shares = Vec::new();
    read(&text, Wanted::default(), &mut |share| shares.push(share)).expect("readable");
    assert_eq!(shares.len(), 3);
    assert!(shares.is_sorted() && shares.iter().all(|share| (0.3..=1.0).contains(share)));
}

#[test]
fn nginx_logs() {
    let log = "10.0.0.1 - - [30/Nov/2029:03:05:00 +0000] \"GET /a HTTP/1.1\" 200 12 \"-\" \"x/1.123\" 0.250\n\
        10.0.0.1 - - [30/Nov/2029:03:05:01 +0000] \"GET /b HTTP/1.1\" 504 12 \"-\" \"x\" 60.001\n\
        10.0.0.1 - - [30/Nov/2029:03:05:01 +0000] \"GET /b HTTP/1.1\" 200 12 rt=0.004 urt=\"0.003\"\n";
    let input = taken(log, Unit::Seconds, None).expect("readable");
    assert_eq!((input.samples.len(), input.failed), (2, 1));
    assert_eq!((input.samples[0].nanos, input.samples[1].nanos), (250_000_000, 4_000_000));
    let without = "1.1.1.1 - - [30/Nov/2029:03:05:00 +0000] \"GET /a HTTP/1.1\" 200 12\n";
    assert!(refusal(without).contains("line 1: no $request_time"));
}

proptest! {
    #[test]
    fn nothing_panics(text in "\\PC{0,60}(\\n\\PC{0,60}){0,4}", column in proptest::option::of("\\PC{0,5}")) {
        let _ = taken(&text, Unit::Seconds, column.as_deref());
    }

    #[test]
    fn nothing_panics_near_the_formats(text in "[\\[\\]{}\":,;.0-9a-z\\n+>-]{0,80}") {
        let _ = taken(&text, Unit::Milliseconds, None);
    }
}
