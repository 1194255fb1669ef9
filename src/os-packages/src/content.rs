//! What is shown of one image.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::package::{OsPackage, PackageList};

/// Labels of an image that name its version, the one that counts first.
const VERSION_LABELS: [&str; 2] = ["version", "org.opencontainers.image.version"];

/// Fields of os-release that name the version of an image, likewise.
const VERSION_FIELDS: [&str; 3] = ["OSTREE_VERSION", "IMAGE_VERSION", "VERSION_ID"];

/// Packages that stand out: how they are shown, and their names on the systems that have them.
pub const NOTABLE: [(&str, &[&str]); 4] = [
    ("libostree", &["ostree-libs", "libostree-1-1", "ostree"]),
    ("systemd", &["systemd"]),
    (
        "kubelet",
        &[
            "openshift-kubelet",
            "openshift-hyperkube",
            "kubernetes-node",
            "kubelet",
        ],
    ),
    ("CRI-O", &["cri-o"]),
];

/// An OS image, as far as it says what it is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OsContent {
    /// Its own version, if it names one.
    pub version: Option<String>,
    /// Versions of the kernels that it can boot; one, on a sound image.
    pub kernels: Vec<String>,
    /// None for an image without a package database.
    pub packages: Option<PackageList>,
}

impl OsContent {
    /// What stands out: the version, the kernel, and packages of [`NOTABLE`]. Each with its values,
    /// none where it is not there.
    pub fn notable(&self) -> Vec<(&'static str, Vec<&str>)> {
        let version = self.version.iter().map(String::as_str).collect();
        let kernels = self.kernels.iter().map(String::as_str).collect();
        let packages = NOTABLE.iter().map(|(shown, names)| {
            let list = self.packages.as_ref();
            let versions = list.map(|list| list.versions_of(names));
            (*shown, versions.unwrap_or_default())
        });
        let head = [("version", version), ("kernel", kernels)];
        head.into_iter().chain(packages).collect()
    }

    /// All packages; none where there is no database.
    pub fn packages(&self) -> &[OsPackage] {
        self.packages.as_ref().map_or(&[], PackageList::packages)
    }
}

/// The version of an image by its labels, or else by its os-release.
pub fn os_version(labels: &BTreeMap<String, String>, os_release: Option<&[u8]>) -> Option<String> {
    let label = VERSION_LABELS.iter().find_map(|key| labels.get(*key));
    let label = label.filter(|version| !version.is_empty()).cloned();
    label.or_else(|| {
        let text = String::from_utf8_lossy(os_release?);
        let mut fields = VERSION_FIELDS.iter();
        fields.find_map(|field| field_of(&text, field))
    })
}

/// A field of os-release, without its quotes; none where it is not there or is empty. Versions have
/// no characters that a shell would need escaped.
fn field_of(os_release: &str, name: &str) -> Option<String> {
    let mut lines = os_release.lines().rev();
    let value = lines.find_map(|line| line.trim().strip_prefix(name)?.strip_prefix('='))?;
    let unquoted = ['"', '\''].iter().find_map(|quote| {
        let rest = value.strip_prefix(*quote)?;
        rest.strip_suffix(*quote)
    });
    Some(unquoted.unwrap_or(value).to_owned()).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::PackageManager;
    use crate::package::tests::list;

    #[test]
    fn version_is_that_of_the_label_or_of_the_system() {
        let labels = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
        let text: &[u8] = b"ID=x\nVERSION_ID=\"9.4\"\nOSTREE_VERSION='418.94.1'\n";
        let none = BTreeMap::new();
        for (labels, os_release, expected) in [
            (&none, None, None),
            (&none, Some(text), Some("418.94.1")),
            (&none, Some(&b"VERSION_ID=12\n"[..]), Some("12")),
            (&none, Some(&b"VERSION_ID=\"\"\nNAME=x\n"[..]), None),
            (
                &none,
                Some(&b"VERSION_ID=11\nVERSION_ID=12\n"[..]),
                Some("12"),
            ),
            (&labels("version", "v2"), Some(text), Some("v2")),
            (&labels("version", ""), Some(text), Some("418.94.1")),
            (
                &labels("org.opencontainers.image.version", "v3"),
                None,
                Some("v3"),
            ),
        ] {
            assert_eq!(
                os_version(labels, os_release).as_deref(),
                expected,
                "{labels:?}"
            );
        }
    }

    #[test]
    fn what_stands_out_is_found_by_the_names_of_each_system() {
        let content = |manager, lines: &[&str]| OsContent {
            version: Some("v1".to_owned()),
            kernels: vec!["6.1".to_owned()],
            packages: Some(list(manager, lines)),
        };
        let debian = content(
            PackageManager::Dpkg,
            &[
                "libostree-1-1 2022.7-2 amd64",
                "systemd 252 amd64",
                "ostree 2022.7-2 amd64",
            ],
        );
        let expected = [
            ("version", vec!["v1"]),
            ("kernel", vec!["6.1"]),
            ("libostree", vec!["2022.7-2"]),
            ("systemd", vec!["252"]),
            ("kubelet", vec![]),
            ("CRI-O", vec![]),
        ];
        assert_eq!(debian.notable(), expected);
        let rhcos = content(
            PackageManager::Rpm,
            &[
                "ostree-libs 2024.6-1 x86_64",
                "cri-o 1.31-1 x86_64",
                "openshift-hyperkube 4.18-1 x86_64",
            ],
        );
        assert_eq!(rhcos.notable()[2], ("libostree", vec!["2024.6-1"]));
        assert_eq!(rhcos.notable()[4], ("kubelet", vec!["4.18-1"]));
        assert_eq!(rhcos.notable()[5], ("CRI-O", vec!["1.31-1"]));
        assert!(
            OsContent::default()
                .notable()
                .iter()
                .all(|(_, values)| values.is_empty())
        );
        assert!(OsContent::default().packages().is_empty());
    }
}
