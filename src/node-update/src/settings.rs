//! What a cluster says about changes of its nodes, read from MachineConfiguration `cluster`.

use serde_json::Value;

use crate::disruption::{self, Policies};
use crate::reconcile::Exempt;

/// Where the policies in force are.
const POLICIES: &str = "status.nodeDisruptionPolicyStatus.clusterPolicies";

/// What a cluster says about changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpdateSettings {
    /// What a change does to a running node.
    pub policies: Policies,
    /// Changes that are let pass though they have no effect.
    pub exempt: Exempt,
}

impl UpdateSettings {
    /// Reads MachineConfiguration `cluster`: the policies in force, into which the operator merges
    /// its defaults, and `spec.irreconcilableValidationOverrides.storage`.
    ///
    /// # Errors
    /// A policy that cannot be read; the error names its field.
    pub fn read(object: &Value) -> Result<Self, disruption::Error> {
        let policies = match object.pointer(&format!("/{}", POLICIES.replace('.', "/"))) {
            Some(policies) => Policies::parse(policies).map_err(|error| disruption::Error {
                field: format!("{POLICIES}.{}", error.field),
                why: error.why,
            })?,
            None => Policies::default(),
        };
        let exempted = object.pointer("/spec/irreconcilableValidationOverrides/storage");
        let has = |name: &str| {
            let names = exempted.and_then(Value::as_array).into_iter().flatten();
            names
                .filter_map(Value::as_str)
                .any(|exempted| exempted == name)
        };
        Ok(Self {
            policies,
            exempt: Exempt {
                disks: has("Disks"),
                filesystems: has("FileSystems"),
                raid: has("Raid"),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn policies_and_exemptions_are_read_and_errors_name_the_field() {
        assert_eq!(
            UpdateSettings::read(&json!({})),
            Ok(UpdateSettings::default())
        );
        let spec = json!({ "spec": { "irreconcilableValidationOverrides": { "storage": ["Raid", "Other"] } } });
        let exempt = Exempt {
            raid: true,
            ..Exempt::default()
        };
        assert_eq!(UpdateSettings::read(&spec).unwrap().exempt, exempt);
        let policies = |policies: Value| json!({ "status": { "nodeDisruptionPolicyStatus": { "clusterPolicies": policies } } });
        let harmless = json!({ "files": [{ "path": "/etc/a", "actions": [{ "type": "None" }] }] });
        let read = UpdateSettings::read(&policies(harmless)).unwrap();
        assert_eq!(read.policies.files.len(), 1);
        let broken = json!({ "files": [{ "path": "/etc/a", "actions": [{ "type": "Dance" }] }] });
        let error = UpdateSettings::read(&policies(broken))
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("status.nodeDisruptionPolicyStatus.clusterPolicies.files[0]"),
            "{error}"
        );
    }
}
