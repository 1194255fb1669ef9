//! An UpgradeConfig that people write, with each optional field zero, empty or null.

use std::collections::BTreeSet;

use api::upgrade::UpgradeConfig;
use serde_json::{Value, json};
use zeros::definition;

use crate::config::force_drain;
use crate::fixture::{START, cluster_version};
use crate::schedule::parse_start;
use crate::validation::judge;

/// All that is read of the spec.
fn made(object: Value) -> Result<String, String> {
    let upgrade: UpgradeConfig =
        serde_json::from_value(object).map_err(|error| error.to_string())?;
    let spec = &upgrade.spec;
    let verdict = judge(spec, &cluster_version("4.16.3"), &BTreeSet::new(), true);
    let verdict = verdict.map_err(|invalid| invalid.to_string())?;
    Ok(format!(
        "{verdict:?} {:?} {} {} {}",
        spec.r#type,
        parse_start(&spec.upgrade_at).map_err(|error| error.to_string())?,
        force_drain(spec),
        spec.capacity_reservation
    ))
}

#[test]
fn zero_is_not_set_or_refused_by_name() {
    let digest = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    let releases = [
        json!({ "version": "4.16.4", "channel": "stable-4.16" }),
        json!({ "version": "4.16.4", "channel": "fast-4.16" }),
        json!({ "image": format!("q.example/n/r@{digest}") }),
    ];
    for desired in releases {
        let object = json!({
            "metadata": { "name": "managed-upgrade-config" },
            "spec": {
                "type": "OSD", "upgradeAt": START.to_string(), "PDBForceDrainTimeout": 60,
                "capacityReservation": true, "desired": desired,
            },
        });
        let definition = definition!(
            "deploy/managed-upgrade/crds/upgrade.managed.openshift.io_upgradeconfigs.yaml"
        );
        let tried = zeros::check(definition, "spec", &object, &[], made);
        assert!(tried.faults.is_empty(), "{}", tried.faults);
        assert!(tried.count > 3, "only {} values were tried", tried.count);
    }
}
