//! Which pods leave a node, and why the others stay.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer};

/// Namespace and name. Printed as `namespace/name`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodName {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
}

impl fmt::Display for PodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// What of a pod decides whether it leaves.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one thing that a pod says of itself"
)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// Namespace and name.
    pub name: PodName,
    /// `metadata.uid`.
    pub uid: String,
    pub is_terminating: bool,
    /// Whether the kubelet made it from a file on the host: annotation
    /// `kubernetes.io/config.mirror`.
    pub is_mirror: bool,
    /// The owner with `controller: true`; unmanaged pods have none.
    pub controller: Option<PodController>,
    /// Whether `status.phase` is `Succeeded` or `Failed`.
    pub is_finished: bool,
    /// Whether the scheduler may put it on a cordoned node: its `spec.tolerations`.
    pub tolerates_cordon: bool,
}

/// Who made a pod and makes it again.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodController {
    /// Group and version.
    pub api_version: String,
    pub kind: String,
    pub name: String,
    #[serde(default, rename = "controller")]
    is_managing: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skip {
    /// It comes from a file on the host; deleting the mirror stops nothing.
    Mirror,
    /// Its DaemonSet tolerates the cordon and would make it again at once.
    DaemonSet,
    /// It is the pod that drains.
    Own,
    Finished,
    /// It came after the drain had begun, and tolerates the cordon or took the place of others that
    /// had come so: evicted, it would come again.
    CameBack,
}

/// What a drain does with a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Evicted, even if no controller replaces it and if its emptyDir is lost.
    Evict,
    /// Waited for: it is already being deleted.
    Wait,
    Skip(Skip),
}

/// Judges one pod.
///
/// Source: `kubectl drain --ignore-daemonsets --delete-emptydir-data --force`, as OpenShift's MCO
/// drains. Finished pods stay, unlike there: they hold up nothing, and their logs may be wanted.
pub fn judge(pod: &Pod, own: Option<&PodName>) -> Verdict {
    if pod.is_mirror {
        Verdict::Skip(Skip::Mirror)
    } else if own == Some(&pod.name) {
        Verdict::Skip(Skip::Own)
    } else if pod.is_finished {
        Verdict::Skip(Skip::Finished)
    } else if pod
        .controller
        .as_ref()
        .is_some_and(PodController::is_daemon_set)
    {
        Verdict::Skip(Skip::DaemonSet)
    } else if pod.is_terminating {
        Verdict::Wait
    } else {
        Verdict::Evict
    }
}

impl PodController {
    fn is_daemon_set(&self) -> bool {
        self.kind == "DaemonSet" && self.api_version.starts_with("apps/")
    }
}

impl<'de> Deserialize<'de> for Pod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Wire {
            metadata,
            spec,
            status,
        } = Wire::deserialize(deserializer)?;
        Ok(Self {
            name: PodName {
                namespace: metadata.namespace,
                name: metadata.name,
            },
            uid: metadata.uid,
            is_terminating: metadata.deletion_timestamp.is_some(),
            is_mirror: metadata
                .annotations
                .contains_key("kubernetes.io/config.mirror"),
            controller: metadata
                .owner_references
                .into_iter()
                .find(|owner| owner.is_managing),
            is_finished: matches!(status.phase.as_str(), "Succeeded" | "Failed"),
            tolerates_cordon: spec.tolerations.iter().any(Toleration::is_of_cordon),
        })
    }
}

#[derive(Deserialize)]
struct Wire {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize, Default)]
struct Spec {
    #[serde(default)]
    tolerations: Vec<Toleration>,
}

#[derive(Deserialize)]
struct Toleration {
    #[serde(default)]
    key: String,
    #[serde(default)]
    operator: String,
    #[serde(default)]
    value: String,
    #[serde(default)]
    effect: String,
}

impl Toleration {
    /// Whether it is of the taint `node.kubernetes.io/unschedulable:NoSchedule`, which has no
    /// value.
    ///
    /// Source: `ToleratesTaint` of Kubernetes, as the scheduler's `NodeUnschedulable` asks it.
    fn is_of_cordon(&self) -> bool {
        let exists = self.operator == "Exists";
        let is_key =
            self.key == "node.kubernetes.io/unschedulable" || (self.key.is_empty() && exists);
        let is_effect = matches!(self.effect.as_str(), "" | "NoSchedule");
        is_key && is_effect && (exists || self.value.is_empty())
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    namespace: String,
    name: String,
    uid: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    #[serde(default)]
    owner_references: Vec<PodController>,
    deletion_timestamp: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize, Default)]
struct Status {
    #[serde(default)]
    phase: String,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(metadata: &Value, phase: &str, volumes: &Value) -> Pod {
        let mut object = json!({
            "metadata": {"namespace": "shop", "name": "web", "uid": "1"},
            "spec": {"volumes": volumes},
            "status": {"phase": phase},
        });
        for (key, value) in metadata.as_object().unwrap() {
            object["metadata"][key] = value.clone();
        }
        serde_json::from_value(object).unwrap()
    }

    fn owner(api_version: &str, kind: &str, controller: bool) -> Value {
        json!({"ownerReferences": [{"apiVersion": api_version, "kind": kind, "name": "x", "uid": "2", "controller": controller}]})
    }

    #[test]
    fn who_tolerates_a_cordon() {
        let key = "node.kubernetes.io/unschedulable";
        let table = [
            (json!([]), false),
            (json!([{"operator": "Exists"}]), true),
            (
                json!([{"operator": "Exists", "effect": "NoExecute"}]),
                false,
            ),
            (
                json!([{"key": key, "operator": "Exists", "effect": "NoSchedule"}]),
                true,
            ),
            (json!([{"key": key}]), true),
            (json!([{"key": key, "value": "x"}]), false),
            (
                json!([{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]),
                false,
            ),
        ];
        for (tolerations, tolerates) in table {
            let pod = json!({
                "metadata": {"namespace": "shop", "name": "web", "uid": "1"}, "spec": {"tolerations": tolerations}
            });
            let pod: Pod = serde_json::from_value(pod).unwrap();
            assert_eq!(pod.tolerates_cordon, tolerates, "{tolerations}");
        }
    }

    #[test]
    fn who_leaves_and_who_stays() {
        let none = json!([]);
        let empty_dir = json!([{"name": "cache", "emptyDir": {}}]);
        let mirror = json!({"annotations": {"kubernetes.io/config.mirror": "abc"}});
        let deleted = json!({"deletionTimestamp": "2026-11-21T19:00:00Z"});
        let own = json!({"namespace": "mco", "name": "mcd-x"});
        let table = [
            (
                "of a ReplicaSet",
                owner("apps/v1", "ReplicaSet", true),
                "Running",
                &none,
                Verdict::Evict,
            ),
            ("unmanaged", json!({}), "Running", &none, Verdict::Evict),
            (
                "with emptyDir",
                owner("apps/v1", "ReplicaSet", true),
                "Running",
                &empty_dir,
                Verdict::Evict,
            ),
            ("pending", json!({}), "Pending", &none, Verdict::Evict),
            (
                "of a DaemonSet",
                owner("apps/v1", "DaemonSet", true),
                "Running",
                &none,
                Verdict::Skip(Skip::DaemonSet),
            ),
            (
                "owned, not controlled",
                owner("apps/v1", "DaemonSet", false),
                "Running",
                &none,
                Verdict::Evict,
            ),
            (
                "of another group's DaemonSet",
                owner("example.com/v1", "DaemonSet", true),
                "Running",
                &none,
                Verdict::Evict,
            ),
            (
                "mirror",
                mirror,
                "Running",
                &none,
                Verdict::Skip(Skip::Mirror),
            ),
            ("own", own, "Running", &none, Verdict::Skip(Skip::Own)),
            (
                "succeeded",
                json!({}),
                "Succeeded",
                &none,
                Verdict::Skip(Skip::Finished),
            ),
            (
                "failed",
                json!({}),
                "Failed",
                &none,
                Verdict::Skip(Skip::Finished),
            ),
            ("deleted already", deleted, "Running", &none, Verdict::Wait),
        ];
        let own = PodName {
            namespace: "mco".to_owned(),
            name: "mcd-x".to_owned(),
        };
        for (what, metadata, phase, volumes, verdict) in table {
            assert_eq!(
                judge(&pod(&metadata, phase, volumes), Some(&own)),
                verdict,
                "{what}"
            );
        }
    }
}
