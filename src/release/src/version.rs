//! Versions of releases: semantic versions, of which build metadata is the architecture.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use semver::BuildMetadata;
use serde::{Deserialize, Serialize};

/// A release's version, such as `4.16.15`, `4.17.0-rc.2` or, in an update graph, `4.16.15+amd64`.
///
/// Shape: strictly a semantic version; no leading `v`, no missing part. Order: precedence of
/// semantic versions (`ec.1` before `rc.2` before `rc.10` before the release), then build metadata
/// by text, so that only equal versions are equal. Source: semver.org 2.0; Cincinnati, whose nodes
/// carry the architecture as build metadata.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Version(semver::Version);

/// A text is no version.
#[derive(Debug, thiserror::Error)]
#[error("{text:?} is no semantic version")]
pub struct Error {
    text: String,
    /// What is wrong with it.
    #[source]
    source: semver::Error,
}

impl Version {
    /// The architecture that its build metadata names; none where there is none.
    pub fn architecture(&self) -> Option<&str> {
        Some(self.0.build.as_str()).filter(|build| !build.is_empty())
    }

    /// The same version of no architecture.
    #[must_use]
    pub fn without_architecture(&self) -> Self {
        let mut version = self.0.clone();
        version.build = BuildMetadata::EMPTY;
        Self(version)
    }

    /// The same version of this architecture.
    ///
    /// # Errors
    /// The architecture is not made of letters, digits, dots and dashes.
    pub fn with_architecture(&self, architecture: &str) -> Result<Self, Error> {
        let mut version = self.0.clone();
        version.build = BuildMetadata::new(architecture).map_err(|source| Error {
            text: format!("{self}+{architecture}"),
            source,
        })?;
        Ok(Self(version))
    }

    /// Whether both are the same version, of whatever architecture.
    pub fn is_release(&self, other: &Self) -> bool {
        self.0.cmp_precedence(&other.0) == Ordering::Equal
    }

    /// Major and minor number: the versions with equal ones are one minor release.
    pub fn minor(&self) -> (u64, u64) {
        (self.0.major, self.0.minor)
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let precedence = self.0.cmp_precedence(&other.0);
        precedence.then_with(|| self.0.build.as_str().cmp(other.0.build.as_str()))
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl FromStr for Version {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let version = semver::Version::parse(text).map_err(|source| Error {
            text: text.to_owned(),
            source,
        })?;
        Ok(Self(version))
    }
}

impl TryFrom<String> for Version {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<Version> for String {
    fn from(version: Version) -> Self {
        version.to_string()
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn order_is_that_of_releases() {
        let ascending = [
            "4.9.60",
            "4.10.0-fc.0",
            "4.10.0-rc.2",
            "4.10.0-rc.10",
            "4.10.0",
            "4.10.0+amd64",
            "4.10.0+s390x",
            "4.10.1",
            "5.0.0-ec.1",
        ];
        for pair in ascending.windows(2) {
            assert!(version(pair[0]) < version(pair[1]), "{pair:?}");
        }
    }

    #[test]
    fn architecture_is_the_build_metadata() {
        let node = version("4.16.15+amd64");
        assert_eq!(node.architecture(), Some("amd64"));
        assert_eq!(node.without_architecture(), version("4.16.15"));
        assert_eq!(version("4.16.15").with_architecture("amd64").unwrap(), node);
        assert!(node.is_release(&version("4.16.15+multi")));
        assert!(!node.is_release(&version("4.16.16+amd64")));
        assert_eq!(version("4.16.15").architecture(), None);
        assert_eq!(node.minor(), (4, 16));
        assert!(node.with_architecture("a b").is_err());
        // The legacy form: a pre-release that names an architecture.
        let legacy = version("4.2.11-s390x").with_architecture("s390x").unwrap();
        assert_eq!(legacy.to_string(), "4.2.11-s390x+s390x");
    }

    #[test]
    fn other_texts_are_no_versions() {
        for text in ["", "4.1", "v4.1.0", "4.01.0", "4.1.0 ", "4.1.0+", "latest"] {
            let error = text.parse::<Version>().unwrap_err().to_string();
            assert_eq!(error, format!("{text:?} is no semantic version"));
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(text in "[0-9]{1,2}\\.[0-9]\\.[1-9][0-9]?(-rc\\.[0-9])?(\\+[a-z0-9]{1,6})?") {
            if let Ok(version) = text.parse::<Version>() {
                prop_assert_eq!(version.to_string(), text);
            }
        }
    }
}
