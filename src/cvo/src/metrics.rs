//! The version operator's own metrics, under the names that dashboards and telemetry of OpenShift
//! read; the operator adds those of its loop.
//!
//! Series follow objects: they are printed from what is known when they are asked for.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::ConditionStatus;
use api::config::{
    ClusterCondition, ClusterConditionType, ClusterVersion, HistoryEntry, HistoryState,
    cluster_version,
};
use chassis::metrics::{Collector, Counter, DescriptorEncoder, Registry, encode_gauges};
use cluster::cache::{Cache, TableChange};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use operator::watch::kept::{Kept, PartOf};

use crate::engine::Shared;
use crate::risk::Exposure;
use crate::watches::{ClusterVersions, OperatorView};

/// Name under which the ClusterVersion stands among operators.
const VERSION: &str = "version";

/// What is known besides objects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MetricsFacts {
    /// When the update service answered last.
    pub retrieved: Option<Timestamp>,
    /// The service that is asked; empty for the default one.
    pub upstream: String,
    /// Whether each risk applies, by name.
    pub risks: BTreeMap<String, Exposure>,
    /// What installed the cluster: version and invoker.
    pub installer: Option<Installer>,
}

/// What installed the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Installer {
    /// `openshift-install` or `other`.
    pub kind: &'static str,
    /// Its version.
    pub version: String,
    /// Who ran it.
    pub invoker: String,
}

/// Operator and condition: how it is, and how often that changed since the start.
type Transitions = BTreeMap<(String, String), (ConditionStatus, u64)>;

/// All metrics of the version operator.
#[derive(Debug)]
pub struct VersionMetrics {
    versions: Cache<ClusterVersions>,
    operators: Cache<PartOf<OperatorView>>,
    shared: Shared,
    facts: Mutex<MetricsFacts>,
    transitions: Mutex<Transitions>,
    /// Writes while the release is there: one that grows is a quarrel with another writer.
    pub rewrites: Counter,
}

type Labels<const N: usize> = [(&'static str, String); N];

impl VersionMetrics {
    /// Metrics of these objects.
    pub fn new(
        versions: Cache<ClusterVersions>,
        operators: Cache<PartOf<OperatorView>>,
        shared: Shared,
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

    /// Prints them.
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

    /// Replaces what is known besides objects.
    pub fn set(&self, facts: MetricsFacts) {
        *lock(&self.facts) = facts;
    }

    /// What installed the cluster, if it was read.
    pub fn installer(&self) -> Option<Installer> {
        lock(&self.facts).installer.clone()
    }

    /// Counts the conditions of operators that changed. What is listed at the start is the state
    /// before; a later list is compared with what was known.
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
            object.and_then(|object| available(object, &facts)),
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
                let labels: Labels<3> = [
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
        let mut conditions: Vec<(Labels<3>, i64)> = Vec::new();
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
            let labels: Labels<2> = [("name", name.clone()), ("condition", condition.clone())];
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
            let labels: Labels<2> = [("version", version.clone()), ("type", part.to_owned())];
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
            .filter(|failure| failure.effect != crate::failure::Effect::None);
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
        let known = transitions.entry(key).or_insert((condition.status, 0));
        if known.0 != condition.status {
            *known = (condition.status, known.1 + 1);
        }
    }
}

fn seconds(time: &Time) -> i64 {
    time.0.as_second()
}

/// The series of `cluster_version`.
fn releases(object: &ClusterVersion) -> Vec<(Labels<4>, i64)> {
    let status = object.status.clone().unwrap_or_default();
    let history = &status.history;
    let is_completed = |entry: &&HistoryEntry| entry.state == HistoryState::Completed;
    let completed = history.iter().find(is_completed);
    let from = completed.map(|entry| entry.version.clone());
    let from = from.unwrap_or_default();
    let series = |r#type: &str, version: &str, image: &str, from: &str, value: i64| {
        let labels: Labels<4> = [
            ("type", r#type.to_owned()),
            ("version", version.to_owned()),
            ("image", image.to_owned()),
            ("from_version", from.to_owned()),
        ];
        (labels, value)
    };
    let mut all = Vec::new();
    let desired = &status.desired;
    let head = history.first();
    let since = head.map_or(0, |head| seconds(&head.started_time));
    all.push(series(
        "current",
        &desired.version,
        &desired.image,
        &from,
        since,
    ));
    let initial = history.last();
    if let (Some(created), Some(initial)) = (&object.metadata.creation_timestamp, initial) {
        let (version, image) = (&initial.version, &initial.image);
        all.push(series("cluster", version, image, "", seconds(created)));
        let began = seconds(&initial.started_time);
        all.push(series("initial", version, image, "", began));
    }
    if let Some(entry) = completed {
        let before = history.iter().skip_while(|one| *one != entry).skip(1);
        let before = before.clone().find(is_completed);
        let before = before.map_or("", |one| one.version.as_str());
        let ended = entry.completion_time.as_ref().map_or(0, seconds);
        let (version, image) = (&entry.version, &entry.image);
        all.push(series("completed", version, image, before, ended));
    }
    let asked = object.spec.desired_update.as_ref();
    if let Some(asked) = asked.filter(|asked| asked.image != desired.image) {
        all.push(series("desired", &asked.version, &asked.image, &from, 0));
    }
    let updating = head.filter(|head| head.state != HistoryState::Completed);
    if let Some(head) = updating {
        let (version, image) = (&head.version, &head.image);
        let value = seconds(&head.started_time);
        all.push(series("updating", version, image, &from, value));
    }
    let mut conditions = status.conditions.iter();
    let failing = conditions.find(|one| one.r#type == ClusterConditionType::Failing);
    if let Some(failing) = failing.filter(|one| one.status == ConditionStatus::True) {
        let value = seconds(&failing.last_transition_time);
        let (version, image) = (&desired.version, &desired.image);
        all.push(series("failure", version, image, &from, value));
    }
    all
}

fn available(object: &ClusterVersion, facts: &MetricsFacts) -> Option<(Labels<2>, i64)> {
    let updates = object.status.as_ref()?.available_updates.as_ref()?;
    let upstream = if facts.upstream.is_empty() {
        "<default>"
    } else {
        &facts.upstream
    };
    let labels = [
        ("upstream", upstream.to_owned()),
        ("channel", object.spec.channel.clone()),
    ];
    Some((labels, i64::try_from(updates.len()).unwrap_or(i64::MAX)))
}

fn capabilities(object: &ClusterVersion) -> Vec<(Labels<1>, i64)> {
    let status = object.status.clone().unwrap_or_default();
    let enabled = status.capabilities.enabled_capabilities;
    let known = status.capabilities.known_capabilities.into_iter();
    let series = known.map(|name| {
        let is_enabled = enabled.contains(&name);
        ([("name", name)], i64::from(is_enabled))
    });
    series.collect()
}

fn conditional(object: &ClusterVersion) -> Vec<(Labels<4>, i64)> {
    let updates = object.status.iter();
    let updates = updates.flat_map(|status| &status.conditional_updates);
    let series = updates.flat_map(|update| {
        update.conditions.iter().map(|one| {
            let labels = [
                ("version", update.release.version.clone()),
                ("condition", one.r#type.as_str().to_owned()),
                ("status", one.status.to_string()),
                ("reason", one.reason.clone()),
            ];
            (labels, seconds(&one.last_transition_time))
        })
    });
    series.collect()
}

fn risk((name, exposure): (&String, &Exposure)) -> (Labels<3>, i64) {
    let (value, reason) = match exposure {
        Exposure::Exposed => (1, "Match"),
        Exposure::Clear => (0, "NotMatch"),
        Exposure::Unknown(_) | Exposure::Pending => (-1, "EvaluationFailed"),
    };
    let labels = [
        ("condition", "Applies".to_owned()),
        ("risk", name.clone()),
        ("reason", reason.to_owned()),
    ];
    (labels, value)
}

fn up_of_version(object: Option<&ClusterVersion>) -> (Labels<3>, i64) {
    let Some(object) = object else {
        let labels = labels_of(VERSION, "", "ClusterVersionNotFound");
        return (labels, 0);
    };
    let status = object.status.clone().unwrap_or_default();
    let mut conditions = status.conditions.iter();
    let available = conditions.find(|one| one.r#type == ClusterConditionType::Available);
    up_of(VERSION, &status.desired.version, available)
}

fn up_of(name: &str, version: &str, available: Option<&ClusterCondition>) -> (Labels<3>, i64) {
    let reason = available.map_or("NoAvailableCondition", |one| one.reason.as_str());
    let is_up = available.is_some_and(|one| one.status == ConditionStatus::True);
    (labels_of(name, version, reason), i64::from(is_up))
}

fn labels_of(name: &str, version: &str, reason: &str) -> Labels<3> {
    [
        ("name", name.to_owned()),
        ("version", version.to_owned()),
        ("reason", reason.to_owned()),
    ]
}

fn condition(name: &str, one: &ClusterCondition) -> Option<(Labels<3>, i64)> {
    let value = match one.status {
        ConditionStatus::True => 1,
        ConditionStatus::False => 0,
        ConditionStatus::Unknown => return None,
    };
    let labels = [
        ("name", name.to_owned()),
        ("condition", one.r#type.as_str().to_owned()),
        ("reason", one.reason.clone()),
    ];
    Some((labels, value))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while it is held; a poisoned lock still holds whole values.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
