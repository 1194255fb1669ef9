use serde_json::{Value, json};

use super::*;

fn release(version: &str) -> Release {
    Release {
        version: version.to_owned(),
        image: format!("q/r@sha256:{version}"),
        ..Release::default()
    }
}

fn entry(state: &str, version: &str) -> Value {
    json!({
        "state": state, "version": version, "image": format!("q/r@sha256:{version}"),
        "verified": true, "startedTime": "2025-01-01T00:00:00Z", "completionTime": null
    })
}

/// A cluster of these versions, newest first, whose target is available.
fn cluster(versions: &[&str], target: &str, upgradeable: bool) -> ClusterVersion {
    let history: Vec<Value> = versions.iter().map(|one| entry("Completed", one)).collect();
    let conditions = if upgradeable {
        json!([])
    } else {
        json!([{ "type": "Upgradeable", "status": "False", "reason": "AdminAck",
                 "message": "Acknowledge first.", "lastTransitionTime": "2025-01-01T00:00:00Z" }])
    };
    let status = json!({
        "desired": { "version": versions[0], "image": format!("q/r@sha256:{}", versions[0]) },
        "history": history, "conditions": conditions,
        "availableUpdates": [{ "version": target, "image": format!("mirror/r@sha256:{target}") }],
    });
    let object = json!({ "metadata": {}, "spec": { "channel": "stable" }, "status": status });
    serde_json::from_value(object).unwrap()
}

#[test]
fn versions_block_by_their_distance() {
    for (versions, target, is_upgradeable, expected) in [
        (&["4.2.0", "4.1.0"][..], "4.2.1", true, None),
        (&["4.2.0"], "4.3.0", true, None),
        (
            &["4.2.0"],
            "4.3.0",
            false,
            Some("AdminAck: Acknowledge first."),
        ),
        (&["4.2.0"], "4.2.1", false, None),
        (
            &["4.2.0"],
            "4.4.0",
            true,
            Some("MultipleMinorVersionsUpdate: 4.4.0 is more than one"),
        ),
        (&["4.2.0"], "5.0.0", true, None),
        (
            &["4.2.0"],
            "5.1.0",
            true,
            Some("MajorVersionUpdate: 5.1.0 has a larger major"),
        ),
        (&["5.2.0"], "6.0.0", true, Some("MajorVersionUpdate")),
        (&["4.2.1", "4.2.0"], "4.2.0", true, None),
        (
            &["4.2.0", "4.1.9"],
            "4.1.9",
            true,
            Some("LowDesiredVersion: 4.1.9 is less than the current target 4.2.0 and matches"),
        ),
        (
            &["4.2.1", "4.2.0"],
            "4.1.9",
            true,
            Some(
                "LowDesiredVersion: 4.1.9 is less than the current target 4.2.1, and the only supported rollback is to the cluster's previous version 4.2.0 (q/r@sha256:4.2.0)",
            ),
        ),
        (
            &["4.2.1"],
            "4.2.0",
            true,
            Some(
                "LowDesiredVersion: 4.2.0 is less than the current target 4.2.1, and the cluster has no previous Semantic Version",
            ),
        ),
        (
            &["4.2.0"],
            "four",
            true,
            Some("InvalidDesiredVersion: \"four\" is no semantic version"),
        ),
    ] {
        let object = cluster(versions, target, is_upgradeable);
        let findings = check(&object, &release(target), &NONE);
        let shown: Vec<String> = findings
            .iter()
            .filter(|one| one.is_blocking)
            .map(|one| format!("{}: {}", one.reason, one.message))
            .collect();
        match expected {
            None => assert!(shown.is_empty(), "{target}: {shown:?}"),
            Some(expected) => assert!(
                shown.len() == 1 && shown[0].starts_with(expected),
                "{target}: {shown:?}"
            ),
        }
    }
}

/// No release that a cluster may return from over a minor version.
const NONE: Result<BTreeSet<Version>, metadata::Error> = Ok(BTreeSet::new());

#[test]
fn upgradeable_that_is_not_known_blocks_another_minor_release() {
    let mut object = cluster(&["4.2.0"], "4.3.0", false);
    object.status.as_mut().unwrap().conditions[0].status = ConditionStatus::Unknown;
    let found = check(&object, &release("4.3.0"), &NONE);
    assert!(found.len() == 1 && found[0].is_blocking, "{found:?}");
    assert_eq!(found[0].message, "Upgradeable=Unknown: Acknowledge first.");
    object.status.as_mut().unwrap().conditions[0].status = ConditionStatus::True;
    assert_eq!(check(&object, &release("4.3.0"), &NONE), []);
}

/// Releases are one by their digest: a mirror has another repository.
#[test]
fn previous_release_is_found_behind_a_mirror() {
    let object = cluster(&["4.2.1", "4.2.0"], "4.2.0", true);
    let mirrored = Release {
        image: "mirror.example/m@sha256:4.2.0".to_owned(),
        ..release("4.2.0")
    };
    assert_eq!(check(&object, &mirrored, &NONE), []);
    let other = Release {
        image: "q/r@sha256:other".to_owned(),
        ..release("4.2.0")
    };
    let found = check(&object, &other, &NONE);
    assert!(
        found.iter().any(|one| one.reason == "LowDesiredVersion"),
        "{found:?}"
    );
    // The release that is applied, named by a mirror, is not the previous one.
    let mut object = cluster(&["4.2.1", "4.2.1", "4.2.0"], "4.2.0", true);
    object.status.as_mut().unwrap().history[0].image = "mirror/r@sha256:4.2.1".to_owned();
    assert_eq!(check(&object, &release("4.2.0"), &NONE), []);
}

#[test]
fn minor_version_is_rolled_back_where_the_target_lists_the_current_release() {
    let listed = |list: &[&str]| Ok(list.iter().map(|one| one.parse().unwrap()).collect());
    let not_listed = "slipway.dev/rollback-from of 4.1.9 does not list 4.2.0";
    for (versions, sources, expected) in [
        (&["4.2.0", "4.1.9"][..], listed(&["4.2.0"]), None),
        (&["4.2.0", "4.1.9"], listed(&["4.2.1"]), Some(not_listed)),
        (
            &["4.2.0", "4.1.9"],
            Err(metadata::Error::Kind("no list".to_owned())),
            Some("4.1.9: release-metadata: unrecognized Cincinnati metadata kind \"no list\": "),
        ),
        // Listed, and not the previous one.
        (
            &["4.2.0", "4.1.8", "4.1.9"],
            listed(&["4.2.0"]),
            Some("the only supported rollback is to the cluster's previous version 4.1.8"),
        ),
        // A list says nothing about another major version.
        (
            &["5.0.0", "4.1.9"],
            listed(&["5.0.0"]),
            Some("are not recommended"),
        ),
    ] {
        let findings = check(
            &cluster(versions, "4.1.9", false),
            &release("4.1.9"),
            &sources,
        );
        let blocking: Vec<_> = findings.iter().filter(|one| one.is_blocking).collect();
        match expected {
            None => assert!(blocking.is_empty(), "{versions:?}: {blocking:?}"),
            Some(expected) => assert!(
                blocking.len() == 1
                    && blocking[0].reason == "LowDesiredVersion"
                    && blocking[0].message.contains(expected),
                "{versions:?}: {blocking:?}"
            ),
        }
    }
}

#[test]
fn advice_against_an_update_is_a_warning() {
    let object = cluster(&["4.2.0"], "4.2.1", true);
    assert_eq!(check(&object, &release("4.2.1"), &NONE), []);
    let one = |object: &ClusterVersion| {
        let found = check(object, &release("4.2.2"), &NONE);
        assert!(found.len() == 1 && !found[0].is_blocking, "{found:?}");
        format!("{}: {}", found[0].reason, found[0].message)
    };
    assert_eq!(
        one(&object),
        "UnknownUpdate: No RetrievedUpdates, so the recommended status of updating from 4.2.0 to 4.2.2 is unknown."
    );
    for (status, reason, expected) in [
        (
            "False",
            "RemoteFailed",
            "RetrievedUpdates=False (RemoteFailed), so the recommended status of \
          updating from 4.2.0 to 4.2.2 is unknown.",
        ),
        (
            "True",
            "",
            "RetrievedUpdates=True (), so the update from 4.2.0 to 4.2.2 is probably neither \
          recommended nor supported.",
        ),
    ] {
        let mut object = object.clone();
        let condition = json!([{ "type": "RetrievedUpdates", "status": status, "reason": reason,
            "message": "", "lastTransitionTime": "2025-01-01T00:00:00Z" }]);
        object.status.as_mut().unwrap().conditions = serde_json::from_value(condition).unwrap();
        assert_eq!(one(&object), format!("UnknownUpdate: {expected}"));
    }
    let mut without = object.clone();
    without.spec.channel.clear();
    assert!(one(&without).starts_with("NoChannel: Configured channel is unset, so the rec"));
    let risky = |status: &str| {
        let mut object = object.clone();
        let update = json!([{
            "release": { "version": "4.2.2", "image": "q/r@sha256:4.2.2" },
            "risks": [],
            "conditions": [{ "type": "Recommended", "status": status, "reason": "Slow",
                "message": "It is slow.", "lastTransitionTime": "2025-01-01T00:00:00Z" }],
        }]);
        object.status.as_mut().unwrap().conditional_updates =
            serde_json::from_value(update).unwrap();
        object
    };
    assert_eq!(
        one(&risky("False")),
        "Slow: Update from 4.2.0 to 4.2.2 is not recommended:\n\nIt is slow."
    );
    assert!(one(&risky("Unknown")).contains("Recommended=Unknown: Slow: It is slow."));
    assert_eq!(check(&risky("True"), &release("4.2.2"), &NONE), []);
}

#[test]
fn overrides_and_a_minor_update_under_way_are_warnings() {
    let mut object = cluster(&["4.2.0"], "4.2.1", false);
    object.spec.overrides = serde_json::from_value(json!([{
        "kind": "ConfigMap", "group": "", "namespace": "n", "name": "m", "unmanaged": true
    }]))
    .unwrap();
    let found = check(&object, &release("4.2.1"), &NONE);
    assert_eq!(found[0].reason, "ClusterVersionOverridesSet");
    assert!(!found[0].is_blocking);
    let mut object = cluster(&["4.2.0", "4.1.0"], "4.2.1", false);
    object.status.as_mut().unwrap().history[0].state = HistoryState::Partial;
    let found = check(&object, &release("4.2.1"), &NONE);
    assert_eq!(
        found[0].message,
        "Retarget to 4.2.1 while a minor version update from 4.1.0 to 4.2.0 is in progress"
    );
}

#[test]
fn several_findings_are_one_text() {
    let finding = |is_blocking| Finding {
        check: "Check",
        reason: "Why".to_owned(),
        message: "text".to_owned(),
        is_blocking,
    };
    assert_eq!(summary(&[], true), None);
    let one = "Precondition \"Check\" failed because of \"Why\": text";
    assert_eq!(summary(&[finding(false)], true).as_deref(), Some(one));
    let forced = format!("Forced through blocking failures: {one}");
    assert_eq!(summary(&[finding(true)], true), Some(forced));
    let both = format!("Multiple precondition checks failed:\n* {one}\n* {one}");
    assert_eq!(summary(&[finding(true), finding(false)], false), Some(both));
}
