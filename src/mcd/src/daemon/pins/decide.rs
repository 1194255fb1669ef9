//! What to do about pinned images, from what the Node says and what was read.

use api::machineconfiguration::node_status::Reading;
use api::machineconfiguration::{
    NodeStatus, NotPinned, NotPinnedReason, PinList, PinStamp, PinnedImageSet, annotation,
};
use api::quantity;
use serde::Deserialize;

use crate::protocol::{HelperOutcome, HelperReport, PinDetails};

/// Images that a node pulls at once.
const AT_ONCE: usize = 5;

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PinTask {
    /// There are no pins, and none are asked for.
    Rest,
    /// What the Node asks for cannot be read.
    Refuse(String),
    /// All pins are dropped.
    Drop,
    /// The images of these sets are pulled and pinned.
    Pin(PinList),
}

/// What is to be done next. Pins that lie there are looked at again: the helper pulls what is gone.
///
/// Shape: `has_request` says whether pins may lie on the host.
pub fn next(status: &NodeStatus, has_request: bool) -> PinTask {
    match &status.desired_pins {
        Some(Reading::Unknown(text)) => PinTask::Refuse(format!(
            "annotation {} of the Node: {text:?} is no list of pinned image sets",
            annotation::DESIRED_PINS
        )),
        Some(Reading::Known(list)) if !list.is_empty() => PinTask::Pin(list.clone()),
        Some(Reading::Known(_)) | None => {
            let says_nothing = status.current_pins.is_none() && status.not_pinned.is_none();
            if has_request || !says_nothing {
                PinTask::Drop
            } else {
                PinTask::Rest
            }
        }
    }
}

/// How many images a node pulls at once: one at a time beside a control plane.
pub const fn at_once(is_control_plane: bool) -> usize {
    if is_control_plane { 1 } else { AT_ONCE }
}

/// Why the host does not have what was asked for, as the helper reports it.
pub fn judge(report: HelperReport) -> Option<NotPinned> {
    let cause = report.because();
    let outcome = report.outcome;
    let details: PinDetails = report.details().unwrap_or_default();
    let reason = match outcome {
        HelperOutcome::Done => return None,
        _ if details.lacks_room => NotPinnedReason::NoRoom,
        HelperOutcome::Rejected => NotPinnedReason::Refused,
        HelperOutcome::Failed | HelperOutcome::NeedsReboot => NotPinnedReason::Failed,
    };
    Some(NotPinned { reason, cause })
}

/// A set as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetOfImages {
    /// Which content of the set it is.
    pub stamp: PinStamp,
    /// Pull specs.
    pub images: Vec<String>,
}

impl SetOfImages {
    /// What is read of an object.
    pub fn of(set: PinnedImageSet) -> Self {
        let generation = set.metadata.generation.unwrap_or_default();
        let uid = set.metadata.uid.unwrap_or_default();
        let images = set.spec.pinned_images.into_iter();
        Self {
            stamp: PinStamp::new(generation, &uid),
            images: images.map(|image| image.name).collect(),
        }
    }
}

/// What of a Node decides whether it can take images.
#[derive(Debug, Default, Deserialize)]
pub struct NodeFacts {
    #[serde(default)]
    status: StatusFacts,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StatusFacts {
    allocatable: Allocatable,
    conditions: Vec<ConditionFacts>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct Allocatable {
    ephemeral_storage: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ConditionFacts {
    r#type: String,
    status: String,
}

impl NodeFacts {
    /// Why the node takes no images now: it has to be Ready and without disk pressure. A condition
    /// that is absent or Unknown is not good.
    pub fn not_now(&self) -> Option<NotPinned> {
        let is = |r#type: &str, status: &str| {
            let mut conditions = self.status.conditions.iter();
            conditions.any(|it| it.r#type == r#type && it.status == status)
        };
        let (reason, cause) = if !is("DiskPressure", "False") {
            (
                NotPinnedReason::NoRoom,
                "the node has disk pressure, or does not say",
            )
        } else if !is("Ready", "True") {
            (NotPinnedReason::Failed, "the node is not Ready")
        } else {
            return None;
        };
        Some(NotPinned {
            reason,
            cause: cause.to_owned(),
        })
    }

    /// Ephemeral storage that the node offers to pods; `None` if it says none, or no number.
    pub fn allocatable_bytes(&self) -> Option<u64> {
        let text = self.status.allocatable.ephemeral_storage.as_deref()?;
        u64::try_from(quantity::bytes(text)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    fn status(desired: &str, current: &str, not_pinned: &str) -> NodeStatus {
        let annotations = [
            (annotation::DESIRED_PINS, desired),
            (annotation::CURRENT_PINS, current),
            (annotation::NOT_PINNED, not_pinned),
        ];
        let annotations = annotations.map(|(key, text)| (key.to_owned(), text.to_owned()));
        NodeStatus::read(&BTreeMap::from(annotations))
    }

    fn pin(text: &str) -> PinTask {
        PinTask::Pin(PinList::parse(text).unwrap())
    }

    #[test]
    fn what_the_node_asks_for_decides() {
        let a = "a=1.u";
        for (desired, current, lacks, has_request, expected) in [
            ("", "", "", false, PinTask::Rest),
            ("", "", "", true, PinTask::Drop),
            ("", a, "", false, PinTask::Drop),
            ("", "", "Failed: x", false, PinTask::Drop),
            (a, "", "", false, pin(a)),
            (a, a, "", true, pin(a)),
            ("a=2.u", a, "", true, pin("a=2.u")),
            (a, "?", "", true, pin(a)),
        ] {
            let status = status(desired, current, lacks);
            let task = next(&status, has_request);
            assert_eq!(task, expected, "{desired} {current} {lacks}");
        }
        let refused = next(&status("a", "", ""), true);
        let words = "annotation slipway.dev/desired-pins of the Node: \"a\" is no list of pinned \
                     image sets";
        assert_eq!(refused, PinTask::Refuse(words.to_owned()));
    }

    #[test]
    fn a_node_that_is_not_well_or_does_not_say_takes_no_images() {
        let facts = |conditions: &[(&str, &str)]| -> NodeFacts {
            let conditions: Vec<_> = conditions
                .iter()
                .map(|(r#type, status)| json!({ "type": r#type, "status": status }))
                .collect();
            serde_json::from_value(json!({ "status": { "conditions": conditions } })).unwrap()
        };
        let good = ("DiskPressure", "False");
        let reason = |conditions: &[(&str, &str)]| facts(conditions).not_now().map(|it| it.reason);
        assert_eq!(reason(&[good, ("Ready", "True")]), None);
        for (conditions, expected) in [
            (&[good, ("Ready", "Unknown")][..], NotPinnedReason::Failed),
            (&[good], NotPinnedReason::Failed),
            (&[("Ready", "True")], NotPinnedReason::NoRoom),
            (
                &[("Ready", "True"), ("DiskPressure", "True")],
                NotPinnedReason::NoRoom,
            ),
            (&[], NotPinnedReason::NoRoom),
        ] {
            assert_eq!(reason(conditions), Some(expected), "{conditions:?}");
        }
        let bytes = |text: &str| {
            let status = json!({ "status": { "allocatable": { "ephemeral-storage": text } } });
            let facts: NodeFacts = serde_json::from_value(status).unwrap();
            facts.allocatable_bytes()
        };
        assert_eq!(bytes("20Gi"), Some(20 << 30));
        assert_eq!((bytes("much"), bytes("-1")), (None, None));
        assert_eq!(facts(&[]).allocatable_bytes(), None);
    }

    #[test]
    fn a_report_says_why() {
        let report = |outcome, lacks_room| {
            let details = PinDetails {
                lacks_room,
                ..PinDetails::default()
            };
            let report = HelperReport::new(outcome, vec!["x".to_owned(), "y".to_owned()]);
            let not_pinned = judge(report.with(&details).unwrap());
            not_pinned.map(|it| it.to_string()).unwrap_or_default()
        };
        assert_eq!(report(HelperOutcome::Done, false), "");
        assert_eq!(report(HelperOutcome::Failed, false), "Failed: x; y");
        assert_eq!(report(HelperOutcome::Failed, true), "NoRoom: x; y");
        assert_eq!(report(HelperOutcome::Rejected, false), "Refused: x; y");
        assert_eq!(report(HelperOutcome::Rejected, true), "NoRoom: x; y");
    }
}
