//! A node keeps the kubelet that runs it: a configuration without one was not meant for a node.

use crate::desired::Desired;
use crate::rejection::{Member, Rejection, Section, Subject};
use crate::well_known::KUBELET;

/// Why `after` would leave a node that runs `before` without its kubelet. Where the OS brings the
/// kubelet and no configuration does, none can take it but by a mask.
pub(crate) fn rejections(before: &Desired, after: &Desired) -> Vec<Rejection> {
    let why = |what: &str| format!("{KUBELET} {what}: the node would be lost to its cluster");
    let was = before.unit(KUBELET);
    let had_contents = was.is_some_and(|unit| unit.has_contents);
    let was_disabled = was.is_some_and(|unit| unit.enabled == Some(false));
    let Some(unit) = after.unit(KUBELET) else {
        let units = Subject::Section(Section::Units);
        let gone = had_contents.then(|| Rejection::new(units, why("is removed")));
        return gone.into_iter().collect();
    };
    let subject = unit.subject;
    if unit.is_masked() {
        vec![Rejection::of_member(
            subject,
            Member::Mask,
            why("is masked"),
        )]
    } else if had_contents && !unit.has_contents {
        let contents = Member::Contents;
        vec![Rejection::of_member(subject, contents, why("is removed"))]
    } else if unit.enabled == Some(false) && !was_disabled {
        vec![Rejection::new(subject, why("is disabled"))]
    } else {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use machineconfig::spec::Spec;
    use serde_json::{Value, json};

    use super::*;
    use crate::decode::decode;

    fn desired(unit: Option<Value>) -> Desired {
        let units: Vec<Value> = unit.into_iter().collect();
        let config = json!({ "ignition": { "version": "3.4.0" }, "systemd": { "units": units } });
        decode(&Spec::parse(&json!({ "config": config })).unwrap().0).0
    }

    #[test]
    fn a_node_keeps_its_kubelet() {
        let unit = |members: Value| {
            let mut unit = json!({ "name": "kubelet.service" });
            for (key, value) in members.as_object().unwrap() {
                unit[key] = value.clone();
            }
            Some(unit)
        };
        let text = "[Service]\nExecStart=/usr/bin/kubelet\n";
        let full = || unit(json!({ "contents": text, "enabled": true }));
        let bare = || unit(json!({ "dropins": [{ "name": "a.conf", "contents": "[Unit]\n" }] }));
        let lost = "the node would be lost to its cluster";
        for (before, after, expected) in [
            (full(), full(), None),
            (full(), unit(json!({ "contents": "[Unit]\n" })), None),
            (
                full(),
                None,
                Some("spec.config.systemd.units: kubelet.service is removed"),
            ),
            (
                full(),
                bare(),
                Some("spec.config.systemd.units[0].contents: kubelet.service is removed"),
            ),
            (
                full(),
                unit(json!({ "contents": text, "enabled": false })),
                Some("spec.config.systemd.units[0]: kubelet.service is disabled"),
            ),
            (
                full(),
                unit(json!({ "mask": true })),
                Some("spec.config.systemd.units[0].mask: kubelet.service is masked"),
            ),
            // The OS brings it.
            (None, None, None),
            (bare(), None, None),
            (None, full(), None),
            (
                None,
                unit(json!({ "mask": true })),
                Some("spec.config.systemd.units[0].mask: kubelet.service is masked"),
            ),
            // It is started by something else.
            (
                unit(json!({ "contents": text, "enabled": false })),
                unit(json!({ "contents": text, "enabled": false })),
                None,
            ),
        ] {
            let rejected = rejections(&desired(before.clone()), &desired(after.clone()));
            let rejected: Vec<String> = rejected.iter().map(ToString::to_string).collect();
            let expected = expected.map(|text| format!("{text}: {lost}"));
            let expected: Vec<String> = expected.into_iter().collect();
            assert_eq!(rejected, expected, "{before:?} {after:?}");
        }
    }
}
