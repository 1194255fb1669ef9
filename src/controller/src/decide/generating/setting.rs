//! An object that selects pools: what it waits for, and what is written to it.

use api::ConditionStatus;
use api::machineconfiguration::{
    ContainerRuntimeConfig, KubeletConfig, SettingCondition, SettingStatus, annotation,
};
use generated::naming::{self, SelectingKind};
use generated::object::{self, SettingOutcome};
use generated::pools::PoolFacts;
use jiff::Timestamp;
use k8s_openapi::ClusterResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::Resource;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::decide::reporting;

/// How far an object that selects pools is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingState {
    pub controller: &'static str,
    /// `Accepted`, `Refused` or `Waiting`.
    pub state: &'static str,
    pub object: String,
}

/// A kind whose objects select pools.
pub(crate) trait Setting:
    Resource<DynamicType = (), Scope = ClusterResourceScope>
    + Clone
    + PartialEq
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
    const KIND: SelectingKind;

    fn selector(&self) -> Option<&LabelSelector>;

    /// What was reported on it.
    fn status(&self) -> Option<&SettingStatus>;

    /// Whether its status has the condition `Accepted`.
    fn accepts() -> bool;

    fn name(&self) -> &str {
        self.meta().name.as_deref().unwrap_or_default()
    }

    fn uid(&self) -> &str {
        self.meta().uid.as_deref().unwrap_or_default()
    }
}

impl Setting for KubeletConfig {
    const KIND: SelectingKind = SelectingKind::Kubelet;

    fn selector(&self) -> Option<&LabelSelector> {
        self.spec.machine_config_pool_selector.as_ref()
    }

    fn status(&self) -> Option<&SettingStatus> {
        self.status.as_ref()
    }

    fn accepts() -> bool {
        true
    }
}

impl Setting for ContainerRuntimeConfig {
    const KIND: SelectingKind = SelectingKind::Runtime;

    fn selector(&self) -> Option<&LabelSelector> {
        self.spec.machine_config_pool_selector.as_ref()
    }

    fn status(&self) -> Option<&SettingStatus> {
        self.status.as_ref()
    }

    fn accepts() -> bool {
        false
    }
}

/// Why a pool waits for the object.
pub(crate) fn wait<S: Setting>(object: &S, pool: &PoolFacts) -> Option<String> {
    let is_deleted = object.meta().deletion_timestamp.is_some();
    if is_deleted || !naming::selects(object.selector(), pool) {
        return None;
    }
    let status = object.status();
    let none: &[SettingCondition] = &[];
    object::wait(
        S::KIND.as_str(),
        object.name(),
        object.meta().generation,
        status.and_then(|status| status.observed_generation),
        status.map_or(none, |status| &status.conditions),
    )
}

/// How far the object is, for the metrics.
pub(crate) fn state<S: Setting>(object: &S) -> SettingState {
    let status = object.status();
    let is_observed = status.and_then(|status| status.observed_generation)
        == object.meta().generation
        && object.meta().generation.is_some();
    let last = status.and_then(|status| status.conditions.last());
    let state = match last {
        Some(last) if is_observed && last.status == ConditionStatus::True => "Accepted",
        Some(_) if is_observed => "Refused",
        _ => "Waiting",
    };
    SettingState {
        controller: match S::KIND {
            SelectingKind::Kubelet => "kubelet-config",
            SelectingKind::Runtime => "container-runtime-config",
        },
        state,
        object: object.name().to_owned(),
    }
}

/// The patch that gives an object its number and its finalizers, before anything is made.
pub(crate) fn claim<S: Setting, E>(object: &S, outcome: &SettingOutcome<E>) -> Option<Value> {
    let meta = object.meta();
    let mut change = Map::new();
    let annotations = meta.annotations.as_ref();
    let present = annotations.and_then(|present| present.get(annotation::MC_NAME_SUFFIX));
    if outcome.suffix.is_some() && outcome.suffix.as_ref() != present {
        let wanted = json!({ annotation::MC_NAME_SUFFIX: outcome.suffix });
        change.insert("annotations".to_owned(), wanted);
    }
    let mut finalizers = meta.finalizers.clone().unwrap_or_default();
    let missing = outcome.configs.iter();
    let missing: Vec<String> = missing
        .filter(|config| !finalizers.contains(config))
        .cloned()
        .collect();
    if !missing.is_empty() {
        finalizers.extend(missing);
        change.insert("finalizers".to_owned(), json!(finalizers));
    }
    guarded(object, change)
}

/// Names of MachineConfigs that an object has by its finalizers, and does not keep.
pub(crate) fn released<S: Setting>(object: &S, keeps: &[String]) -> Vec<String> {
    let finalizers = object.meta().finalizers.iter().flatten();
    finalizers
        .filter(|name| S::KIND.has_name(name) && !keeps.contains(name))
        .cloned()
        .collect()
}

/// The patch that takes finalizers from an object.
pub(crate) fn without_finalizers<S: Setting>(object: &S, gone: &[String]) -> Value {
    let finalizers = object.meta().finalizers.iter().flatten();
    let rest: Vec<&String> = finalizers.filter(|name| !gone.contains(name)).collect();
    let change = Map::from_iter([("finalizers".to_owned(), json!(rest))]);
    guarded(object, change).unwrap_or_default()
}

fn guarded<S: Setting>(object: &S, mut change: Map<String, Value>) -> Option<Value> {
    if change.is_empty() {
        return None;
    }
    let version = json!(object.meta().resource_version);
    change.insert("resourceVersion".to_owned(), version);
    Some(json!({ "metadata": change }))
}

/// The patch of an object's status, where it differs.
pub(crate) fn report<S: Setting>(
    object: &S,
    result: (Option<&str>, &[String]),
    now: Timestamp,
) -> Option<Value> {
    let before = object.status();
    let none: &[SettingCondition] = &[];
    let present = before.map_or(none, |status| &status.conditions);
    let after = SettingStatus {
        conditions: object::conditions(present, S::accepts(), result, now),
        observed_generation: object.meta().generation,
    };
    let changes = reporting::changes(before, &after)?;
    Some(json!({
        "metadata": { "resourceVersion": object.meta().resource_version },
        "status": changes
    }))
}
