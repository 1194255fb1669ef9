use std::path::Path;

use super::*;

const EXAMPLES: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../tests/fixtures/cli-examples/status"
);

fn read(name: &str) -> Option<String> {
    std::fs::read_to_string(Path::new(EXAMPLES).join(name)).ok()
}

fn items(example: &str, kind: &str) -> Vec<ClusterObject> {
    let text = read(&format!("{example}-{kind}.yaml")).unwrap();
    let value: Value = serde_saphyr::from_str(&text).unwrap();
    match value.get("items").and_then(Value::as_array) {
        Some(items) => items.iter().cloned().map(ClusterObject).collect(),
        None => vec![ClusterObject(value)],
    }
}

pub(crate) fn snapshot(example: &str) -> ClusterSnapshot {
    ClusterSnapshot {
        version: items(example, "cv").remove(0),
        operators: items(example, "co"),
        pools: items(example, "mcp"),
        nodes: items(example, "node"),
        configs: items(example, "mc"),
        machine_config_image: None,
        alerts: None,
    }
}

/// The time of upstream's runs.
pub(crate) fn now(cluster: &ClusterSnapshot) -> Timestamp {
    let objects = cluster.operators.iter().chain([&cluster.version]);
    let conditions = objects.flat_map(|object| object.list("/status/conditions"));
    let times =
        conditions.filter_map(|found| crate::upgrade::object::time(found, "/lastTransitionTime"));
    times.max().unwrap() + jiff::SignedDuration::from_nanos(368_975)
}

#[test]
fn examples_of_upstream_have_their_texts() {
    for example in ["4.14.1-degraded", "4.15.0-ec2-early"] {
        let cluster = snapshot(example);
        let status = UpgradeStatus::new(&cluster, now(&cluster)).unwrap();
        for (details, file) in [
            (StatusDetails::None, "output"),
            (StatusDetails::All, "detailed-output"),
        ] {
            // Upstream prints 368 975 ns as 6m8s here, and as "now" everywhere else.
            let expected = read(&format!("{example}.{file}")).unwrap();
            let expected = expected.replace("kube-apiserver   6m8s", "kube-apiserver   now ");
            assert_eq!(status.text(details), expected, "{example} {file}");
        }
        assert!(status.needs_attention());
    }
}

#[test]
fn a_cluster_at_rest_is_not_updating() {
    let mut cluster = snapshot("4.15.0-ec2-early");
    set(&mut cluster.version, "Progressing", "False");
    cluster.nodes.clear();
    let status = UpgradeStatus::new(&cluster, now(&cluster)).unwrap();
    assert_eq!(
        status.text(StatusDetails::All),
        "The cluster is not updating.\n"
    );
    assert!(!status.needs_attention());
}

fn set(object: &mut ClusterObject, kind: &str, status: &str) {
    let conditions = object.0["status"]["conditions"].as_array_mut().unwrap();
    for condition in conditions.iter_mut().filter(|found| found["type"] == kind) {
        condition["status"] = status.into();
    }
}

#[test]
fn nodes_are_sorted_by_what_is_thought_of_them_and_bad_ones_are_always_shown() {
    let mut cluster = snapshot("4.15.0-ec2-early");
    let node = cluster
        .nodes
        .iter()
        .find(|node| node.labels().contains_key("node-role.kubernetes.io/worker"))
        .unwrap()
        .clone();
    for number in 0..12 {
        let mut more = node.clone();
        more.0["metadata"]["name"] = format!("more-{number:02}").into();
        if number == 11 {
            let annotations = &mut more.0["metadata"]["annotations"];
            annotations["machineconfiguration.openshift.io/state"] = "Degraded".into();
            annotations["machineconfiguration.openshift.io/reason"] =
                "more-11: disk is full".into();
        }
        if number == 10 {
            more.0["spec"] = serde_json::json!({"unschedulable": true});
        }
        cluster.nodes.push(more);
    }
    let status = UpgradeStatus::new(&cluster, now(&cluster)).unwrap();
    let text = status.text(StatusDetails::None);
    for part in [
        "\nmore-11                                     Degraded      Pending   4.14.1    ?     <node>: disk is full\nmore-10                                     Unavailable   Pending   4.14.1    ?     Node is marked unschedulable\nip-10",
        "worker        Degraded     0% (0/15)    13 Available, 0 Progressing, 0 Draining, 1 Degraded\n",
        "...\nOmitted additional 5 Total, 0 Completed, 5 Available, 0 Progressing, 5 Outdated, 0 Draining, 0 Excluded, and 0 Degraded nodes.\nPass along --details=nodes to see all information.\n",
        "-       Error     Update Stalled   Node more-11 is degraded\n",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(!status.text(StatusDetails::Nodes).contains("Omitted"));
}

#[test]
fn phases_follow_the_annotations_of_a_node() {
    let base = "machineconfiguration.openshift.io/";
    let example = snapshot("4.15.0-ec2-early");
    let pool = example
        .pools
        .iter()
        .find(|pool| pool.name() == "worker")
        .unwrap()
        .clone();
    let old = pool.text("/spec/configuration/name").to_owned();
    for (annotations, paused, expected) in [
        (vec![("state", "Done")], false, "Draining      +10m"),
        (
            vec![("state", "Working"), ("desiredDrain", "drain-new")],
            false,
            "Draining      +10m",
        ),
        (
            vec![
                ("state", "Working"),
                ("desiredDrain", "drain-new"),
                ("lastAppliedDrain", "drain-new"),
            ],
            false,
            "Updating      +5m",
        ),
        (
            vec![("state", "Rebooting"), ("lastAppliedDrain", "uncordon-x")],
            false,
            "Rebooting     +5m",
        ),
    ] {
        let mut cluster = example.clone();
        for pool in cluster
            .pools
            .iter_mut()
            .filter(|pool| pool.name() == "worker")
        {
            pool.0["spec"]["configuration"]["name"] = "new".into();
            pool.0["spec"]["paused"] = paused.into();
        }
        let mut config = cluster
            .configs
            .iter()
            .find(|config| config.name() == old)
            .unwrap()
            .clone();
        config.0["metadata"]["name"] = "new".into();
        config.0["metadata"]["annotations"][format!("{base}release-image-version")] =
            "4.15.0-ec.2".into();
        cluster.configs.push(config);
        for node in &mut cluster.nodes {
            if node.labels().contains_key("node-role.kubernetes.io/worker") {
                node.0["metadata"]["annotations"][format!("{base}desiredConfig")] = "new".into();
                for (key, value) in &annotations {
                    node.0["metadata"]["annotations"][format!("{base}{key}")] = (*value).into();
                }
            }
        }
        let text = UpgradeStatus::new(&cluster, now(&cluster))
            .unwrap()
            .text(StatusDetails::None);
        let squeezed = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut words = expected.split_whitespace();
        let (phase, estimate) = (words.next().unwrap(), words.next().unwrap());
        let expected = format!("Progressing {phase} 4.14.1 {estimate}");
        assert!(squeezed.contains(&expected), "{expected}\n{text}");
    }
}

#[test]
fn what_is_missing_is_named() {
    let mut cluster = snapshot("4.15.0-ec2-early");
    cluster.version.0["status"]["history"] = serde_json::json!([]);
    let error = UpgradeStatus::new(&cluster, Timestamp::UNIX_EPOCH).unwrap_err();
    assert_eq!(error, "ClusterVersion version: status.history is empty");
    cluster.version.0["status"]["conditions"] = serde_json::json!([]);
    let error = UpgradeStatus::new(&cluster, Timestamp::UNIX_EPOCH).unwrap_err();
    assert!(
        error.contains("there is no condition Progressing"),
        "{error}"
    );
}
