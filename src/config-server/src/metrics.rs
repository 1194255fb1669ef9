//! What is counted.

use std::fmt;
use std::sync::Arc;

use chassis::metrics::{
    Collector, Counter, DescriptorEncoder, Family, Histogram, Registry, encode_gauges,
    exponential_buckets,
};
use ignition::SpecVersion;

use crate::refusal::Refusal;
use crate::store::ServedStore;

/// One label, of a closed set.
type Label = [(&'static str, &'static str); 1];

/// All metrics of the server; the operator adds those of its loop.
#[derive(Debug)]
pub(crate) struct ServerMetrics {
    served: Family<Label, Counter>,
    refusals: Family<Label, Counter>,
    seconds: Histogram,
    store: ServedStore,
    is_open: bool,
}

impl ServerMetrics {
    pub(crate) fn new(store: ServedStore, is_open: bool) -> Self {
        Self {
            served: Family::default(),
            refusals: Family::default(),
            // 1 ms to 16 s: each response takes some requests to the API server.
            seconds: Histogram::new(exponential_buckets(0.001, 2.0, 15)),
            store,
            is_open,
        }
    }

    /// The metrics, for the admin endpoint.
    pub(crate) fn registry(self: &Arc<Self>) -> Registry {
        let mut registry = Registry::default();
        registry.register(
            "mcs_answers_total",
            "Configurations that were served, by version of Ignition's specification.",
            self.served.clone(),
        );
        registry.register(
            "mcs_refusals_total",
            "Requests that were refused, by reason.",
            self.refusals.clone(),
        );
        registry.register(
            "mcs_answer_seconds",
            "How long a request for a configuration took.",
            self.seconds.clone(),
        );
        registry.collect(Collected(Arc::clone(self)));
        registry
    }

    pub(crate) fn answered(&self, version: SpecVersion) {
        let label = [("version", version.as_str())];
        self.served.get_or_create(&label).increment();
    }

    pub(crate) fn refused(&self, refusal: &Refusal) {
        let label = [("reason", refusal.reason())];
        self.refusals.get_or_create(&label).increment();
    }

    pub(crate) fn observe(&self, seconds: f64) {
        self.seconds.observe(seconds);
    }
}

/// The metrics that are printed from what is kept.
#[derive(Debug)]
struct Collected(Arc<ServerMetrics>);

impl Collector for Collected {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let none: [(&str, &str); 0] = [];
        encode_gauges(
            &mut encoder,
            "mcs_open",
            "Whether configurations, with the secrets in them, are served without a credential.",
            [(none, i64::from(self.0.is_open))],
        )?;
        let pools = self.0.store.pools();
        encode_gauges(
            &mut encoder,
            "mcs_pool_ready",
            "Whether a new machine of the pool would get its configuration.",
            pools
                .iter()
                .map(|(pool, is_ready)| ([("pool", pool)], i64::from(*is_ready))),
        )
    }
}
