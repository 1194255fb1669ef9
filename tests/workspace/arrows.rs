//! The arrows of `src/README.md`, where cargo-deny's wrappers cannot hold them: what the thinking crates may depend on, and who may
//! open a Kubernetes client.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test's own look at the workspace"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

mod citations;

/// What the thinking crates may call: parsing, hashing, and nothing that waits, opens or tells the time.
const THINKING: [&str; 14] = [
    "api",
    "base64",
    "flate2",
    "jiff",
    "k8s-openapi",
    "kube",
    "md-5",
    "rustls-pki-types",
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

/// Release binaries contain nothing of the tests: what pretends to be something else stays with them.
#[test]
fn what_ships_depends_on_nothing_below_tests() {
    let is_of_tests = |package: &&Value| {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap());
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .canonicalize()
            .unwrap();
        manifest.canonicalize().unwrap().starts_with(root)
    };
    let packages = packages();
    let (of_tests, ships): (Vec<&Value>, Vec<&Value>) = packages.iter().partition(is_of_tests);
    let name = |package: &&Value| package["name"].as_str().unwrap().to_owned();
    let of_tests: BTreeSet<_> = of_tests.iter().map(name).collect();
    for known in ["apimock", "lab", "tests"] {
        assert!(of_tests.contains(known), "{known} is not below tests/");
    }
    assert!(
        ships.iter().map(name).any(|name| name == "mcd"),
        "the programs are not among {:?}",
        ships.iter().map(name).collect::<Vec<_>>()
    );
    for package in ships {
        // A build script's dependencies ship what they write.
        let into_binary = package["dependencies"].as_array().unwrap().iter();
        let into_binary = into_binary.filter(|dependency| dependency["kind"] != "dev");
        for dependency in into_binary {
            let dependency = dependency["name"].as_str().unwrap();
            assert!(
                !of_tests.contains(dependency),
                "{} depends on {dependency}, which is for tests",
                name(&package)
            );
        }
    }
}

/// Faults are patches below `tests/mutants`, applied to a copy: no feature brings one, and no source asks for one at run time.
#[test]
fn no_product_crate_has_a_fault() {
    for package in packages() {
        let features = package["features"].as_object().unwrap();
        let fault = features.keys().find(|feature| feature.contains("mutant"));
        assert_eq!(fault, None, "{} has a fault", package["name"]);
    }
    let sources = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../src"), "rs");
    assert!(sources.len() > 100, "only {} sources", sources.len());
    for path in sources {
        let text = std::fs::read_to_string(&path).unwrap();
        for word in ["cfg!(feature", "mutant"] {
            assert!(!text.contains(word), "{} has {word}", path.display());
        }
    }
}

/// All files below a folder whose names end so.
fn sources(dir: &Path, end: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path, end));
        } else if path.extension().is_some_and(|its| its == end) {
            found.push(path);
        }
    }
    found
}
