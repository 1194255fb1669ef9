//! The status of ClusterOperator `machine-config`.

use api::config::{
    ClusterCondition, ClusterConditionType, ClusterOperatorStatus, OperandVersion, RelatedObject,
};
use api::machineconfiguration::machine_config_pool::{
    PoolCondition, PoolConditionReason, PoolConditionType,
};
use api::machineconfiguration::{MachineConfigPool, NAMESPACE};
use api::{ConditionStatus, condition};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Map, Value, json};

use super::required::{failures, is, name};
use super::steps::{ReleaseProgress, ReleaseStep};

pub const NAME: &str = "machine-config";

/// Reason while all is well.
const AS_EXPECTED: &str = "AsExpected";

/// Operands whose versions are reported: the operator, and its image.
const OPERATOR: &str = "operator";
const OPERATOR_IMAGE: &str = "operator-image";

/// What the status is made from.
#[derive(Debug)]
pub struct OperatorInput<'a> {
    /// Version of the release.
    pub version: &'a str,
    /// Pull spec of this program's image, where the release names it.
    pub image: Option<&'a str>,
    /// How far the cluster is.
    pub progress: &'a ReleaseProgress,
    pub pools: &'a [&'a MachineConfigPool],
    /// What people are to know, and no condition is about.
    pub notes: &'a OperatorNotes,
    pub now: Timestamp,
}

/// Settings that have not the effect that they ask for. None of them holds a release up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OperatorNotes {
    /// Requests for boot images, which nothing handles.
    pub boot_images: Option<String>,
    /// A default stream of OS images that there is not.
    pub os_image_stream: Option<String>,
}

/// Makes the status.
///
/// Shape: versions are the release's once it is reached, and those of the release before until
/// then. Conditions of other writers stay. Source: `docs/reference/controller.md`, "Operator
/// status".
pub fn status(before: &ClusterOperatorStatus, input: &OperatorInput<'_>) -> ClusterOperatorStatus {
    let mut status = before.clone();
    if *input.progress == ReleaseProgress::Done {
        status.versions = versions(input);
    }
    let reported = status.version(OPERATOR).map(str::to_owned);
    let conditions = [
        available(reported.as_deref()),
        progressing(reported.as_deref(), input),
        degraded(reported.as_deref(), input),
        upgradeable(reported.as_deref(), input.pools),
    ];
    for (r#type, holds, reason, message) in conditions {
        let condition = ClusterCondition {
            r#type,
            status: holds,
            last_transition_time: Time(input.now),
            reason,
            message,
        };
        condition::set(&mut status.conditions, condition);
    }
    status.related_objects = related();
    status.extension = Some(extension(input));
    status
}

/// Type, status, reason and message.
type ConditionUpdate = (ClusterConditionType, ConditionStatus, String, String);

fn versions(input: &OperatorInput<'_>) -> Vec<OperandVersion> {
    let version = |name: &str, version: &str| OperandVersion {
        name: name.to_owned(),
        version: version.to_owned(),
    };
    let image = input.image.map(|image| version(OPERATOR_IMAGE, image));
    let operator = version(OPERATOR, input.version);
    std::iter::once(operator).chain(image).collect()
}

/// It works once it has deployed a release; what fails after that is reported by `Degraded`.
fn available(reported: Option<&str>) -> ConditionUpdate {
    let (holds, message) = reported.map_or((false, String::new()), |version| {
        (true, format!("Cluster has deployed {version}"))
    });
    let reason = AS_EXPECTED.to_owned();
    (
        ClusterConditionType::Available,
        holds.into(),
        reason,
        message,
    )
}

fn progressing(reported: Option<&str>, input: &OperatorInput<'_>) -> ConditionUpdate {
    let version = input.version;
    let is_reached = reported == Some(version);
    let counts = counts(input.pools);
    let has_failed = matches!(input.progress, ReleaseProgress::Failed { .. });
    let (holds, reason, head) = match (reported, has_failed) {
        (_, true) if is_reached => (
            !counts.is_empty(),
            AS_EXPECTED,
            format!("Error while reconciling {version}"),
        ),
        (_, true) => (true, "", format!("Unable to apply {version}")),
        (None, false) => (true, "", format!("Cluster is bootstrapping {version}")),
        (Some(_), false) if is_reached && counts.is_empty() => {
            (false, AS_EXPECTED, format!("Cluster version is {version}"))
        }
        // The release is reached; other pools, or other changes, are on their way.
        (Some(_), false) if is_reached => {
            let head = format!("Cluster version is {version}");
            (true, "PoolsUpdating", head)
        }
        (Some(_), false) => (true, "", format!("Working towards {version}")),
    };
    let mut message = head;
    let waits_for = match input.progress {
        // Of pools, their counts say more.
        ReleaseProgress::Waiting { step, why }
            if !is_reached && (*step != ReleaseStep::RequiredPools || counts.is_empty()) =>
        {
            Some(why.clone())
        }
        ReleaseProgress::Done
        | ReleaseProgress::Waiting { .. }
        | ReleaseProgress::Failed { .. } => None,
    };
    let parts: Vec<String> = waits_for.into_iter().chain(counts).collect();
    if !parts.is_empty() {
        message = format!("{message}: {}", parts.join("; "));
    }
    (
        ClusterConditionType::Progressing,
        holds.into(),
        reason.to_owned(),
        message,
    )
}

/// What each pool lacks that is not updated.
fn counts(pools: &[&MachineConfigPool]) -> Vec<String> {
    let pools = pools
        .iter()
        .filter(|pool| !is(pool, &PoolConditionType::Updated));
    let counts = pools.filter_map(|pool| {
        let status = pool.status.as_ref()?;
        (status.machine_count > status.updated_machine_count).then(|| {
            format!(
                "pool {} has updated {} of {} nodes",
                name(pool),
                status.updated_machine_count,
                status.machine_count
            )
        })
    });
    counts.collect()
}

fn degraded(reported: Option<&str>, input: &OperatorInput<'_>) -> ConditionUpdate {
    let (holds, reason, message) = match input.progress {
        ReleaseProgress::Failed { step, why } => {
            let version = input.version;
            let message = if reported == Some(version) {
                format!("Failed to resync {version} because: {why}")
            } else {
                format!("Unable to apply {version}: {why}")
            };
            (true, format!("{step}Failed"), message)
        }
        ReleaseProgress::Done | ReleaseProgress::Waiting { .. } => {
            (false, AS_EXPECTED.to_owned(), String::new())
        }
    };
    (
        ClusterConditionType::Degraded,
        holds.into(),
        reason,
        message,
    )
}

fn upgradeable(reported: Option<&str>, pools: &[&MachineConfigPool]) -> ConditionUpdate {
    let refusals: Vec<(String, String)> = degraded_pools(pools)
        .into_iter()
        .chain(kubelet_skew(pools))
        .collect();
    let (holds, reason, message) = if let Some((reason, _)) = refusals.first() {
        let reason = reason.clone();
        let messages: Vec<String> = refusals.into_iter().map(|(_, message)| message).collect();
        (ConditionStatus::False, reason, messages.join("; "))
    } else if reported.is_none() {
        (ConditionStatus::Unknown, "NoData".to_owned(), String::new())
    } else {
        (ConditionStatus::True, AS_EXPECTED.to_owned(), String::new())
    };
    (ClusterConditionType::Upgradeable, holds, reason, message)
}

/// Reason and message about pools that are degraded.
fn degraded_pools(pools: &[&MachineConfigPool]) -> Option<(String, String)> {
    let is_degraded = |pool: &&MachineConfigPool| is(pool, &PoolConditionType::Degraded);
    let degraded: Vec<&str> = pools
        .iter()
        .copied()
        .filter(is_degraded)
        .map(name)
        .collect();
    (!degraded.is_empty()).then(|| {
        let message = format!(
            "One or more machine config pools are degraded, please see `oc get mcp` for further \
             details and resolve before upgrading: {}",
            degraded.join(", ")
        );
        ("DegradedPool".to_owned(), message)
    })
}

/// Reason and message about kubelets that the next minor release would leave too far behind, as the
/// pools report them: the process that reports on the cluster watches no nodes.
fn kubelet_skew(pools: &[&MachineConfigPool]) -> Option<(String, String)> {
    let skews = pools.iter().filter_map(|pool| {
        let condition = pool.status.as_ref()?;
        let condition = condition.condition(&PoolConditionType::KubeletSkew)?;
        (condition.status != ConditionStatus::False).then_some((name(pool), condition))
    });
    let skews: Vec<_> = skews.collect();
    // What is known to be unsupported says more than what is not known.
    let is_unsupported = |(_, condition): &&(&str, &PoolCondition)| {
        condition.reason == PoolConditionReason::KubeletSkewUnsupported
    };
    let (_, first) = skews
        .iter()
        .find(is_unsupported)
        .or_else(|| skews.first())?;
    let sentences = skews
        .iter()
        .map(|(pool, condition)| format!("pool {pool}: {}", condition.message));
    let sentences: Vec<String> = sentences.collect();
    let message = format!(
        "The next minor release would leave kubelets too far behind; update their pools before: {}",
        sentences.join("; ")
    );
    Some((first.reason.to_string(), message))
}

fn related() -> Vec<RelatedObject> {
    const GROUP: &str = "machineconfiguration.openshift.io";
    let all = |group: &str, resource: &str, name: &str| RelatedObject {
        group: group.to_owned(),
        resource: resource.to_owned(),
        name: name.to_owned(),
        namespace: String::new(),
    };
    vec![
        all("", "namespaces", NAMESPACE),
        all(GROUP, "machineconfigpools", ""),
        all(GROUP, "controllerconfigs", ""),
        all(GROUP, "machineconfigs", ""),
        all(GROUP, "osimagestreams", ""),
        all("operator.openshift.io", "machineconfigurations", "cluster"),
        all("", "nodes", ""),
    ]
}

fn extension(input: &OperatorInput<'_>) -> Value {
    let pools = input.pools.iter();
    let mut extension: Map<String, Value> = pools
        .map(|pool| (name(pool).to_owned(), json!(state(pool))))
        .collect();
    // No pool has such a name: it would need capitals.
    let notes = [
        ("bootImages", &input.notes.boot_images),
        ("osImageStream", &input.notes.os_image_stream),
    ];
    for (key, note) in notes {
        extension.extend(note.iter().map(|note| (key.to_owned(), json!(note))));
    }
    if let ReleaseProgress::Failed { why, .. } = input.progress {
        extension.insert("lastSyncError".to_owned(), json!(why));
    }
    Value::Object(extension)
}

/// What a pool is at, in a sentence.
fn state(pool: &MachineConfigPool) -> String {
    if is(pool, &PoolConditionType::Degraded) {
        let mut failures = failures(pool);
        return match failures.next() {
            Some((PoolConditionType::RenderDegraded, why)) => {
                format!("pool is degraded because rendering fails with {why}")
            }
            Some((PoolConditionType::NodeDegraded, why)) => {
                format!("pool is degraded because nodes fail with {why}")
            }
            Some((_, why)) => format!("pool is degraded because of {why}"),
            None => "pool is degraded".to_owned(),
        };
    }
    let Some(status) = &pool.status else {
        return "<unknown>".to_owned();
    };
    let config = pool.spec.configuration.name().unwrap_or_default();
    if is(pool, &PoolConditionType::Updated) {
        format!(
            "all {} nodes are at latest configuration {config}",
            status.machine_count
        )
    } else if is(pool, &PoolConditionType::Updating) {
        format!(
            "{} (ready {}) out of {} nodes are updating to latest configuration {config}",
            status.updated_machine_count, status.ready_machine_count, status.machine_count
        )
    } else {
        "<unknown>".to_owned()
    }
}

#[cfg(test)]
mod tests;
