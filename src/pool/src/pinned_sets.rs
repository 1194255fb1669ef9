//! Pinned image sets that a pool selects.

use std::collections::BTreeMap;

use api::machineconfiguration::machine_config_pool::NamedReference;
use api::machineconfiguration::{PinList, PinStamp};

use crate::selector::{InvalidSelector, Selector};
use crate::view::PoolView;

/// Most sets of a pool.
///
/// Source: MachineConfigPool `spec.pinnedImageSets`, `maxItems`.
pub const MOST_SETS: usize = 100;

/// What is read of a PinnedImageSet: the labels by which pools select it, and which content it has.
/// The content itself is the daemon's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinnedSetMeta {
    pub name: String,
    /// Version of the object that was read.
    pub resource_version: String,
    pub labels: BTreeMap<String, String>,
    /// Its content, without the images.
    pub stamp: PinStamp,
}

/// Why it is not determined which sets a pool has; its nodes keep theirs.
///
/// Source: text of OpenShift's controller of pinned image sets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Failed to populate pinned image sets for pool {pool}: {fault}")]
pub struct UnpopulatedPins {
    /// Name of the pool.
    pub pool: String,
    fault: PinFault,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum PinFault {
    #[error(transparent)]
    Selector(#[from] InvalidSelector),
    #[error(
        "spec.machineConfigSelector selects {0} PinnedImageSets, and a pool has at most {MOST_SETS}"
    )]
    TooMany(usize),
    /// Why the API server rejects the names.
    #[error("spec.pinnedImageSets is rejected: {0}")]
    Rejected(String),
}

impl UnpopulatedPins {
    /// The API server rejects the names of the sets for good; `why`, for people.
    pub fn rejected(pool: &str, why: String) -> Self {
        Self {
            pool: pool.to_owned(),
            fault: PinFault::Rejected(why),
        }
    }
}

/// The sets that a pool selects, as it selects MachineConfigs: no pool selects a set without
/// labels. Nothing where the pool is being deleted, or its selector is `{}`: then its nodes keep
/// what they have.
///
/// # Errors
/// The selector cannot be read, or selects more than [`MOST_SETS`].
pub fn selected<'a>(
    view: &PoolView,
    sets: impl IntoIterator<Item = &'a PinnedSetMeta>,
) -> Result<Option<PinList>, UnpopulatedPins> {
    let unpopulated = |fault| UnpopulatedPins {
        pool: view.name.clone(),
        fault,
    };
    let selector = view.config_selector.as_ref();
    let selector = selector.map_err(|refusal| unpopulated(refusal.clone().into()))?;
    if view.is_deleted || *selector == Selector::Everything {
        return Ok(None);
    }
    let sets = sets.into_iter();
    let selected = sets.filter(|set| !set.labels.is_empty() && selector.matches(&set.labels));
    let list: BTreeMap<String, PinStamp> = selected
        .map(|set| (set.name.clone(), set.stamp.clone()))
        .collect();
    if list.len() > MOST_SETS {
        return Err(unpopulated(PinFault::TooMany(list.len())));
    }
    Ok(Some(PinList(list)))
}

/// The names of the sets, sorted, as `spec.pinnedImageSets` of a pool has them.
pub fn names(list: &PinList) -> Vec<NamedReference> {
    let names = list.0.keys().cloned();
    names.map(|name| NamedReference { name }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fixture::{pin_list, pool};

    const ROLE: &str = "machineconfiguration.openshift.io/role";

    fn set(name: &str, labels: &[(&str, &str)]) -> PinnedSetMeta {
        let labels = labels.iter();
        PinnedSetMeta {
            name: name.to_owned(),
            resource_version: "1".to_owned(),
            labels: labels
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
            stamp: PinStamp::new(1, "0a1b2c3d"),
        }
    }

    fn select(selector: &Value, sets: &[PinnedSetMeta]) -> Result<Option<String>, String> {
        let view = pool("worker", json!({ "machineConfigSelector": selector }));
        let selected = selected(&view, sets).map_err(|error| error.to_string())?;
        Ok(selected.map(|list| list.to_string()))
    }

    #[test]
    fn a_pool_selects_sets_as_it_selects_configurations() {
        let sets = [
            set("w2", &[(ROLE, "worker")]),
            set("infra", &[(ROLE, "infra"), ("tier", "1")]),
            set("w1", &[(ROLE, "worker")]),
            set("bare", &[]),
        ];
        let listed = |names: &[&str]| {
            let names = names.iter().map(|name| format!("{name}=1.0a1b2c3d"));
            Ok(Some(names.collect::<Vec<_>>().join(",")))
        };
        let custom = json!({ "matchExpressions": [
            { "key": ROLE, "operator": "In", "values": ["worker", "infra"] }
        ] });
        // It would match an object without labels.
        let all_but = json!({ "matchExpressions": [
            { "key": "tier", "operator": "DoesNotExist" }
        ] });
        for (selector, expected) in [
            (
                json!({ "matchLabels": { ROLE: "worker" } }),
                listed(&["w1", "w2"]),
            ),
            (custom, listed(&["infra", "w1", "w2"])),
            (all_but, listed(&["w1", "w2"])),
            (json!({ "matchLabels": { ROLE: "master" } }), listed(&[])),
            (Value::Null, listed(&[])),
            // It would take everything: what is there stays.
            (json!({}), Ok(None)),
            (
                json!({ "matchExpressions": [{ "key": "a", "operator": "Is" }] }),
                Err(
                    "Failed to populate pinned image sets for pool worker: spec.machineConfigSelector \
                     cannot be read: there is no operator \"Is\" (on key a)"
                        .to_owned(),
                ),
            ),
        ] {
            assert_eq!(select(&selector, &sets), expected, "{selector}");
        }
    }

    #[test]
    fn more_sets_than_a_pool_can_name_are_an_error() {
        let sets: Vec<PinnedSetMeta> = (0..=MOST_SETS)
            .map(|number| set(&format!("s{number}"), &[(ROLE, "worker")]))
            .collect();
        let worker = json!({ "matchLabels": { ROLE: "worker" } });
        assert!(select(&worker, &sets[1..]).is_ok());
        assert_eq!(
            select(&worker, &sets).unwrap_err(),
            "Failed to populate pinned image sets for pool worker: spec.machineConfigSelector selects \
             101 PinnedImageSets, and a pool has at most 100"
        );
        let mut view = pool("worker", json!({}));
        view.is_deleted = true;
        assert_eq!(selected(&view, &sets), Ok(None));
    }

    #[test]
    fn names_are_sorted() {
        let names = names(&pin_list("b=1.x,a.example=7.y"));
        let names: Vec<&str> = names.iter().map(|set| set.name.as_str()).collect();
        assert_eq!(names, ["a.example", "b"]);
    }
}
