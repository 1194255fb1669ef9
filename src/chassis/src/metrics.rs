//! The metrics of a process, printed in the Prometheus text format.
//!
//! The library is `prometheus-client`, and only this module names it. Each process has one
//! [`Registry`], made by its start and handed to what serves it; there is no global one.
//!
//! A number that a program counts is a [`Counter`], [`Gauge`] or [`Histogram`] (with labels: in a
//! [`Family`]), registered once. Series that follow objects which come and go are printed from the
//! objects by a [`Collector`], so that a deleted object takes its series with it. Labels come from
//! closed sets; the component is responsible for that.
//!
//! The library prints `OpenMetrics`. Scrapers that do not ask for that expect the text format
//! 0.0.4, which differs in two places: there is no `# EOF`, and a counter is declared by the name
//! of its sample, with `_total`.

use std::fmt;

use prometheus_client::encoding::{EncodeGaugeValue, EncodeLabelSet, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::{MetricType, TypedMetric, counter};
use prometheus_client::registry::Metric;

pub use prometheus_client::collector::Collector;
pub use prometheus_client::encoding::DescriptorEncoder;
pub use prometheus_client::metrics::family::Family;
pub use prometheus_client::metrics::gauge::Gauge;
pub use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

/// Content type of [`Registry::text`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Histograms by label set. Made by `new_with_constructor`, which names the buckets.
pub type HistogramFamily<L> = Family<L, Histogram, fn() -> Histogram>;

/// The metrics of one process.
#[derive(Debug, Default)]
pub struct Registry(prometheus_client::registry::Registry);

impl Registry {
    /// Adds a metric, or a [`Family`] of one. What the caller keeps is a handle to the same values.
    ///
    /// Shape: `name` is the whole name: with its unit, and of a counter with `_total`. `help` is a
    /// sentence with its full stop.
    pub fn register(&mut self, name: &str, help: &'static str, metric: impl Metric) {
        let is_counter = matches!(metric.metric_type(), MetricType::Counter);
        debug_assert_eq!(name.ends_with("_total"), is_counter, "{name}");
        // The library adds the full stop.
        self.0.register(name, help.trim_end_matches('.'), metric);
    }

    /// Adds what prints its families from its own state, at each scrape.
    pub fn collect(&mut self, collector: impl Collector) {
        self.0.register_collector(Box::new(collector));
    }

    /// Prints all metrics.
    ///
    /// Source: Prometheus exposition format, text version 0.0.4.
    ///
    /// # Errors
    /// When a [`Collector`] fails.
    pub fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode_registry(&mut text, &self.0)?;
        Ok(text)
    }
}

/// Prints a family of gauges: for a [`Collector`].
///
/// Shape: labels are an array of name and value, `[("pool", "worker")]`.
///
/// # Errors
/// Of the encoder, which writes to memory.
pub fn encode_gauges<L: EncodeLabelSet, V: EncodeGaugeValue>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &'static str,
    help: &'static str,
    samples: impl IntoIterator<Item = (L, V)>,
) -> fmt::Result {
    encode(encoder, name, help, MetricType::Gauge, samples)
}

/// Prints a family of counters in the order of its samples: for a [`Collector`].
///
/// Shape: `name` ends with `_total`; labels are as those of [`encode_gauges`].
///
/// # Errors
/// Of the encoder, which writes to memory.
pub fn encode_counters<L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &'static str,
    help: &'static str,
    samples: impl IntoIterator<Item = (L, u64)>,
) -> fmt::Result {
    debug_assert!(name.ends_with("_total"), "{name}");
    encode(encoder, name, help, MetricType::Counter, samples)
}

fn encode<L: EncodeLabelSet, V: EncodeGaugeValue>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &'static str,
    help: &'static str,
    r#type: MetricType,
    samples: impl IntoIterator<Item = (L, V)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, r#type)?;
    for (labels, value) in samples {
        // As a counter it would get a second `_total`.
        family.encode_family(&labels)?.encode_gauge(&value)?;
    }
    Ok(())
}

/// A number that only grows, until the process restarts. Its clones count together.
#[derive(Debug, Clone, Default)]
pub struct Counter(counter::Counter);

impl Counter {
    /// Adds one.
    pub fn increment(&self) {
        self.0.inc();
    }

    /// Adds so many.
    pub fn add(&self, number: u64) {
        self.0.inc_by(number);
    }
}

impl EncodeMetric for Counter {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        // As a counter it would get a second `_total`.
        encoder.encode_gauge(&self.0.get())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Counter
    }
}

impl TypedMetric for Counter {
    const TYPE: MetricType = MetricType::Counter;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nodes that come and go.
    #[derive(Debug)]
    struct Nodes(&'static [&'static str]);

    impl Collector for Nodes {
        fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
            let samples = self.0.iter().map(|node| ([("node", *node)], 1_i64));
            encode_gauges(&mut encoder, "node_state", "A node.", samples)?;
            let samples = self.0.iter().map(|node| ([("node", *node)], 2_u64));
            encode_counters(&mut encoder, "boots_total", "Boots.", samples)
        }
    }

    #[test]
    fn the_text_is_of_version_0_0_4() {
        let mut registry = Registry::default();
        let reboots = Counter::default();
        registry.register("reboots_total", "Reboots.", reboots.clone());
        reboots.increment();
        let drift: Gauge<f64, std::sync::atomic::AtomicU64> = Gauge::default();
        registry.register("drift", "How far it is off.", drift.clone());
        drift.set(1.5);
        registry.collect(Nodes(&["a", "say \"b\" \\ c\nd"]));
        assert_eq!(
            registry.text().unwrap(),
            r#"# HELP reboots_total Reboots.
# TYPE reboots_total counter
reboots_total 1
# HELP drift How far it is off.
# TYPE drift gauge
drift 1.5
# HELP node_state A node.
# TYPE node_state gauge
node_state{node="a"} 1
node_state{node="say \"b\" \\ c\nd"} 1
# HELP boots_total Boots.
# TYPE boots_total counter
boots_total{node="a"} 2
boots_total{node="say \"b\" \\ c\nd"} 2
"#
        );
    }

    #[test]
    fn a_family_of_counters_and_one_of_histograms_carry_their_labels() {
        let mut registry = Registry::default();
        let requests: Family<[(&str, &str); 1], Counter> = Family::default();
        let seconds: HistogramFamily<[(&str, &str); 1]> =
            Family::new_with_constructor(|| Histogram::new([0.1, 1.0]));
        registry.register("requests_total", "Requests.", requests.clone());
        registry.register("request_seconds", "How long one took.", seconds.clone());
        let labels = [("verb", "get")];
        requests.get_or_create(&labels).increment();
        for took in [0.05, 0.5, 5.0] {
            seconds.get_or_create(&labels).observe(took);
        }
        assert_eq!(
            registry.text().unwrap(),
            r#"# HELP requests_total Requests.
# TYPE requests_total counter
requests_total{verb="get"} 1
# HELP request_seconds How long one took.
# TYPE request_seconds histogram
request_seconds_sum{verb="get"} 5.55
request_seconds_count{verb="get"} 3
request_seconds_bucket{le="0.1",verb="get"} 1
request_seconds_bucket{le="1.0",verb="get"} 2
request_seconds_bucket{le="+Inf",verb="get"} 3
"#
        );
    }

    #[test]
    #[should_panic(expected = "requests")]
    fn a_counter_is_named_as_one() {
        Registry::default().register("requests", "Requests.", Counter::default());
    }
}
