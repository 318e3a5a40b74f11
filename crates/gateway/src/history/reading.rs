//! What the counters say at one moment, and what came since another.

use crate::metrics::histogram::quantile_ms;
use std::fmt;

/// A name in two parts: `queue.depth`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Column {
    pub(crate) group: &'static str,
    pub(crate) name: &'static str,
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group {
            "" => f.write_str(self.name),
            group => write!(f, "{group}.{}", self.name),
        }
    }
}

/// How a value becomes a cell.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Kind {
    /// As it is.
    Gauge(u64),
    /// What came since the row before.
    Counter(u64),
    /// The counts of a histogram's buckets: the cell is this quantile, in milliseconds, of what came
    /// since the row before.
    Quantile(f64, Vec<u64>),
}

impl Kind {
    /// The cell. Where a counter starts anew everything it has came since.
    pub(super) fn since(&self, before: Option<&Kind>) -> u64 {
        match (self, before) {
            (Kind::Gauge(now), _) => *now,
            (Kind::Counter(now), Some(Kind::Counter(before))) if before <= now => now - before,
            (Kind::Counter(now), _) => *now,
            (Kind::Quantile(q, now), Some(Kind::Quantile(_, before)))
                if now.len() == before.len() && now.iter().zip(before).all(|(n, b)| b <= n) =>
            {
                let came: Vec<u64> = now.iter().zip(before).map(|(n, b)| n - b).collect();
                quantile_ms(&came, *q)
            }
            (Kind::Quantile(q, now), _) => quantile_ms(now, *q),
        }
    }
}

/// A value of one column.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Value {
    pub(crate) column: Column,
    pub(crate) kind: Kind,
}

/// What the counters say.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Reading {
    pub(crate) values: Vec<Value>,
    /// By the names of upstreams.
    pub(crate) upstreams: Vec<(String, Vec<Value>)>,
}

/// Values of one group.
pub(crate) fn gauges<'v>(
    group: &'static str,
    values: impl IntoIterator<Item = (&'static str, u64)> + 'v,
) -> impl Iterator<Item = Value> + 'v {
    let values = values.into_iter();
    values.map(move |(name, n)| Value { column: Column { group, name }, kind: Kind::Gauge(n) })
}

/// Values of one group.
pub(crate) fn counters<'v>(
    group: &'static str,
    values: impl IntoIterator<Item = (&'static str, u64)> + 'v,
) -> impl Iterator<Item = Value> + 'v {
    let values = values.into_iter();
    values.map(move |(name, n)| Value { column: Column { group, name }, kind: Kind::Counter(n) })
}
