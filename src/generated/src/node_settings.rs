//! Settings that all nodes share: control groups of built-in pools, and how often workers report.

use api::config::NodeSettings;
use serde_json::json;

use crate::kubelet::{self, KubeletBase, compose};
use crate::latency::{LatencyProfile, NodeAsks};
use crate::object::GeneratedConfig;
use crate::pools::PoolFacts;

/// Kernel arguments for the second version of control groups.
///
/// Source: `docs/reference/controller.md`, "Node settings".
const CGROUP_V2: [&str; 2] = ["systemd.unified_cgroup_hierarchy=1", "cgroup_no_v1=\"all\""];

/// Why the settings are refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Version 1 of control groups.
    #[error(
        "Node.config.openshift.io cluster: spec.cgroupMode v1 is not supported: nodes have version 2 of control groups"
    )]
    CgroupV1,
    /// Control groups of an unknown version.
    #[error("Node.config.openshift.io cluster: spec.cgroupMode has no mode {0:?}")]
    NoCgroupMode(String),
    /// A latency profile that there is not.
    #[error("Node.config.openshift.io cluster: spec.workerLatencyProfile has no profile {0:?}")]
    NoProfile(String),
}

/// Name of the MachineConfig of a pool.
pub fn config_name(pool: &str) -> String {
    format!("97-{pool}-generated-kubelet")
}

/// Reads the object.
///
/// # Errors
/// [`Error`].
pub fn read(settings: &NodeSettings) -> Result<NodeAsks, Error> {
    match settings.spec.cgroup_mode.as_str() {
        "" | "v2" => {}
        "v1" => return Err(Error::CgroupV1),
        other => return Err(Error::NoCgroupMode(other.to_owned())),
    }
    let profile = settings.spec.worker_latency_profile.as_str();
    let profile = match profile {
        "" => None,
        name => {
            let mut all = LatencyProfile::ALL.into_iter();
            let Some(profile) = all.find(|profile| profile.as_str() == name) else {
                return Err(Error::NoProfile(name.to_owned()));
            };
            Some(profile)
        }
    };
    Ok(NodeAsks { profile })
}

/// The profile of a `kubelet.conf` that was generated; nothing where it has none.
pub fn profile_of_conf(text: &str) -> Option<LatencyProfile> {
    let conf = compose::base_of(text).ok()?;
    let frequency = conf.get("nodeStatusUpdateFrequency")?.as_str()?;
    let mut all = LatencyProfile::ALL.into_iter();
    all.find(|profile| profile.frequency() == frequency)
}

/// Makes the MachineConfigs of the built-in pools. A custom pool has the workers'.
///
/// # Errors
/// The base that cannot be read, where it is laid over.
pub fn plan(
    base: &KubeletBase,
    pools: &[PoolFacts],
) -> Result<Vec<GeneratedConfig>, kubelet::Error> {
    let Some(asks) = base.node else {
        return Ok(Vec::new());
    };
    let built_in = pools.iter().filter(|pool| pool.is_built_in());
    built_in
        .map(|pool| {
            let name = config_name(&pool.name);
            let mut files = Vec::new();
            if asks.profile.is_some() && pool.has_workers() {
                files.push(compose::bare(base.of(pool)?, base, pool)?);
            }
            let mut config = GeneratedConfig::of_files(name, &pool.name, None, &files);
            if let Some(spec) = config.spec.as_object_mut() {
                spec.insert("kernelArguments".to_owned(), json!(CGROUP_V2));
            }
            Ok(config)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn settings(spec: &Value) -> NodeSettings {
        let object = json!({ "metadata": { "name": "cluster" }, "spec": spec });
        serde_json::from_value(object).unwrap()
    }

    fn base(spec: &Value) -> KubeletBase {
        let conf = json!({ "maxPods": 250 });
        KubeletBase {
            roles: [("worker".to_owned(), Ok(conf))].into(),
            node: Some(read(&settings(spec)).unwrap()),
            ..KubeletBase::default()
        }
    }

    fn pool(name: &str) -> PoolFacts {
        PoolFacts {
            name: name.to_owned(),
            labels: [].into(),
            is_control_plane: name == "master",
            selects_own_role: true,
        }
    }

    #[test]
    fn built_in_pools_have_control_groups_and_workers_their_profile() {
        let pools = ["edge", "master", "worker"].map(pool);
        let base = base(&json!({ "workerLatencyProfile": "MediumUpdateAverageReaction" }));
        let made = plan(&base, &pools).unwrap();
        let names: Vec<&str> = made.iter().map(|config| config.name.as_str()).collect();
        assert_eq!(
            names,
            ["97-master-generated-kubelet", "97-worker-generated-kubelet"]
        );
        for config in &made {
            assert_eq!(config.spec["kernelArguments"], json!(CGROUP_V2));
        }
        let spec: Vec<_> = made
            .iter()
            .map(|config| serde_json::from_value(config.spec.clone()).unwrap())
            .collect();
        let conf = |at: usize| crate::object::file_of(&spec[at], compose::KUBELET_CONF).unwrap();
        assert_eq!(conf(0), None);
        let conf = conf(1).unwrap();
        assert!(conf.contains("nodeStatusUpdateFrequency: 20s\n"), "{conf}");
        assert_eq!(
            profile_of_conf(&conf),
            Some(LatencyProfile::MediumUpdateAverageReaction)
        );
        let none = KubeletBase::default();
        assert_eq!(plan(&none, &pools).unwrap(), []);
    }

    #[test]
    fn a_base_is_needed_only_for_a_profile() {
        let mut base = base(&json!({}));
        base.roles.clear();
        assert_eq!(plan(&base, &[pool("worker")]).unwrap().len(), 1);
        base.node = Some(NodeAsks {
            profile: Some(LatencyProfile::Default),
        });
        let why = "there is no base for role worker";
        assert_eq!(plan(&base, &[pool("worker")]).unwrap_err().to_string(), why);
    }

    #[test]
    fn what_is_not_there_is_refused_with_its_field() {
        let table = [
            (
                json!({ "cgroupMode": "v1" }),
                "spec.cgroupMode v1 is not supported: nodes have version 2 of control groups",
            ),
            (
                json!({ "cgroupMode": "v3" }),
                "spec.cgroupMode has no mode \"v3\"",
            ),
            (
                json!({ "workerLatencyProfile": "Fast" }),
                "spec.workerLatencyProfile has no profile \"Fast\"",
            ),
        ];
        for (spec, why) in table {
            let expected = format!("Node.config.openshift.io cluster: {why}");
            assert_eq!(read(&settings(&spec)).unwrap_err().to_string(), expected);
        }
    }
}
