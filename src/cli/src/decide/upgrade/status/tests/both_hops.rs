//! A hop of an update of the control plane alone.

use api::config::control_plane_only::{CONTROL_PLANE_ONLY, ControlPlaneOnlyRecord};
use api::machineconfiguration::annotation;
use serde_json::json;

use super::*;

/// A cluster whose workers such an update paused; with this annotation on the ClusterVersion.
fn paused(record: Option<&str>) -> ClusterSnapshot {
    let mut cluster = snapshot("4.15.0-ec2-early");
    if let Some(record) = record {
        cluster.version.0["metadata"]["annotations"] = json!({ CONTROL_PLANE_ONLY: record });
    }
    let mut pools = cluster.pools.iter_mut();
    let worker = pools.find(|pool| pool.name() == "worker").unwrap();
    worker.0["spec"]["paused"] = json!(true);
    worker.0["metadata"]["annotations"] =
        json!({ annotation::PAUSED_BY: annotation::CONTROL_PLANE_ONLY });
    cluster
}

fn record() -> String {
    let path = ["4.14.1", "4.15.0-ec.2", "4.16.9"].map(str::to_owned);
    let since = "2026-01-02T03:04:05Z".parse().unwrap();
    let pools = ["worker".to_owned()].into();
    ControlPlaneOnlyRecord::new(path, pools, "admin".to_owned(), since).to_annotation()
}

#[test]
fn both_hops_are_one_line_and_its_own_pause_is_no_finding() {
    let stalls = |cluster: &ClusterSnapshot| {
        let status = UpgradeStatus::new(cluster, now(cluster)).unwrap();
        let text = status.text(StatusDetails::None);
        text.contains("Outdated nodes in a paused pool 'worker'")
    };
    let cluster = paused(Some(&record()));
    let status = UpgradeStatus::new(&cluster, now(&cluster)).unwrap();
    let text = status.text(StatusDetails::None);
    let line = "\nControl plane only: 4.14.1 -> 4.15.0-ec.2 -> 4.16.9, hop 1 of 2; pools paused: \
                worker (since 2026-01-02T03:04:05Z, by admin)\n";
    assert!(text.contains(line), "{text}");
    assert!(!stalls(&cluster), "{text}");

    // An administrator's pause is one.
    let mut cluster = paused(None);
    let mut pools = cluster.pools.iter_mut();
    let worker = pools.find(|pool| pool.name() == "worker").unwrap();
    worker.0["metadata"]["annotations"] = json!({});
    assert!(stalls(&cluster));
}

#[test]
fn a_record_that_cannot_be_read_or_is_missing_needs_attention() {
    for record in [Some("7"), None] {
        let cluster = paused(record);
        let status = UpgradeStatus::new(&cluster, now(&cluster)).unwrap();
        assert!(status.needs_attention());
        let text = status.text(StatusDetails::None);
        let line = text
            .lines()
            .find(|line| line.starts_with("Control plane only: "));
        let line = line.unwrap();
        assert!(line.contains("--control-plane-only --clear") || line.contains("cannot read it"));
    }
}

#[test]
fn a_cluster_at_rest_between_two_hops_is_updating() {
    let mut cluster = paused(Some(&record()));
    let object = &mut cluster.version.0;
    for condition in object["status"]["conditions"].as_array_mut().unwrap() {
        if condition["type"] == "Progressing" {
            condition["status"] = json!("False");
        }
    }
    cluster.pools.clear();
    cluster.nodes.clear();
    assert!(
        UpgradeStatus::new(&cluster, now(&cluster))
            .unwrap()
            .is_updating
    );
    cluster.version.0["metadata"]["annotations"] = json!({});
    assert!(
        !UpgradeStatus::new(&cluster, now(&cluster))
            .unwrap()
            .is_updating
    );
}
