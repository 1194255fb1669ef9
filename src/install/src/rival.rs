//! Operators of OpenShift that do the same work: two of them would undo each other's.

use std::collections::BTreeSet;

use release::manifest::{Manifest, ObjectId};
use serde_json::Value;

use crate::order;

/// A workload that is looked at whatever is installed: it applies the others again.
const ALWAYS: (&str, &str, &str, &str) = (
    "Deployment",
    "openshift-cluster-version",
    "cluster-version-operator",
    "/usr/bin/cvo",
);

/// A workload of the cluster that runs another program under the name of one of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rival {
    /// The workload.
    pub id: ObjectId,
    /// Image of its first container.
    pub image: String,
}

/// A workload to be looked at, and the program that ours would run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Suspect {
    /// The workload.
    pub id: ObjectId,
    /// Path of our program.
    program: String,
}

/// Workloads that may be rivals of what is wanted.
pub fn suspects(wanted: &[Manifest]) -> BTreeSet<Suspect> {
    let workloads = wanted.iter().filter(|it| order::is_workload(&it.id));
    let mut suspects: BTreeSet<_> = workloads
        .filter_map(|it| {
            Some(Suspect {
                id: it.id.clone(),
                program: program(&it.object)?.to_owned(),
            })
        })
        .collect();
    let (kind, namespace, name, program) = ALWAYS;
    suspects.insert(Suspect {
        id: ObjectId {
            group: "apps".to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        },
        program: program.to_owned(),
    });
    suspects
}

impl Suspect {
    /// Whether the cluster's object is a rival. One whose program is not known is one, too.
    pub fn judge(&self, object: &Value) -> Option<Rival> {
        let image = object.pointer("/spec/template/spec/containers/0/image");
        let is_ours = program(object) == Some(self.program.as_str());
        (!is_ours).then(|| Rival {
            id: self.id.clone(),
            image: image
                .and_then(Value::as_str)
                .unwrap_or("an unknown image")
                .to_owned(),
        })
    }
}

fn program(object: &Value) -> Option<&str> {
    object
        .pointer("/spec/template/spec/containers/0/command/0")
        .and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::record::tests::{manifest, of};

    fn workload(command: &Value) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": {"name": "machine-config-daemon", "namespace": "n"},
            "spec": {"template": {"spec": {"containers": [{"image": "i", "command": command}]}}},
        })
    }

    #[test]
    fn a_workload_with_another_program_is_a_rival() {
        let wanted = [
            of(&workload(&json!(["/usr/bin/mcd"]))),
            manifest("Service", "s"),
        ];
        let suspects = suspects(&wanted);
        let names: Vec<_> = suspects.iter().map(|it| it.id.name.as_str()).collect();
        assert_eq!(names, ["machine-config-daemon", "cluster-version-operator"]);
        let daemon = suspects.first().unwrap();
        for (command, is_rival) in [
            (json!(["/usr/bin/mcd", "start"]), false),
            (json!(["/usr/bin/machine-config-daemon"]), true),
            (json!([]), true),
            (Value::Null, true),
        ] {
            let rival = daemon.judge(&workload(&command));
            assert_eq!(rival.is_some(), is_rival, "{command}");
        }
        let unknown = daemon.judge(&json!({})).unwrap();
        assert_eq!(unknown.image, "an unknown image");
    }
}
