//! The suite held against the scripted worker, well-behaved and not.
//!
//! The worker is this test program started anew: [`actor`] is ignored in an ordinary run.

use std::collections::BTreeSet;

use super::*;
use requirement::Unmet;

/// What the suite starts: not a test, but the worker.
#[test]
#[ignore = "this is the worker that the other tests start"]
fn actor() {
    let flags = std::env::var("HEDGEROW_TEST_ACTOR").unwrap_or_default();
    let _ = hedgerow_stage::run_worker(flags.split_whitespace().map(str::to_owned));
}

fn scripted(flags: &str) -> Vec<String> {
    let exe = std::env::current_exe().unwrap().to_string_lossy().into_owned();
    let script = format!(
        "HEDGEROW_TEST_ACTOR=\"--socket $1 {flags}\" \
         exec \"$0\" conform::tests::actor --exact --ignored --nocapture"
    );
    ["/bin/sh", "-c", &script, &exe, "{socket}"].map(str::to_owned).to_vec()
}

fn hold(words: &[String]) -> Result<Vec<Row>, String> {
    suite(words, PATIENCE, |_| ())
}

fn table(rows: &[Row]) -> String {
    rows.iter().map(report::row).chain([report::count(rows)]).collect()
}

fn failed(rows: &[Row]) -> BTreeSet<&'static str> {
    let failed = rows.iter().filter(|row| matches!(row.verdict, Err(Unmet::Failed(_))));
    failed.map(|row| row.id).collect()
}

#[test]
fn ids_are_unique() {
    let ids: BTreeSet<_> = requirements().map(|requirement| requirement.id).collect();
    assert_eq!(ids.len(), requirements().count());
}

#[test]
fn the_page_lists_every_requirement() {
    let page = include_str!("../../../../docs/conformance.md");
    let listed: Vec<&str> =
        page.lines().filter(|line| line.starts_with("| W-") || line.starts_with("| A-")).collect();
    let expected: Vec<String> =
        requirements().map(|r| format!("| {} | {} |", r.id, r.sentence)).collect();
    assert_eq!(listed, expected);
}

#[test]
fn the_scripted_worker_conforms() {
    let rows = hold(&scripted("")).unwrap();
    let expected = "\
pass  W-READY-1     When it says that it is ready, its socket accepts.
pass  W-READY-2     The readiness line is a JSON object with a boolean \"ready\".
pass  W-FRAME-1     A request frame is answered with frames that parse, and a valid status.
pass  W-FRAME-2     The answer echoes the id of the request.
pass  W-FRAME-3     A frame that arrives byte by byte is read like any other.
pass  W-FRAME-4     Members that it does not know are ignored.
pass  W-FRAME-5     Half a frame and a close do not end the worker.
pass  W-FRAME-6     A length over 16 MiB closes that connection, and nothing else.
pass  W-FRAME-7     A length of 0 closes that connection, and nothing else.
pass  W-FRAME-8     A frame that is not JSON closes that connection, and nothing else.
pass  W-BODY-1      A request with an empty body is answered.
pass  W-BODY-2      A body that travels as base64 inside the frame is taken.
pass  W-BODY-3      A text body of 1 MiB inside the frame is taken.
pass  W-BODY-4      With raw_body, a body that follows its frame is read to its end.
pass  W-KEEP-1      With keep_alive it reads a second request on the connection.
skip  W-KEEP-2      Without keep_alive it closes the connection after the answer. (it announces keep_alive)
pass  W-KEEP-3      A new connection is served while a kept one idles.
pass  W-LIFE-1      A gateway that closes before the answer does not end the worker.
pass  W-LIFE-2      A gateway that closes inside a raw body does not end the worker.
pass  A-ECHO-1      A text body reaches the application, and comes back, unchanged.
pass  A-ECHO-2      A body of every byte value comes back unchanged.
pass  A-SHA1-1      The application sees the bytes that were sent, inside the frame or after it.
pass  A-ENVELOPE-1  The envelope reaches the application complete, as it was sent.
pass  A-COOKIES-1   Two cookies are two, the comma of a date notwithstanding.
pass  A-BINARY-1    A response of every byte value arrives unchanged.
pass  A-STREAM-1    A text stream is its start, its pieces in order, and its end.
pass  A-STREAM-2    An event stream has three events with id, event and data.
pass  A-ERROR-1     An uncaught error is a worker_runtime_error, its message in one line.
pass  A-ERROR-2     What is no response is an app_contract_error.
pass  A-ERROR-3     An error inside a stream is an error frame after what was sent.
pass  A-NOISE-1     What the application prints does not reach the answer.
pass  W-STEP-1      A stream in steps that it does not take is refused, or answered at once.
pass  A-STEP-1      A stream in steps is opened, asked for more with its own state, and done.
pass  A-STEP-2      A stream in steps that is closed early is answered.
pass  W-STOP-1      SIGTERM ends it within 2 s, an idle connection or not.
pass  W-STOP-2      A new process takes over the socket that an old one left behind.

35 passed, 0 failed, 1 skipped
";
    assert_eq!(table(&rows), expected);
}

#[test]
fn an_older_worker_conforms_as_well() {
    let rows = hold(&scripted("--no-capabilities --boot silent")).unwrap();
    assert_eq!(failed(&rows), BTreeSet::new());
    let skipped = rows.iter().filter(|row| matches!(row.verdict, Err(Unmet::Skipped(_))));
    let skipped: Vec<_> = skipped.map(|row| row.id).collect();
    assert_eq!(skipped, ["W-READY-2", "W-BODY-4", "W-KEEP-1", "W-KEEP-3", "W-LIFE-2"]);
}

#[test]
fn an_application_without_the_routes_is_held_to_the_rest() {
    let rows = hold(&scripted("--mode /hello")).unwrap();
    assert_eq!(failed(&rows), BTreeSet::new());
    let skipped = rows.iter().filter(|row| matches!(row.verdict, Err(Unmet::Skipped(_)))).count();
    assert_eq!(skipped, 15);
}

#[test]
fn a_worker_that_answers_nonsense_fails_where_it_does() {
    let rows = hold(&scripted("--mode /fault/wrongid")).unwrap();
    assert!(failed(&rows).is_superset(&["W-FRAME-1", "W-KEEP-1", "W-LIFE-1"].into()));
    assert!(!failed(&rows).contains("W-READY-1"));
    let text = table(&rows);
    assert!(text.contains("seen: the answer to another request (wrong id)"), "{text}");
}

#[test]
fn a_worker_that_dies_of_each_request_is_started_anew() {
    let rows = hold(&scripted("--mode /fault/exit")).unwrap();
    assert!(failed(&rows).contains("W-FRAME-1") && failed(&rows).contains("W-BODY-1"));
}

#[test]
fn a_worker_that_never_answers_costs_a_bounded_wait() {
    let patience = Duration::from_millis(50);
    let rows = suite(&scripted("--mode /hang"), patience, |_| ()).unwrap();
    assert!(table(&rows).contains("seen: no answer within 50ms"), "{}", table(&rows));
    let passed = rows.iter().filter(|row| row.verdict.is_ok()).map(|row| row.id);
    assert_eq!(passed.collect::<Vec<_>>(), ["W-READY-1", "W-READY-2"]);
}

#[test]
fn what_cannot_start_is_no_subject() {
    let reason = |words: &[String]| hold(words).err().unwrap();
    assert!(reason(&[]).contains("no worker command"));
    assert_eq!(reason(&["no-such-program".to_owned()]), "no-such-program: no such program");
    assert!(reason(&scripted("--boot fail")).contains("told to fail to boot"));
    assert!(reason(&scripted("--boot exit")).contains("ended while it booted"));
}
