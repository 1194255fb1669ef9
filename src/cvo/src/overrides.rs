//! Objects that an administrator takes from the release, how long, and how that is kept in view:
//! values in, values out.

use api::config::{ClusterVersion, ComponentOverride};
use jiff::Timestamp;

/// On the ClusterVersion; written by an administrator: until when overrides hold, RFC 3339.
pub const UNTIL: &str = "slipway.dev/overrides-until";

/// Condition that is True as long as there are overrides.
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

/// Reason and message of the condition; none without overrides. Overrides that were forgotten keep
/// a cluster from updates months later, so they are always said.
pub fn condition(object: &ClusterVersion, now: Timestamp) -> Option<(&'static str, String)> {
    let names: Vec<String> = unmanaged(object).map(name).collect();
    if names.is_empty() {
        return None;
    }
    let first: Vec<String> = names.iter().take(NAMED).cloned().collect();
    let mut listed = first.join(", ");
    if let more @ 1.. = names.len().saturating_sub(NAMED) {
        listed = format!("{listed} and {more} more");
    }
    Some(match until(object) {
        Some(Ok(until)) if until <= now => {
            let text = format!("Overrides of {listed} ended at {until} and have no effect");
            ("OverridesExpired", text)
        }
        Some(Ok(until)) => {
            let text = format!("Not applied from the release until {until}: {listed}");
            ("ClusterVersionOverridesSet", text)
        }
        Some(Err(found)) => {
            let text = format!(
                "Not applied from the release: {listed}; annotation {UNTIL} {found:?} is no time"
            );
            ("ClusterVersionOverridesSet", text)
        }
        None => {
            let text = format!(
                "Not applied from the release: {listed}; annotation {UNTIL} can give them an end"
            );
            ("ClusterVersionOverridesSet", text)
        }
    })
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

    /// Requirement 16 of the known weaknesses: overrides are always said, and can end.
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
        for (unmanaged, until, count, expected) in table {
            let object = object(unmanaged, until);
            assert_eq!(in_force(&object, now).len(), count, "{until:?}");
            let said = condition(&object, now).map(|(_, message)| message);
            match (said, expected) {
                (Some(said), Some(expected)) => assert!(said.contains(expected), "{said}"),
                (None, None) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}
