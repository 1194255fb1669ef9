//! The version operator's own metrics, under the names that dashboards and telemetry of OpenShift
//! read; the operator adds those of its loop.
//!
//! Series follow objects: they are printed from the caches at each request.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::ConditionStatus;
use api::config::{ClusterConditionType, ClusterVersion, cluster_version};
use chassis::metrics::{Collector, Counter, DescriptorEncoder, Registry, encode_gauges};
use cluster::cache::{Cache, TableChange};
use jiff::Timestamp;
use operator::watch::kept::{Kept, PartOf};

use crate::engine::SharedReport;
use crate::watches::{ClusterVersions, OperatorView};
use version_update::risk::Exposure;
use version_update::series::{
    SeriesLabels, VERSION, available, capabilities, condition, conditional, releases, risk, up_of,
    up_of_version,
};

/// What series show besides objects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MetricsFacts {
    /// When the update service responded last.
    pub retrieved: Option<Timestamp>,
    /// The update service; empty for the default one.
    pub upstream: String,
    /// Whether each risk applies, by name.
    pub risks: BTreeMap<String, Exposure>,
    /// What installed the cluster: version and invoker.
    pub installer: Option<Installer>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Installer {
    /// `openshift-install` or `other`.
    pub kind: &'static str,
    pub version: String,
    pub invoker: String,
}

/// Operator and condition: how it is, and how often that changed since the start.
type Transitions = BTreeMap<(String, String), (ConditionStatus, u64)>;

/// All metrics of the version operator.
#[derive(Debug)]
pub struct VersionMetrics {
    versions: Cache<ClusterVersions>,
    operators: Cache<PartOf<OperatorView>>,
    shared: SharedReport,
    facts: Mutex<MetricsFacts>,
    transitions: Mutex<Transitions>,
    /// Writes while the release is there: one that grows is a quarrel with another writer.
    pub rewrites: Counter,
}

impl VersionMetrics {
    /// Metrics of these objects.
    pub fn new(
        versions: Cache<ClusterVersions>,
        operators: Cache<PartOf<OperatorView>>,
        shared: SharedReport,
    ) -> Self {
        Self {
            versions,
            operators,
            shared,
            facts: Mutex::default(),
            transitions: Mutex::default(),
            rewrites: Counter::default(),
        }
    }

    pub fn registry(self: &Arc<Self>) -> Registry {
        let mut registry = Registry::default();
        registry.register(
            "cluster_version_operator_rewrites_total",
            "Objects that were written again though the release did not change.",
            self.rewrites.clone(),
        );
        registry.collect(Arc::clone(self));
        registry
    }

    /// Replaces what series show besides objects.
    pub fn set(&self, facts: MetricsFacts) {
        *lock(&self.facts) = facts;
    }

    /// What installed the cluster, if it was read.
    pub fn installer(&self) -> Option<Installer> {
        lock(&self.facts).installer.clone()
    }

    /// Counts the conditions of operators that changed. What is listed at the start is the state
    /// before; a later list is compared with the one before.
    pub fn observe(&self, change: &TableChange<Kept<OperatorView>>) {
        let mut transitions = lock(&self.transitions);
        match change {
            TableChange::All => {
                let operators = self.operators.table();
                transitions.retain(|(name, _), _| operators.get(name).is_some());
                for operator in operators.values() {
                    count(&mut transitions, operator);
                }
            }
            TableChange::One(_, Some(after)) => count(&mut transitions, after),
            TableChange::One(before, None) => {
                let gone = before.as_ref().map(|gone| gone.name.as_str());
                transitions.retain(|(name, _), _| Some(name.as_str()) != gone);
            }
        }
    }

    fn version(&self) -> Option<Arc<ClusterVersion>> {
        self.versions.get(cluster_version::NAME)
    }
}

impl Collector for VersionMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let object = self.version();
        let object = object.as_deref();
        let facts = lock(&self.facts).clone();
        let encoder = &mut encoder;
        encode_gauges(
            encoder,
            "cluster_version",
            "Releases of the cluster by type, and when that was, in Unix seconds.",
            object.map(releases).unwrap_or_default(),
        )?;
        encode_gauges(
            encoder,
            "cluster_version_available_updates",
            "Updates that are recommended.",
            object.and_then(|object| available(object, &facts.upstream)),
        )?;
        encode_gauges(
            encoder,
            "cluster_version_capability",
            "Whether each capability is enabled.",
            object.map(capabilities).unwrap_or_default(),
        )?;
        encode_gauges(
            encoder,
            "cluster_version_conditional_update_condition_seconds",
            "Since when each condition of a conditional update holds, in Unix seconds.",
            object.map(conditional).unwrap_or_default(),
        )?;
        encode_gauges(
            encoder,
            "cluster_version_risk_conditions",
            "Whether each risk applies: 1, 0, or -1 where it is not known.",
            facts.risks.iter().map(risk),
        )?;
        encode_gauges(
            encoder,
            "cluster_version_operator_update_retrieval_timestamp_seconds",
            "When the update service answered last.",
            facts
                .retrieved
                .map(|at| ([("name", String::new())], at.as_second())),
        )?;
        encode_gauges(
            encoder,
            "cluster_installer",
            "What installed the cluster.",
            facts.installer.into_iter().map(|installer| {
                let labels: SeriesLabels<3> = [
                    ("type", installer.kind.to_owned()),
                    ("version", installer.version),
                    ("invoker", installer.invoker),
                ];
                (labels, 1_i64)
            }),
        )?;
        self.encode_operators(encoder, object)?;
        self.encode_payload(encoder, object)
    }
}

impl VersionMetrics {
    fn encode_operators(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        object: Option<&ClusterVersion>,
    ) -> fmt::Result {
        let mut up = vec![up_of_version(object)];
        let mut conditions: Vec<(SeriesLabels<3>, i64)> = Vec::new();
        let own = object.and_then(|object| object.status.as_ref());
        let own = own.map_or(&[][..], |status| &status.conditions);
        conditions.extend(own.iter().filter_map(|one| condition(VERSION, one)));
        for operator in self.operators.table().values() {
            let status = &operator.status;
            let available = status.condition(&ClusterConditionType::Available);
            let version = status.version("operator").unwrap_or_default();
            up.push(up_of(&operator.name, version, available));
            let all = status.conditions.iter();
            conditions.extend(all.filter_map(|one| condition(&operator.name, one)));
        }
        encode_gauges(
            encoder,
            "cluster_operator_up",
            "Whether each operator is available.",
            up,
        )?;
        encode_gauges(
            encoder,
            "cluster_operator_conditions",
            "Conditions of operators that are True or False.",
            conditions,
        )?;
        let transitions = lock(&self.transitions);
        let transitions = transitions.iter().map(|((name, condition), (_, count))| {
            let labels: SeriesLabels<2> =
                [("name", name.clone()), ("condition", condition.clone())];
            (labels, i64::try_from(*count).unwrap_or(i64::MAX))
        });
        encode_gauges(
            encoder,
            "cluster_operator_condition_transitions",
            "How often conditions of operators changed since the start.",
            transitions,
        )
    }

    fn encode_payload(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        object: Option<&ClusterVersion>,
    ) -> fmt::Result {
        let report = self.shared.lock();
        let version = object.and_then(|object| object.status.as_ref());
        let version = version.map(|status| status.desired.version.clone());
        let version = version.unwrap_or_default();
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let (done, total) = (report.checkpoint.done, report.checkpoint.total);
        let parts = [("applied", done), ("pending", total.saturating_sub(done))];
        let is_read = report.accepted.is_some();
        let parts = parts.into_iter().filter(|_| is_read).map(|(part, amount)| {
            let labels: SeriesLabels<2> = [("version", version.clone()), ("type", part.to_owned())];
            (labels, count(amount))
        });
        encode_gauges(
            encoder,
            "cluster_version_payload",
            "Manifests of the release that are applied, and those that are not.",
            parts,
        )?;
        let shown = report.shown();
        let failing = shown
            .iter()
            .filter(|failure| failure.effect != version_update::failure::Effect::None);
        let failing = count(failing.count());
        encode_gauges(
            encoder,
            "cluster_operator_payload_errors",
            "What keeps the release from being applied.",
            is_read.then(|| ([("version", version.clone())], failing)),
        )
    }
}

/// Counts the conditions of an operator that are not as they were.
fn count(transitions: &mut Transitions, operator: &Kept<OperatorView>) {
    for condition in &operator.status.conditions {
        let r#type = condition.r#type.as_str().to_owned();
        let key = (operator.name.clone(), r#type);
        let last = transitions.entry(key).or_insert((condition.status, 0));
        if last.0 != condition.status {
            *last = (condition.status, last.1 + 1);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while it is held; a poisoned lock still holds whole values.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
