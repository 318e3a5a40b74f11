use super::*;
use proptest::prelude::*;

const A: Column = Column { group: "g", name: "a" };
const B: Column = Column { group: "", name: "b" };

fn reading(values: &[(Column, Kind)]) -> Reading {
    let values = values.iter().map(|(column, kind)| Value { column: *column, kind: kind.clone() });
    Reading { values: values.collect(), upstreams: Vec::new() }
}

fn of_upstreams(names: &[&str], calls: u64) -> Reading {
    let values = |n| vec![Value { column: B, kind: Kind::Counter(n) }];
    let upstreams = names.iter().map(|name| ((*name).to_owned(), values(calls)));
    Reading { values: Vec::new(), upstreams: upstreams.collect() }
}

#[test]
fn a_counter_shows_what_came_and_a_gauge_what_is() {
    let history = History::new();
    assert_eq!((history.held(), history.newest().t.len()), (0, 0));
    for (second, (count, depth)) in [(5, 1), (7, 4), (7, 0), (2, 3)].into_iter().enumerate() {
        let values = [(A, Kind::Counter(count)), (B, Kind::Gauge(depth))];
        history.add(10_000 + 1_000 * second as u64, reading(&values));
    }
    let shown = history.after(None);
    assert_eq!((shown.first, shown.t0), (0, 10_000));
    assert_eq!(shown.t, [0, 1_000, 2_000, 3_000]);
    // What a counter had before the first row came at no known time; the last one started anew.
    assert_eq!(shown.columns["g.a"], [0, 2, 0, 2]);
    assert_eq!(shown.columns["b"], [1, 4, 0, 3]);
    let later = history.after(Some(1));
    assert_eq!((later.first, &later.columns["b"][..]), (2, &[0, 3][..]));
    assert!(history.after(Some(3)).t.is_empty() && history.after(Some(u64::MAX)).t.is_empty());
    assert_eq!(history.newest().columns["g.a"], [2]);
}

#[test]
fn columns_without_anything_are_left_out() {
    let history = History::new();
    for second in 0..3 {
        history.add(second, reading(&[(A, Kind::Counter(9)), (B, Kind::Gauge(second))]));
    }
    assert_eq!(history.after(None).columns.keys().collect::<Vec<_>>(), ["b"]);
}

#[test]
fn the_newest_row_takes_the_place_of_the_oldest() {
    let history = History::new();
    let rows = 2 * ROWS as u64 + 7;
    for second in 0..rows {
        history.add(second * 1_000, reading(&[(B, Kind::Gauge(second))]));
    }
    let shown = history.after(None);
    assert_eq!((history.held(), shown.t.len(), shown.first), (ROWS, ROWS, rows - ROWS as u64));
    let expected: Vec<u32> = (0..rows).skip(rows as usize - ROWS).map(|n| n as u32).collect();
    assert_eq!(shown.columns["b"], expected);
    // A reader that was away for longer than the history gets what there is.
    assert_eq!(history.after(Some(0)), shown);
}

#[test]
fn a_quantile_is_of_what_came_since() {
    let history = History::new();
    let mut counts = vec![0; 18];
    let mut add = |bucket: usize, n: u64| {
        counts[bucket] += n;
        history.add(0, reading(&[(A, Kind::Quantile(0.5, counts.clone()))]));
        history.newest().columns.get("g.a").map(|cells| cells[0])
    };
    assert_eq!(add(3, 10), None, "before the first row nothing is known");
    // From 500 ms to 1 s: the middle of them.
    assert_eq!(add(9, 100), Some(750));
    assert_eq!(add(9, 0), None, "a second without any");
    assert_eq!(add(17, 1), Some(300_000), "past the last bound, the bound");
}

#[test]
fn the_first_upstreams_have_columns_and_no_more() {
    let history = History::new();
    let names: Vec<String> = (0..20).map(|n| format!("u{n:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    history.add(0, of_upstreams(&names, 1));
    history.add(1, of_upstreams(&names, 4));
    let shown = history.after(None);
    assert_eq!(shown.upstreams.keys().collect::<Vec<_>>(), names[..UPSTREAMS]);
    assert!(shown.upstreams.values().all(|columns| columns["b"] == [0, 3]));
    // One that comes later begins with what it has.
    let history = History::new();
    history.add(0, of_upstreams(&["a"], 1));
    history.add(1, of_upstreams(&["b", "a"], 2));
    let shown = history.after(None);
    assert_eq!(
        (&shown.upstreams["a"]["b"][..], &shown.upstreams["b"]["b"][..]),
        (&[0, 1][..], &[0, 2][..])
    );
}

#[test]
fn happenings_are_bounded_and_moves_are_not_pushed_out() {
    let mut happenings = Happenings::default();
    let moved = |at| Move {
        n: 0,
        at,
        name: "cache".to_owned(),
        from: "closed",
        to: "open",
        cause: "stall",
        episode: 1,
        calls: 20,
        failures: 20,
    };
    happenings.moved(moved(5));
    for at in 0..10_000 {
        happenings.event(at, "worker.killed", Some(1), &"ä".repeat(5_000));
    }
    let (events, moves) = happenings.since(0, usize::MAX);
    assert_eq!((events.len(), moves.len()), (256, 1));
    assert_eq!(events[0].detail.chars().count(), 160);
    assert!(events.is_sorted_by(|a, b| a.n < b.n));
    assert_eq!(happenings.since(9_999, 50).0.len(), 1);
    assert_eq!(happenings.since(0, 2).0[0].at, 9_998);
    assert!(happenings.since(6, 9).1.is_empty());
}

proptest! {
    #[test]
    fn rows_add_up_to_the_counter(steps in proptest::collection::vec(0_u64..1_000, 1..200)) {
        let history = History::new();
        let mut count = 17;
        history.add(0, reading(&[(A, Kind::Counter(count))]));
        for step in &steps {
            count += step;
            history.add(0, reading(&[(A, Kind::Counter(count))]));
        }
        let shown = history.after(None);
        let sum: u64 = shown.columns.get("g.a").into_iter().flatten().map(|&n| u64::from(n)).sum();
        prop_assert_eq!(sum, steps.iter().sum::<u64>());
    }
}
