//! Feature gates: the kubelet of each built-in pool has those of the cluster.

use std::collections::BTreeMap;

use api::config::FeatureGate;

use crate::kubelet::{self, KubeletBase, compose};
use crate::object::GeneratedConfig;
use crate::pools::PoolFacts;

/// The object has no gates of this version of a release yet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("FeatureGate cluster: status.featureGates has no version {0} yet")]
pub struct NoGates(pub String);

/// Name of the MachineConfig of a pool.
pub fn config_name(pool: &str) -> String {
    format!("98-{pool}-generated-kubelet")
}

/// The gates of a release.
///
/// Source: `docs/reference/controller.md`, "Feature gates".
///
/// # Errors
/// [`NoGates`].
pub fn gates(gate: &FeatureGate, version: &str) -> Result<BTreeMap<String, bool>, NoGates> {
    let status = gate.status.as_ref();
    let mut versions = status.into_iter().flat_map(|status| &status.feature_gates);
    let details = versions
        .find(|details| details.version == version)
        .ok_or_else(|| NoGates(version.to_owned()))?;
    let named = |features: &[api::config::NamedFeature], is_on: bool| -> Vec<(String, bool)> {
        let names = features.iter().map(|feature| feature.name.clone());
        names.map(|name| (name, is_on)).collect()
    };
    let mut gates = BTreeMap::from_iter(named(&details.enabled, true));
    gates.extend(named(&details.disabled, false));
    Ok(gates)
}

/// Makes the MachineConfigs of the built-in pools; none where the cluster has no gates. A custom
/// pool has the workers', because its own would lie over their KubeletConfigs.
///
/// # Errors
/// The base that cannot be read.
pub fn plan(
    base: &KubeletBase,
    pools: &[PoolFacts],
) -> Result<Vec<GeneratedConfig>, kubelet::Error> {
    if base.gates.is_none() {
        return Ok(Vec::new());
    }
    let built_in = pools.iter().filter(|pool| pool.is_built_in());
    built_in
        .map(|pool| {
            let conf = base.of(pool)?;
            let file = compose::bare(conf, base, pool)?;
            let name = config_name(&pool.name);
            Ok(GeneratedConfig::of_files(name, &pool.name, None, &[file]))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use ignition::content;
    use serde_json::{Value, json};

    use super::*;

    fn gate(status: &Value) -> FeatureGate {
        let gate = json!({ "metadata": { "name": "cluster" }, "spec": {}, "status": status });
        serde_json::from_value(gate).unwrap()
    }

    #[test]
    fn the_gates_of_this_release_are_laid_over_the_base() {
        let gate = gate(&json!({ "featureGates": [
            { "version": "4.18.0", "enabled": [{ "name": "Old" }], "disabled": [] },
            { "version": "4.19.0", "enabled": [{ "name": "A" }], "disabled": [{ "name": "B" }] }
        ] }));
        let why = "FeatureGate cluster: status.featureGates has no version 4.20.0 yet";
        assert_eq!(gates(&gate, "4.20.0").unwrap_err().to_string(), why);
        let conf = json!({ "maxPods": 250, "featureGates": { "Older": true } });
        let base = KubeletBase {
            roles: [("worker".to_owned(), Ok(conf))].into(),
            gates: Some(gates(&gate, "4.19.0").unwrap()),
            ..KubeletBase::default()
        };
        let pool = |name: &str| PoolFacts {
            name: name.to_owned(),
            labels: [].into(),
            is_control_plane: false,
            selects_own_role: true,
        };
        let made = plan(&base, &[pool("edge"), pool("worker")]).unwrap();
        assert_eq!(made.len(), 1);
        assert_eq!(made[0].name, "98-worker-generated-kubelet");
        let (config, _) = ignition::parse(&made[0].spec["config"]).unwrap();
        let text = content::decode(&config.storage.files[0].contents).unwrap();
        let conf = compose::base_of(&String::from_utf8(text).unwrap()).unwrap();
        assert_eq!(
            conf,
            json!({ "maxPods": 250, "featureGates": { "A": true, "B": false } })
        );
        let why = "there is no base for role master";
        assert_eq!(plan(&base, &[pool("master")]).unwrap_err().to_string(), why);
        let none = KubeletBase::default();
        assert_eq!(plan(&none, &[pool("master")]).unwrap(), []);
    }
}
