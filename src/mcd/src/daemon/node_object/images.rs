//! The OS images of a node in image mode, as its MachineConfigNode shows them.

use api::machineconfiguration::machine_config_node::{ConfigImage, NodeConditionType};
use api::machineconfiguration::{MachineConfigNodeStatus, NodeStatus};
use api::{ConditionStatus, condition};
use node::view::Node;

/// The images beside `status`, which is shown of `node` and still has those from before.
///
/// Shape: `None` where the node neither is in a built image nor is assigned one. The desired image
/// moves with the desired configuration: once the target was found compatible, or the node rests in
/// it.
/// Source: `docs/reference/daemon.md`, "MachineConfigNode".
pub(super) fn shown(node: &Node, status: &MachineConfigNodeStatus) -> Option<ConfigImage> {
    let read = NodeStatus::read(&node.annotations);
    let version = status.config_version.as_ref();
    let is_named = version.map(|version| &version.desired) == read.desired_config.as_ref();
    let prepared = condition::find(&status.conditions, &NodeConditionType::UpdatePrepared);
    let is_compatible = prepared.is_some_and(|it| it.status == ConditionStatus::True);
    let before = status.config_image.as_ref();
    let desired_image = if read.is_done() || is_named && is_compatible {
        read.desired_image
    } else {
        before.and_then(|before| before.desired_image.clone())
    };
    let images = ConfigImage {
        current_image: read.current_image,
        desired_image,
    };
    (images != ConfigImage::default()).then_some(images)
}

#[cfg(test)]
mod tests {
    use api::machineconfiguration::annotation;
    use serde_json::json;

    use super::*;

    /// In force, assigned and whether the assignment was found compatible; `-` is no image.
    fn images(
        current: &str,
        desired: &str,
        prepared: &str,
        before: Option<(&str, &str)>,
    ) -> Option<ConfigImage> {
        let image = |text: &str| (text != "-").then(|| text.to_owned());
        let mut annotations = json!({
            annotation::CURRENT_CONFIG: "a", annotation::DESIRED_CONFIG: "a", annotation::STATE: "Done",
        });
        for (key, text) in [
            (annotation::CURRENT_IMAGE, current),
            (annotation::DESIRED_IMAGE, desired),
        ] {
            if let Some(image) = image(text) {
                annotations[key] = json!(image);
            }
        }
        let node = json!({ "metadata": { "name": "n", "annotations": annotations } });
        let status = json!({
            "configVersion": { "desired": "a" },
            "conditions": [{
                "type": "UpdatePrepared", "status": prepared, "reason": "UpdatePrepared",
                "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        });
        let mut status: MachineConfigNodeStatus = serde_json::from_value(status).unwrap();
        status.config_image = before.map(|(current, desired)| ConfigImage {
            current_image: image(current),
            desired_image: image(desired),
        });
        shown(&serde_json::from_value(node).unwrap(), &status)
    }

    #[test]
    fn desired_image_moves_once_it_was_found_compatible() {
        let of = |current: &str, desired: &str| ConfigImage {
            current_image: (current != "-").then(|| current.to_owned()),
            desired_image: (desired != "-").then(|| desired.to_owned()),
        };
        // Into image mode.
        assert_eq!(images("-", "1", "Unknown", None), None);
        assert_eq!(images("-", "1", "True", None), Some(of("-", "1")));
        assert_eq!(
            images("1", "1", "False", Some(("-", "1"))),
            Some(of("1", "1"))
        );
        // Another image for the same configuration.
        let before = Some(("1", "1"));
        assert_eq!(images("1", "2", "Unknown", before), Some(of("1", "1")));
        assert_eq!(images("1", "2", "True", before), Some(of("1", "2")));
        // Out of image mode.
        assert_eq!(images("1", "-", "Unknown", before), Some(of("1", "1")));
        assert_eq!(images("1", "-", "True", before), Some(of("1", "-")));
        assert_eq!(images("-", "-", "False", Some(("1", "-"))), None);
    }
}
