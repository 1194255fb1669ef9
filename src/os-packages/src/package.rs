//! A package, and the list of all that an image has.

use std::fmt;

use serde::Serialize;

/// What installed the packages of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PackageManager {
    Dpkg,
    Rpm,
}

/// An installed package.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct OsPackage {
    pub name: String,
    /// As the manager writes it: `[epoch:]version[-release]`, without an epoch of 0 where it is
    /// rpm's.
    pub version: String,
    /// Such as `amd64`, `x86_64`, `all` or `noarch`.
    pub architecture: String,
}

/// All packages of an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PackageList {
    pub manager: PackageManager,
    /// By name. One name may be there several times: kernels, and architectures beside each other.
    packages: Vec<OsPackage>,
}

impl PackageList {
    /// Takes packages in any order.
    pub fn new(manager: PackageManager, mut packages: Vec<OsPackage>) -> Self {
        packages.sort_unstable();
        packages.dedup();
        Self { manager, packages }
    }

    /// All of them, by name.
    pub fn packages(&self) -> &[OsPackage] {
        &self.packages
    }

    /// The versions of the first of these names that is there.
    pub fn versions_of(&self, names: &[&str]) -> Vec<&str> {
        let of = |name: &&str| {
            let packages = self
                .packages
                .iter()
                .filter(|package| package.name == **name);
            let mut versions: Vec<&str> = packages.map(|it| it.version.as_str()).collect();
            versions.dedup();
            versions
        };
        let mut found = names.iter().map(of).filter(|versions| !versions.is_empty());
        found.next().unwrap_or_default()
    }
}

impl fmt::Display for PackageManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dpkg => "dpkg",
            Self::Rpm => "rpm",
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Packages written as `name version architecture`.
    pub(crate) fn list(manager: PackageManager, lines: &[&str]) -> PackageList {
        let packages = lines.iter().map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            OsPackage {
                name: words[0].to_owned(),
                version: words[1].to_owned(),
                architecture: words[2].to_owned(),
            }
        });
        PackageList::new(manager, packages.collect())
    }

    #[test]
    fn packages_are_sorted_and_found_by_the_first_name_that_is_there() {
        let list = list(
            PackageManager::Rpm,
            &["b 1 x", "a 2 x", "a 2 y", "a 1 x", "b 1 x"],
        );
        let names: Vec<&str> = list.packages().iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["a", "a", "a", "b"]);
        assert_eq!(list.versions_of(&["c", "b", "a"]), ["1"]);
        assert_eq!(list.versions_of(&["a"]), ["1", "2"]);
        assert!(list.versions_of(&["c"]).is_empty());
    }
}
