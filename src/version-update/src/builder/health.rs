//! What an object must be before the next manifest's turn.

use std::collections::BTreeSet;

use api::ConditionStatus;
use api::config::{ClusterConditionType, ClusterOperatorStatus, ClusterVersion};
use release::graph::Ordering;
use release::manifest::ObjectId;
use serde_json::Value;

use crate::failure::{Effect, Failure};

/// What is found of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// It is as it must be.
    Ready,
    /// It is on its way.
    Waiting(Failure),
    /// It does not get there by itself.
    Failed(Failure),
}

/// Whether a kind has more to it than being applied.
pub fn is_watched(id: &ObjectId) -> bool {
    matches!(
        (id.group.as_str(), id.kind.as_str()),
        ("apiextensions.k8s.io", "CustomResourceDefinition")
            | ("apps", "Deployment" | "DaemonSet")
            | ("batch", "Job")
    )
}

/// Whether more than the metadata of an applied object is read: it is judged, what others have
/// added to it is removed, or it may have to be recreated.
pub fn is_read(id: &ObjectId, ordering: Ordering) -> bool {
    let is_first = ordering == Ordering::Initializing;
    is_watched(id) && !(is_first && id.group == "apiextensions.k8s.io")
}

/// Judges an object that was applied. `task` is what people read of it.
///
/// A rollout is waited for and is no failure. A release's first application waits for
/// ClusterOperators only. Source: `docs/reference/cvo.md`, "Waiting and failing".
pub fn health(id: &ObjectId, task: &str, found: &Value, ordering: Ordering) -> Health {
    let is_first = ordering == Ordering::Initializing;
    match (id.group.as_str(), id.kind.as_str()) {
        ("apiextensions.k8s.io", "CustomResourceDefinition") if !is_first => {
            established(id, task, found)
        }
        ("apps", "Deployment") if !is_first => deployment(id, task, found),
        ("apps", "DaemonSet") if !is_first => daemon_set(id, task, found),
        ("batch", "Job") if !is_first => job(id, task, found),
        _ => Health::Ready,
    }
}

/// Status, reason and message of a condition.
fn condition<'a>(found: &'a Value, r#type: &str) -> Option<(&'a str, &'a str, &'a str)> {
    let list = found.pointer("/status/conditions")?.as_array()?;
    let text = |condition: &'a Value, key| condition.get(key).and_then(Value::as_str);
    let mut list = list.iter();
    let found = list.find(|condition| text(condition, "type") == Some(r#type))?;
    let read = |key| text(found, key).unwrap_or_default();
    Some((read("status"), read("reason"), read("message")))
}

fn number(found: &Value, pointer: &str) -> i64 {
    found
        .pointer(pointer)
        .and_then(Value::as_i64)
        .unwrap_or_default()
}

fn waiting(id: &ObjectId, task: &str, why: &str) -> Health {
    Health::Waiting(Failure::rollout(task, &name(id), why))
}

/// Namespace and name of an object, as clients know it.
fn name(id: &ObjectId) -> String {
    if id.namespace.is_empty() {
        id.name.clone()
    } else {
        format!("{}/{}", id.namespace, id.name)
    }
}

fn is_deleted(found: &Value) -> bool {
    found.pointer("/metadata/deletionTimestamp").is_some()
}

fn established(id: &ObjectId, task: &str, found: &Value) -> Health {
    match condition(found, "Established") {
        Some(("True", ..)) => Health::Ready,
        Some((status, reason, message)) => waiting(
            id,
            task,
            &format!("Established={status}, {reason}: {message}"),
        ),
        None => waiting(id, task, "does not declare an Established status condition"),
    }
}

fn deployment(id: &ObjectId, task: &str, found: &Value) -> Health {
    let failed = |reason: &str, why: &str| {
        Health::Failed(Failure::workload(reason, ("deployment", &name(id)), why))
    };
    if is_deleted(found) {
        return waiting(id, task, "is being deleted");
    }
    if let Some(("True", reason, message)) = condition(found, "ReplicaFailure") {
        let why = format!("has a replica failure {reason}: {message}");
        return failed("WorkloadNotProgressing", &why);
    }
    match (
        condition(found, "Available"),
        condition(found, "Progressing"),
    ) {
        (Some(("False", reason, message)), Some(("False", ..))) => {
            let why = format!("is not available {reason} ({message})");
            return failed("WorkloadNotAvailable", &why);
        }
        (_, Some(("False", "ProgressDeadlineExceeded", message))) => {
            let why = format!("did not finish rolling out: {message}");
            return failed("WorkloadNotProgressing", &why);
        }
        _ => {}
    }
    // Before the first change there was no rollout to wait for.
    if number(found, "/metadata/generation") <= 1 {
        return Health::Ready;
    }
    let replicas = found.pointer("/spec/replicas").and_then(Value::as_i64);
    let is_done = number(found, "/status/observedGeneration")
        >= number(found, "/metadata/generation")
        && number(found, "/status/updatedReplicas") >= replicas.unwrap_or(1)
        && number(found, "/status/unavailableReplicas") == 0;
    if is_done {
        Health::Ready
    } else {
        waiting(id, task, "is rolling out")
    }
}

fn daemon_set(id: &ObjectId, task: &str, found: &Value) -> Health {
    if is_deleted(found) {
        return waiting(id, task, "is being deleted");
    }
    if number(found, "/metadata/generation") <= 1 {
        return Health::Ready;
    }
    let is_done = number(found, "/status/observedGeneration")
        >= number(found, "/metadata/generation")
        && number(found, "/status/updatedNumberScheduled")
            >= number(found, "/status/desiredNumberScheduled")
        && number(found, "/status/numberUnavailable") == 0;
    if is_done {
        Health::Ready
    } else {
        waiting(id, task, "is rolling out")
    }
}

fn job(id: &ObjectId, task: &str, found: &Value) -> Health {
    if number(found, "/status/succeeded") > 0 {
        return Health::Ready;
    }
    let failed = condition(found, "Failed").filter(|(status, ..)| *status == "True");
    let is_failed = number(found, "/status/active") == 0 && number(found, "/status/failed") > 0;
    let (reason, message) = match failed {
        Some((_, reason, message)) => (reason, message),
        None if is_failed => ("", "the job has failed, and has no condition that says why"),
        None => return waiting(id, task, "has not succeeded yet"),
    };
    let why = format!("deadline exceeded, reason: {reason:?}, message: {message:?}");
    Health::Failed(Failure::update(task, &why))
}

/// What an operator says of what it does: of a failure, else of its progress.
pub fn operator_message(found: Option<&ClusterOperatorStatus>) -> String {
    let message = |r#type, status| {
        let condition = found?.condition(r#type)?;
        let is_said = condition.status == status && !condition.message.is_empty();
        is_said.then(|| condition.message.clone())
    };
    message(&ClusterConditionType::Degraded, ConditionStatus::True)
        .or_else(|| message(&ClusterConditionType::Available, ConditionStatus::False))
        .or_else(|| message(&ClusterConditionType::Progressing, ConditionStatus::True))
        .unwrap_or_default()
}

/// On the ClusterVersion; written by an administrator: operators, with commas, whose degradation
/// does not hold a release up.
pub const TOLERATED: &str = "slipway.dev/tolerate-degraded";

/// The operators of that annotation.
pub fn tolerated(object: &ClusterVersion) -> BTreeSet<String> {
    let annotations = object.metadata.annotations.as_ref();
    let list = annotations.and_then(|annotations| annotations.get(TOLERATED));
    let names = list.into_iter().flat_map(|list| list.split(','));
    let names = names.map(str::trim).filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

/// What a degraded operator does that an administrator tolerates: what follows it is applied, and
/// it stays a failure. All else of it counts as ever.
pub fn tolerate(failure: Failure, operator: &str, tolerated: &BTreeSet<String>) -> Failure {
    if failure.reason == "ClusterOperatorDegraded" && tolerated.contains(operator) {
        Failure {
            effect: Effect::Report,
            ..failure
        }
    } else {
        failure
    }
}

/// Judges a ClusterOperator by its manifest; none if it is as it must be.
///
/// Shape: `manifest` is the release's ClusterOperator, whose `status.versions` are the expected
/// ones; `found` is none where there is no such object. `Progressing` is never read.
pub fn operator_health(
    name: &str,
    manifest: &Value,
    found: Option<&ClusterOperatorStatus>,
    ordering: Ordering,
) -> Option<Failure> {
    let fault = |suffix, effect| Some(Failure::operator(name, suffix, effect));
    let expected: Vec<(&str, &str)> = manifest
        .pointer("/status/versions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|version| {
            Some((
                version.get("name")?.as_str()?,
                version.get("version")?.as_str()?,
            ))
        })
        .collect();
    if expected.is_empty() {
        return fault("NoVersions", Effect::Fail);
    }
    let Some(found) = found else {
        let task = format!("clusteroperator {name:?}");
        return Some(Failure {
            reason: "UpdatePayloadResourceNotFound".to_owned(),
            summary: "some resources could not be updated".to_owned(),
            ..Failure::update(&task, "resource may have been deleted")
        });
    };
    let status = |r#type| found.condition(r#type).map(|condition| condition.status);
    if status(&ClusterConditionType::Available) != Some(ConditionStatus::True) {
        return fault("NotAvailable", Effect::Fail);
    }
    if status(&ClusterConditionType::Degraded) != Some(ConditionStatus::False) {
        let is_first = ordering == Ordering::Initializing;
        let effect = if is_first {
            Effect::Report
        } else {
            Effect::FailAfterInterval
        };
        return fault("Degraded", effect);
    }
    let is_behind = |(operand, version): &(&str, &str)| found.version(operand) != Some(*version);
    if ordering != Ordering::Initializing && expected.iter().any(is_behind) {
        return fault("Updating", Effect::None);
    }
    None
}
