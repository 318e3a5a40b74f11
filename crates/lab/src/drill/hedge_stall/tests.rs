use super::*;
use crate::drill::run;
use crate::snapshot::same;

fn report(keys: Option<u64>) -> Report {
    let mut request = Request { name: "hedge-stall".to_owned(), seed: 1, ..Request::default() };
    request.changes.keys = keys;
    run(&request, &mut |_, _| ()).expect("the drill can be played")
}

fn rows(report: &Report) -> Vec<(String, String, u64, f64, Option<f64>)> {
    let row = |row: &Vec<Cell>| match (&row[0], &row[1], &row[2], &row[10], &row[11]) {
        (
            Cell::Text(policy),
            Cell::Text(weather),
            Cell::Count(size),
            Cell::Share(stalled),
            closed,
        ) => {
            let closed = match closed {
                Cell::Share(closed) => Some(*closed),
                _ => None,
            };
            (policy.clone(), weather.clone(), *size, *stalled, closed)
        }
        other => panic!("{other:?}"),
    };
    report.summary.rows.iter().map(row).collect()
}

/// Within four standard deviations of a share of that many builds.
#[test]
fn the_closed_forms_hold() {
    let report = report(None);
    same("drill/hedge_stall/tests/hedge-stall.txt", &report.text());
    let mut checked = 0;
    for (policy, weather, size, stalled, closed) in rows(&report) {
        let Some(closed) = closed else { continue };
        let builds = (CALLS as u64 / size) as f64;
        let deviation = (closed * (1.0 - closed) / builds).sqrt();
        assert!(
            (stalled - closed).abs() <= 4.0 * deviation,
            "{policy} {weather} {size}: {stalled} and not {closed}"
        );
        checked += 1;
    }
    assert_eq!(checked, 10);
}

#[test]
fn the_budget_bounds_what_a_brown_out_costs() {
    let report = report(Some(5));
    let attempts = |policy: &str| {
        let name = Cell::Text(policy.to_owned());
        let brown_out = Cell::Text("brown-out".to_owned());
        let row = report.summary.rows.iter().find(|row| row[0] == name && row[1] == brown_out);
        match row.expect("a row")[8] {
            Cell::Count(count) => count as f64 / CALLS as f64,
            _ => panic!("{row:?}"),
        }
    };
    assert!((1.99..=2.0).contains(&attempts("hedge+unlimited")));
    // A tenth of the calls in the window, and three a window: of 200 s (100 calls) after 100 s of
    // silence, of 60 s (30 calls) after 30 s.
    assert!((1.05..=1.131).contains(&attempts("hedge")), "{}", attempts("hedge"));
    assert!((1.05..=1.201).contains(&attempts("idle")), "{}", attempts("idle"));
    assert!((attempts("wait") - 1.0).abs() < 1e-9);
}
