use serde_json::json;

use super::super::required::tests::master;
use super::*;
use crate::fixture::read;

const NOW: &str = "2026-01-01T00:00:00Z";

/// A pool of that name with so many nodes updated, and these conditions.
fn pool(name: &str, updated: i32, conditions: &Value) -> MachineConfigPool {
    let mut pool = master();
    pool["metadata"]["name"] = json!(name);
    pool["status"]["updatedMachineCount"] = json!(updated);
    pool["status"]["conditions"] = conditions.clone();
    read(&pool)
}

fn updated(name: &str) -> MachineConfigPool {
    pool(name, 3, &json!([{ "type": "Updated", "status": "True" }]))
}

fn updating(name: &str, count: i32) -> MachineConfigPool {
    pool(
        name,
        count,
        &json!([{ "type": "Updating", "status": "True" }]),
    )
}

fn degraded_pool(name: &str) -> MachineConfigPool {
    let failure =
        json!({ "type": "RenderDegraded", "status": "True", "reason": "", "message": "bad" });
    let conditions = json!([{ "type": "Degraded", "status": "True" }, failure]);
    pool(name, 3, &conditions)
}

fn waiting(step: ReleaseStep) -> ReleaseProgress {
    let why = "what is waited for".to_owned();
    ReleaseProgress::Waiting { step, why }
}

fn failed() -> ReleaseProgress {
    ReleaseProgress::Failed {
        step: ReleaseStep::RequiredPools,
        why: "what failed".to_owned(),
    }
}

fn at(reported: Option<&str>) -> ClusterOperatorStatus {
    let versions = reported.map(|version| OperandVersion {
        name: "operator".to_owned(),
        version: version.to_owned(),
    });
    ClusterOperatorStatus {
        versions: versions.into_iter().collect(),
        ..ClusterOperatorStatus::default()
    }
}

fn made(
    before: &ClusterOperatorStatus,
    progress: &ReleaseProgress,
    pools: &[MachineConfigPool],
) -> ClusterOperatorStatus {
    let pools: Vec<&MachineConfigPool> = pools.iter().collect();
    let input = OperatorInput {
        version: "2.0.0",
        image: Some("mcc2"),
        progress,
        pools: &pools,
        notes: &OperatorNotes::default(),
        now: NOW.parse().unwrap(),
    };
    status(before, &input)
}

/// Version, then each condition.
fn summary(status: &ClusterOperatorStatus) -> Vec<String> {
    let version = status.version("operator").unwrap_or("none").to_owned();
    let conditions = status.conditions.iter().map(|one| {
        let text = format!(
            "{}={} {}: {}",
            one.r#type, one.status, one.reason, one.message
        );
        text.trim_end_matches(": ").to_owned()
    });
    std::iter::once(version).chain(conditions).collect()
}

const AVAILABLE: &str = "Available=True AsExpected: Cluster has deployed";

/// Version before, progress, pools; and the expected summary.
type Case = (
    Option<&'static str>,
    ReleaseProgress,
    Vec<MachineConfigPool>,
    [String; 5],
);

#[test]
fn each_state_on_the_way_to_a_release_is_reported() {
    use ReleaseStep::{MachineConfigDaemon, RequiredPools};
    let table: [Case; 5] = [
        (
            None,
            waiting(MachineConfigDaemon),
            vec![updating("master", 0)],
            [
                "none".into(),
                "Available=False AsExpected".into(),
                "Progressing=True : Cluster is bootstrapping 2.0.0: what is waited for; pool master has updated 0 of 3 nodes".into(),
                "Degraded=False AsExpected".into(),
                "Upgradeable=Unknown NoData".into(),
            ],
        ),
        (
            Some("1.0.0"),
            waiting(RequiredPools),
            vec![updating("master", 1), updating("worker", 2)],
            [
                "1.0.0".into(),
                format!("{AVAILABLE} 1.0.0"),
                "Progressing=True : Working towards 2.0.0: pool master has updated 1 of 3 nodes; pool worker has updated 2 of 3 nodes".into(),
                "Degraded=False AsExpected".into(),
                "Upgradeable=True AsExpected".into(),
            ],
        ),
        // No pool is behind by its counts: the message names what is waited for.
        (
            Some("1.0.0"),
            waiting(RequiredPools),
            vec![updated("master")],
            [
                "1.0.0".into(),
                format!("{AVAILABLE} 1.0.0"),
                "Progressing=True : Working towards 2.0.0: what is waited for".into(),
                "Degraded=False AsExpected".into(),
                "Upgradeable=True AsExpected".into(),
            ],
        ),
        (
            Some("1.0.0"),
            failed(),
            vec![degraded_pool("master")],
            [
                "1.0.0".into(),
                format!("{AVAILABLE} 1.0.0"),
                "Progressing=True : Unable to apply 2.0.0".into(),
                "Degraded=True RequiredPoolsFailed: Unable to apply 2.0.0: what failed".into(),
                "Upgradeable=False DegradedPool: One or more machine config pools are degraded, please see `oc get mcp` for further details and resolve before upgrading: master".into(),
            ],
        ),
        // The control plane is done: the release is reported, though workers are on their way.
        (
            Some("1.0.0"),
            ReleaseProgress::Done,
            vec![updated("master"), updating("worker", 1)],
            [
                "2.0.0".into(),
                format!("{AVAILABLE} 2.0.0"),
                "Progressing=True PoolsUpdating: Cluster version is 2.0.0: pool worker has updated 1 of 3 nodes".into(),
                "Degraded=False AsExpected".into(),
                "Upgradeable=True AsExpected".into(),
            ],
        ),
    ];
    check(&table);
}

#[test]
fn each_state_at_a_release_is_reported() {
    use ReleaseStep::MachineConfigDaemon;
    let table: [Case; 3] = [
        (
            Some("2.0.0"),
            ReleaseProgress::Done,
            vec![updated("master"), updated("worker")],
            [
                "2.0.0".into(),
                format!("{AVAILABLE} 2.0.0"),
                "Progressing=False AsExpected: Cluster version is 2.0.0".into(),
                "Degraded=False AsExpected".into(),
                "Upgradeable=True AsExpected".into(),
            ],
        ),
        // A short wait in a release that is reached is no progress of it.
        (
            Some("2.0.0"),
            waiting(MachineConfigDaemon),
            vec![updated("master")],
            [
                "2.0.0".into(),
                format!("{AVAILABLE} 2.0.0"),
                "Progressing=False AsExpected: Cluster version is 2.0.0".into(),
                "Degraded=False AsExpected".into(),
                "Upgradeable=True AsExpected".into(),
            ],
        ),
        (
            Some("2.0.0"),
            failed(),
            vec![updated("master")],
            [
                "2.0.0".into(),
                format!("{AVAILABLE} 2.0.0"),
                "Progressing=False AsExpected: Error while reconciling 2.0.0".into(),
                "Degraded=True RequiredPoolsFailed: Failed to resync 2.0.0 because: what failed"
                    .into(),
                "Upgradeable=True AsExpected".into(),
            ],
        ),
    ];
    check(&table);
}

/// A pool whose kubelets are not supported by the next minor release, or not known.
fn skewed(name: &str, status: &str, reason: &str, message: &str) -> MachineConfigPool {
    let updated = json!({ "type": "Updated", "status": "True" });
    let skew =
        json!({ "type": "KubeletSkew", "status": status, "reason": reason, "message": message });
    pool(name, 3, &json!([updated, skew]))
}

#[test]
fn kubelets_that_the_next_minor_release_leaves_behind_are_named() {
    const UNSUPPORTED: &str = "KubeletSkewUnsupported";
    const HEAD: &str =
        "The next minor release would leave kubelets too far behind; update their pools before";
    let infra = || {
        skewed(
            "infra",
            "True",
            "KubeletSkewUnchecked",
            "no one knows of n1",
        )
    };
    let worker = || skewed("worker", "True", UNSUPPORTED, "w1 (v1.29.1)");
    let degraded = "DegradedPool: One or more machine config pools are degraded, please see `oc get mcp` for further details and resolve before upgrading: edge";
    let table = [
        (
            vec![skewed("worker", "False", "", "")],
            "True AsExpected: ".to_owned(),
        ),
        (
            vec![updated("master"), worker()],
            format!("False {UNSUPPORTED}: {HEAD}: pool worker: w1 (v1.29.1)"),
        ),
        // What is not known does not count as good.
        (
            vec![infra()],
            format!("False KubeletSkewUnchecked: {HEAD}: pool infra: no one knows of n1"),
        ),
        (
            vec![skewed("infra", "Unknown", "", "x")],
            format!("False : {HEAD}: pool infra: x"),
        ),
        (
            vec![infra(), worker()],
            format!(
                "False {UNSUPPORTED}: {HEAD}: pool infra: no one knows of n1; pool worker: w1 (v1.29.1)"
            ),
        ),
        (
            vec![degraded_pool("edge"), worker()],
            format!("False {degraded}; {HEAD}: pool worker: w1 (v1.29.1)"),
        ),
    ];
    for (pools, expected) in table {
        // Also on the way to a release.
        for reported in [Some("2.0.0"), Some("1.0.0")] {
            let status = made(&at(reported), &ReleaseProgress::Done, &pools);
            let found = status
                .condition(&ClusterConditionType::Upgradeable)
                .unwrap();
            let text = format!("{} {}: {}", found.status, found.reason, found.message);
            assert_eq!(text, expected);
        }
    }
}

fn check(table: &[Case]) {
    for (number, (reported, progress, pools, expected)) in table.iter().enumerate() {
        let status = made(&at(*reported), progress, pools);
        assert_eq!(summary(&status), *expected, "{number}");
    }
}

#[test]
fn a_status_is_made_the_same_twice_and_others_conditions_stay() {
    let foreign = json!({ "type": "RecentBackup", "status": "True", "lastTransitionTime": NOW });
    let mut before = at(Some("1.0.0"));
    before.conditions = vec![read(&foreign)];
    let pools = [updated("master")];
    let once = made(&before, &ReleaseProgress::Done, &pools);
    assert_eq!(serde_json::to_value(&once.conditions[0]).unwrap(), foreign);
    assert_eq!(once.version("operator-image"), Some("mcc2"));
    assert_eq!(once.related_objects[0].resource, "namespaces");
    assert_eq!(made(&once, &ReleaseProgress::Done, &pools), once);
}

#[test]
fn extension_says_what_each_pool_is_at() {
    let mut unknown = master();
    unknown["metadata"]["name"] = json!("new");
    unknown["status"] = Value::Null;
    let pools = [
        updated("master"),
        updating("worker", 2),
        degraded_pool("edge"),
        read(&unknown),
    ];
    let status = made(&at(Some("1.0.0")), &failed(), &pools);
    assert_eq!(
        status.extension.unwrap(),
        json!({
            "master": "all 3 nodes are at latest configuration rendered-master-2",
            "worker": "2 (ready 3) out of 3 nodes are updating to latest configuration rendered-master-2",
            "edge": "pool is degraded because rendering fails with \"\": \"bad\"",
            "new": "<unknown>",
            "lastSyncError": "what failed"
        })
    );
}

#[test]
fn notes_stand_beside_the_pools_and_go_with_their_cause() {
    let notes = OperatorNotes {
        boot_images: Some("no boot images".to_owned()),
        os_image_stream: Some("no such stream".to_owned()),
    };
    let input = |notes| OperatorInput {
        version: "2.0.0",
        image: None,
        progress: &ReleaseProgress::Done,
        pools: &[],
        notes,
        now: NOW.parse().unwrap(),
    };
    let with = status(&at(Some("2.0.0")), &input(&notes));
    let expected = json!({ "bootImages": "no boot images", "osImageStream": "no such stream" });
    assert_eq!(with.extension, Some(expected));
    let none = OperatorNotes::default();
    let without = status(&with, &input(&none));
    assert_eq!(without.extension, Some(json!({})));
    // Conditions do not know them.
    assert_eq!(without.conditions, with.conditions);
}
