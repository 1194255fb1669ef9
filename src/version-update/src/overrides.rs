//! Objects that an administrator takes from the release, how long, and how that is kept in view:
//! values in, values out.

use api::ConditionStatus;
use api::config::{ClusterVersion, ComponentOverride};
use jiff::Timestamp;
use release::inclusion::is_override_of;
use release::inventory::Entry;
use release::manifest::ObjectId;

/// On the ClusterVersion; written by an administrator: until when overrides hold, RFC 3339.
pub const UNTIL: &str = "slipway.dev/overrides-until";

/// Condition that is True as long as overrides keep objects from the release.
pub const CONDITION: &str = "Overridden";

/// How many objects a message names before it only counts.
const NAMED: usize = 5;

/// The overrides that keep an object from the release now.
pub fn in_force(object: &ClusterVersion, now: Timestamp) -> Vec<ComponentOverride> {
    if matches!(until(object), Some(Ok(until)) if until <= now) {
        return Vec::new();
    }
    unmanaged(object).cloned().collect()
}

/// What the status has of overrides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Overridden {
    /// There are none.
    No,
    /// There are some, and the release was not read yet.
    NotKnown,
    Found {
        /// Whether an object is kept from the release, or was.
        status: ConditionStatus,
        reason: &'static str,
        /// Which objects, and which overrides match nothing.
        message: String,
    },
}

/// What the status has of the overrides of a ClusterVersion; `manifests` are those of the release.
/// Overrides that were forgotten keep a cluster from updates months later, so they are always
/// reported, and those that match nothing are listed apart.
pub fn condition(
    object: &ClusterVersion,
    manifests: Option<&[Entry]>,
    now: Timestamp,
) -> Overridden {
    let all: Vec<&ComponentOverride> = unmanaged(object).collect();
    if all.is_empty() {
        return Overridden::No;
    }
    let until = until(object);
    if let Some(Ok(until)) = until
        && until <= now
    {
        let listed = listed(all.into_iter().map(name).collect());
        return Overridden::Found {
            status: ConditionStatus::True,
            reason: "OverridesExpired",
            message: format!("Overrides of {listed} ended at {until} and have no effect"),
        };
    }
    let Some(manifests) = manifests else {
        return Overridden::NotKnown;
    };
    let (found, lost): (Vec<&ComponentOverride>, Vec<&ComponentOverride>) =
        all.into_iter().partition(|one| {
            let of = id(one);
            manifests.iter().any(|entry| is_override_of(&of, &entry.id))
        });
    let nothing = listed(
        lost.into_iter()
            .map(|one| with_hint(one, manifests))
            .collect(),
    );
    let nothing = format!("Overrides match no manifest of the release: {nothing}");
    if found.is_empty() {
        return Overridden::Found {
            status: ConditionStatus::False,
            reason: "OverridesMatchNothing",
            message: nothing,
        };
    }
    let is_all = found.len() == unmanaged(object).count();
    let listed = listed(found.into_iter().map(name).collect());
    let text = match until {
        Some(Ok(until)) => format!("Not applied from the release until {until}: {listed}"),
        Some(Err(found)) => format!(
            "Not applied from the release: {listed}; annotation {UNTIL} {found:?} is no time"
        ),
        None => format!(
            "Not applied from the release: {listed}; annotation {UNTIL} can give them an end"
        ),
    };
    Overridden::Found {
        status: ConditionStatus::True,
        reason: "ClusterVersionOverridesSet",
        message: if is_all {
            text
        } else {
            format!("{text}. {nothing}")
        },
    }
}

/// The object that an override is about.
pub fn id(one: &ComponentOverride) -> ObjectId {
    let ComponentOverride {
        group,
        kind,
        namespace,
        name,
        ..
    } = one.clone();
    ObjectId {
        group,
        kind,
        namespace,
        name,
    }
}

/// The first names of a list, and how many more there are.
fn listed(names: Vec<String>) -> String {
    let more = names.len().saturating_sub(NAMED);
    let first: Vec<String> = names.into_iter().take(NAMED).collect();
    let listed = first.join(", ");
    if more == 0 {
        listed
    } else {
        format!("{listed} and {more} more")
    }
}

/// An override that matches nothing, and what may have been meant.
fn with_hint(one: &ComponentOverride, manifests: &[Entry]) -> String {
    let name = name(one);
    if let Some((group, _)) = one.group.split_once('/') {
        return format!(
            "{name} (group {:?} has a version: the group is {group:?})",
            one.group
        );
    }
    let mut manifests = manifests.iter().map(|entry| &entry.id);
    let is_near = |id: &&ObjectId| id.kind.eq_ignore_ascii_case(&one.kind) && id.name == one.name;
    match manifests.find(is_near) {
        Some(near) => format!("{name} (the release has {near})"),
        None => format!("{name} of group {:?}", one.group),
    }
}

fn unmanaged(object: &ClusterVersion) -> impl Iterator<Item = &ComponentOverride> {
    let overrides = object.spec.overrides.iter();
    overrides.filter(|one| one.unmanaged)
}

fn name(one: &ComponentOverride) -> String {
    let kind = one.kind.to_lowercase();
    if one.namespace.is_empty() {
        format!("{kind} {:?}", one.name)
    } else {
        format!("{kind} {:?}", format!("{}/{}", one.namespace, one.name))
    }
}

fn until(object: &ClusterVersion) -> Option<Result<Timestamp, &str>> {
    let annotations = object.metadata.annotations.as_ref()?;
    let text = annotations.get(UNTIL)?;
    Some(text.parse().map_err(|_| text.as_str()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(unmanaged: bool, until: Option<&str>) -> ClusterVersion {
        let overrides = [
            json!({ "kind": "Deployment", "group": "apps", "namespace": "n", "name": "d", "unmanaged": unmanaged }),
        ];
        let object = json!({
            "metadata": { "name": "version", "annotations": until.map(|until| json!({ UNTIL: until })) },
            "spec": { "clusterID": "c", "overrides": overrides }
        });
        serde_json::from_value(object).unwrap()
    }

    fn manifest(kind: &str, namespace: &str, name: &str) -> Entry {
        Entry {
            directory: release::inventory::ManifestDirectory::Release,
            file: "0000_50_a_b.yaml".to_owned(),
            document: 1,
            id: ObjectId {
                group: "apps".to_owned(),
                kind: kind.to_owned(),
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            },
            api_version: "apps/v1".to_owned(),
            annotations: std::collections::BTreeMap::new(),
            content: 0,
        }
    }

    /// Overrides are always reported, and can end. Row 16 of `docs/reference/known-weaknesses.md`,
    /// "Version operator".
    #[test]
    fn overrides_are_said_while_they_are_there_and_end_when_asked() {
        let now = "2026-01-02T00:00:00Z".parse().unwrap();
        let table = [
            (false, None, 0, None),
            (
                true,
                None,
                1,
                Some("Not applied from the release: deployment \"n/d\"; annotation"),
            ),
            (
                true,
                Some("2026-01-03T00:00:00Z"),
                1,
                Some("until 2026-01-03T00:00:00Z: deployment \"n/d\""),
            ),
            (
                true,
                Some("2026-01-02T00:00:00Z"),
                0,
                Some("ended at 2026-01-02T00:00:00Z and have no effect"),
            ),
            (true, Some("soon"), 1, Some("\"soon\" is no time")),
        ];
        let manifests = [manifest("Deployment", "n", "d")];
        for (unmanaged, until, count, expected) in table {
            let object = object(unmanaged, until);
            assert_eq!(in_force(&object, now).len(), count, "{until:?}");
            match (condition(&object, Some(&manifests), now), expected) {
                (
                    Overridden::Found {
                        status, message, ..
                    },
                    Some(expected),
                ) => {
                    assert_eq!(status, ConditionStatus::True);
                    assert!(message.contains(expected), "{message}");
                    assert!(!message.contains("match no manifest"), "{message}");
                }
                (Overridden::No, None) => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(
            condition(&object(true, None), None, now),
            Overridden::NotKnown
        );
    }

    /// The condition says what was found, and not what was wished for.
    #[test]
    fn override_that_matches_nothing_is_named_with_what_may_be_meant() {
        let now = "2026-01-02T00:00:00Z".parse().unwrap();
        let manifests = [
            manifest("Deployment", "n", "d"),
            manifest("DaemonSet", "m", "e"),
        ];
        let shown = |overrides: &[(&str, &str, &str, &str)]| {
            let mut object = object(true, None);
            let one =
                |(kind, group, namespace, name): &(&str, &str, &str, &str)| ComponentOverride {
                    kind: (*kind).to_owned(),
                    group: (*group).to_owned(),
                    namespace: (*namespace).to_owned(),
                    name: (*name).to_owned(),
                    unmanaged: true,
                };
            object.spec.overrides = overrides.iter().map(one).collect();
            match condition(&object, Some(&manifests), now) {
                Overridden::Found {
                    status,
                    reason,
                    message,
                } => format!("{status} {reason}: {message}"),
                Overridden::No | Overridden::NotKnown => String::new(),
            }
        };
        let nothing = "False OverridesMatchNothing: Overrides match no manifest of the release: ";
        for (wrong, expected) in [
            (
                ("Deployment", "apps/v1", "n", "d"),
                "deployment \"n/d\" (group \"apps/v1\" has a version: the group is \"apps\")",
            ),
            (
                ("daemonset", "apps", "m", "e"),
                "daemonset \"m/e\" (the release has DaemonSet.apps m/e)",
            ),
            (
                ("Deployment", "apps", "other", "d"),
                "deployment \"other/d\" (the release has Deployment.apps n/d)",
            ),
            (
                ("ConfigMap", "", "n", "d"),
                "configmap \"n/d\" of group \"\"",
            ),
        ] {
            assert_eq!(shown(&[wrong]), format!("{nothing}{expected}"));
        }
        let both = shown(&[
            ("Deployment", "apps", "n", "d"),
            ("ConfigMap", "", "n", "x"),
        ]);
        assert_eq!(
            both,
            "True ClusterVersionOverridesSet: Not applied from the release: deployment \"n/d\"; \
             annotation slipway.dev/overrides-until can give them an end. Overrides match no \
             manifest of the release: configmap \"n/x\" of group \"\""
        );
    }
}
