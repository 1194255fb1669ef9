mod both_hops;
mod findings;
mod placement;

use std::path::Path;

use api::machineconfiguration::{annotation, label};

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
        record: None,
        alerts: None,
        alerts_unread: None,
        unread: Vec::new(),
    }
}

fn of_worker(node: &ClusterObject) -> bool {
    node.0["metadata"]["labels"].get(label::WORKER).is_some()
}

/// The time of upstream's runs.
pub(crate) fn now(cluster: &ClusterSnapshot) -> Timestamp {
    let objects = cluster.operators.iter().chain([&cluster.version]);
    let conditions = objects.flat_map(|object| object.list("/status/conditions"));
    let times =
        conditions.filter_map(|found| crate::decide::object::time(found, "/lastTransitionTime"));
    times.max().unwrap() + jiff::SignedDuration::from_nanos(368_975)
}

/// What upstream prints: all but the verdict.
fn tables(text: &str) -> &str {
    text.split_once("\n\n").unwrap().1
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
            assert_eq!(tables(&status.text(details)), expected, "{example} {file}");
        }
        assert!(status.needs_attention());
    }
}

/// A record of the update of `4.15.0-ec2-early`, whose steps took so many seconds before.
fn record(cluster: &ClusterSnapshot, earlier: &[u64]) -> ProgressRecord {
    let now = now(cluster);
    let history = &cluster.version.list("/status/history")[0];
    let ago = |minutes: i64| (now - jiff::SignedDuration::from_mins(minutes)).to_string();
    let step = |component: &str, done: usize, started: Option<i64>, ended: Option<i64>| {
        serde_json::json!({
            "runLevel": "20", "component": component, "manifests": 4, "done": done,
            "started": started.map(ago), "ended": ended.map(ago), "earlierSecs": earlier
        })
    };
    let record = serde_json::json!({
        "version": history["version"], "image": history["image"], "started": ago(9),
        "steps": [
            step("etcd", 4, Some(9), Some(6)), step("kube-apiserver", 3, Some(5), None),
            step("dns", 0, None, None),
        ],
        "waits": [{
            "object": "clusteroperator \"kube-apiserver\"", "runLevel": "20",
            "component": "kube-apiserver", "reason": "ClusterOperatorUpdating",
            "message": "2 of 3 nodes", "since": ago(4)
        }]
    });
    ProgressRecord::parse(&record.to_string()).unwrap()
}

#[test]
fn recorded_steps_are_shown_with_what_they_learned() {
    let mut cluster = snapshot("4.15.0-ec2-early");
    let at = now(&cluster);
    let upstream = UpgradeStatus::new(&cluster, at).unwrap();
    let upstream = upstream.text(StatusDetails::None);
    let line = |cluster: &ClusterSnapshot, name: &str| {
        let text = UpgradeStatus::new(cluster, at).unwrap();
        let text = text.text(StatusDetails::None);
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(name));
        lines.next().map(|line| line.trim().to_owned())
    };
    cluster.record = Some(record(&cluster, &[600, 420, 500]));
    let steps = "1 of 3 done; running: 20 kube-apiserver (5m, usually 8m20s)";
    assert_eq!(line(&cluster, "Steps:").unwrap(), steps);
    let waits = "clusteroperator \"kube-apiserver\" for 4m: 2 of 3 nodes";
    assert_eq!(line(&cluster, "Waiting for:").unwrap(), waits);
    let duration = line(&cluster, "Duration:").unwrap();
    let learned = "(Est. Time Remaining: 8m20s; 7m to 10m by 3 earlier updates)";
    assert!(duration.ends_with(learned), "{duration}");

    // Longer than ever before, then far longer.
    cluster.record = Some(record(&cluster, &[200]));
    assert_eq!(line(&cluster, "Assessment:").unwrap(), "Progressing - Slow");
    let mut stalled = record(&cluster, &[200]);
    stalled.steps[1].started = Some(at - jiff::SignedDuration::from_mins(20));
    cluster.record = Some(stalled);
    assert_eq!(line(&cluster, "Assessment:").unwrap(), "Stalled");
    let duration = line(&cluster, "Duration:").unwrap();
    let late = "N/A; kube-apiserver takes 16m40s longer than in any earlier update";
    assert!(duration.contains(late), "{duration}");

    // Nothing learned: upstream's formula. Of another update: nothing at all.
    cluster.record = Some(record(&cluster, &[]));
    let formula = upstream.lines().find(|line| line.starts_with("Duration:"));
    let formula = formula.unwrap().trim_start_matches("Duration:").trim();
    assert_eq!(line(&cluster, "Duration:").unwrap(), formula);
    cluster.record.as_mut().unwrap().version = "4.0.1".to_owned();
    let status = UpgradeStatus::new(&cluster, at).unwrap();
    assert_eq!(status.text(StatusDetails::None), upstream);
}

#[test]
fn the_end_of_an_update_counts_the_nodes_by_what_they_took_the_last_time() {
    let mut cluster = snapshot("4.15.0-ec2-early");
    let at = now(&cluster);
    let worker = cluster.nodes.iter().find(|node| of_worker(node)).unwrap();
    let worker = worker.clone();
    cluster.nodes.retain(|node| !of_worker(node));
    for number in 0..6_i64 {
        let mut node = worker.clone();
        node.0["metadata"]["name"] = format!("w{number}").into();
        let since = at - jiff::SignedDuration::from_mins(10_000 - 5 * number);
        node.0["metadata"]["annotations"][annotation::SINCE] = since.to_string().into();
        cluster.nodes.push(node);
    }
    let ends = |cluster: &ClusterSnapshot| {
        let status = UpgradeStatus::new(cluster, at).unwrap();
        let text = status.text(StatusDetails::None);
        let mut lines = text.lines().filter(|line| line.starts_with("All done in "));
        lines.next().map(ToOwned::to_owned)
    };
    cluster.record = Some(record(&cluster, &[600, 420, 500]));
    let expected = "All done in 38m (p50) to 40m (p90): control plane 8m20s (7m to 10m by 3 earlier updates), then pool worker 30m to 30m (6 nodes, 1 at once, as 5 nodes of the last roll took)";
    assert_eq!(ends(&cluster).unwrap(), expected);
    // Two at once: each of them then took twice as long.
    let is_worker = |pool: &&mut ClusterObject| pool.name() == "worker";
    let worker = cluster.pools.iter_mut().find(is_worker).unwrap();
    worker.0["spec"]["maxUnavailable"] = 2.into();
    let text = ends(&cluster).unwrap();
    assert!(
        text.contains("pool worker 30m to 30m (6 nodes, 2 at once, as 4"),
        "{text}"
    );
    // A node that is updated does not count, nor does one without annotations.
    for node in cluster.nodes.iter_mut().filter(|node| of_worker(node)) {
        node.0["metadata"]["annotations"][annotation::SINCE] = "".into();
    }
    assert_eq!(ends(&cluster), None);
}

#[test]
fn one_line_says_who_holds_an_update_up_and_since_when() {
    let verdict = |cluster: &ClusterSnapshot| {
        let status = UpgradeStatus::new(cluster, now(cluster)).unwrap();
        let text = status.text(StatusDetails::None);
        (
            text.lines().next().unwrap().to_owned(),
            status.needs_attention(),
        )
    };
    // Findings: those that stall the update before worse ones that do not.
    let degraded = snapshot("4.14.1-degraded");
    let expected = "Stalled: Cluster Version version is failing to proceed with the update (ClusterOperatorsDegraded); 5 more findings below";
    assert_eq!(verdict(&degraded), (expected.to_owned(), true));
    let early = snapshot("4.15.0-ec2-early");
    let expected = "Needs attention: Previous update to 4.14.1 never completed, last complete update was 4.14.0-rc.7, for 1m29s";
    assert_eq!(verdict(&early), (expected.to_owned(), true));
    // Nothing wrong: where the update is, and what it waits for.
    let mut well = early;
    for operator in &mut well.operators {
        set(operator, "Available", "True");
        set(operator, "Degraded", "False");
    }
    well.version.0["status"]["history"][1]["state"] = "Completed".into();
    let expected = "Progressing: 1 of 33 operators are updated, etcd has taken 45s";
    assert_eq!(verdict(&well), (expected.to_owned(), false));
    well.record = Some(record(&well, &[600]));
    let expected = "Progressing: 1 of 33 operators are updated, waits for clusteroperator \"kube-apiserver\" for 4m: 2 of 3 nodes";
    assert_eq!(verdict(&well), (expected.to_owned(), false));
    // Done, but for the workers.
    well.record = None;
    let done = now(&well).to_string();
    let current = &mut well.version.0["status"]["history"][0];
    current["state"] = "Completed".into();
    current["completionTime"] = done.into();
    set(&mut well.version, "Progressing", "False");
    let expected = "Progressing: operators are done, nodes are not: 0 of 3 in pool master, 0 of 3 in pool worker updated";
    assert_eq!(verdict(&well), (expected.to_owned(), false));
    for pool in &mut well.pools {
        pool.0["spec"]["paused"] = true.into();
    }
    let expected = "Stalled: Outdated nodes in a paused pool 'master' will not be updated; 1 more finding below";
    assert_eq!(verdict(&well), (expected.to_owned(), true));
    // What is not read is not taken for done.
    well.pools.clear();
    well.nodes.clear();
    well.unread = vec!["cannot read Nodes: timed out".to_owned()];
    let unknown = "Not known: cannot read Nodes: timed out";
    assert_eq!(verdict(&well), (unknown.to_owned(), true));
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

#[test]
fn a_stopped_cluster_says_so_first_whether_or_not_it_is_updating() {
    let said = "The cluster is stopped by annotation slipway.dev/stop, which cannot be read: \
                missing field `by` at line 1 column 2: \"{}\"\n";
    let mut cluster = snapshot("4.15.0-ec2-early");
    cluster.version.0["metadata"]["annotations"]["slipway.dev/stop"] = "{}".into();
    let status = UpgradeStatus::new(&cluster, now(&cluster)).unwrap();
    assert!(status.is_updating && status.needs_attention());
    let text = status.text(StatusDetails::None);
    assert!(text.starts_with(said), "{text}");
    let printed = crate::decide::upgrade::summary::text(VersionView(&cluster.version), false);
    assert!(printed.out.starts_with(said), "{}", printed.out);
    set(&mut cluster.version, "Progressing", "False");
    cluster.nodes.clear();
    let status = UpgradeStatus::new(&cluster, now(&cluster)).unwrap();
    let text = status.text(StatusDetails::None);
    assert_eq!(text, format!("{said}The cluster is not updating.\n"));
    assert!(status.needs_attention());
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
        .find(|node| of_worker(node))
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
        "\nmore-11                                     Degraded      Pending   4.14.1    ?     more-11: disk is full\nmore-10                                     Unavailable   Pending   4.14.1    ?     Node is marked unschedulable\nip-10",
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
            if of_worker(node) {
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
    assert_eq!(
        error.to_string(),
        "ClusterVersion version: status.history is empty"
    );
    cluster.version.0["status"]["conditions"] = serde_json::json!([]);
    let error = UpgradeStatus::new(&cluster, Timestamp::UNIX_EPOCH).unwrap_err();
    assert!(
        matches!(error, IncompleteSnapshot::NoProgressing),
        "{error}"
    );
}
