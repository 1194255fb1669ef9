//! Pinned images on a MachineConfigNode: a function of the Node's annotations, whatever its update
//! does.
//!
//! Source: `docs/reference/daemon.md`, "MachineConfigNode"; upstream's reasons.

use std::collections::BTreeSet;

use api::condition;
use api::machineconfiguration::machine_config_node::{
    NOT_YET_OCCURRED, NodeConditionType as Type, PinnedImageSetStatus,
};
use api::machineconfiguration::node_status::Reading;
use api::machineconfiguration::{NodeStatus, NotPinned, PinList};

use super::{Edit, False, True, limited};

/// The conditions, which an update does not touch.
const TYPES: [Type; 2] = [
    Type::PinnedImageSetsProgressing,
    Type::PinnedImageSetsDegraded,
];

const AS_EXPECTED: &str = "AsExpected";

pub(super) fn is_of_pins(r#type: &Type) -> bool {
    TYPES.contains(r#type)
}

impl Edit {
    /// Shows which sets the node has and is to have, and what it lacks.
    pub(super) fn show_pins(&mut self, status: &NodeStatus) {
        let none = PinList::default();
        let read = |list: &Option<Reading<PinList>>| {
            let known = list.as_ref().and_then(Reading::known);
            known.unwrap_or(&none).clone()
        };
        let (desired, current) = (read(&status.desired_pins), read(&status.current_pins));
        let not_pinned = status.not_pinned.as_ref();
        let cause = not_pinned.map(|reading| match reading {
            Reading::Known(NotPinned { cause, .. }) => cause.clone(),
            Reading::Unknown(text) => text.clone(),
        });
        let mut sets = sets(&desired, &current, cause.as_deref());
        for set in &mut sets {
            let mut before = self.after.pinned_image_sets.iter();
            if let Some(before) = before.find(|it| it.name == set.name) {
                does_not_decrease(set, before);
            }
        }
        self.after.pinned_image_sets = sets;
        let is_at_rest = desired == current && cause.is_none();
        if is_at_rest && desired.is_empty() && !self.has_had_pins() {
            return;
        }
        let (status, reason, message) = if is_at_rest {
            let message = "All pinned image sets are in place".to_owned();
            (False, AS_EXPECTED, message)
        } else {
            let names: Vec<_> = desired.0.keys().map(String::as_str).collect();
            let message = match names.as_slice() {
                [] => "Pins are dropped".to_owned(),
                names => format!("Images are prefetched: {}", names.join(", ")),
            };
            (True, "ImagePrefetch", limited(message))
        };
        self.put(
            Type::PinnedImageSetsProgressing,
            status,
            reason.to_owned(),
            message,
        );
        let (status, reason, message) = match cause {
            Some(cause) => (True, "PrefetchFailed", limited(cause)),
            None => (
                False,
                AS_EXPECTED,
                "No pinned image set has failed".to_owned(),
            ),
        };
        self.put(
            Type::PinnedImageSetsDegraded,
            status,
            reason.to_owned(),
            message,
        );
    }

    /// Whether the conditions say more than that nothing was ever asked for.
    fn has_had_pins(&self) -> bool {
        let mut present = TYPES
            .iter()
            .filter_map(|r#type| condition::find(&self.after.conditions, r#type));
        present.any(|it| it.reason != NOT_YET_OCCURRED)
    }
}

/// Each set that the node has or is to have.
///
/// Shape: a set that was made again begins at generation 1; upstream's API takes no generation in
/// force above the desired one, so that of the set before is left out.
fn sets(desired: &PinList, current: &PinList, cause: Option<&str>) -> Vec<PinnedImageSetStatus> {
    let names: BTreeSet<&String> = desired.0.keys().chain(current.0.keys()).collect();
    let of = |list: &PinList, name: &String| {
        let stamp = list.0.get(name)?;
        i32::try_from(stamp.generation).ok().filter(|it| *it > 0)
    };
    let set = |name: &String| {
        let wanted = of(desired, name);
        let has_it = desired.0.get(name) == current.0.get(name);
        let failed = wanted.filter(|_| cause.is_some() && !has_it);
        PinnedImageSetStatus {
            name: name.clone(),
            current_generation: of(current, name)
                .filter(|it| wanted.is_none_or(|wanted| *it <= wanted)),
            desired_generation: wanted,
            last_failed_generation: failed,
            last_failed_generation_error: failed.and(cause).map(ToOwned::to_owned),
        }
    };
    names.into_iter().map(set).collect()
}

/// Leaves out what is below what the API server has, of a set that was made again: upstream's API
/// refuses that. It is there with the next change of the Node.
fn does_not_decrease(set: &mut PinnedImageSetStatus, before: &PinnedImageSetStatus) {
    let keep = |now: Option<i32>, before: Option<i32>| now.filter(|it| Some(*it) >= before);
    set.current_generation = keep(set.current_generation, before.current_generation);
    set.desired_generation = keep(set.desired_generation, before.desired_generation);
    set.last_failed_generation = keep(set.last_failed_generation, before.last_failed_generation);
    if set.last_failed_generation.is_none() {
        set.last_failed_generation_error = None;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use api::machineconfiguration::{MachineConfigNodeStatus, annotation};
    use jiff::Timestamp;

    use super::*;

    /// What is shown of these annotations, after what was shown before.
    fn shown(
        before: &MachineConfigNodeStatus,
        [desired, current, lacks]: [&str; 3],
    ) -> MachineConfigNodeStatus {
        let annotations = [
            (annotation::DESIRED_PINS, desired),
            (annotation::CURRENT_PINS, current),
            (annotation::NOT_PINNED, lacks),
        ];
        let annotations = annotations.map(|(key, text)| (key.to_owned(), text.to_owned()));
        let mut edit = Edit {
            after: before.clone(),
            now: Timestamp::UNIX_EPOCH,
        };
        edit.show_pins(&NodeStatus::read(&BTreeMap::from(annotations)));
        edit.after
    }

    fn conditions(status: &MachineConfigNodeStatus) -> Vec<String> {
        let all = status.conditions.iter();
        all.map(|it| {
            format!(
                "{} {:?} {}: {}",
                it.r#type, it.status, it.reason, it.message
            )
        })
        .collect()
    }

    #[test]
    fn conditions_follow_what_the_node_has_and_lacks() {
        let none = MachineConfigNodeStatus::default();
        assert_eq!(shown(&none, ["", "", ""]), none);
        let pulls = shown(&none, ["a=1.u,b=2.v", "", ""]);
        assert_eq!(
            conditions(&pulls),
            [
                "PinnedImageSetsProgressing True ImagePrefetch: Images are prefetched: a, b",
                "PinnedImageSetsDegraded False AsExpected: No pinned image set has failed",
            ]
        );
        let fails = shown(&pulls, ["a=1.u", "", "NoRoom: 5 bytes lack"]);
        assert_eq!(
            conditions(&fails)[1],
            "PinnedImageSetsDegraded True PrefetchFailed: 5 bytes lack"
        );
        let done = shown(&fails, ["a=1.u", "a=1.u", ""]);
        let expected = [
            "PinnedImageSetsProgressing False AsExpected: All pinned image sets are in place",
            "PinnedImageSetsDegraded False AsExpected: No pinned image set has failed",
        ];
        assert_eq!(conditions(&done), expected);
        // That there were some stays readable.
        assert_eq!(conditions(&shown(&done, ["", "", ""])), expected);
        assert!(conditions(&shown(&done, ["", "a=1.u", ""]))[0].ends_with("Pins are dropped"));
    }

    #[test]
    fn each_set_has_its_generations() {
        let sets = |desired: &str, current: &str, cause: Option<&str>| {
            let list = |text| PinList::parse(text).unwrap();
            let sets = super::sets(&list(desired), &list(current), cause);
            let numbers = sets.into_iter().map(|it| {
                let error = it.last_failed_generation_error.unwrap_or_default();
                let generations = [
                    it.current_generation,
                    it.desired_generation,
                    it.last_failed_generation,
                ];
                (it.name, generations.map(Option::unwrap_or_default), error)
            });
            numbers.collect::<Vec<_>>()
        };
        let set = |name: &str, numbers: [i32; 3], error: &str| {
            (name.to_owned(), numbers, error.to_owned())
        };
        assert_eq!(
            sets("a=2.u,b=1.v", "a=1.u,b=1.v,c=4.w", Some("full")),
            [
                set("a", [1, 2, 2], "full"),
                set("b", [1, 1, 0], ""),
                set("c", [4, 0, 0], ""),
            ]
        );
        // Made again: what the API server has must be gone before.
        let before = shown(
            &MachineConfigNodeStatus::default(),
            ["a=7.u", "", "Failed: x"],
        );
        let after = shown(&before, ["a=1.v", "a=7.u", ""]);
        let empty = PinnedImageSetStatus {
            name: "a".to_owned(),
            current_generation: None,
            desired_generation: None,
            last_failed_generation: None,
            last_failed_generation_error: None,
        };
        assert_eq!(after.pinned_image_sets, [empty]);
        let next = shown(&after, ["a=1.v", "a=1.v", ""]);
        assert_eq!(next.pinned_image_sets[0].current_generation, Some(1));
        assert_eq!(sets("a=1.v", "a=7.u", None), [set("a", [0, 1, 0], "")]);
    }
}
