//! What is written to ClusterVersion so that the version operator begins.

use std::collections::BTreeSet;

use api::ConditionStatus;
use api::config::{ClusterVersion, ClusterVersionStatus, ConditionalUpdate, RecommendationType};
use api::upgrade::DesiredRelease;
use serde_json::{Value, json};

/// The next thing to do.
#[derive(Debug, Clone, PartialEq)]
pub enum CommenceStep {
    /// Nothing: ClusterVersion asks for the release.
    Done,
    /// This merge patch sets the release.
    SetRelease(Value),
    /// This merge patch sets the channel. What it offers is read afterwards.
    SetChannel(Value),
    /// The release is not offered, or not without a risk that is not accepted.
    Hold(String),
}

/// Decides what comes next. `accepted` are names of risks that do not hold a conditional update.
///
/// Nothing is ever forced.
pub fn decide(
    desired: &DesiredRelease,
    version: &ClusterVersion,
    accepted: &BTreeSet<String>,
) -> CommenceStep {
    let requested = version.spec.desired_update.as_ref();
    let set = |image: Value, release: Value| {
        // What an administrator forced before is not forced again.
        let update = if requested.is_some_and(|update| update.force) {
            json!({ "image": image, "version": release, "force": false })
        } else {
            json!({ "image": image, "version": release })
        };
        CommenceStep::SetRelease(json!({ "spec": { "desiredUpdate": update } }))
    };
    if !desired.image.is_empty() {
        if requested.is_some_and(|update| update.image == desired.image) {
            return CommenceStep::Done;
        }
        return set(json!(desired.image), Value::Null);
    }
    if requested.is_some_and(|update| update.version == desired.version) {
        return CommenceStep::Done;
    }
    if version.spec.channel != desired.channel {
        return CommenceStep::SetChannel(json!({ "spec": { "channel": desired.channel } }));
    }
    let status = version.status.as_ref();
    if let Some(update) = status.and_then(|status| conditional(status, &desired.version)) {
        return match refusal(update, accepted) {
            Some(why) => CommenceStep::Hold(why),
            None => set(json!(update.release.image), json!(desired.version)),
        };
    }
    let mut available = status
        .iter()
        .flat_map(|status| status.available_updates.iter().flatten());
    if available.any(|release| release.version == desired.version && !release.image.is_empty()) {
        return set(Value::Null, json!(desired.version));
    }
    CommenceStep::Hold(format!(
        "version {} is not offered in channel {}",
        desired.version, desired.channel
    ))
}

/// The conditional update to a version.
pub fn conditional<'a>(
    status: &'a ClusterVersionStatus,
    version: &str,
) -> Option<&'a ConditionalUpdate> {
    let mut updates = status.conditional_updates.iter();
    updates.find(|update| update.release.version == version)
}

/// What holds a conditional update; nothing where it is recommended, or all its risks are accepted.
pub fn refusal(update: &ConditionalUpdate, accepted: &BTreeSet<String>) -> Option<String> {
    let condition = api::condition::find(&update.conditions, &RecommendationType::Recommended);
    if condition.is_some_and(|condition| condition.status == ConditionStatus::True) {
        return None;
    }
    let version = &update.release.version;
    if update.risks.is_empty() {
        return Some(format!(
            "version {version} is a conditional update that is not recommended and names no risk \
             which could be accepted"
        ));
    }
    let names = update.risks.iter().map(|risk| risk.name.as_str());
    let open: Vec<&str> = names.filter(|name| !accepted.contains(*name)).collect();
    (!open.is_empty()).then(|| {
        format!(
            "version {version} is a conditional update, and conditionalUpdates.acceptedRisks does \
             not have {}",
            open.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use api::config::{ConditionalUpdateRisk, Update};

    use super::*;
    use crate::fixture::{cluster_version, release, spec};

    fn next(desired: &DesiredRelease, version: &ClusterVersion) -> CommenceStep {
        decide(desired, version, &BTreeSet::new())
    }

    fn set(update: &Value) -> CommenceStep {
        CommenceStep::SetRelease(json!({ "spec": { "desiredUpdate": update } }))
    }

    #[test]
    fn available_version_is_set_without_an_image() {
        let mut version = cluster_version("4.16.3");
        let desired = spec().desired;
        let patch = json!({ "image": null, "version": "4.16.4" });
        assert_eq!(next(&desired, &version), set(&patch));
        version.spec.desired_update = Some(Update {
            version: "4.16.4".to_owned(),
            ..Update::default()
        });
        assert_eq!(next(&desired, &version), CommenceStep::Done);
    }

    #[test]
    fn image_is_set_without_a_version_and_nothing_is_forced() {
        let mut version = cluster_version("4.16.3");
        let mut desired = spec().desired;
        desired.image = "q/n/r@sha256:1".to_owned();
        let patch = json!({ "image": "q/n/r@sha256:1", "version": null });
        assert_eq!(next(&desired, &version), set(&patch));
        version.spec.desired_update = Some(Update {
            force: true,
            ..Update::default()
        });
        let patch = json!({ "image": "q/n/r@sha256:1", "version": null, "force": false });
        assert_eq!(next(&desired, &version), set(&patch));
        version.spec.desired_update = Some(Update {
            image: "q/n/r@sha256:1".to_owned(),
            ..Update::default()
        });
        assert_eq!(next(&desired, &version), CommenceStep::Done);
    }

    #[test]
    fn other_channel_is_set_before_its_updates_are_read() {
        let version = cluster_version("4.16.3");
        let mut desired = spec().desired;
        desired.channel = "fast-4.17".to_owned();
        let patch = json!({ "spec": { "channel": "fast-4.17" } });
        assert_eq!(next(&desired, &version), CommenceStep::SetChannel(patch));
    }

    #[test]
    fn version_that_is_not_offered_holds() {
        let mut version = cluster_version("4.16.3");
        let mut desired = spec().desired;
        desired.version = "4.16.9".to_owned();
        let expected = "version 4.16.9 is not offered in channel stable-4.16";
        assert_eq!(
            next(&desired, &version),
            CommenceStep::Hold(expected.to_owned())
        );
        version.status = None;
        assert!(matches!(next(&desired, &version), CommenceStep::Hold(_)));
    }

    #[test]
    fn conditional_update_needs_its_risks_accepted_by_name() {
        let mut version = cluster_version("4.16.3");
        let risk = |name: &str| ConditionalUpdateRisk {
            url: "https://a".to_owned(),
            name: name.to_owned(),
            message: "m".to_owned(),
            matching_rules: Vec::new(),
        };
        // It stands among the available ones too: the conditional one counts.
        version.status.as_mut().unwrap().conditional_updates = vec![ConditionalUpdate {
            release: release("4.16.4"),
            risks: vec![risk("SlowDisk"), risk("OldBoot")],
            conditions: Vec::new(),
        }];
        let desired = spec().desired;
        let accepted = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let held = decide(&desired, &version, &accepted(&["SlowDisk"]));
        let expected = "version 4.16.4 is a conditional update, and \
                        conditionalUpdates.acceptedRisks does not have OldBoot";
        assert_eq!(held, CommenceStep::Hold(expected.to_owned()));
        let patch = json!({ "image": "q/r@sha256:4.16.4", "version": "4.16.4" });
        let both = accepted(&["SlowDisk", "OldBoot"]);
        assert_eq!(decide(&desired, &version, &both), set(&patch));
        // Without a risk there is nothing that could be accepted.
        let status = version.status.as_mut().unwrap();
        status.conditional_updates[0].risks.clear();
        let held = decide(&desired, &version, &both);
        let expected = "version 4.16.4 is a conditional update that is not recommended and names \
                        no risk which could be accepted";
        assert_eq!(held, CommenceStep::Hold(expected.to_owned()));
    }
}
