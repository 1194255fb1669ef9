//! A ClusterVersion that people write, with each optional field zero, empty or null.

use std::collections::BTreeSet;

use api::config::{ClusterVersion, Release};
use release::capability::{Capabilities, Names};
use serde_json::{Value, json};
use zeros::definition;

use version_update::retrieved_updates::UpdatesRequest;
use version_update::validation::validate;
use version_update::{overrides, risk};

/// All that is read of the spec.
fn made(object: Value) -> Result<String, String> {
    let version: ClusterVersion =
        serde_json::from_value(object).map_err(|error| error.to_string())?;
    let own = Release {
        version: "4.1.0".to_owned(),
        image: "q/own".to_owned(),
        ..Release::default()
    };
    let (faults, wanted) = validate(&version, &own);
    if !faults.is_empty() {
        return Err(faults.join("; "));
    }
    let request = UpdatesRequest::of(&version, &own, None, "amd64").map_err(|none| none.message)?;
    let overrides = overrides::in_force(&version, jiff::Timestamp::UNIX_EPOCH);
    let accepted: BTreeSet<String> = risk::accepted(&version.spec);
    let update = version.spec.desired_update.clone().unwrap_or_default();
    let chosen = version.spec.capabilities.unwrap_or_default();
    let additional: Names = chosen.additional_enabled_capabilities.into_iter().collect();
    let none = Names::new();
    let set = &chosen.baseline_capability_set;
    let capabilities = Capabilities::resolve(set, &additional, &none, &none, &none);
    Ok(format!(
        "{wanted:?} {} {request:?} {overrides:?} {accepted:?} {capabilities:?}",
        update.force
    ))
}

#[test]
fn zero_is_not_set_or_refused_by_name() {
    let object = json!({
        "metadata": { "name": "version" },
        "spec": {
            "clusterID": "4f1d3c3e-2b3b-4c8e-9c1d-6a3b1e0f9a11",
            "channel": "stable-4.2",
            "upstream": "https://updates.example/graph",
            "desiredUpdate": { "version": "4.2.0", "force": true },
            "capabilities": {
                "baselineCapabilitySet": "v4.11", "additionalEnabledCapabilities": ["Console"],
            },
            "overrides": [{
                "kind": "Deployment", "group": "apps", "namespace": "n", "name": "d",
                "unmanaged": true,
            }],
        },
        "status": { "availableUpdates": [{ "version": "4.2.0", "image": "q/two" }] },
    });
    let definition = definition!("deploy/cvo/crds/clusterversions.yaml");
    let tried = zeros::check(definition, "spec", &object, &[], made);
    assert!(tried.faults.is_empty(), "{}", tried.faults);
    assert!(tried.count > 10, "only {} values were tried", tried.count);
}
