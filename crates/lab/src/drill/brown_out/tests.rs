use super::*;
use crate::drill::run;
use crate::snapshot::same;

#[test]
fn the_budget_keeps_a_brown_out_from_becoming_a_collapse() {
    let request = Request { name: "brown-out".to_owned(), seed: 1, ..Request::default() };
    let report = run(&request, &mut |_, _| ()).expect("the drill can be played");
    same("drill/brown_out/tests/brown-out.txt", &report.text());
    let of = |policy: &str, column: usize| {
        let name = Cell::Text(policy.to_owned());
        match report.summary.rows.iter().find(|row| row[0] == name).expect("a row")[column] {
            Cell::Count(count) => count as f64,
            Cell::Number(number) => number,
            _ => panic!("{policy} {column}"),
        }
    };
    let (failed, load) = (3, 5);
    for (policy, without) in [
        ("hedge", "hedge+unlimited"),
        ("quantile", "hedge+unlimited"),
        ("retry", "retry+unlimited"),
    ] {
        assert!(of(policy, load) <= 1.11, "{policy}");
        assert!(of(policy, failed) * 4.0 < of(without, failed), "{policy}");
    }
    assert!(of("hedge+unlimited", load) > 1.2);
}

#[test]
fn every_call_is_counted_once() {
    let request = Request { name: "brown-out".to_owned(), seed: 3, ..Request::default() };
    let report = run(&request, &mut |_, _| ()).expect("the drill can be played");
    for row in &report.summary.rows {
        let counts: Vec<u64> = row[1..4]
            .iter()
            .map(|cell| match cell {
                Cell::Count(count) => *count,
                other => panic!("{other:?}"),
            })
            .collect();
        // What is under way at the end belongs to no second.
        assert!(counts[0] - counts[1] - counts[2] < 600, "{row:?}");
    }
}
