//! The arrows of `src/README.md`, where cargo-deny's wrappers cannot hold them: what the thinking crates may depend on, and who may
//! open a Kubernetes client.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test's own look at the workspace"
)]

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// What the thinking crates may call: parsing, hashing, and nothing that waits, opens or tells the time.
const THINKING: [&str; 13] = [
    "api",
    "base64",
    "flate2",
    "jiff",
    "k8s-openapi",
    "kube",
    "md-5",
    "serde",
    "serde_json",
    "serde_path_to_error",
    "sha2",
    "thiserror",
    "toml",
];

/// What cargo says of each workspace crate.
fn packages() -> Vec<Value> {
    #[expect(
        clippy::disallowed_methods,
        reason = "a test that asks cargo about the workspace"
    )]
    let output = std::process::Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version=1", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

/// Direct, normal dependencies of each workspace crate, with the features asked for.
fn dependencies() -> BTreeMap<String, BTreeMap<String, BTreeSet<String>>> {
    let mut crates = BTreeMap::new();
    for package in packages() {
        let mut direct = BTreeMap::new();
        for dependency in package["dependencies"].as_array().unwrap() {
            if dependency["kind"].is_null() {
                let features = dependency["features"].as_array().unwrap();
                direct.insert(
                    dependency["name"].as_str().unwrap().to_owned(),
                    features
                        .iter()
                        .map(|f| f.as_str().unwrap().to_owned())
                        .collect(),
                );
            }
        }
        crates.insert(package["name"].as_str().unwrap().to_owned(), direct);
    }
    crates
}

#[test]
fn thinking_crates_only_think() {
    let crates = dependencies();
    for name in ["machineconfig", "pool"] {
        for dependency in crates[name].keys() {
            assert!(
                THINKING.contains(&dependency.as_str()),
                "{name} is a thinking crate and depends on {dependency}"
            );
        }
    }
}

#[test]
fn only_cluster_and_binaries_open_a_client() {
    for (name, direct) in dependencies() {
        let opens = direct
            .get("kube")
            .is_some_and(|features| features.contains("client"));
        let may =
            ["cluster", "mcd", "controller", "lab", "tests", "apimock"].contains(&name.as_str());
        assert!(may || !opens, "{name} opens a Kubernetes client");
    }
}

#[test]
fn faults_are_built_only_by_those_who_ask_for_one() {
    let mut faults = 0;
    for package in packages() {
        let features = package["features"].as_object().unwrap();
        let mut on = vec!["default".to_owned()];
        let mut next = 0;
        while let Some(feature) = on.get(next) {
            next += 1;
            let more = features.get(feature).and_then(Value::as_array).cloned();
            on.extend(
                more.into_iter()
                    .flatten()
                    .filter_map(|more| more.as_str().map(str::to_owned)),
            );
        }
        assert!(
            on.iter().all(|feature| !feature.contains("mutant")),
            "{} has a fault by default: {on:?}",
            package["name"]
        );
        faults += features
            .keys()
            .filter(|feature| feature.contains("mutant"))
            .count();
    }
    assert_eq!(
        faults, 4,
        "features of that name are what this test is about"
    );
}
