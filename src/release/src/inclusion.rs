//! Whether a manifest is applied to a cluster, and if not, why.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::capability::{self, CAPABILITY, Capabilities};
use crate::manifest::ObjectId;
use crate::selection::{FEATURE_GATE, FEATURE_SET, INCLUDE, MAJOR_VERSION};

/// Prefix of the annotation that excludes a manifest from clusters of this identity.
pub const EXCLUDE: &str = "exclude.release.openshift.io/";

/// Feature set of a cluster that names none.
const DEFAULT_SET: &str = "Default";

const FEATURE_SETS: [&str; 5] = [
    DEFAULT_SET,
    "TechPreviewNoUpgrade",
    "DevPreviewNoUpgrade",
    "CustomNoUpgrade",
    "OKD",
];

/// The kinds that may depend on the major version.
const BY_MAJOR: [&str; 2] = ["FeatureGate", "CustomResourceDefinition"];

/// What of a cluster decides which manifests it gets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cluster {
    /// Its profile, such as `self-managed-high-availability`.
    pub profile: String,
    /// Its identity in exclusions; empty for none.
    pub exclude: String,
    /// Its feature set; empty is `Default`.
    pub feature_set: String,
    /// Feature gates that are on.
    pub gates: BTreeSet<String>,
    /// Major version of the release; none: undetermined, and then not checked.
    pub major: Option<u64>,
    /// Its capabilities; none: not checked.
    pub capabilities: Option<Capabilities>,
    /// Objects that its administrators have put out of management.
    pub overrides: BTreeSet<ObjectId>,
}

/// Why a manifest is not applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exclusion {
    NoAnnotations,
    Excluded(String),
    /// It asks for feature sets and feature gates at once.
    SetAndGate,
    /// A feature set is none.
    UnknownFeatureSet(String),
    /// The cluster's feature set is not in its list.
    FeatureSet(String),
    /// A feature gate is not as it asks.
    FeatureGate(String),
    /// The list of major versions makes no sense, or its kind has none.
    MajorVersion(String),
    /// It is for other major versions.
    OtherMajor(String),
    /// It does not name the cluster's profile.
    ProfileUnset(String),
    /// It names the profile with another value than `true`.
    ProfileValue(String, String),
    /// It names capabilities that do not exist.
    UnknownCapabilities(Vec<String>),
    /// It names capabilities that are off.
    DisabledCapabilities(Vec<String>),
    /// An administrator manages the object.
    Overridden,
}

impl Exclusion {
    /// Whether the manifest's own annotations make no sense, whatever the cluster is.
    pub const fn is_malformed(&self) -> bool {
        match self {
            Self::SetAndGate
            | Self::UnknownFeatureSet(_)
            | Self::MajorVersion(_)
            | Self::ProfileValue(..)
            | Self::UnknownCapabilities(_) => true,
            Self::NoAnnotations
            | Self::Excluded(_)
            | Self::FeatureSet(_)
            | Self::FeatureGate(_)
            | Self::OtherMajor(_)
            | Self::ProfileUnset(_)
            | Self::DisabledCapabilities(_)
            | Self::Overridden => false,
        }
    }
}

impl fmt::Display for Exclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAnnotations => f.write_str("no annotations"),
            Self::Excluded(id) => write!(f, "{EXCLUDE}{id}=true"),
            Self::SetAndGate => write!(f, "both {FEATURE_SET} and {FEATURE_GATE} are set"),
            Self::UnknownFeatureSet(set) => write!(f, "unrecognized feature set: {set}"),
            Self::FeatureSet(list) => write!(f, "{FEATURE_SET}={list}"),
            Self::FeatureGate(gate) => write!(f, "feature gate {gate} is required"),
            Self::MajorVersion(why) => write!(f, "{MAJOR_VERSION}: {why}"),
            Self::OtherMajor(list) => write!(f, "{MAJOR_VERSION}={list}"),
            Self::ProfileUnset(profile) => write!(f, "{INCLUDE}{profile} unset"),
            Self::ProfileValue(profile, value) => {
                write!(f, "unrecognized value {INCLUDE}{profile}={value}")
            }
            Self::UnknownCapabilities(names) => {
                write!(f, "unrecognized capability names: {}", names.join(", "))
            }
            Self::DisabledCapabilities(names) => {
                write!(f, "disabled capabilities: {}", names.join(", "))
            }
            Self::Overridden => f.write_str("overridden"),
        }
    }
}

impl Cluster {
    /// Checks a manifest: nothing if it is applied, else the first reason against it.
    ///
    /// Source: `docs/reference/cvo.md`, "Manifest filters".
    pub fn exclusion(
        &self,
        id: &ObjectId,
        annotations: &BTreeMap<String, String>,
    ) -> Option<Exclusion> {
        let read = |key: &str| annotations.get(key).map(String::as_str);
        if annotations.is_empty() {
            return Some(Exclusion::NoAnnotations);
        }
        let exclude = format!("{EXCLUDE}{}", self.exclude);
        if !self.exclude.is_empty() && read(&exclude) == Some("true") {
            return Some(Exclusion::Excluded(self.exclude.clone()));
        }
        self.feature(read(FEATURE_SET), read(FEATURE_GATE))
            .or_else(|| self.major(id, read(MAJOR_VERSION)?))
            .or_else(|| {
                let profile = self.profile.clone();
                match read(&format!("{INCLUDE}{profile}")) {
                    None => Some(Exclusion::ProfileUnset(profile)),
                    Some("true") => None,
                    Some(value) => Some(Exclusion::ProfileValue(profile, value.to_owned())),
                }
            })
            .or_else(|| self.capability(read(CAPABILITY)))
            .or_else(|| self.is_overridden(id).then_some(Exclusion::Overridden))
    }

    fn feature(&self, sets: Option<&str>, gates: Option<&str>) -> Option<Exclusion> {
        if sets.is_some() && gates.is_some() {
            return Some(Exclusion::SetAndGate);
        }
        if let Some(list) = sets {
            let members: Vec<&str> = list.split(',').map(str::trim).collect();
            let unknown = members.iter().find(|name| !FEATURE_SETS.contains(*name));
            if let Some(unknown) = unknown {
                return Some(Exclusion::UnknownFeatureSet((*unknown).to_owned()));
            }
            let own = if self.feature_set.is_empty() {
                DEFAULT_SET
            } else {
                &self.feature_set
            };
            return (!members.contains(&own)).then(|| Exclusion::FeatureSet(list.to_owned()));
        }
        let missing = members(gates?).find(|gate| match gate.strip_prefix('-') {
            Some(off) => self.gates.contains(off),
            None => !self.gates.contains(*gate),
        });
        missing.map(|gate| Exclusion::FeatureGate(gate.to_owned()))
    }

    fn major(&self, id: &ObjectId, list: &str) -> Option<Exclusion> {
        if !BY_MAJOR.contains(&id.kind.as_str()) {
            let why = format!("kind {} cannot depend on it", id.kind);
            return Some(Exclusion::MajorVersion(why));
        }
        let (mut only, mut not) = (BTreeSet::new(), BTreeSet::new());
        for member in members(list) {
            let (number, into) = match member.strip_prefix('-') {
                Some(number) => (number, &mut not),
                None => (member, &mut only),
            };
            match number.parse::<u64>() {
                Ok(number) => into.insert(number),
                Err(_) => return Some(Exclusion::MajorVersion(format!("{member:?} is no number"))),
            };
        }
        if let Some(both) = only.intersection(&not).next() {
            return Some(Exclusion::MajorVersion(format!("both {both} and -{both}")));
        }
        let major = self.major?;
        let is_out = not.contains(&major) || !(only.is_empty() || only.contains(&major));
        is_out.then(|| Exclusion::OtherMajor(list.to_owned()))
    }

    fn capability(&self, annotation: Option<&str>) -> Option<Exclusion> {
        let capabilities = self.capabilities.as_ref()?;
        let names = capability::named(annotation);
        let outside = |of: &BTreeSet<String>| names.difference(of).cloned().collect::<Vec<_>>();
        // What an update has turned on is recognized, whatever it is called.
        let recognized = &capabilities.known | &capabilities.enabled;
        let (unknown, disabled) = (outside(&recognized), outside(&capabilities.enabled));
        if !unknown.is_empty() {
            return Some(Exclusion::UnknownCapabilities(unknown));
        }
        (!disabled.is_empty()).then_some(Exclusion::DisabledCapabilities(disabled))
    }

    /// Whether an administrator manages the object.
    fn is_overridden(&self, id: &ObjectId) -> bool {
        let mut overrides = self.overrides.iter();
        overrides.any(|unmanaged| is_override_of(unmanaged, id))
    }
}

/// Whether an override is about an object. Of one without a namespace, the override's does not
/// matter.
pub fn is_override_of(unmanaged: &ObjectId, id: &ObjectId) -> bool {
    (&unmanaged.group, &unmanaged.kind, &unmanaged.name) == (&id.group, &id.kind, &id.name)
        && (id.namespace.is_empty() || unmanaged.namespace == id.namespace)
}

/// The members of a list with commas. Empty ones ask for nothing.
fn members(list: &str) -> impl Iterator<Item = &str> {
    let members = list.split(',').map(str::trim);
    members.filter(|member| !member.is_empty())
}

#[cfg(test)]
mod tests;
