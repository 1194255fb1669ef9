//! Objects that people write, with each optional field zero, empty or null.

use std::collections::BTreeMap;
use std::error::Error;

use api::config::{
    ClusterImagePolicy, FeatureGate, Image, ImageDigestMirrorSet, ImagePolicy, ImageTagMirrorSet,
    NodeSettings,
};
use api::machineconfiguration::{ContainerRuntimeConfig, KubeletConfig, MachineConfigPool};
use api::operator::ImageContentSourcePolicy;
use api::rollout;
use pool::policy::RolloutPolicy;
use pool::view::PoolView;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use zeros::{Definition, definition};

use crate::kubelet::{KubeletBase, compose};
use crate::pools::PoolFacts;
use crate::registries::RegistryFacts;
use crate::{features, kubelet, node_settings, registries, runtime};

/// Fields whose zero is a wish. An empty selector selects nothing, as an absent one, and pools say
/// so; empty canaries are one node.
const WISHES: &[&str] = &[
    "spec.autoSizingReserved",
    "spec.canaries",
    "spec.logLevel",
    "spec.machineConfigSelector",
    "spec.nodeSelector",
];

type Made = Result<String, Box<dyn Error>>;

/// Definition of a kind, an object, and what is made of it, as a text.
struct Case {
    definition: Definition,
    object: Value,
    made: fn(Value) -> Made,
}

fn pools() -> Vec<PoolFacts> {
    let pool = |name: &str| PoolFacts {
        name: name.to_owned(),
        labels: [("pool".to_owned(), name.to_owned())].into(),
        is_control_plane: name == "master",
        selects_own_role: true,
    };
    ["edge", "master", "worker"].map(pool).into()
}

fn base() -> KubeletBase {
    let conf = compose::base_of("maxPods: 250\nnodeStatusUpdateFrequency: 10s\n").unwrap();
    let roles = ["master", "worker"].map(|role| (role.to_owned(), Ok(conf.clone())));
    KubeletBase {
        roles: roles.into(),
        ..KubeletBase::default()
    }
}

fn read<T: DeserializeOwned>(object: Value) -> serde_json::Result<T> {
    serde_json::from_value(object)
}

fn registry(facts: &RegistryFacts<'_>) -> Made {
    if let Some(why) = registries::refused_policies(facts).first() {
        return Err(why.clone().into());
    }
    Ok(format!("{:#?}", registries::plan(facts, &pools())?))
}

/// One object of each kind that people write, with its required fields and little more.
fn cases() -> Vec<Case> {
    let all = [options(), images(), policies(), nodes_and_pools()];
    all.into_iter().flatten().collect()
}

fn object(spec: &Value) -> Value {
    json!({ "metadata": { "name": "cluster", "uid": "u" }, "spec": spec })
}

fn options() -> Vec<Case> {
    let selector = json!({ "matchLabels": { "pool": "worker" } });
    vec![
        Case {
            definition: definition!("deploy/crds/kubeletconfigs.yaml"),
            object: object(&json!({
                "machineConfigPoolSelector": selector, "kubeletConfig": { "maxPods": 100 }
            })),
            made: |object| {
                let config: KubeletConfig = read(object)?;
                let plan = kubelet::plan(&[&config], &pools(), &base());
                plan.outcomes[0].result.clone()?;
                Ok(format!("{plan:#?}"))
            },
        },
        Case {
            definition: definition!("deploy/crds/containerruntimeconfigs.yaml"),
            object: object(&json!({
                "machineConfigPoolSelector": selector, "containerRuntimeConfig": { "pidsLimit": 100 }
            })),
            made: |object| {
                let config: ContainerRuntimeConfig = read(object)?;
                let plan = runtime::plan(&[&config], &pools(), &BTreeMap::new());
                plan.outcomes[0].result.clone()?;
                Ok(format!("{plan:#?}"))
            },
        },
    ]
}

fn images() -> Vec<Case> {
    let mirrors = json!([{ "source": "a.example/b", "mirrors": ["m.example/b"] }]);
    vec![
        Case {
            definition: definition!("deploy/cvo/crds/images.yaml"),
            object: object(&json!({ "registrySources": { "insecureRegistries": ["a.example"] } })),
            made: |object| {
                let image: Image = read(object)?;
                registry(&RegistryFacts {
                    image: Some(&image),
                    ..RegistryFacts::default()
                })
            },
        },
        Case {
            definition: definition!("deploy/cvo/crds/imagedigestmirrorsets.yaml"),
            object: object(&json!({ "imageDigestMirrors": mirrors })),
            made: |object| {
                let set: ImageDigestMirrorSet = read(object)?;
                registry(&RegistryFacts {
                    digest: vec![&set],
                    ..RegistryFacts::default()
                })
            },
        },
        Case {
            definition: definition!("deploy/cvo/crds/imagetagmirrorsets.yaml"),
            object: object(&json!({ "imageTagMirrors": mirrors })),
            made: |object| {
                let set: ImageTagMirrorSet = read(object)?;
                registry(&RegistryFacts {
                    tag: vec![&set],
                    ..RegistryFacts::default()
                })
            },
        },
        Case {
            definition: definition!(
                "deploy/openshift/crds/0000_10_config-operator_01_imagecontentsourcepolicies.crd.yaml"
            ),
            object: object(&json!({ "repositoryDigestMirrors": mirrors })),
            made: |object| {
                let policy: ImageContentSourcePolicy = read(object)?;
                registry(&RegistryFacts {
                    content_source: vec![&policy],
                    ..RegistryFacts::default()
                })
            },
        },
    ]
}

fn policies() -> Vec<Case> {
    let key = "LS0tLS1CRUdJTiBQVUJMSUMgS0VZLS0tLS0KTUZrd0V3WUhLb1pJemowQ0FRWUlLb1pJemowREFRY0RRZ0FFCi0tLS0tRU5EIFBVQkxJQyBLRVktLS0tLQo=";
    let policy =
        json!({ "rootOfTrust": { "policyType": "PublicKey", "publicKey": { "keyData": key } } });
    vec![
        Case {
            definition: definition!(
                "deploy/openshift/crds/0000_10_config-operator_01_clusterimagepolicies.crd.yaml"
            ),
            object: object(&json!({ "scopes": ["a.example/b"], "policy": policy })),
            made: |object| {
                let policy: ClusterImagePolicy = read(object)?;
                registry(&RegistryFacts {
                    cluster_policies: vec![&policy],
                    ..RegistryFacts::default()
                })
            },
        },
        Case {
            definition: definition!(
                "deploy/openshift/crds/0000_10_config-operator_01_imagepolicies.crd.yaml"
            ),
            object: json!({
                "metadata": { "name": "a", "namespace": "n", "uid": "u" },
                "spec": { "scopes": ["a.example/b"], "policy": policy }
            }),
            made: |object| {
                let policy: ImagePolicy = read(object)?;
                registry(&RegistryFacts {
                    image_policies: vec![&policy],
                    ..RegistryFacts::default()
                })
            },
        },
    ]
}

fn nodes_and_pools() -> Vec<Case> {
    let selector = json!({ "matchLabels": { "pool": "worker" } });
    vec![
        Case {
            definition: definition!(
                "deploy/openshift/crds/0000_10_config-operator_01_nodes-Default.crd.yaml"
            ),
            object: object(&json!({ "workerLatencyProfile": "MediumUpdateAverageReaction" })),
            made: |object| {
                let settings: NodeSettings = read(object)?;
                let node = Some(node_settings::read(&settings)?);
                let base = KubeletBase { node, ..base() };
                Ok(format!("{:#?}", node_settings::plan(&base, &pools())?))
            },
        },
        Case {
            definition: definition!("deploy/crds/machineconfigpools.yaml"),
            object: object(&json!({
                "machineConfigSelector": selector, "nodeSelector": selector, "maxUnavailable": "10%"
            })),
            made: |object| {
                let pool: MachineConfigPool = read(object)?;
                let view = PoolView::parse(&pool);
                Ok(format!("{view:#?} {:#?}", PoolFacts::read(&pool)))
            },
        },
        Case {
            definition: definition!("deploy/crds/rolloutpolicies.yaml"),
            object: object(&json!({
                "canaries": { "count": 1 }, "waves": [{ "size": "10%" }],
                "windows": [{ "name": "night", "days": ["Sat"], "start": "22:00", "minutes": 240 }],
                "quarantine": { "drainLimit": "1h" }
            })),
            made: |object| {
                let policy: rollout::RolloutPolicy = read(object)?;
                let read = RolloutPolicy::parse(&policy.spec)?;
                Ok(format!("{read:#?}"))
            },
        },
        Case {
            definition: definition!("deploy/cvo/crds/featuregates.yaml"),
            object: json!({
                "metadata": { "name": "cluster" }, "spec": {},
                "status": { "featureGates": [{ "version": "1", "enabled": [{ "name": "A" }] }] }
            }),
            made: |object| {
                let gate: FeatureGate = read(object)?;
                Ok(format!("{:?}", features::gates(&gate, "1")?))
            },
        },
    ]
}

#[test]
fn zero_is_not_set_or_refused_by_name() {
    let mut faults = String::new();
    let mut count = 0;
    for case in cases() {
        let part = if case.object.get("status").is_some() {
            "status"
        } else {
            "spec"
        };
        let made =
            |object| (case.made)(object).map_err(|error| display::Chain(&*error).to_string());
        let tried = zeros::check(case.definition, part, &case.object, WISHES, made);
        faults.push_str(&tried.faults);
        count += tried.count;
    }
    assert!(faults.is_empty(), "{faults}");
    assert!(count > 80, "only {count} values were tried");
}
