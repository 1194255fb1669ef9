//! What a pool's status says, and what of it changed.

use api::machine_config_pool::{CertificateExpiry, MachineConfigPoolStatus};
use api::{ControllerConfig, MachineConfigPool};
use serde_json::{Map, Value};

/// Name of the bundle whose certificates every node carries.
const SERVING_BUNDLE: &str = "KubeAPIServerServingCAData";

/// The fields of a status that differ: new values, and `null` for what is gone. Nothing when they are the same.
pub fn changes(pool: &MachineConfigPool, after: &MachineConfigPoolStatus) -> Option<Value> {
    let fields = |status: Option<&MachineConfigPoolStatus>| -> Map<String, Value> {
        match status.map(serde_json::to_value) {
            Some(Ok(Value::Object(fields))) => fields,
            _ => Map::new(),
        }
    };
    let (before, after) = (fields(pool.status.as_ref()), fields(Some(after)));
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
