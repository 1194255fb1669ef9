//! Versions of the components that an image carries, as its labels name them.
//!
//! - `carried`: those of all images of a release

mod carried;

use std::collections::BTreeMap;

pub use self::carried::Carried;
use crate::version::{self, Version};

/// Versions by component, with the name that people know each by.
///
/// Shape: components are lowercase letters, digits and inner dashes, at least two characters.
/// Versions have no build metadata.
pub type ComponentVersions = BTreeMap<String, ComponentVersion>;

/// The version of one component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComponentVersion {
    pub version: Version,
    /// What people call the component; empty where it has no other name.
    pub display_name: String,
}

/// Why a label names no versions.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A member is no pair.
    #[error("{0:?} is no pair NAME=VALUE")]
    Pair(String),
    /// A component's name is none.
    #[error(
        "{0:?} is no name of a component: lowercase letters, digits and inner dashes, at least two characters"
    )]
    Name(String),
    #[error("version of {component}")]
    Version {
        component: String,
        #[source]
        source: version::Error,
    },
    /// A display name has other characters.
    #[error("display name {0:?} has other characters than letters, digits, blanks and -:().")]
    DisplayName(String),
}

/// Reads the labels `io.openshift.build.versions` and `io.openshift.build.version-display-names`.
///
/// Shape: lists with commas of `component=version` and of `component=Display Name`. The last of two
/// members with one name counts; a display name without a version is left out.
///
/// # Errors
/// [`Error`], of the first member that is wrong. Nothing is wrong where no version is named.
pub fn parse(versions: &str, display_names: &str) -> Result<ComponentVersions, Error> {
    let mut found = ComponentVersions::new();
    if versions.trim().is_empty() {
        return Ok(found);
    }
    let mut names = BTreeMap::new();
    for (component, name) in pairs(display_names)? {
        let is_name =
            |c: char| c.is_ascii_alphanumeric() || c.is_ascii_whitespace() || "-:().".contains(c);
        if name.is_empty() || !name.chars().all(is_name) {
            // A later name of the same component does not mend it.
            return Err(Error::DisplayName(name.to_owned()));
        }
        names.insert(component, name);
    }
    for (component, version) in pairs(versions)? {
        let version: Version = version.parse().map_err(|source| Error::Version {
            component: component.to_owned(),
            source,
        })?;
        let version = ComponentVersion {
            version: version.without_architecture(),
            display_name: names.get(component).copied().unwrap_or_default().to_owned(),
        };
        found.insert(component.to_owned(), version);
    }
    Ok(found)
}

fn pairs(list: &str) -> Result<Vec<(&str, &str)>, Error> {
    let members = list.split(',').map(str::trim);
    let members = members.filter(|_| !list.trim().is_empty());
    members
        .map(|member| {
            let pair = member.split_once('=');
            let (name, value) = pair.ok_or_else(|| Error::Pair(member.to_owned()))?;
            if is_component(name) {
                Ok((name, value))
            } else {
                Err(Error::Name(name.to_owned()))
            }
        })
        .collect()
}

/// Whether it is the name of a component: `^[a-z0-9]+[\-a-z0-9]*[a-z0-9]+$`.
pub fn is_component(name: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    name.len() >= 2 && name.bytes().all(is_inner) && !name.starts_with('-') && !name.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(versions: &str, names: &str) -> Result<String, String> {
        let found = parse(versions, names).map_err(|error| error.to_string())?;
        let one = |(component, version): (&String, &ComponentVersion)| {
            format!("{component}={} {:?}", version.version, version.display_name)
        };
        Ok(found.iter().map(one).collect::<Vec<_>>().join(", "))
    }

    #[test]
    fn labels_are_read() {
        for (versions, names, expected) in [
            ("", "", ""),
            ("", "a=b", ""),
            ("a1=1.0.0", "", "a1=1.0.0 \"\""),
            (
                "a1=1.0.0+4.12",
                "a1=b 1 c d : -",
                "a1=1.0.0 \"b 1 c d : -\"",
            ),
            ("a1=1.0.0", "a1=other,a1=valid", "a1=1.0.0 \"valid\""),
            (
                " b1=2.0.0 , a-1=1.0.0-rc.1",
                "c1=x",
                "a-1=1.0.0-rc.1 \"\", b1=2.0.0 \"\"",
            ),
        ] {
            assert_eq!(printed(versions, names), Ok(expected.to_owned()));
        }
    }

    #[test]
    fn error_names_the_member() {
        for (versions, names, expected) in [
            ("a=1.0.0", "", "\"a\" is no name"),
            ("a!=1.0.0", "", "\"a!\" is no name"),
            ("-a=1.0.0", "", "\"-a\" is no name"),
            ("a-=1.0.0", "", "\"a-\" is no name"),
            ("ab", "", "\"ab\" is no pair"),
            ("a1=1.0.0,", "", "\"\" is no pair"),
            ("a1=1.0", "", "version of a1"),
            ("a1=1.0.0", "a=b", "\"a\" is no name"),
            ("a1=1.0.0", "a1", "\"a1\" is no pair"),
            ("a1=1.0.0", "a1=!", "display name \"!\""),
            ("a1=1.0.0", "a1=!,a1=valid", "display name \"!\""),
            ("a1=1.0.0", "a1=", "display name \"\""),
        ] {
            let error = printed(versions, names).unwrap_err();
            assert!(error.contains(expected), "{versions} {names}: {error}");
        }
    }
}
