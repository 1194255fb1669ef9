//! What a removal takes away, in which order, and what stays.

use std::collections::{BTreeMap, BTreeSet};

use api::machineconfiguration::annotation::{CORDONED_BY, STATE};
use api::machineconfiguration::label::UPDATE_IN_PROGRESS_TAINT;
use release::manifest::ObjectId;
use serde::Serialize;
use serde_json::Value;

use crate::adoption::VERSION_OPERATOR;
use crate::order;
use crate::record::{InstallRecord, RecordedObject};

/// State of a node in the midst of an update.
const WORKING: &str = "Working";

/// Keys of annotations and labels that are Slipway's alone.
const OWN: &str = "slipway.dev/";

/// Objects in the order in which they are removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovalPlan {
    /// Bindings of admission policies, which refuse other removals.
    pub guards: Vec<RecordedObject>,
    /// What runs programs.
    pub workloads: Vec<RecordedObject>,
    /// All else but namespaces.
    pub others: Vec<RecordedObject>,
    /// Namespaces, where no other program or person has objects in them.
    pub namespaces: Vec<RecordedObject>,
    /// What stays.
    pub kept: Vec<KeptObject>,
}

/// An object that stays, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeptObject {
    /// The object.
    pub object: String,
    /// For people.
    pub why: String,
}

impl RemovalPlan {
    /// Of an installation: definitions and objects of their kinds stay unless `purges`. Of the
    /// `adopted` objects, which are restored afterwards, only programs and bindings of policies go.
    pub fn new(record: &InstallRecord, adopted: &BTreeSet<ObjectId>, purges: bool) -> Self {
        let mut plan = Self {
            guards: Vec::new(),
            workloads: Vec::new(),
            others: Vec::new(),
            namespaces: Vec::new(),
            kept: Vec::new(),
        };
        // What came last goes first.
        for object in record.objects.iter().rev() {
            let id = object.id();
            let is_adopted = adopted.contains(&id);
            if object.was_there && !is_adopted {
                plan.keep(&id, "it was there before");
            } else if record.is_data(object) && id.kind != "Namespace" && !purges {
                plan.keep(&id, "--purge removes it, and all objects of its kind");
            } else if id.kind == "Namespace" {
                plan.namespaces.push(object.clone());
            } else if order::is_guard(&id) {
                plan.guards.push(object.clone());
            } else if order::is_workload(&id) {
                plan.workloads.push(object.clone());
            } else if !is_adopted {
                plan.others.push(object.clone());
            }
        }
        plan
    }

    fn keep(&mut self, id: &ObjectId, why: &str) {
        self.kept.push(KeptObject {
            object: id.to_string(),
            why: why.to_owned(),
        });
    }
}

/// Why a namespace stays: `others` are objects in it that the installation did not make.
pub fn keeps_namespace(namespace: &RecordedObject, others: &[String]) -> Option<KeptObject> {
    let first = others.first()?;
    let more = match others.len() - 1 {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(KeptObject {
        object: namespace.id().to_string(),
        why: format!("others have objects in it: {first}{more}"),
    })
}

/// Whether an object of a namespace is there without the doing of a person or another program:
/// it has an owner, which counts itself, or comes with each namespace, or our programs made it.
pub fn is_of_every_namespace(id: &ObjectId, has_owner: bool) -> bool {
    const ACCOUNTS: [&str; 3] = ["default", "builder", "deployer"];
    const MAPS: [&str; 3] = [
        "kube-root-ca.crt",
        "openshift-service-ca.crt",
        "release-inventory",
    ];
    let name = id.name.as_str();
    match id.kind.as_str() {
        "ConfigMap" => has_owner || MAPS.contains(&name),
        "ServiceAccount" => has_owner || ACCOUNTS.contains(&name),
        // What tells of other objects, or how they are.
        "Event" | "Endpoints" | "EndpointSlice" | "Lease" | "PodMetrics" => true,
        // Those by which a release is retrieved.
        "Job" => has_owner || id.namespace == VERSION_OPERATOR.0 && name.starts_with("version-"),
        _ => has_owner,
    }
}

/// The finalizers of an object without ours; none if it has none of ours. Once the controllers are
/// gone, no other program would take them off.
///
/// Shape: of KubeletConfigs and ContainerRuntimeConfigs ours are names of generated MachineConfigs,
/// as OpenShift's are; of UpgradeConfigs one with our own domain. OpenShift's operators, where they
/// return, go on with theirs.
pub fn without_own_finalizers(object: &Value, returns: bool) -> Option<Vec<&str>> {
    let all = object
        .pointer("/metadata/finalizers")
        .and_then(Value::as_array)?;
    let all = all.iter().filter_map(Value::as_str);
    let is_generated = |name: &str| !returns && name.contains("-generated-");
    let is_own = |name: &&str| name.starts_with(OWN) || is_generated(name);
    let (own, others): (Vec<_>, Vec<_>) = all.partition(is_own);
    (!own.is_empty()).then_some(others)
}

/// Why the nodes cannot be left as they are: those in the midst of an update, by name.
///
/// Shape: Nodes with their annotations.
pub fn busy_nodes(nodes: &[Value]) -> Vec<String> {
    let name = |node: &Value| {
        let name = node.pointer("/metadata/name").and_then(Value::as_str);
        name.unwrap_or_default().to_owned()
    };
    let is_busy = |node: &&Value| {
        let annotation = |key: &str| {
            let all = node.pointer("/metadata/annotations");
            all.and_then(|all| all.get(key)).and_then(Value::as_str)
        };
        annotation(CORDONED_BY).is_some() || annotation(STATE) == Some(WORKING)
    };
    nodes.iter().filter(is_busy).map(name).collect()
}

/// The patch that takes Slipway's own annotations, labels and taints off a Node; none if it has
/// none. With `purges` OpenShift's, too, which Slipway wrote.
///
/// Shape: a merge patch; taints are replaced whole, under the object's version.
pub fn clean_node(node: &Value, purges: bool) -> Option<Value> {
    const UPSTREAM: &str = "machineconfiguration.openshift.io/";
    let is_own = |key: &str| key.starts_with(OWN) || purges && key.starts_with(UPSTREAM);
    let keys = |pointer: &str| {
        let keys = node.pointer(pointer).and_then(Value::as_object);
        let keys = keys.into_iter().flatten().map(|(key, _)| key.clone());
        let own = keys.filter(|key| is_own(key)).map(|key| (key, Value::Null));
        own.collect::<serde_json::Map<_, _>>()
    };
    let (annotations, labels) = (keys("/metadata/annotations"), keys("/metadata/labels"));
    let taints = node.pointer("/spec/taints").and_then(Value::as_array);
    let taints = taints.map(Vec::as_slice).unwrap_or_default();
    let is_kept = |taint: &&Value| {
        let key = taint.get("key").and_then(Value::as_str);
        !key.is_some_and(|key| {
            key.starts_with(OWN) || key.starts_with(UPSTREAM) || key == UPDATE_IN_PROGRESS_TAINT
        })
    };
    let kept: Vec<_> = taints.iter().filter(is_kept).cloned().collect();
    let mut patch = BTreeMap::new();
    let mut metadata = serde_json::Map::new();
    for (field, keys) in [("annotations", annotations), ("labels", labels)] {
        if !keys.is_empty() {
            metadata.insert(field.to_owned(), Value::Object(keys));
        }
    }
    if kept.len() < taints.len() {
        patch.insert("spec", serde_json::json!({ "taints": kept }));
    }
    if patch.is_empty() && metadata.is_empty() {
        return None;
    }
    if let Some(version) = node.pointer("/metadata/resourceVersion") {
        metadata.insert("resourceVersion".to_owned(), version.clone());
    }
    patch.insert("metadata", Value::Object(metadata));
    serde_json::to_value(patch).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::component::InstallComponent;
    use crate::record::tests::{manifest, of};

    fn record() -> InstallRecord {
        let crd = |name: &str| {
            of(&json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": name},
            }))
        };
        let pool = of(&json!({
            "apiVersion": "a.dev/v1", "kind": "Pool", "metadata": {"name": "worker"},
        }));
        let old = manifest("Namespace", "old");
        let wanted = [
            crd("pools.a.dev"),
            old.clone(),
            manifest("Namespace", "n"),
            manifest("Service", "s"),
            pool,
            manifest("ValidatingAdmissionPolicyBinding", "g"),
            manifest("DaemonSet", "d"),
        ];
        let there = BTreeSet::from([old.id]);
        let components = BTreeSet::from([InstallComponent::MachineConfig]);
        InstallRecord::begin(None, ("1", "i"), &components, &wanted, &there)
    }

    fn names(objects: &[RecordedObject]) -> Vec<&str> {
        objects.iter().map(|it| it.name.as_str()).collect()
    }

    #[test]
    fn what_came_last_goes_first_and_what_people_have_stays() {
        let plan = RemovalPlan::new(&record(), &BTreeSet::new(), false);
        assert_eq!(names(&plan.guards), ["g"]);
        assert_eq!(names(&plan.workloads), ["d"]);
        assert_eq!(names(&plan.others), ["s"]);
        assert_eq!(names(&plan.namespaces), ["n"]);
        let kept: Vec<_> = plan.kept.iter().map(|it| it.object.as_str()).collect();
        assert_eq!(
            kept,
            [
                "Pool.a.dev worker",
                "Namespace old",
                "CustomResourceDefinition.apiextensions.k8s.io pools.a.dev"
            ]
        );
        let plan = RemovalPlan::new(&record(), &BTreeSet::new(), true);
        assert_eq!(names(&plan.others), ["worker", "s", "pools.a.dev"]);
        assert_eq!(plan.kept.len(), 1, "what was there before stays");
    }

    #[test]
    fn a_namespace_of_others_stays() {
        let record = record();
        let namespace = record.objects.iter().find(|it| it.name == "n").unwrap();
        assert_eq!(keeps_namespace(namespace, &[]), None);
        let others = ["Secret n/a".to_owned(), "Secret n/b".to_owned()];
        let why = |others: &[String]| keeps_namespace(namespace, others).unwrap().why;
        assert_eq!(why(&others[..1]), "others have objects in it: Secret n/a");
        assert_eq!(
            why(&others),
            "others have objects in it: Secret n/a and 1 more"
        );
    }

    #[test]
    fn only_our_own_finalizers_are_taken_off() {
        let with = |names: &[&str]| json!({"metadata": {"finalizers": names}});
        let none: Option<Vec<&str>> = None;
        assert_eq!(without_own_finalizers(&json!({}), false), none);
        assert_eq!(without_own_finalizers(&with(&["a.dev/b"]), false), none);
        let object = with(&[
            "99-worker-generated-kubelet",
            "a.dev/b",
            "slipway.dev/managed-upgrade",
        ]);
        assert_eq!(
            without_own_finalizers(&object, false),
            Some(vec!["a.dev/b"])
        );
        let theirs = vec!["99-worker-generated-kubelet", "a.dev/b"];
        assert_eq!(without_own_finalizers(&object, true), Some(theirs));
    }

    #[test]
    fn objects_of_people_in_a_namespace_are_found() {
        let id = |kind: &str, name: &str| manifest(kind, name).id;
        for (kind, name, has_owner, expected) in [
            ("ConfigMap", "kube-root-ca.crt", false, true),
            ("ConfigMap", "mine", false, false),
            ("Pod", "of-a-set", true, true),
            ("Pod", "bare", false, false),
            ("UpgradeConfig", "mine", false, false),
            ("Lease", "l", false, true),
            ("Job", "version-4", false, false),
        ] {
            assert_eq!(
                is_of_every_namespace(&id(kind, name), has_owner),
                expected,
                "{kind} {name}"
            );
        }
    }

    #[test]
    fn what_is_restored_stays_in_its_place_and_its_programs_end() {
        let record = record();
        let of = |name: &str| {
            record
                .objects
                .iter()
                .find(|it| it.name == name)
                .unwrap()
                .id()
        };
        let adopted = BTreeSet::from([of("s"), of("d")]);
        let plan = RemovalPlan::new(&record, &adopted, false);
        assert_eq!(names(&plan.workloads), ["d"]);
        assert_eq!(names(&plan.others), [""; 0]);
    }

    #[test]
    fn nodes_in_the_midst_of_an_update_are_named() {
        let node = |name: &str, annotations: Value| json!({"metadata": {"name": name, "annotations": annotations}});
        let nodes = [
            node("a", json!({})),
            node("b", json!({CORDONED_BY: "1"})),
            node("c", json!({STATE: WORKING})),
            node("d", json!({STATE: "Done"})),
            json!({"metadata": {"name": "e"}}),
        ];
        assert_eq!(busy_nodes(&nodes), ["b", "c"]);
    }

    #[test]
    fn only_our_own_marks_leave_a_node() {
        let node = json!({
            "metadata": {
                "name": "a", "resourceVersion": "7",
                "annotations": {"slipway.dev/phase": "Idle", "machineconfiguration.openshift.io/state": "Done", "x": "y"},
                "labels": {"slipway.dev/a": "", "z": ""},
            },
            "spec": {"taints": [{"key": "a"}, {"key": "slipway.dev/t"}, {"key": "UpdateInProgress"}]},
        });
        let patch = clean_node(&node, false).unwrap();
        assert_eq!(
            patch,
            json!({
                "metadata": {
                    "annotations": {"slipway.dev/phase": null}, "labels": {"slipway.dev/a": null},
                    "resourceVersion": "7",
                },
                "spec": {"taints": [{"key": "a"}]},
            })
        );
        let purged = clean_node(&node, true).unwrap();
        let state =
            purged.pointer("/metadata/annotations/machineconfiguration.openshift.io~1state");
        assert_eq!(state, Some(&Value::Null));
        let clean = json!({"metadata": {"name": "a", "annotations": {"x": "y"}}, "spec": {"taints": [{"key": "a"}]}});
        assert_eq!(clean_node(&clean, true), None);
    }
}
