//! Which clusters a manifest is for, by its annotations.

use std::collections::{BTreeMap, BTreeSet};

/// Prefix of the annotation of a cluster profile that a manifest is for, if its value is `true`.
pub const INCLUDE: &str = "include.release.openshift.io/";

/// Annotation of the feature sets that a manifest is for: a list with commas.
pub const FEATURE_SET: &str = "release.openshift.io/feature-set";

/// Annotation of the feature gates that a manifest asks for: a list with commas; `-Name` must be
/// off.
pub const FEATURE_GATE: &str = "release.openshift.io/feature-gate";

/// Annotation of the cluster's major versions that a manifest is for: a list with commas; `-5`
/// excludes.
pub const MAJOR_VERSION: &str = "release.openshift.io/major-version";

/// What a manifest's annotations ask of a cluster.
///
/// Source: `docs/reference/cvo.md`, "Manifest filters".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection<'a> {
    /// Cluster profiles; one of them is needed, so that without any no cluster is selected.
    pub profiles: BTreeSet<&'a str>,
    /// Feature sets, of which the cluster's is one; none: any.
    pub feature_sets: Option<BTreeSet<&'a str>>,
    /// Feature gates that are on.
    pub gates_on: BTreeSet<&'a str>,
    /// Feature gates that are off.
    pub gates_off: BTreeSet<&'a str>,
    /// Major versions, of which the cluster's is one; none: any.
    pub majors: Option<BTreeSet<&'a str>>,
    /// Major versions that the cluster's is none of.
    pub not_majors: BTreeSet<&'a str>,
}

impl<'a> Selection<'a> {
    pub fn of(annotations: &BTreeMap<&'a str, &'a str>) -> Self {
        let profile = |(key, value): (&&'a str, &&'a str)| {
            key.strip_prefix(INCLUDE).filter(|_| *value == "true")
        };
        let (gates_on, gates_off) = split(list(annotations, FEATURE_GATE));
        let (majors, not_majors) = split(list(annotations, MAJOR_VERSION));
        Self {
            profiles: annotations.iter().filter_map(profile).collect(),
            feature_sets: list(annotations, FEATURE_SET),
            gates_on,
            gates_off,
            majors: Some(majors).filter(|majors| !majors.is_empty()),
            not_majors,
        }
    }

    /// Whether a cluster may be that both are for. One without a profile, which is for none, is
    /// taken for one of every profile: its annotation was forgotten.
    pub fn may_meet(&self, other: &Self) -> bool {
        let is_apart = |one: &Option<BTreeSet<&str>>, two: &Option<BTreeSet<&str>>| {
            one.as_ref()
                .zip(two.as_ref())
                .is_some_and(|(one, two)| one.is_disjoint(two))
        };
        let is_shut_out = |one: &Self, two: &Self| {
            let only = one.majors.as_ref();
            only.is_some_and(|majors| majors.is_subset(&two.not_majors))
                || !one.gates_on.is_disjoint(&two.gates_off)
        };
        let is_of_a_profile = !self.profiles.is_empty() && !other.profiles.is_empty();
        !((is_of_a_profile && self.profiles.is_disjoint(&other.profiles))
            || is_apart(&self.feature_sets, &other.feature_sets)
            || is_apart(&self.majors, &other.majors)
            || is_shut_out(self, other)
            || is_shut_out(other, self))
    }
}

/// The members of a list with commas; none where the annotation is missing.
fn list<'a>(annotations: &BTreeMap<&'a str, &'a str>, key: &str) -> Option<BTreeSet<&'a str>> {
    let members = annotations.get(key)?.split(',').map(str::trim);
    Some(members.filter(|member| !member.is_empty()).collect())
}

/// Members without and with a leading dash, and these without it.
fn split(members: Option<BTreeSet<&str>>) -> (BTreeSet<&str>, BTreeSet<&str>) {
    let (off, on): (BTreeSet<&str>, BTreeSet<&str>) = members
        .into_iter()
        .flatten()
        .partition(|member| member.starts_with('-'));
    let off = off
        .into_iter()
        .filter_map(|member| member.strip_prefix('-'));
    (on, off.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HA: (&str, &str) = (
        "include.release.openshift.io/self-managed-high-availability",
        "true",
    );
    const SINGLE: (&str, &str) = ("include.release.openshift.io/single-node-developer", "true");

    fn annotations<'a>(pairs: &[(&'a str, &'a str)]) -> BTreeMap<&'a str, &'a str> {
        pairs.iter().copied().collect()
    }

    #[test]
    fn annotations_are_read() {
        let all = annotations(&[
            HA,
            ("include.release.openshift.io/other", "false"),
            (FEATURE_SET, "Default, CustomNoUpgrade"),
            (FEATURE_GATE, "A,-B"),
            (MAJOR_VERSION, "4,-5"),
        ]);
        let selection = Selection::of(&all);
        assert_eq!(
            selection.profiles,
            BTreeSet::from(["self-managed-high-availability"])
        );
        assert_eq!(
            selection.feature_sets,
            Some(BTreeSet::from(["CustomNoUpgrade", "Default"]))
        );
        assert_eq!(selection.gates_on, BTreeSet::from(["A"]));
        assert_eq!(selection.gates_off, BTreeSet::from(["B"]));
        assert_eq!(selection.majors, Some(BTreeSet::from(["4"])));
        assert_eq!(selection.not_majors, BTreeSet::from(["5"]));
    }

    #[test]
    fn selections_meet_unless_an_annotation_keeps_them_apart() {
        let set = |value| (FEATURE_SET, value);
        let gate = |value| (FEATURE_GATE, value);
        let major = |value| (MAJOR_VERSION, value);
        for (one, other, expected) in [
            (vec![HA], vec![HA], true),
            (vec![HA], vec![SINGLE], false),
            (vec![HA], vec![HA, SINGLE], true),
            (vec![], vec![HA], true),
            (vec![], vec![], true),
            (
                vec![HA, set("Default")],
                vec![HA, set("TechPreviewNoUpgrade")],
                false,
            ),
            (vec![HA, set("Default,OKD")], vec![HA, set("OKD")], true),
            (vec![HA, set("Default")], vec![HA], true),
            (vec![HA, gate("A")], vec![HA, gate("-A")], false),
            (vec![HA, gate("A")], vec![HA, gate("B")], true),
            (vec![HA, major("4")], vec![HA, major("5")], false),
            (vec![HA, major("4")], vec![HA, major("-4")], false),
            (vec![HA, major("4,5")], vec![HA, major("-4")], true),
            (vec![HA, major("-5")], vec![HA, major("-4")], true),
        ] {
            let maps = (annotations(&one), annotations(&other));
            let (a, b) = (Selection::of(&maps.0), Selection::of(&maps.1));
            assert_eq!(a.may_meet(&b), expected, "{one:?} {other:?}");
            assert_eq!(b.may_meet(&a), expected, "{other:?} {one:?}");
        }
    }
}
