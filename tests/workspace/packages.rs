//! The workspace's crates, as `cargo metadata` describes them.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;

use crate::sources::root;

/// A crate of the workspace.
pub(crate) struct Package {
    pub(crate) name: String,
    /// Its folder, below the workspace.
    pub(crate) folder: PathBuf,
    pub(crate) features: Vec<String>,
    /// Its direct dependencies, one for each kind and target.
    pub(crate) dependencies: Vec<Dependency>,
}

/// A direct dependency of a crate, of the workspace or of others.
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// Whether only tests of the crate use it. A build script's dependencies ship what they write.
    pub(crate) is_dev: bool,
    pub(crate) features: BTreeSet<String>,
}

/// All crates of the workspace.
pub(crate) fn packages() -> Vec<Package> {
    #[expect(
        clippy::disallowed_methods,
        reason = "a test that asks cargo about the workspace"
    )]
    let output = std::process::Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version=1", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let root = PathBuf::from(text(&metadata["workspace_root"]));
    let packages = metadata["packages"].as_array().unwrap().iter();
    let packages: Vec<Package> = packages
        .map(|package| {
            let manifest = PathBuf::from(text(&package["manifest_path"]));
            let folder = manifest.parent().unwrap().strip_prefix(&root).unwrap();
            let dependencies = package["dependencies"].as_array().unwrap().iter();
            Package {
                name: text(&package["name"]),
                folder: folder.to_owned(),
                features: package["features"]
                    .as_object()
                    .unwrap()
                    .keys()
                    .cloned()
                    .collect(),
                dependencies: dependencies.map(dependency).collect(),
            }
        })
        .collect();
    assert!(packages.len() > 5, "only {} crates", packages.len());
    packages
}

fn dependency(value: &Value) -> Dependency {
    Dependency {
        name: text(&value["name"]),
        is_dev: value["kind"] == "dev",
        features: value["features"]
            .as_array()
            .unwrap()
            .iter()
            .map(text)
            .collect(),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}
