//! The last quarter of an hour, second by second, for the dashboard.
//!
//! Invariant: memory is fixed. A row has one place for each column, the rows are made once, and the
//! newest takes the place of the oldest; of upstreams the first eight have columns of their own. A
//! column of a counter holds what came since the row before, so that rows can be added up; a counter
//! that starts anew (after a reload) never makes a row negative. Time is an argument.

mod happenings;
pub(crate) mod reading;
#[cfg(test)]
mod tests;

pub(crate) use happenings::{Happening, Happenings, Move};
pub(crate) use reading::{Column, Kind, Reading, Value};

use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How far apart rows are.
pub(crate) const STEP: Duration = Duration::from_secs(1);
/// Rows kept: a quarter of an hour.
pub(crate) const ROWS: usize = 900;
/// Columns of the gateway.
const COLUMNS: usize = 96;
/// Upstreams with columns of their own, and how many each has.
const UPSTREAMS: usize = 8;
const OF_UPSTREAM: usize = 14;
const WIDTH: usize = COLUMNS + UPSTREAMS * OF_UPSTREAM;

/// The rows, and what happened meanwhile.
pub(crate) struct History {
    rows: Mutex<Rows>,
    happenings: Mutex<Happenings>,
}

struct Rows {
    /// `ROWS` rows of `WIDTH` places; row `n` is at `n % ROWS`.
    cells: Box<[u32]>,
    times: Box<[u64]>,
    /// The number of the next row.
    next: u64,
    columns: Vec<Column>,
    upstreams: Vec<(String, Vec<Column>)>,
    before: Reading,
}

/// Some rows, as columns. Columns of nothing but zeros are left out.
#[derive(Serialize, PartialEq, Eq, Debug)]
pub(crate) struct Shown {
    /// The number of the first row.
    pub(crate) first: u64,
    /// Its time, in milliseconds since 1970.
    pub(crate) t0: u64,
    /// The time of each row, in milliseconds after that.
    pub(crate) t: Vec<u64>,
    pub(crate) columns: BTreeMap<String, Vec<u32>>,
    pub(crate) upstreams: BTreeMap<String, BTreeMap<String, Vec<u32>>>,
}

impl History {
    pub(crate) fn new() -> History {
        let rows = Rows {
            cells: vec![0; ROWS * WIDTH].into_boxed_slice(),
            times: vec![0; ROWS].into_boxed_slice(),
            next: 0,
            columns: Vec::new(),
            upstreams: Vec::new(),
            before: Reading::default(),
        };
        History { rows: Mutex::new(rows), happenings: Mutex::new(Happenings::default()) }
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What happened. The lock is held for a push or a copy.
    pub(crate) fn happenings(&self) -> MutexGuard<'_, Happenings> {
        self.happenings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the row of `at`, in milliseconds since 1970.
    pub(crate) fn add(&self, at: u64, reading: Reading) {
        self.rows().add(at, reading);
    }

    /// Rows held.
    pub(crate) fn held(&self) -> usize {
        self.rows().held()
    }

    /// The rows after the one numbered `after`, or all there are.
    pub(crate) fn after(&self, after: Option<u64>) -> Shown {
        let rows = self.rows();
        let oldest = rows.next - rows.held() as u64;
        rows.show(after.map_or(oldest, |n| n.saturating_add(1).clamp(oldest, rows.next)))
    }

    /// The newest row alone; nothing before the first.
    pub(crate) fn newest(&self) -> Shown {
        let rows = self.rows();
        rows.show(rows.next.saturating_sub(1))
    }
}

impl Rows {
    fn held(&self) -> usize {
        usize::try_from(self.next).unwrap_or(ROWS).min(ROWS)
    }

    fn place(n: u64) -> usize {
        usize::try_from(n % ROWS as u64).unwrap_or(0)
    }

    fn add(&mut self, at: u64, reading: Reading) {
        debug_assert!(reading.values.len() <= COLUMNS, "a row is too short");
        let place = Rows::place(self.next);
        self.times[place] = at;
        let row = &mut self.cells[place * WIDTH..][..WIDTH];
        row.fill(0);
        let (own, others) = row.split_at_mut(COLUMNS);
        if self.next == 0 {
            // Nothing came since a row that is not there.
            self.before = reading.clone();
        }
        fill(own, &mut self.columns, &reading.values, &self.before.values);
        for (name, values) in &reading.upstreams {
            let known = self.upstreams.iter().position(|(known, _)| known == name);
            let index = match known {
                Some(index) => index,
                None if self.upstreams.len() < UPSTREAMS => {
                    self.upstreams.push((name.clone(), Vec::new()));
                    self.upstreams.len() - 1
                }
                None => continue,
            };
            let before = self.before.upstreams.iter().find(|(known, _)| known == name);
            let cells = &mut others[index * OF_UPSTREAM..][..OF_UPSTREAM];
            let before = before.map_or(&[][..], |(_, values)| values);
            fill(cells, &mut self.upstreams[index].1, values, before);
        }
        self.before = reading;
        self.next += 1;
    }

    fn show(&self, from: u64) -> Shown {
        let places: Vec<usize> = (from..self.next).map(Rows::place).collect();
        let t0 = places.first().map_or(0, |&place| self.times[place]);
        let column = |at: usize| -> Option<Vec<u32>> {
            let cells: Vec<u32> = places.iter().map(|p| self.cells[p * WIDTH + at]).collect();
            cells.iter().any(|&cell| cell > 0).then_some(cells)
        };
        let all = |columns: &[Column], offset: usize| -> BTreeMap<String, Vec<u32>> {
            let shown = columns.iter().take(WIDTH).enumerate();
            shown.filter_map(|(at, name)| Some((name.to_string(), column(offset + at)?))).collect()
        };
        let upstreams = self.upstreams.iter().enumerate().map(|(index, (name, columns))| {
            (name.clone(), all(columns, COLUMNS + index * OF_UPSTREAM))
        });
        Shown {
            first: from,
            t0,
            t: places.iter().map(|&place| self.times[place].saturating_sub(t0)).collect(),
            columns: all(&self.columns, 0),
            upstreams: upstreams.collect(),
        }
    }
}

/// Writes one row's part. A value whose column has no place is left out.
fn fill(cells: &mut [u32], columns: &mut Vec<Column>, values: &[Value], before: &[Value]) {
    for value in values {
        let at = match columns.iter().position(|column| *column == value.column) {
            Some(at) => at,
            None if columns.len() < cells.len() => {
                columns.push(value.column);
                columns.len() - 1
            }
            None => continue,
        };
        let old = before.iter().find(|old| old.column == value.column).map(|old| &old.kind);
        if let Some(cell) = cells.get_mut(at) {
            *cell = u32::try_from(value.kind.since(old)).unwrap_or(u32::MAX);
        }
    }
}
