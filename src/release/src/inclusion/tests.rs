use super::*;
use crate::capability::Names;

const HA: (&str, &str) = ("include.release.openshift.io/ha", "true");

fn names(list: &[&str]) -> Names {
    list.iter().map(|name| (*name).to_owned()).collect()
}

fn id(kind: &str, namespace: &str) -> ObjectId {
    ObjectId {
        group: "g".to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: "a".to_owned(),
    }
}

fn cluster() -> Cluster {
    Cluster {
        profile: "ha".to_owned(),
        exclude: "me".to_owned(),
        gates: names(&["On"]),
        major: Some(4),
        capabilities: Some(Capabilities {
            known: names(&["Console", "Build"]),
            enabled: names(&["Console", "Implied"]),
            implied: names(&["Implied"]),
        }),
        ..Cluster::default()
    }
}

fn reason(cluster: &Cluster, kind: &str, annotations: &[(&str, &str)]) -> Option<String> {
    let annotations = annotations
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    let found = cluster.exclusion(&id(kind, "n"), &annotations);
    found.map(|reason| reason.to_string())
}

/// Kind, annotations, and the reason against the manifest.
type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], Option<&'a str>);

fn check(table: &[Case<'_>]) {
    for (kind, annotations, expected) in table {
        let found = reason(&cluster(), kind, annotations);
        assert_eq!(found.as_deref(), *expected, "{kind} {annotations:?}");
    }
}

#[test]
fn first_rule_that_fails_is_the_reason() {
    let set = |value| (FEATURE_SET, value);
    let gate = |value| (FEATURE_GATE, value);
    let capability = |value| (CAPABILITY, value);
    check(&[
        ("ConfigMap", &[], Some("no annotations")),
        ("ConfigMap", &[HA], None),
        (
            "ConfigMap",
            &[
                HA,
                ("exclude.release.openshift.io/me", "true"),
                set("x"),
                gate("x"),
            ],
            Some("exclude.release.openshift.io/me=true"),
        ),
        (
            "ConfigMap",
            &[HA, ("exclude.release.openshift.io/me", "false")],
            None,
        ),
        (
            "ConfigMap",
            &[HA, ("exclude.release.openshift.io/you", "true")],
            None,
        ),
        (
            "ConfigMap",
            &[HA, set("Default"), gate("On")],
            Some(
                "both release.openshift.io/feature-set and release.openshift.io/feature-gate are set",
            ),
        ),
        ("ConfigMap", &[HA, set("Default, OKD")], None),
        (
            "ConfigMap",
            &[HA, set("OKD")],
            Some("release.openshift.io/feature-set=OKD"),
        ),
        (
            "ConfigMap",
            &[HA, set("Default,New")],
            Some("unrecognized feature set: New"),
        ),
        ("ConfigMap", &[HA, gate("On, -Off")], None),
        (
            "ConfigMap",
            &[HA, gate("On,Off")],
            Some("feature gate Off is required"),
        ),
        (
            "ConfigMap",
            &[HA, gate("-On")],
            Some("feature gate -On is required"),
        ),
        ("ConfigMap", &[HA, gate("On,")], None),
        (
            "ConfigMap",
            &[HA, gate(",Off")],
            Some("feature gate Off is required"),
        ),
        (
            "ConfigMap",
            &[("a", "b"), capability("Unheard")],
            Some("include.release.openshift.io/ha unset"),
        ),
        (
            "ConfigMap",
            &[("include.release.openshift.io/ha", "yes")],
            Some("unrecognized value include.release.openshift.io/ha=yes"),
        ),
        ("ConfigMap", &[HA, capability("Console+Implied")], None),
        (
            "ConfigMap",
            &[HA, capability("Console+Build+Z+Y")],
            Some("unrecognized capability names: Y, Z"),
        ),
        (
            "ConfigMap",
            &[HA, capability("Console+Build")],
            Some("disabled capabilities: Build"),
        ),
    ]);
}

#[test]
fn major_versions_are_a_list_of_two_kinds() {
    let major = |value| (MAJOR_VERSION, value);
    check(&[
        (
            "ConfigMap",
            &[HA, major("4")],
            Some("release.openshift.io/major-version: kind ConfigMap cannot depend on it"),
        ),
        ("FeatureGate", &[HA, major("4,5")], None),
        ("FeatureGate", &[HA, major("-5")], None),
        (
            "FeatureGate",
            &[HA, major("5")],
            Some("release.openshift.io/major-version=5"),
        ),
        (
            "CustomResourceDefinition",
            &[HA, major("-4")],
            Some("release.openshift.io/major-version=-4"),
        ),
        (
            "FeatureGate",
            &[HA, major("5,-5")],
            Some("release.openshift.io/major-version: both 5 and -5"),
        ),
        (
            "FeatureGate",
            &[HA, major("four")],
            Some("release.openshift.io/major-version: \"four\" is no number"),
        ),
        ("FeatureGate", &[HA, major("4,")], None),
        ("FeatureGate", &[HA, major("")], None),
    ]);
}

#[test]
fn what_is_not_known_is_not_asked() {
    let cluster = Cluster {
        major: None,
        capabilities: None,
        ..cluster()
    };
    let annotations = [HA, (MAJOR_VERSION, "7"), (CAPABILITY, "Unheard")];
    assert_eq!(reason(&cluster, "FeatureGate", &annotations), None);
}

#[test]
fn override_matches_group_kind_name_and_namespace() {
    let annotations = BTreeMap::from([(HA.0.to_owned(), HA.1.to_owned())]);
    let mut cluster = cluster();
    cluster.overrides.insert(id("Deployment", "n"));
    for (id, expected) in [
        (id("Deployment", "n"), true),
        (id("Deployment", ""), true),
        (id("Deployment", "other"), false),
        (id("DaemonSet", "n"), false),
    ] {
        let found = cluster.exclusion(&id, &annotations);
        assert_eq!(found == Some(Exclusion::Overridden), expected, "{id}");
    }
}
