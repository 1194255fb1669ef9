//! What is counted. Names that begin with `cincinnati_` are those of OpenShift's own service, so
//! that its dashboards and alerts fit.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use chassis::metrics::{
    Collector, Counter, DescriptorEncoder, Family, Histogram, Registry, encode_gauges,
    exponential_buckets,
};
use jiff::Timestamp;

use crate::responses::GraphResponses;

/// Label of a path, of a closed set.
type PathLabel = [(&'static str, &'static str); 1];

/// Labels of an error: status and kind.
type ErrorLabels = [(&'static str, String); 2];

/// All metrics of the service.
#[derive(Debug)]
pub struct ServiceMetrics {
    requests: Family<PathLabel, Counter>,
    errors: Family<ErrorLabels, Counter>,
    seconds: Histogram,
    scrapes: Counter,
    failures: Counter,
    rebuilt: Counter,
    /// Milliseconds of the scrape that ended last.
    scrape_ms: AtomicU64,
    shown: Mutex<Option<ShownGraph>>,
    clock: fn() -> Timestamp,
}

/// Of the graph in service.
#[derive(Clone, Copy, Debug)]
struct ShownGraph {
    found: Timestamp,
    releases: usize,
    in_channels: usize,
    problems: usize,
}

impl ServiceMetrics {
    /// Nothing counted yet.
    pub fn new(clock: fn() -> Timestamp) -> Self {
        Self {
            requests: Family::default(),
            errors: Family::default(),
            // 0.1 ms to 1.6 s.
            seconds: Histogram::new(exponential_buckets(0.0001, 2.0, 15)),
            scrapes: Counter::default(),
            failures: Counter::default(),
            rebuilt: Counter::default(),
            scrape_ms: AtomicU64::default(),
            shown: Mutex::default(),
            clock,
        }
    }

    /// The metrics, for the admin endpoint.
    pub fn registry(self: &Arc<Self>) -> Registry {
        let mut registry = Registry::default();
        registry.register(
            "cincinnati_pe_graph_incoming_requests_total",
            "Requests by path.",
            self.requests.clone(),
        );
        registry.register(
            "cincinnati_pe_graph_response_errors_total",
            "Requests that were answered by an error.",
            self.errors.clone(),
        );
        registry.register(
            "cincinnati_pe_graph_serve_duration_seconds",
            "Time until an answer for a graph begins.",
            self.seconds.clone(),
        );
        registry.register(
            "cincinnati_gb_graph_upstream_scrapes_total",
            "Scrapes of the sources.",
            self.scrapes.clone(),
        );
        registry.register(
            "cincinnati_gb_graph_upstream_errors_total",
            "Scrapes that failed and left the graph before in service.",
            self.failures.clone(),
        );
        registry.register(
            "update_service_graphs_rebuilt_total",
            "Graphs of a channel and architecture that a scrape made, because they had changed.",
            self.rebuilt.clone(),
        );
        registry.collect(Collected(Arc::clone(self)));
        registry
    }

    /// A request to one of the paths of the service.
    pub fn count_request(&self, path: &'static str) {
        self.requests
            .get_or_create(&[("uri_path", path)])
            .increment();
    }

    /// A request that was answered by an error.
    pub fn count_error(&self, status: u16, kind: &str) {
        let labels = [("code", status.to_string()), ("kind", kind.to_owned())];
        self.errors.get_or_create(&labels).increment();
    }

    /// How long a response took.
    pub fn observe(&self, seconds: f64) {
        self.seconds.observe(seconds);
    }

    /// A scrape made so many graphs of a channel and architecture.
    pub fn count_rebuilt(&self, graphs: usize) {
        self.rebuilt.add(u64::try_from(graphs).unwrap_or(u64::MAX));
    }

    /// A scrape ended. If it succeeded, with its responses and the time at which they were found
    /// to be current.
    pub fn count_scrape(&self, milliseconds: u64, responses: Option<(&GraphResponses, Timestamp)>) {
        self.scrapes.increment();
        self.scrape_ms.store(milliseconds, Relaxed);
        match responses {
            None => self.failures.increment(),
            Some((responses, found)) => {
                let (releases, in_channels) = responses.releases;
                let shown = ShownGraph {
                    found,
                    releases,
                    in_channels,
                    problems: responses.problem_count,
                };
                *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = Some(shown);
            }
        }
    }
}

/// The metrics that are printed from the graph in service.
#[derive(Debug)]
struct Collected(Arc<ServiceMetrics>);

impl Collector for Collected {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let metrics = &self.0;
        let encoder = &mut encoder;
        let none = || -> [(&'static str, &'static str); 0] { [] };
        let milliseconds = metrics.scrape_ms.load(Relaxed);
        #[expect(clippy::cast_precision_loss, reason = "a duration for people")]
        let seconds = milliseconds as f64 / 1000.0;
        encode_gauges(
            encoder,
            "cincinnati_gb_graph_upstream_scrapes_duration",
            "Seconds that the last scrape took.",
            [(none(), seconds)],
        )?;
        let shown = *metrics.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(shown) = shown else {
            return Ok(());
        };
        let age = (metrics.clock)().as_second() - shown.found.as_second();
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        for (name, help, value) in [
            (
                "cincinnati_gb_graph_upstream_raw_releases",
                "Releases that the source has.",
                count(shown.releases),
            ),
            (
                "cincinnati_gb_graph_final_releases",
                "Releases that are in a channel.",
                count(shown.in_channels),
            ),
            (
                "cincinnati_gb_graph_last_successful_refresh_timestamp",
                "When the sources were last read, in seconds since 1970.",
                shown.found.as_second(),
            ),
            (
                "update_service_graph_age_seconds",
                "Seconds since the sources of the graph in service were read.",
                age,
            ),
            (
                "update_service_problems",
                "Parts of the sources that were left out or listed.",
                count(shown.problems),
            ),
        ] {
            encode_gauges(encoder, name, help, [(none(), value)])?;
        }
        Ok(())
    }
}
