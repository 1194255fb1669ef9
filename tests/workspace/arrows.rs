//! The arrows of `src/README.md`, where cargo-deny's wrappers cannot hold them: what the thinking crates may depend on, and who may
//! open a Kubernetes client.

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

/// Direct, normal dependencies of each workspace crate, with the features asked for.
#[expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test's own look at the workspace"
)]
fn dependencies() -> BTreeMap<String, BTreeMap<String, BTreeSet<String>>> {
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
    let mut crates = BTreeMap::new();
    for package in metadata["packages"].as_array().unwrap() {
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
