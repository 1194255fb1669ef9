//! What a program that is written in Go, or a template with nothing filled in, makes of an object:
//! each optional field zero, empty or null.
//!
//! The definitions name the fields. Each is put where the object has none: what comes of it is what
//! came before, or a refusal that names the object and the field.

use std::collections::BTreeMap;
use std::fmt::Write as _;

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

use crate::kubelet::{KubeletBase, compose};
use crate::pools::PoolFacts;
use crate::registries::RegistryFacts;
use crate::{features, kubelet, node_settings, registries, runtime};

/// Fields whose zero is a wish: their types tell it from an absent one.
const WISHES: &[(&str, &str)] = &[
    ("deploy/crds/kubeletconfigs.yaml", "spec.autoSizingReserved"),
    ("deploy/crds/kubeletconfigs.yaml", "spec.logLevel"),
];

/// Path of a definition in the checkout, and its text.
type Definition = (&'static str, &'static str);

macro_rules! definition {
    ($path:literal) => {
        ($path, include_str!(concat!("../../../", $path)))
    };
}

/// Definition of a kind, an object, and what is made of it, as a text.
struct Case {
    definition: Definition,
    object: Value,
    made: fn(Value) -> Result<String, String>,
}

/// A value that is put where the object has none.
#[derive(Debug)]
struct Zero {
    /// As a person writes it, such as `spec.a.b[0]`.
    path: String,
    object: Value,
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
    let conf = compose::base_of("maxPods: 250\nnodeStatusUpdateFrequency: 10s\n");
    let roles = ["master", "worker"].map(|role| (role.to_owned(), conf.clone()));
    KubeletBase {
        roles: roles.into(),
        ..KubeletBase::default()
    }
}

fn read<T: DeserializeOwned>(object: Value) -> Result<T, String> {
    serde_json::from_value(object).map_err(|error| error.to_string())
}

fn registry(facts: &RegistryFacts<'_>) -> Result<String, String> {
    if let Some(why) = registries::refused_policies(facts).first() {
        return Err(why.clone());
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
                let read = RolloutPolicy::parse(&policy.spec).map_err(|why| why.to_string())?;
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
    let mut tried = 0;
    for case in cases() {
        let (definition, text) = case.definition;
        let schema = schema(text);
        let before = (case.made)(case.object.clone());
        let before = before.unwrap_or_else(|why| panic!("{definition}: {why}"));
        let mut zeros = Vec::new();
        let part = if case.object.get("status").is_some() {
            "status"
        } else {
            "spec"
        };
        let schema = &schema["properties"][part];
        let at = format!("/{part}");
        let put = |value: Value| {
            let mut object = case.object.clone();
            *object.pointer_mut(&at).unwrap() = value;
            object
        };
        collect(schema, &case.object[part], part, &put, &mut zeros);
        tried += zeros.len();
        for zero in zeros {
            let is_wish = |(of, path): &(&str, &str)| *of == definition && *path == zero.path;
            // The field, or what it is a part of.
            let mut fields = zero.path.split(['.', '[']).skip(1);
            let fault = match (case.made)(zero.object) {
                Ok(after) if after == before || WISHES.iter().any(is_wish) => continue,
                Err(why) if fields.any(|field| why.contains(field)) => continue,
                Ok(after) => format!("changes what is made to {after}"),
                Err(why) => format!("is refused without its name: {why}"),
            };
            writeln!(faults, "{definition}: {} {fault}", zero.path).unwrap();
        }
    }
    assert!(faults.is_empty(), "{faults}");
    assert!(tried > 60, "only {tried} values were tried");
}

/// The schema of a definition's stored version.
fn schema(definition: &str) -> Value {
    let definition: Value = serde_saphyr::from_str(definition).unwrap();
    let versions = definition["spec"]["versions"].as_array().unwrap();
    let mut stored = versions.iter().filter(|version| version["storage"] == true);
    stored.next().unwrap()["schema"]["openAPIV3Schema"].clone()
}

/// All values that can be put into `value`, which is at `path`. `put` makes the whole object of it.
fn collect(
    schema: &Value,
    value: &Value,
    path: &str,
    put: &dyn Fn(Value) -> Value,
    zeros: &mut Vec<Zero>,
) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        let put = |new: Value| {
            let mut whole = value.clone();
            whole[name.as_str()] = new;
            put(whole)
        };
        match value.get(name) {
            Some(present) if present.is_object() => collect(field, present, &path, &put, zeros),
            Some(present) => {
                for (index, member) in present.as_array().into_iter().flatten().enumerate() {
                    let path = format!("{path}[{index}]");
                    let put = |new: Value| {
                        let mut list = present.clone();
                        list[index] = new;
                        put(list)
                    };
                    collect(&field["items"], member, &path, &put, zeros);
                }
            }
            None => {
                for value in values(field) {
                    zeros.push(Zero {
                        path: path.clone(),
                        object: put(value),
                    });
                }
                // Below an object that is there for this alone.
                if field["required"].is_null() {
                    collect(field, &json!({}), &path, &put, zeros);
                }
            }
        }
    }
}

/// What the API server lets pass of zero, empty and null.
fn values(schema: &Value) -> Vec<Value> {
    let is_few = |key: &str| schema[key].as_f64().unwrap_or_default() <= 0.0;
    let is = |key: &str| schema[key] == true;
    let mut values = Vec::new();
    if is("nullable") || is("x-kubernetes-preserve-unknown-fields") {
        values.push(Value::Null);
    }
    let of_type = match schema["type"].as_str().unwrap_or_default() {
        "string" if is_few("minLength") && schema["pattern"].is_null() => vec![json!("")],
        "integer" | "number" if is_few("minimum") => vec![json!(0)],
        "boolean" => vec![json!(false)],
        "array" if is_few("minItems") => {
            let mut lists = vec![json!([])];
            let items = &schema["items"];
            if items["type"] == "string" && items["pattern"].is_null() {
                lists.push(json!([""]));
            }
            lists
        }
        "object" if is_few("minProperties") && schema["required"].is_null() => vec![json!({})],
        _ => Vec::new(),
    };
    let allowed = schema["enum"].as_array();
    values.extend(
        of_type
            .into_iter()
            .filter(|value| allowed.is_none_or(|allowed| allowed.contains(value))),
    );
    values
}
