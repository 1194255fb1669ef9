//! What a pool's status says, and what of it changed.

use api::ConditionStatus;
use api::machineconfiguration::machine_config_pool::{
    CertificateExpiry, NamedReference, PoolConditionType,
};
use api::machineconfiguration::{ControllerConfig, MachineConfigPoolStatus};
use serde::Serialize;
use serde_json::{Map, Value};

/// Name of the bundle whose certificates every node carries.
const SERVING_BUNDLE: &str = "KubeAPIServerServingCAData";

/// The fields of a status that differ: new values, and `null` for what is gone. Nothing when they
/// are the same.
pub fn changes<S: Serialize>(before: Option<&S>, after: &S) -> Option<Value> {
    let fields = |status: Option<&S>| -> Map<String, Value> {
        match status.map(serde_json::to_value) {
            Some(Ok(Value::Object(fields))) => fields,
            _ => Map::new(),
        }
    };
    let (before, after) = (fields(before), fields(Some(after)));
    let mut changes = Map::new();
    for (key, value) in &after {
        if before.get(key) != Some(value) {
            changes.insert(key.clone(), value.clone());
        }
    }
    for key in before.keys().filter(|key| !after.contains_key(*key)) {
        changes.insert(key.clone(), Value::Null);
    }
    (!changes.is_empty()).then_some(Value::Object(changes))
}

/// Whether a status differs from an earlier one in counts and messages only, as it does for each
/// node that a rollout goes through. A node that degrades, and a condition that changes, are more.
pub fn is_progress(
    before: Option<&MachineConfigPoolStatus>,
    after: &MachineConfigPoolStatus,
) -> bool {
    let Some(mut before) = before.cloned() else {
        return false;
    };
    before.updated_machine_count = after.updated_machine_count;
    before.ready_machine_count = after.ready_machine_count;
    before.unavailable_machine_count = after.unavailable_machine_count;
    let synchronizers = before.pool_synchronizers_status.iter_mut();
    for (was, is) in synchronizers.zip(&after.pool_synchronizers_status) {
        was.updated_machine_count = is.updated_machine_count;
        was.ready_machine_count = is.ready_machine_count;
        was.available_machine_count = is.available_machine_count;
        was.unavailable_machine_count = is.unavailable_machine_count;
    }
    for (was, is) in before.conditions.iter_mut().zip(&after.conditions) {
        was.message.clone_from(&is.message);
    }
    before == *after
}

/// Names the stream that all nodes of a pool have, once they have it.
pub fn stream(status: &mut MachineConfigPoolStatus, stream: Option<String>) {
    let is_true = |r#type: &PoolConditionType| {
        let condition = status.condition(r#type);
        condition.is_some_and(|condition| condition.status == ConditionStatus::True)
    };
    if is_true(&PoolConditionType::Updated) && !is_true(&PoolConditionType::Degraded) {
        status.os_image_stream = stream.map(|name| NamedReference { name });
    }
}

/// Certificates that every node carries, as the ControllerConfig knows them.
pub fn certificates(config: &ControllerConfig) -> Vec<CertificateExpiry> {
    config
        .status
        .iter()
        .flat_map(|status| &status.controller_certificates)
        .filter(|certificate| certificate.bundle_file == SERVING_BUNDLE)
        .map(|certificate| CertificateExpiry {
            bundle: certificate.bundle_file.clone(),
            subject: certificate.subject.clone(),
            expiry: certificate.not_after.clone(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use api::machineconfiguration::MachineConfigPool;
    use serde_json::json;

    use super::*;

    fn pool(status: &Value) -> MachineConfigPool {
        serde_json::from_value(
            json!({ "metadata": { "name": "worker" }, "spec": {}, "status": status }),
        )
        .unwrap()
    }

    #[test]
    fn only_what_differs_is_written_and_what_is_gone_is_removed() {
        let before = pool(&json!({
            "machineCount": 3, "updatedMachineCount": 1, "conditions": [],
            "certExpirys": [{ "bundle": "b", "subject": "s" }]
        }));
        let after = pool(&json!({ "machineCount": 3, "updatedMachineCount": 2, "conditions": [] }));
        let after = after.status.unwrap();
        assert_eq!(
            changes(before.status.as_ref(), &after),
            Some(json!({ "updatedMachineCount": 2, "certExpirys": null }))
        );
        assert_eq!(changes(Some(&after), &after), None);
    }

    #[test]
    fn counts_and_messages_are_progress_and_no_other_change_is() {
        let status = |updated: i32, degraded: i32, is_updating: &str, message: &str| {
            let condition = json!({ "type": "Updating", "status": is_updating, "message": message,
                "reason": "", "lastTransitionTime": "2026-11-21T19:00:00Z" });
            let counts = json!({ "machineCount": 3, "updatedMachineCount": updated, "readyMachineCount": updated,
                "unavailableMachineCount": 1, "degradedMachineCount": degraded, "conditions": [condition] });
            pool(&counts).status.unwrap()
        };
        let before = status(1, 0, "True", "1 of 3");
        assert!(is_progress(Some(&before), &status(2, 0, "True", "2 of 3")));
        assert!(!is_progress(Some(&before), &status(1, 1, "True", "1 of 3")));
        assert!(!is_progress(Some(&before), &status(3, 0, "False", "")));
        assert!(!is_progress(None, &before));
    }

    #[test]
    fn counts_of_pinned_images_are_progress_and_their_generation_is_not() {
        let status = |updated: i32, generation: i32| {
            let counts = json!({ "poolSynchronizerType": "PinnedImageSets", "machineCount": 3,
                "updatedMachineCount": updated, "readyMachineCount": updated, "availableMachineCount": 3,
                "unavailableMachineCount": 0, "observedGeneration": generation });
            pool(&json!({ "conditions": [], "poolSynchronizersStatus": [counts] }))
                .status
                .unwrap()
        };
        assert!(is_progress(Some(&status(1, 1)), &status(2, 1)));
        assert!(!is_progress(Some(&status(2, 1)), &status(3, 2)));
        let none = pool(&json!({ "conditions": [] })).status.unwrap();
        assert!(!is_progress(Some(&none), &status(0, 1)));
    }

    #[test]
    fn certificates_of_other_bundles_are_left_out() {
        let certificate = |bundle: &str| json!({ "bundleFile": bundle, "subject": "CN=a", "signer": "CN=b", "notAfter": "2034-02-04T16:03:00Z" });
        let config = json!({
            "metadata": { "name": "machine-config-controller" },
            "spec": {},
            "status": { "controllerCertificates": [certificate("KubeAPIServerServingCAData"), certificate("cloud")] }
        });
        let found = certificates(&serde_json::from_value(config).unwrap());
        assert_eq!(
            serde_json::to_value(found).unwrap(),
            json!([{ "bundle": "KubeAPIServerServingCAData", "subject": "CN=a", "expiry": "2034-02-04T16:03:00Z" }])
        );
    }
}
