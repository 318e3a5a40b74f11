//! Every metric of the page, once.
//!
//! Invariant: the page writes nothing that is not named here, and each under the type, the unit and
//! the labels that stand here; the reference (`docs/metrics.md`) is made from the same lines. A
//! label's values are chosen by this program or by its configuration, never by a client.

use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

/// What all names begin with.
pub(crate) const PREFIX: &str = "hedgerow";

/// What a metric counts in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Of {
    /// Things.
    Count,
    Bytes,
    Seconds,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// One metric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Metric {
    /// Without prefix, unit and suffix.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) of: Of,
    pub(crate) labels: &'static [&'static str],
    pub(crate) help: &'static str,
}

/// Something that is bounded: what shows how full it is.
pub(crate) struct Bound {
    pub(crate) what: &'static str,
    pub(crate) held: &'static Metric,
    pub(crate) limit: &'static Metric,
    /// Counts what did not fit.
    pub(crate) beyond: Option<&'static Metric>,
    /// The key of the configuration that sets the limit; what stands in its place where none does.
    pub(crate) set_by: &'static str,
}

/// Metrics that are shown together.
pub(crate) struct Part {
    pub(crate) title: &'static str,
    pub(crate) about: &'static str,
    pub(crate) metrics: &'static [&'static Metric],
    pub(crate) bounds: &'static [Bound],
}

/// All of them, in the order of the page.
pub(crate) const PARTS: [&Part; 5] =
    [&front::PART, &workers::PART, &beside::PART, &below::PART, &process::PART];

impl Of {
    pub(crate) fn unit(self) -> Option<&'static Unit> {
        match self {
            Of::Count => None,
            Of::Bytes => Some(&Unit::Bytes),
            Of::Seconds => Some(&Unit::Seconds),
        }
    }
}

impl Kind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }

    pub(crate) const fn of_the_library(self) -> MetricType {
        match self {
            Kind::Counter => MetricType::Counter,
            Kind::Gauge => MetricType::Gauge,
            Kind::Histogram => MetricType::Histogram,
        }
    }
}

impl Metric {
    /// As Prometheus knows it.
    pub(crate) fn full_name(&self) -> String {
        let unit = self.of.unit().map_or_else(String::new, |unit| format!("_{}", unit.as_str()));
        let suffix = if self.kind == Kind::Counter { "_total" } else { "" };
        format!("{PREFIX}_{}{unit}{suffix}", self.name)
    }
}

/// Constants, and `METRICS` with all of them in their order:
/// `NAME: Kind Of "name" ["label"…] "help";`
macro_rules! metrics {
    ($($constant:ident: $kind:ident $of:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(pub(crate) const $constant: $crate::metrics::catalogue::Metric =
            $crate::metrics::catalogue::Metric {
                name: $name,
                kind: $crate::metrics::catalogue::Kind::$kind,
                of: $crate::metrics::catalogue::Of::$of,
                labels: &[$($label),*],
                help: $help,
            };)*
        const METRICS: &[&$crate::metrics::catalogue::Metric] = &[$(&$constant),*];
    };
}

pub(crate) mod below;
pub(crate) mod beside;
pub(crate) mod front;
pub(crate) mod process;
pub(crate) mod workers;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn all() -> impl Iterator<Item = &'static Metric> {
        PARTS.iter().flat_map(|part| part.metrics.iter().copied())
    }

    #[test]
    fn a_name_stands_once_and_says_no_unit_twice() {
        let names: BTreeSet<String> = all().map(Metric::full_name).collect();
        assert_eq!(names.len(), all().count());
        for metric in all() {
            let words: Vec<&str> = metric.name.split('_').collect();
            for word in ["total", "bytes", "seconds", "ms", "millis", "hedgerow"] {
                assert!(!words.contains(&word), "{}", metric.name);
            }
            assert!(!metric.help.ends_with('.') && metric.help.len() > 10, "{}", metric.name);
        }
    }

    #[test]
    fn how_full_something_is_can_be_seen_from_two_gauges_of_the_page() {
        let known = |metric: &Metric| all().any(|other| other == metric);
        for bound in PARTS.iter().flat_map(|part| part.bounds) {
            assert!(known(bound.held) && known(bound.limit), "{}", bound.what);
            assert_eq!(bound.held.of, bound.limit.of, "{}", bound.what);
            assert!(bound.held.kind == Kind::Gauge && bound.limit.kind == Kind::Gauge);
            if let Some(beyond) = bound.beyond {
                assert!(known(beyond) && beyond.kind == Kind::Counter, "{}", bound.what);
            }
        }
    }
}
