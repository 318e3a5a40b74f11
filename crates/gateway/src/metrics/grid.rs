//! Requests, counted by method, class and status.
//!
//! Invariant: a step is one atomic addition at a computed place: no lock, no hash. A row is made
//! when its method and class first meet, and there can be 220 of them, whatever clients send.

use hedgerow_policy::Class;
use http::Method;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Methods that have a label of their own; every other is [`OTHER`].
const METHODS: [Method; 9] = [
    Method::GET,
    Method::POST,
    Method::PUT,
    Method::DELETE,
    Method::HEAD,
    Method::PATCH,
    Method::OPTIONS,
    Method::CONNECT,
    Method::TRACE,
];
/// The label of a method a client made up: labels must not be chosen by clients.
const OTHER: &str = "OTHER";
const FIRST: u16 = 100;
/// Statuses 100 to 599, and one place for all others.
const STATUSES: usize = 501;

type Row = Box<[AtomicU64]>;

/// The counters.
pub(crate) struct Grid {
    rows: Vec<OnceLock<Row>>,
    classes: usize,
}

/// One series.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Count {
    pub(crate) method: &'static str,
    /// `None` where the request did not fail.
    pub(crate) class: Option<Class>,
    /// `None` for a status outside 100 to 599.
    pub(crate) status: Option<u16>,
    pub(crate) value: u64,
}

impl Grid {
    pub(crate) fn new() -> Grid {
        let classes = Class::ALL.len() + 1;
        let rows = (0..classes * (METHODS.len() + 1)).map(|_| OnceLock::new()).collect();
        Grid { rows, classes }
    }

    /// One more.
    pub(crate) fn step(&self, method: &Method, class: Option<Class>, status: u16) {
        let method = METHODS.iter().position(|known| known == method).unwrap_or(METHODS.len());
        let class = class.map_or(0, |class| class as usize + 1);
        let row = self.rows.get(method * self.classes + class);
        let row =
            row.map(|row| row.get_or_init(|| (0..STATUSES).map(|_| AtomicU64::new(0)).collect()));
        let place = usize::from(status.wrapping_sub(FIRST)).min(STATUSES - 1);
        if let Some(counter) = row.and_then(|row| row.get(place)) {
            counter.fetch_add(1, Relaxed);
        }
    }

    /// Shows every series that is not zero, in a fixed order.
    pub(crate) fn each(&self, mut show: impl FnMut(Count)) {
        for (at, row) in self.rows.iter().enumerate() {
            let Some(row) = row.get() else { continue };
            let (method, class) = (at / self.classes, at % self.classes);
            let method = METHODS.get(method).map_or(OTHER, name);
            let class = class.checked_sub(1).and_then(|class| Class::ALL.get(class)).copied();
            for (status, counter) in (FIRST..).zip(row.iter()) {
                let value = counter.load(Relaxed);
                if value > 0 {
                    let status = Some(status).filter(|status| *status < 600);
                    show(Count { method, class, status, value });
                }
            }
        }
    }
}

/// The name of a known method, for as long as the program runs.
fn name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        Method::PATCH => "PATCH",
        Method::OPTIONS => "OPTIONS",
        Method::CONNECT => "CONNECT",
        Method::TRACE => "TRACE",
        _ => OTHER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_series_keeps_its_own_count() {
        let grid = Grid::new();
        let brew = Method::from_bytes(b"BREW").expect("a token");
        grid.step(&Method::GET, None, 200);
        grid.step(&Method::GET, None, 200);
        grid.step(&Method::GET, Some(Class::ClientClosed), 499);
        grid.step(&brew, Some(Class::NotFound), 404);
        for odd in [0, 99, 600, u16::MAX] {
            grid.step(&Method::TRACE, None, odd);
        }
        let mut all = Vec::new();
        grid.each(|count| all.push(count));
        let count = |method, class, status, value| Count { method, class, status, value };
        assert_eq!(
            all,
            [
                count("GET", None, Some(200), 2),
                count("GET", Some(Class::ClientClosed), Some(499), 1),
                count("TRACE", None, None, 4),
                count("OTHER", Some(Class::NotFound), Some(404), 1),
            ]
        );
    }

    #[test]
    fn classes_stand_at_their_own_index() {
        for (at, &class) in Class::ALL.iter().enumerate() {
            assert_eq!(class as usize, at);
        }
    }
}
