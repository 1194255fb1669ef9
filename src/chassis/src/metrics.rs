//! Counters and gauges, printed in the Prometheus text format.
//!
//! There is no registry: a component holds its metrics as fields and prints them itself, so that every name and label set is in one place.
//! Labels come from closed sets; that is the component's duty.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

/// Content type of a [`Page`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What can print its metrics.
pub trait Expose: Send + Sync {
    /// Adds this component's families to the page.
    fn expose(&self, page: &mut Page);
}

/// How a family's value moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, until the process restarts. Its name ends in `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
}

/// A page in the making: families in order, each with its samples.
///
/// Source: Prometheus exposition format, text version 0.0.4.
#[derive(Debug, Default)]
pub struct Page {
    text: String,
}

impl Page {
    /// Begins a family. Its samples follow with [`Self::sample`].
    pub fn family(&mut self, name: &str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        self.push(&[
            "# HELP ",
            name,
            " ",
            &escape(help, false),
            "\n# TYPE ",
            name,
            " ",
            kind,
            "\n",
        ]);
    }

    /// Adds one sample of the family `name`.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.push(&[name]);
        for (position, (label, text)) in labels.iter().enumerate() {
            let open = if position == 0 { "{" } else { "," };
            self.push(&[open, label, "=\"", &escape(text, true), "\""]);
        }
        if !labels.is_empty() {
            self.push(&["}"]);
        }
        // Writing to a String cannot fail.
        if writeln!(self.text, " {value}").is_err() {
            self.push(&["\n"]);
        }
    }

    /// A family of one sample without labels.
    pub fn single(&mut self, name: &str, kind: Kind, help: &str, value: f64) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    /// The finished text.
    pub fn into_text(self) -> String {
        self.text
    }

    fn push(&mut self, parts: &[&str]) {
        for part in parts {
            self.text.push_str(part);
        }
    }
}

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds one.
    pub fn increment(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// The count, as samples take it.
    #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53 events")]
    pub fn value(&self) -> f64 {
        self.0.load(Ordering::Relaxed) as f64
    }
}

/// A number that goes up and down.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// Sets the value.
    pub fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }

    /// The value.
    pub fn value(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }
}

/// Escapes as the format asks: backslash and line feed everywhere, double quotes in label values.
fn escape(text: &str, label: bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\\' => escaped.push_str("\\\\"),
            '\n' => escaped.push_str("\\n"),
            '"' if label => escaped.push_str("\\\""),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_reads_as_prometheus_expects() {
        let reboots = Counter::default();
        reboots.increment();
        let drift = Gauge::default();
        drift.set(1.5);

        let mut page = Page::default();
        page.single(
            "mcd_reboots_failed_total",
            Kind::Counter,
            "Reboots that did not start.",
            reboots.value(),
        );
        page.family("mcd_state", Kind::Gauge, "Since when.");
        page.sample(
            "mcd_state",
            &[("state", "Degraded"), ("reason", "a \"b\" \\ c\nd")],
            1.7e9,
        );
        page.single(
            "mcd_config_drift",
            Kind::Gauge,
            "A \\ and a\nline.",
            drift.value(),
        );
        assert_eq!(
            page.into_text(),
            "# HELP mcd_reboots_failed_total Reboots that did not start.\n\
             # TYPE mcd_reboots_failed_total counter\n\
             mcd_reboots_failed_total 1\n\
             # HELP mcd_state Since when.\n\
             # TYPE mcd_state gauge\n\
             mcd_state{state=\"Degraded\",reason=\"a \\\"b\\\" \\\\ c\\nd\"} 1700000000\n\
             # HELP mcd_config_drift A \\\\ and a\\nline.\n\
             # TYPE mcd_config_drift gauge\n\
             mcd_config_drift 1.5\n"
        );
    }
}
