//! What of an OS changes from one image to another.

use os_packages::content::OsContent;
use os_packages::difference::{PackageDifference, packages};
use os_packages::download::{ImageDownload, StoredLayer, to_fetch};
use os_packages::package::PackageManager;
use os_packages::place::PackageDatabase;
use serde::Serialize;

/// An OS image, read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OsImage {
    pub(crate) content: OsContent,
    pub(crate) layers: Vec<StoredLayer>,
    /// Why its packages are not shown, where it has a database.
    pub(crate) not_read: Option<String>,
}

/// What of an OS changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OsChange {
    /// What stands out, whether or not it changes.
    pub(crate) notable: Vec<NotableChange>,
    /// What a host fetches that has the first image.
    pub(crate) to_fetch: ImageDownload,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) packages: Option<PackageDifference>,
    /// Why there is no difference of packages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) without_packages: Option<String>,
}

/// The version of something that stands out; empty where an image does not have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct NotableChange {
    pub(crate) what: &'static str,
    pub(crate) from: String,
    pub(crate) to: String,
}

impl OsImage {
    /// Notes that its packages are in a form that is not read.
    pub(crate) fn leave_out(&mut self, database: &PackageDatabase) {
        if let PackageDatabase::Unsupported { file, form } = database {
            let manager: PackageManager = database.manager();
            self.not_read = Some(format!("{file}: the form {form} of {manager} is not read"));
        }
    }
}

impl OsChange {
    pub(crate) fn new(from: &OsImage, to: &OsImage) -> Self {
        let notable = from.content.notable().into_iter().zip(to.content.notable());
        let notable = notable.map(|((what, from), (_, to))| NotableChange {
            what,
            from: from.join(", "),
            to: to.join(", "),
        });
        let not_read = from.not_read.clone().or_else(|| to.not_read.clone());
        let compared = match not_read {
            Some(why) => Err(why),
            None => packages(&from.content, &to.content).map_err(|why| why.to_string()),
        };
        let (packages, without_packages) = match compared {
            Ok(packages) => (Some(packages), None),
            Err(why) => (None, Some(why)),
        };
        Self {
            notable: notable.collect(),
            to_fetch: to_fetch(&from.layers, &to.layers),
            packages,
            without_packages,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use os_packages::package::{OsPackage, PackageList};

    use super::*;

    /// An image with packages written as `name version`, and layers as digest and bytes.
    pub(crate) fn image(kernel: &str, packages: &[&str], layers: &[(&str, u64)]) -> OsImage {
        let package = |line: &&str| {
            let (name, version) = line.split_once(' ').unwrap();
            OsPackage {
                name: name.to_owned(),
                version: version.to_owned(),
                architecture: "amd64".to_owned(),
            }
        };
        let packages = packages.iter().map(package).collect();
        let layer = |(digest, bytes): &(&str, u64)| StoredLayer {
            digest: (*digest).to_owned(),
            bytes: *bytes,
        };
        OsImage {
            content: OsContent {
                version: None,
                kernels: vec![kernel.to_owned()],
                packages: Some(PackageList::new(PackageManager::Dpkg, packages)),
            },
            layers: layers.iter().map(layer).collect(),
            not_read: None,
        }
    }

    #[test]
    fn a_change_has_what_stands_out_and_why_there_are_no_packages() {
        let from = image("6.1", &["systemd 252", "a 1"], &[("x", 10)]);
        let mut to = image("6.12", &["systemd 257", "a 1"], &[("x", 10), ("y", 5)]);
        let change = OsChange::new(&from, &to);
        let notable = change.notable.iter();
        let notable = notable.map(|it| format!("{} {} {}", it.what, it.from, it.to));
        let expected = [
            "version  ",
            "kernel 6.1 6.12",
            "libostree  ",
            "systemd 252 257",
            "kubelet  ",
            "CRI-O  ",
        ];
        assert_eq!(notable.collect::<Vec<_>>(), expected);
        assert_eq!((change.to_fetch.layers, change.to_fetch.bytes), (1, 5));
        assert_eq!(change.packages.unwrap().upgraded.len(), 1);

        to.content.packages = None;
        let change = OsChange::new(&from, &to);
        assert_eq!(change.packages, None);
        let why = change.without_packages.unwrap();
        assert_eq!(why, "the second image has no package database");
        to.leave_out(&PackageDatabase::Unsupported {
            file: "var/lib/rpm/Packages".to_owned(),
            form: "Berkeley DB",
        });
        let why = OsChange::new(&from, &to).without_packages.unwrap();
        assert_eq!(
            why,
            "var/lib/rpm/Packages: the form Berkeley DB of rpm is not read"
        );
    }
}
