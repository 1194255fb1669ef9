//! A MachineConfiguration that people write, with each optional field zero, empty or null.

use api::operator::MachineConfiguration;
use jiff::Timestamp;
use node_update::settings::UpdateSettings;
use serde_json::{Value, json};
use zeros::definition;

use super::{degraded, status};

/// The settings in force: what the controller puts into the status, as nodes read it.
fn made(mut object: Value) -> Result<String, String> {
    let settings: MachineConfiguration =
        serde_json::from_value(object.clone()).map_err(|error| error.to_string())?;
    let status = status(&settings, Timestamp::UNIX_EPOCH);
    if let Some(why) = degraded(&status) {
        return Err(why.to_owned());
    }
    object["status"] = serde_json::to_value(&status).map_err(|error| error.to_string())?;
    let read = UpdateSettings::read(&object).map_err(|error| error.to_string())?;
    Ok(format!("{read:#?}"))
}

fn object(spec: &Value) -> Value {
    json!({ "metadata": { "name": "cluster", "generation": 1 }, "spec": spec })
}

#[test]
fn zero_is_not_set_or_refused_by_name() {
    let service = json!({ "serviceName": "a.service" });
    let object = object(&json!({
        "nodeDisruptionPolicy": {
            "files": [{
                "path": "/etc/a",
                "actions": [{ "type": "Restart", "restart": service }, { "type": "Drain" }],
            }],
            "units": [{ "name": "a.service", "actions": [{ "type": "Reload", "reload": service }] }],
            "sshkey": { "actions": [{ "type": "Reboot" }] },
        },
        "irreconcilableValidationOverrides": { "storage": ["Raid"] },
    }));
    let definition = definition!("deploy/crds/machineconfigurations.yaml");
    let tried = zeros::check(definition, "spec", &object, &[], made);
    assert!(tried.faults.is_empty(), "{}", tried.faults);
    assert!(tried.count > 20, "only {} values were tried", tried.count);
}

/// The API server lets an empty list pass. It must not be taken for `None`: a change of the file
/// would have no effect on what runs.
#[test]
fn entry_without_actions_is_as_absent() {
    let made = |policy: Value| made(object(&json!({ "nodeDisruptionPolicy": policy })));
    let table = [
        json!({ "files": [{ "path": "/etc/a", "actions": [] }] }),
        json!({ "files": [{ "path": "/etc/containers/policy.json", "actions": [] }] }),
        json!({ "units": [{ "name": "iri-registry.service", "actions": [] }] }),
        json!({ "sshkey": { "actions": [] } }),
    ];
    for policy in table {
        assert_eq!(made(policy.clone()), made(json!({})), "{policy}");
    }
}
