//! Capabilities: parts of a release that a cluster may leave out, and cannot remove later.

use std::collections::BTreeSet;

use crate::manifest::ObjectId;

/// Annotation of the capabilities that a manifest belongs to, joined by `+`.
pub const CAPABILITY: &str = "capability.openshift.io/name";

/// Set of a cluster that names none.
pub const CURRENT_SET: &str = "vCurrent";

pub type Names = BTreeSet<String>;

/// Named sets in ascending order; each has the members of those before it.
///
/// Source: `ClusterVersionCapabilitySet` of openshift/api, `config/v1`.
const SETS: &[(&str, &[&str])] = &[
    ("None", &[]),
    (
        "v4.11",
        &[
            "baremetal",
            "marketplace",
            "openshift-samples",
            "MachineAPI",
        ],
    ),
    ("v4.12", &["Console", "Insights", "Storage", "CSISnapshot"]),
    ("v4.13", &["NodeTuning"]),
    ("v4.14", &["Build", "DeploymentConfig", "ImageRegistry"]),
    ("v4.15", &["OperatorLifecycleManager", "CloudCredential"]),
    ("v4.16", &["Ingress", "CloudControllerManager"]),
    ("v4.17", &[]),
    ("v4.18", &["OperatorLifecycleManagerV1"]),
    (CURRENT_SET, &[COMPATIBILITY, CLUSTER_API]),
];

const COMPATIBILITY: &str = "CompatibilityRequirements";
const CLUSTER_API: &str = "ClusterAPI";

/// Capabilities that exist only where one of these feature gates is on.
const GATED: &[(&str, &[&str])] = &[
    (
        COMPATIBILITY,
        &[
            "CRDCompatibilityRequirementOperator",
            "ClusterAPIMachineManagement",
        ],
    ),
    (CLUSTER_API, &["ClusterAPIMachineManagement"]),
];

/// The capabilities of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Those that this program knows.
    pub known: Names,
    pub enabled: Names,
    /// Of `enabled`, those that the cluster's settings do not name.
    pub implied: Names,
}

impl Capabilities {
    /// All that are known, and all of them on: a manifest is checked against their names only.
    pub fn all(gates: &Names) -> Self {
        let known = members(CURRENT_SET, gates);
        Self {
            enabled: known.clone(),
            known,
            implied: Names::new(),
        }
    }

    /// Decides what is on. A capability that was on before stays on.
    ///
    /// Shape: `baseline` is the name of a set; empty or unknown is `vCurrent`. `before` are those
    /// that were on, and `always` those of the command line. Source: `docs/reference/cvo.md`,
    /// "ClusterVersion".
    pub fn resolve(
        baseline: &str,
        additional: &Names,
        before: &Names,
        always: &Names,
        gates: &Names,
    ) -> Self {
        let known = members(CURRENT_SET, gates);
        let mut requested = members(baseline, gates);
        requested.extend(
            additional
                .iter()
                .filter(|name| exists(name, gates))
                .cloned(),
        );
        let kept = before.union(always).filter(|name| exists(name, gates));
        let implied: Names = kept
            .filter(|name| !requested.contains(*name))
            .cloned()
            .collect();
        Self {
            known,
            enabled: requested.union(&implied).cloned().collect(),
            implied,
        }
    }
}

/// Capabilities that an update turns on: a resource that the running release applies must not be
/// left alone because the new release puts it into a capability that is off.
///
/// Shape: pairs of an object and the capabilities that its manifest names. `running` are those that
/// the running release applies, `next` all of the next release.
pub fn implied_by_update<'a>(
    running: impl IntoIterator<Item = (&'a ObjectId, Names)>,
    next: impl IntoIterator<Item = (&'a ObjectId, Names)>,
    enabled: &Names,
) -> Names {
    let running: std::collections::BTreeMap<&ObjectId, Names> = running
        .into_iter()
        .filter(|(_, names)| names.is_subset(enabled))
        .collect();
    let mut implied = Names::new();
    for (id, names) in next {
        if let Some(before) = running.get(id) {
            let new = names.difference(before);
            implied.extend(new.filter(|name| !enabled.contains(*name)).cloned());
        }
    }
    implied
}

/// The capabilities that an annotation names.
pub fn named(annotation: Option<&str>) -> Names {
    let names = annotation.into_iter().flat_map(|list| list.split('+'));
    names
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

fn members(set: &str, gates: &Names) -> Names {
    let last = SETS
        .iter()
        .position(|(name, _)| *name == set)
        .unwrap_or(SETS.len() - 1);
    let names = SETS.iter().take(last + 1).flat_map(|(_, added)| *added);
    names
        .filter(|name| exists(name, gates))
        .map(|name| (*name).to_owned())
        .collect()
}

fn exists(name: &str, gates: &Names) -> bool {
    let mut needs = GATED.iter();
    needs
        .find(|(capability, _)| *capability == name)
        .is_none_or(|(_, any)| any.iter().any(|gate| gates.contains(*gate)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Names {
        list.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn sets_grow_and_gated_ones_need_their_gate() {
        let none = Names::new();
        let of = |set: &str| Capabilities::resolve(set, &none, &none, &none, &none).enabled;
        assert_eq!(of("None"), none);
        assert_eq!(of("v4.11").len(), 4);
        assert_eq!(of("v4.16"), of("v4.17"));
        assert!(of("v4.17").is_subset(&of("v4.18")));
        assert_eq!(of(""), of("vCurrent"));
        assert_eq!(of(""), Capabilities::all(&none).enabled);
        assert!(!of("").contains(CLUSTER_API) && !of("").contains(COMPATIBILITY));
        let gate = names(&["ClusterAPIMachineManagement"]);
        let found = Capabilities::resolve("vCurrent", &none, &none, &none, &gate);
        assert!(found.enabled.contains(CLUSTER_API) && found.enabled.contains(COMPATIBILITY));
        let gate = names(&["CRDCompatibilityRequirementOperator"]);
        let found = Capabilities::resolve("vCurrent", &names(&[CLUSTER_API]), &none, &none, &gate);
        assert!(!found.enabled.contains(CLUSTER_API) && found.known.contains(COMPATIBILITY));
    }

    #[test]
    fn what_was_on_stays_on_and_is_implied() {
        let none = Names::new();
        let (before, always) = (names(&["Console"]), names(&["Ingress"]));
        let found = Capabilities::resolve("None", &names(&["Build"]), &before, &always, &none);
        assert_eq!(found.enabled, names(&["Build", "Console", "Ingress"]));
        assert_eq!(found.implied, names(&["Console", "Ingress"]));
        let found = Capabilities::resolve("v4.18", &none, &before, &always, &none);
        assert_eq!(found.implied, none);
    }

    #[test]
    fn an_update_that_moves_a_resource_into_a_capability_turns_it_on() {
        let id = |name: &str| ObjectId {
            group: String::new(),
            kind: "ConfigMap".to_owned(),
            namespace: "n".to_owned(),
            name: name.to_owned(),
        };
        let [moved, off, new] = ["moved", "off", "new"].map(id);
        let enabled = names(&["Console"]);
        let running = [(&moved, names(&["Console"])), (&off, names(&["Build"]))];
        let next = [
            (&moved, names(&["Console", "Storage", "Unheard"])),
            (&off, names(&["Build", "Storage2"])),
            (&new, names(&["Insights"])),
        ];
        let implied = implied_by_update(running, next, &enabled);
        assert_eq!(implied, names(&["Storage", "Unheard"]));
    }
}
