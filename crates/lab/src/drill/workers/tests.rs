use super::*;
use crate::drill::run;
use crate::snapshot::same;

fn report(name: &str) -> Report {
    let request = Request { name: name.to_owned(), seed: 1, ..Request::default() };
    run(&request, &mut |_, _| ()).expect("the drill can be played")
}

fn of(report: &Report, policy: &str, column: &str) -> u64 {
    let at = report.summary.columns.iter().position(|name| *name == column).expect("a column");
    let row = report.summary.rows.iter().find(|row| row[0] == Cell::Text(policy.to_owned()));
    match &row.expect("a policy")[at] {
        Cell::Count(count) => *count,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_hanging_service_takes_the_workers_with_it_unless_they_are_freed() {
    let report = report("worker-hang");
    same("drill/workers/tests/worker-hang.txt", &report.text());
    let answered = |policy| of(&report, policy, "answered");
    assert!(answered("wait") < answered("timeout-3s"));
    assert!(answered("timeout-3s") < answered("timeout-300ms"));
    assert!(answered("timeout-300ms") < answered("plan"));
    assert_eq!(of(&report, "plan", "kills"), 0);
    assert_eq!(of(&report, "plan", "pool_exhausted") + of(&report, "plan", "queue_full"), 0);
}

#[test]
fn no_queue_makes_workers_faster() {
    let report = report("queue-overload");
    same("drill/workers/tests/queue-overload.txt", &report.text());
    // A queue keeps the workers busy over a gap in the arrivals. A long one keeps callers waiting.
    assert!(of(&report, "no-queue", "answered") < of(&report, "queue-16", "answered"));
    let [small, long] = ["queue-64", "queue-1000"].map(|policy| of(&report, policy, "answered"));
    assert!(small.abs_diff(long) < small / 4, "{small} {long}");
}

#[test]
fn every_request_is_counted_once() {
    for name in ["worker-hang", "queue-overload"] {
        let report = report(name);
        for row in &report.summary.rows {
            let Cell::Text(policy) = &row[0] else { panic!("{row:?}") };
            let failed = ["timeout", "pool_exhausted", "queue_full", "queue_timeout"];
            let failed: u64 = failed.iter().map(|column| of(&report, policy, column)).sum();
            let counted = of(&report, policy, "answered") + failed;
            // What is under way at the end belongs to no second.
            let left = of(&report, policy, "requests").abs_diff(counted);
            assert!(left <= 10, "{name} {policy}: {left} are under way");
        }
    }
}
