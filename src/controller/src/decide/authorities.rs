//! Certificate authorities that the nodes of a paused pool do not have: their files are part of
//! rendered configurations, which a paused pool's nodes are not assigned.
//!
//! What the daemons write outside of configurations (`docs/reference/daemon.md`, "Certificates")
//! reaches a paused pool, too, and does not count.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

/// The cluster's root authority, and directories of authorities that the OS trusts.
///
/// Source: the base configurations of `generated::templates`, and those of OpenShift's MCO.
const FILE: &str = "/etc/kubernetes/ca.crt";
const DIRECTORIES: [&str; 2] = [
    "/etc/pki/ca-trust/source/",
    "/usr/share/pki/ca-trust-source/",
];

/// What is read of a MachineConfig for its authorities.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct ConfigFiles {
    #[serde(default)]
    spec: ConfigFilesSpec,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
struct ConfigFilesSpec {
    #[serde(default)]
    config: IgnitionFiles,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
struct IgnitionFiles {
    #[serde(default)]
    storage: IgnitionStorage,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
struct IgnitionStorage {
    #[serde(default)]
    files: Vec<IgnitionFile>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
struct IgnitionFile {
    path: String,
    #[serde(default)]
    contents: Option<serde_json::Value>,
}

/// Files of certificate authorities of a rendered configuration: path, and contents as Ignition has
/// them.
pub type AuthorityFiles = BTreeMap<String, Option<serde_json::Value>>;

impl ConfigFiles {
    /// Those of its files that are of certificate authorities.
    pub fn authorities(self) -> AuthorityFiles {
        let files = self.spec.config.storage.files.into_iter();
        files
            .filter(|file| is_authority(&file.path))
            .map(|file| (file.path, file.contents))
            .collect()
    }
}

fn is_authority(path: &str) -> bool {
    path == FILE
        || DIRECTORIES
            .iter()
            .any(|directory| path.starts_with(directory))
}

/// Paths of the authorities that `target` has, and the nodes do not have so: in a configuration of
/// these the file is another one, or missing.
pub fn missed<'a>(
    target: &AuthorityFiles,
    present: impl IntoIterator<Item = &'a AuthorityFiles>,
) -> BTreeSet<String> {
    let mut missed = BTreeSet::new();
    for files in present {
        let other = target
            .iter()
            .filter(|(path, contents)| files.get(*path) != Some(*contents));
        missed.extend(other.map(|(path, _)| path.clone()));
    }
    missed
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const ANCHOR: &str = "/etc/pki/ca-trust/source/anchors/a.crt";

    fn files(files: &[(&str, &str)]) -> AuthorityFiles {
        let files: Vec<Value> = files
            .iter()
            .map(|(path, text)| json!({ "path": path, "contents": { "source": text } }))
            .collect();
        let config = json!({ "spec": { "config": { "storage": { "files": files } } } });
        let config: ConfigFiles = serde_json::from_value(config).unwrap();
        config.authorities()
    }

    #[test]
    fn files_of_authorities_are_those_that_configurations_carry() {
        let all = files(&[
            (FILE, "data:,a"),
            (ANCHOR, "data:,b"),
            ("/etc/kubernetes/kubelet-ca.crt", "data:,c"),
            ("/etc/docker/certs.d/r.example/ca.crt", "data:,d"),
            ("/etc/pki/ca-trust/extracted/e.pem", "data:,e"),
            ("/etc/chrony.conf", "data:,f"),
        ]);
        let found: Vec<_> = all.keys().map(String::as_str).collect();
        assert_eq!(found, [FILE, ANCHOR]);
        let none: ConfigFiles = serde_json::from_value(json!({ "spec": {} })).unwrap();
        assert_eq!(none.authorities(), AuthorityFiles::new());
    }

    #[test]
    fn what_a_node_lacks_or_has_in_another_form_is_missed() {
        let target = files(&[(FILE, "data:,2"), (ANCHOR, "data:,1")]);
        let same = target.clone();
        let older = files(&[(FILE, "data:,1"), (ANCHOR, "data:,1")]);
        let without = files(&[(FILE, "data:,2")]);
        let more = files(&[
            (FILE, "data:,2"),
            (ANCHOR, "data:,1"),
            ("/etc/pki/ca-trust/source/anchors/old.crt", "data:,0"),
        ]);
        for (present, expected) in [
            (vec![&same], vec![]),
            (vec![], vec![]),
            // It trusts one more, and can be reached.
            (vec![&more], vec![]),
            (vec![&same, &older], vec![FILE]),
            (vec![&without], vec![ANCHOR]),
            (vec![&older, &without], vec![FILE, ANCHOR]),
        ] {
            let found: Vec<String> = missed(&target, present).into_iter().collect();
            assert_eq!(found, expected);
        }
    }
}
