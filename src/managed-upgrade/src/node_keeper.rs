//! Help for drains that are stuck: which pods of a node are removed by force, and when.
//!
//! Values in, actions out. The daemon evicts; what its evictions do not remove in time is removed
//! here, one kind of pods after the other.

use std::collections::BTreeMap;

use api::machineconfiguration::{DrainLease, annotation};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use pool::selector::Selector;
use regex::Regex;
use serde_json::Value;

/// Holder of the lease of a node's drain.
pub const HOLDER: &str = "managed-upgrade-operator";

/// The daemon has so long to see the lease before pods are removed.
const SETTLED: SignedDuration = SignedDuration::from_secs(20);

/// A lease is renewed after a third of its length.
const RENEWED: SignedDuration = SignedDuration::from_secs(60);

/// How long drains may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrainLimits {
    /// Pods without a budget: `nodeDrain.timeOut`.
    pub free: SignedDuration,
    /// Pods with a budget: `PDBForceDrainTimeout` and `nodeDrain.expectedNodeDrainTime`.
    pub protected: SignedDuration,
    /// `nodeDrain.expectedNodeDrainTime`.
    pub expected: SignedDuration,
}

/// A pod on a node that is drained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptPod {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Whether it is being deleted.
    pub is_terminating: bool,
    /// Whether it has finalizers.
    pub has_finalizers: bool,
    /// Whether a PodDisruptionBudget selects it.
    pub has_budget: bool,
}

/// What is done about pods of one kind after their time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DrainStrategy {
    /// Deletes pods without a budget.
    Delete,
    /// Clears their finalizers.
    DefaultFinalizer,
    /// Deletes those again that do not end.
    PodStuckTerminating,
    /// Deletes pods with a budget.
    PdbDelete,
    /// Clears their finalizers.
    PdbFinalizer,
    /// Deletes those again that do not end.
    PdbStuckTerminating,
}

/// How a pod is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForcedRemoval {
    /// It is deleted without a grace period.
    Delete,
    /// Its finalizers are cleared.
    ClearFinalizers,
}

impl DrainStrategy {
    /// All, in the order in which they are carried out.
    pub const ALL: [Self; 6] = [
        Self::Delete,
        Self::DefaultFinalizer,
        Self::PodStuckTerminating,
        Self::PdbDelete,
        Self::PdbFinalizer,
        Self::PdbStuckTerminating,
    ];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Delete => "DELETE",
            Self::DefaultFinalizer => "DEFAULT-FINALIZER",
            Self::PodStuckTerminating => "POD-STUCK-TERMINATING",
            Self::PdbDelete => "PDB-DELETE",
            Self::PdbFinalizer => "PDB-FINALIZER",
            Self::PdbStuckTerminating => "PDB-STUCK-TERMINATING",
        }
    }

    /// How it removes a pod.
    pub const fn removal(self) -> ForcedRemoval {
        match self {
            Self::DefaultFinalizer | Self::PdbFinalizer => ForcedRemoval::ClearFinalizers,
            Self::Delete
            | Self::PodStuckTerminating
            | Self::PdbDelete
            | Self::PdbStuckTerminating => ForcedRemoval::Delete,
        }
    }

    /// How long after the start of the drain it begins.
    pub const fn wait(self, limits: &DrainLimits) -> SignedDuration {
        match self {
            Self::Delete | Self::DefaultFinalizer | Self::PodStuckTerminating => limits.free,
            Self::PdbDelete | Self::PdbFinalizer | Self::PdbStuckTerminating => limits.protected,
        }
    }

    /// Whether a pod is of its kind.
    pub const fn is_for(self, pod: &KeptPod) -> bool {
        match self {
            Self::Delete => !pod.has_budget && !pod.is_terminating,
            Self::DefaultFinalizer => !pod.has_budget && pod.has_finalizers,
            Self::PodStuckTerminating => {
                !pod.has_budget && pod.is_terminating && !pod.has_finalizers
            }
            Self::PdbDelete => pod.has_budget && !pod.is_terminating,
            Self::PdbFinalizer => pod.has_budget && pod.has_finalizers,
            Self::PdbStuckTerminating => {
                pod.has_budget && pod.is_terminating && !pod.has_finalizers
            }
        }
    }
}

/// Pods that are removed now, in order. `since` is the start of the drain.
pub fn due<'a>(
    limits: &DrainLimits,
    pods: &'a [KeptPod],
    since: Timestamp,
    now: Timestamp,
) -> Vec<(DrainStrategy, &'a KeptPod)> {
    let elapsed = now.duration_since(since);
    let due = DrainStrategy::ALL
        .into_iter()
        .filter(|strategy| elapsed > strategy.wait(limits));
    due.flat_map(|strategy| {
        let of_it = pods.iter().filter(move |pod| strategy.is_for(pod));
        of_it.map(move |pod| (strategy, pod))
    })
    .collect()
}

/// Whether anything may be due, whatever pods there are.
pub fn is_any_due(limits: &DrainLimits, since: Timestamp, now: Timestamp) -> bool {
    now.duration_since(since) > limits.free.min(limits.protected)
}

/// Whether the drain has failed: nothing that is still to come would help, and what was done had
/// its time. Without help (`disableDrainStrategies`) it has when it takes longer than
/// `nodeDrain.timeOut`.
pub fn has_failed(
    limits: &DrainLimits,
    pods: &[KeptPod],
    is_helped: bool,
    since: Timestamp,
    now: Timestamp,
) -> bool {
    let elapsed = now.duration_since(since);
    if !is_helped {
        return elapsed > limits.free;
    }
    let to_come = |strategy: &DrainStrategy| elapsed <= strategy.wait(limits);
    let helps = |strategy: &DrainStrategy| pods.iter().any(|pod| strategy.is_for(pod));
    if DrainStrategy::ALL
        .iter()
        .any(|strategy| to_come(strategy) && helps(strategy))
    {
        return false;
    }
    let waits = DrainStrategy::ALL.map(|strategy| strategy.wait(limits));
    let longest = waits.into_iter().filter(|wait| elapsed > *wait).max();
    let longest = longest.unwrap_or_default();
    elapsed > (longest + limits.expected).max(limits.free)
}

/// What comes next about the lease of a node's drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseStep {
    /// Nothing: there is none, and none is needed.
    Nothing,
    /// It is taken. Pods are removed later.
    Take,
    /// It was taken a moment ago.
    Settle,
    /// It is renewed, then pods are removed.
    Renew,
    /// Pods are removed.
    Act,
    /// It is released.
    Release,
}

/// Decides about the lease, so that daemon and operator never drain one node at once.
pub fn lease_step(lease: Option<&DrainLease>, is_needed: bool, now: Timestamp) -> LeaseStep {
    let Some(lease) = lease else {
        return if is_needed {
            LeaseStep::Take
        } else {
            LeaseStep::Nothing
        };
    };
    if !is_needed {
        return LeaseStep::Release;
    }
    let length = i64::try_from(DrainLease::SECS).unwrap_or(i64::MAX);
    let age = now.duration_since(lease.renewed);
    // One that has expired may be held no more: the daemon has gone on. A clock that was set back
    // makes it begin again, too.
    if age.as_secs() >= length || age.is_negative() {
        return LeaseStep::Take;
    }
    if now.duration_since(lease.since) < SETTLED {
        return LeaseStep::Settle;
    }
    if age >= RENEWED {
        return LeaseStep::Renew;
    }
    LeaseStep::Act
}

/// The pods of a node that may be removed, from objects. Those of DaemonSets, of files on the host
/// and finished ones do not hold a drain; an administrator's annotation exempts others.
pub fn read_pods(pods: &[Value], budgets: &[Value], ignored: &[Regex]) -> Vec<KeptPod> {
    let text = |object: &Value, pointer: &str| {
        let text = object.pointer(pointer).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let kept = pods.iter().filter(|pod| {
        let annotations = pod.pointer("/metadata/annotations");
        let says = |key: &str| annotations.and_then(|all| all.get(key)?.as_str());
        let owners = pod.pointer("/metadata/ownerReferences");
        let mut owners = owners.and_then(Value::as_array).into_iter().flatten();
        let is_of_set = owners.any(|owner| text(owner, "/kind") == "DaemonSet");
        let phase = text(pod, "/status/phase");
        let namespace = text(pod, "/metadata/namespace");
        says("kubernetes.io/config.mirror").is_none()
            && says(annotation::NO_FORCED_DRAIN) != Some("true")
            && !is_of_set
            && !["Succeeded", "Failed"].contains(&phase.as_str())
            && !ignored.iter().any(|pattern| pattern.is_match(&namespace))
    });
    kept.map(|pod| {
        let namespace = text(pod, "/metadata/namespace");
        let labels = pod.pointer("/metadata/labels").cloned();
        let labels = labels.and_then(|labels| serde_json::from_value(labels).ok());
        let labels: BTreeMap<String, String> = labels.unwrap_or_default();
        let finalizers = pod
            .pointer("/metadata/finalizers")
            .and_then(Value::as_array);
        let mut near = budgets
            .iter()
            .filter(|budget| text(budget, "/metadata/namespace") == namespace);
        KeptPod {
            name: text(pod, "/metadata/name"),
            uid: text(pod, "/metadata/uid"),
            is_terminating: pod.pointer("/metadata/deletionTimestamp").is_some(),
            has_finalizers: finalizers.is_some_and(|all| !all.is_empty()),
            has_budget: near.any(|budget| selects(budget.pointer("/spec/selector"), &labels)),
            namespace,
        }
    })
    .collect()
}

/// Whether a budget's selector selects a pod. What cannot be read protects it.
fn selects(selector: Option<&Value>, labels: &BTreeMap<String, String>) -> bool {
    let Some(selector) = selector.filter(|selector| !selector.is_null()) else {
        return false;
    };
    let parsed = serde_json::from_value::<LabelSelector>(selector.clone());
    let parsed = parsed.map(|selector| Selector::parse("spec.selector", Some(&selector)));
    match parsed {
        Ok(Ok(Selector::Everything) | Err(_)) | Err(_) => true,
        Ok(Ok(selector)) => selector.matches(labels),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture::at;

    const LIMITS: DrainLimits = DrainLimits {
        free: SignedDuration::from_mins(45),
        protected: SignedDuration::from_mins(68),
        expected: SignedDuration::from_mins(8),
    };

    fn pod(has_budget: bool, is_terminating: bool, has_finalizers: bool) -> KeptPod {
        KeptPod {
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            uid: "1".to_owned(),
            is_terminating,
            has_finalizers,
            has_budget,
        }
    }

    #[test]
    fn each_kind_of_pod_is_removed_after_its_time_in_order() {
        let table = [
            (pod(false, false, false), 45, vec![]),
            (pod(false, false, false), 46, vec!["DELETE"]),
            (
                pod(false, false, true),
                46,
                vec!["DELETE", "DEFAULT-FINALIZER"],
            ),
            (pod(false, true, true), 46, vec!["DEFAULT-FINALIZER"]),
            (pod(false, true, false), 46, vec!["POD-STUCK-TERMINATING"]),
            (pod(true, false, false), 68, vec![]),
            (pod(true, false, false), 69, vec!["PDB-DELETE"]),
            (
                pod(true, false, true),
                69,
                vec!["PDB-DELETE", "PDB-FINALIZER"],
            ),
            (pod(true, true, false), 69, vec!["PDB-STUCK-TERMINATING"]),
            // The clock was set back.
            (pod(true, true, false), -69, vec![]),
        ];
        for (pod, minute, expected) in table {
            let pods = [pod];
            let found = due(&LIMITS, &pods, at(0), at(minute));
            let found: Vec<&str> = found
                .iter()
                .map(|(strategy, _)| strategy.as_str())
                .collect();
            assert_eq!(found, expected, "{pods:?} {minute}");
        }
        assert!(!is_any_due(&LIMITS, at(0), at(45)) && is_any_due(&LIMITS, at(0), at(46)));
    }

    #[test]
    fn drain_has_failed_when_nothing_to_come_helps() {
        let free = pod(false, false, false);
        let protected = pod(true, false, false);
        let table = [
            (vec![free.clone()], true, 45, false),
            // It was deleted, and has the usual time to go.
            (vec![free.clone()], true, 53, false),
            (vec![free.clone()], true, 54, true),
            // Its turn is to come.
            (vec![protected.clone()], true, 68, false),
            (vec![protected.clone()], true, 76, false),
            (vec![protected], true, 77, true),
            (vec![free.clone()], false, 45, false),
            (vec![free], false, 46, true),
        ];
        for (pods, is_helped, minute, expected) in table {
            let found = has_failed(&LIMITS, &pods, is_helped, at(0), at(minute));
            assert_eq!(found, expected, "{pods:?} {is_helped} {minute}");
        }
        // A force at once does not make a drain fail before `nodeDrain.timeOut`.
        let soon = DrainLimits {
            protected: SignedDuration::from_mins(8),
            ..LIMITS
        };
        assert!(!has_failed(&soon, &[], true, at(0), at(45)));
    }

    #[test]
    fn pods_are_removed_only_under_a_lease_that_the_daemon_has_seen() {
        let secs = |secs| at(0) + SignedDuration::from_secs(secs);
        let lease = |since, renewed| DrainLease {
            holder: HOLDER.to_owned(),
            since: secs(since),
            renewed: secs(renewed),
        };
        let table = [
            (None, false, LeaseStep::Nothing),
            (None, true, LeaseStep::Take),
            (Some(lease(-1, -1)), true, LeaseStep::Settle),
            (Some(lease(-20, -20)), true, LeaseStep::Act),
            (Some(lease(-90, -60)), true, LeaseStep::Renew),
            (Some(lease(-500, -180)), true, LeaseStep::Take),
            (Some(lease(9, 9)), true, LeaseStep::Take),
            (Some(lease(-20, -20)), false, LeaseStep::Release),
        ];
        for (lease, is_needed, expected) in table {
            let found = lease_step(lease.as_ref(), is_needed, secs(0));
            assert_eq!(found, expected, "{lease:?} {is_needed}");
        }
    }

    #[test]
    fn exempt_pods_stay_and_budgets_protect_those_of_their_namespace() {
        let pod = |name: &str, change: Value| {
            let mut pod = json!({
                "metadata": {
                    "namespace": "shop", "name": name, "uid": name, "labels": { "app": "web" },
                },
                "status": { "phase": "Running" },
            });
            for (pointer, value) in change.as_object().unwrap() {
                pod["metadata"][pointer] = value.clone();
            }
            pod
        };
        let owner = json!([{ "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d" }]);
        let mut finished = pod("finished", json!({}));
        finished["status"]["phase"] = json!("Succeeded");
        let pods = [
            pod("plain", json!({})),
            pod(
                "other",
                json!({ "labels": { "app": "db" }, "finalizers": ["a/b"] }),
            ),
            pod("elsewhere", json!({ "namespace": "bank" })),
            pod("set", json!({ "ownerReferences": owner })),
            pod(
                "mirror",
                json!({ "annotations": { "kubernetes.io/config.mirror": "" } }),
            ),
            pod(
                "exempt",
                json!({ "annotations": { "slipway.dev/no-forced-drain": "true" } }),
            ),
            pod("ignored", json!({ "namespace": "openshift-etcd" })),
            finished,
        ];
        let budget = |selector: Value| json!({ "metadata": { "namespace": "shop" }, "spec": { "selector": selector } });
        let ignored = [Regex::new("^openshift-").unwrap()];
        let read = |budgets: &[Value]| {
            let found = read_pods(&pods, budgets, &ignored);
            let shown = |pod: KeptPod| (pod.name, pod.has_budget);
            found.into_iter().map(shown).collect::<Vec<_>>()
        };
        let names = |plain, other| {
            [("plain", plain), ("other", other), ("elsewhere", false)]
                .map(|(name, has_budget)| (name.to_owned(), has_budget))
                .to_vec()
        };
        let by_expression =
            json!({ "matchExpressions": [{ "key": "app", "operator": "In", "values": ["web"] }] });
        let table = [
            (vec![], names(false, false)),
            (
                vec![budget(json!({ "matchLabels": { "app": "web" } }))],
                names(true, false),
            ),
            (vec![budget(by_expression)], names(true, false)),
            (vec![budget(json!({}))], names(true, true)),
            (vec![budget(Value::Null)], names(false, false)),
        ];
        for (budgets, expected) in table {
            assert_eq!(read(&budgets), expected, "{budgets:?}");
        }
    }
}
