//! Writes metrics one after the other, each as the catalogue says.

use super::catalogue::{Kind, Metric};
use super::grid::Grid;
use super::histogram::Histogram;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, MetricEncoder, NoLabelSet,
};
use std::fmt::Error;

pub(super) struct Writer<'e>(pub(super) DescriptorEncoder<'e>);

/// A number that a metric can have.
pub(super) trait Number: Copy + EncodeCounterValue + EncodeGaugeValue {}

impl Number for u64 {}
impl Number for f64 {}

impl Writer<'_> {
    /// A metric without labels.
    pub(super) fn one(&mut self, metric: &Metric, value: impl Number) -> Result<(), Error> {
        debug_assert!(metric.labels.is_empty(), "{} has labels", metric.name);
        write(&mut self.begin(metric)?, metric.kind, &value)
    }

    /// A metric without labels, of things that are counted in memory.
    pub(super) fn size(&mut self, metric: &Metric, value: usize) -> Result<(), Error> {
        self.one(metric, value as u64)
    }

    /// A series for each of these values of the metric's labels, in their order.
    pub(super) fn each<L: AsRef<str>, const N: usize>(
        &mut self,
        metric: &Metric,
        series: impl IntoIterator<Item = ([L; N], impl Number)>,
    ) -> Result<(), Error> {
        debug_assert_eq!(metric.labels.len(), N, "{}", metric.name);
        let mut encoder = self.begin(metric)?;
        for (values, value) in series {
            let values = values.iter().map(AsRef::as_ref);
            let labels: Vec<(&str, &str)> = metric.labels.iter().copied().zip(values).collect();
            write(&mut encoder.encode_family(&labels)?, metric.kind, &value)?;
        }
        Ok(())
    }

    /// The same for a metric with one label.
    pub(super) fn by<L: AsRef<str>>(
        &mut self,
        metric: &Metric,
        series: impl IntoIterator<Item = (L, impl Number)>,
    ) -> Result<(), Error> {
        self.each(metric, series.into_iter().map(|(key, value)| ([key], value)))
    }

    /// Requests that have ended, by method, status and class.
    pub(super) fn grid(&mut self, metric: &Metric, grid: &Grid) -> Result<(), Error> {
        let mut counts = Vec::new();
        grid.each(|count| counts.push(count));
        let series = counts.into_iter().map(|count| {
            let status = count.status.map_or_else(|| "other".to_owned(), |s| s.to_string());
            let class = count.class.map_or("none", hedgerow_policy::Class::name);
            ([count.method.to_owned(), status, class.to_owned()], count.value)
        });
        self.each(metric, series)
    }

    pub(super) fn histogram(&mut self, metric: &Metric, value: &Histogram) -> Result<(), Error> {
        let read = value.read();
        let mut encoder = self.begin(metric)?;
        encoder.encode_histogram::<NoLabelSet>(read.sum_seconds, read.count, &read.buckets, None)
    }

    /// A series for each value of the metric's one label.
    pub(super) fn histograms<'v>(
        &mut self,
        metric: &Metric,
        series: impl IntoIterator<Item = (&'v str, &'v Histogram)>,
    ) -> Result<(), Error> {
        let mut encoder = self.begin(metric)?;
        for (key, value) in series {
            let read = value.read();
            let labels: Vec<_> = metric.labels.iter().map(|label| (*label, key)).collect();
            let mut series = encoder.encode_family(&labels)?;
            let (sum, count) = (read.sum_seconds, read.count);
            series.encode_histogram::<NoLabelSet>(sum, count, &read.buckets, None)?;
        }
        Ok(())
    }

    fn begin<'s>(&'s mut self, metric: &'s Metric) -> Result<MetricEncoder<'s>, Error> {
        let kind = metric.kind.of_the_library();
        self.0.encode_descriptor(metric.name, metric.help, metric.of.unit(), kind)
    }
}

fn write(to: &mut MetricEncoder<'_>, kind: Kind, value: &impl Number) -> Result<(), Error> {
    match kind {
        Kind::Counter => to.encode_counter::<NoLabelSet, _, f64>(value, None),
        Kind::Gauge | Kind::Histogram => to.encode_gauge(value),
    }
}
