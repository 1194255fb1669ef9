//! Findings of operators, nodes and alerts under an update.

use serde_json::json;

use super::super::control_plane::progressed;
use super::super::duration::whole;
use super::*;

/// An update that nothing is wrong with.
fn well() -> ClusterSnapshot {
    let mut cluster = snapshot("4.15.0-ec2-early");
    for operator in &mut cluster.operators {
        set(operator, "Available", "True");
        set(operator, "Degraded", "False");
    }
    cluster.version.0["status"]["history"][1]["state"] = "Completed".into();
    cluster
}

fn text(cluster: &ClusterSnapshot, details: StatusDetails) -> String {
    let status = UpgradeStatus::new(cluster, now(cluster)).unwrap();
    status.text(details)
}

fn minutes(count: i64) -> jiff::SignedDuration {
    jiff::SignedDuration::from_mins(count)
}

/// Lets workers have the target's version, and go from one of its configurations to another.
fn migrating() -> ClusterSnapshot {
    let mut cluster = well();
    let history = &mut cluster.version.0["status"]["history"];
    history[1]["version"] = history[0]["version"].clone();
    let target = history[0]["version"].clone();
    for operator in &mut cluster.operators {
        operator.0["status"]["versions"] = json!([{ "name": "operator", "version": target }]);
        set(operator, "Progressing", "False");
    }
    let mut config = cluster.configs[0].clone();
    config.0["metadata"]["annotations"][annotation::RELEASE_IMAGE_VERSION] = target;
    for name in ["before", "after"] {
        config.0["metadata"]["name"] = name.into();
        cluster.configs.push(config.clone());
    }
    for pool in &mut cluster.pools {
        pool.0["spec"]["configuration"]["name"] = "after".into();
    }
    for (number, node) in cluster.nodes.iter_mut().enumerate() {
        let annotations = &mut node.0["metadata"]["annotations"];
        let is_first = number == 0;
        annotations[annotation::CURRENT_CONFIG] = if is_first { "after" } else { "before" }.into();
        annotations[annotation::DESIRED_CONFIG] = if is_first { "after" } else { "before" }.into();
        annotations[annotation::STATE] = "Done".into();
    }
    cluster
}

#[test]
fn a_migration_to_several_architectures_has_no_estimate_and_counts_configurations() {
    let mut cluster = migrating();
    cluster.record = Some(record(&cluster, &[600]));
    let shown = text(&cluster, StatusDetails::None);
    let target = &cluster.version.list("/status/history")[0]["version"];
    let target = target.as_str().unwrap().to_owned();
    for part in [
        &format!("Target Version:  {target} to Multi-Architecture\n"),
        "(Est. Time Remaining: N/A for Multi-Architecture Migration)\n",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    assert!(!shown.contains("All done in"), "{shown}");
    let updated = |cluster: &ClusterSnapshot| {
        let status = UpgradeStatus::new(cluster, now(cluster)).unwrap();
        let pools = status.pools.iter();
        (
            pools.map(|pool| pool.updated).sum::<usize>(),
            status.is_updating,
        )
    };
    assert_eq!(updated(&cluster), (1, true));
    // The operators are done, and nodes still roll.
    set(&mut cluster.version, "Progressing", "False");
    assert_eq!(updated(&cluster), (1, true));
    assert!(!text(&cluster, StatusDetails::None).contains("successfully updated"));
    // The same image, of a mirror, is an update that was requested again.
    let history = &mut cluster.version.0["status"]["history"];
    let image = history[0]["image"].as_str().unwrap();
    let (_, digest) = image.split_once('@').unwrap();
    history[1]["image"] = format!("mirror.example/ocp@{digest}").into();
    assert!(!text(&cluster, StatusDetails::None).contains("Multi-Architecture"));
}

#[test]
fn an_operator_of_a_migration_is_not_updated_while_it_moves() {
    let mut cluster = migrating();
    set(&mut cluster.operators[3], "Progressing", "True");
    let shown = text(&cluster, StatusDetails::None);
    assert!(
        shown.contains("(32 operators updated, 1 updating, 0 waiting)"),
        "{shown}"
    );
}

#[test]
fn progress_is_the_newest_transition_or_that_of_the_nodes_operator() {
    let started: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let now = started + minutes(60);
    let operator = |name: &str, status: &str, at: i64| {
        ClusterObject(
            json!({ "metadata": { "name": name }, "status": { "conditions": [
            { "type": "Progressing", "status": status, "lastTransitionTime": (started + minutes(at)).to_string() }
        ] } }),
        )
    };
    let seconds = |operators: &[ClusterObject], left: &[&str]| {
        let operators: Vec<&ClusterObject> = operators.iter().collect();
        whole(progressed(&operators, left, started, now))
    };
    let (dns, nodes) = (
        operator("dns", "False", 50),
        operator("machine-config", "True", 20),
    );
    let both = [dns, nodes];
    // Nothing moves now, and something did.
    assert_eq!(seconds(&both[..1], &["etcd"]), 3000);
    assert_eq!(seconds(&both, &["machine-config", "etcd"]), 3000);
    // Others move while nodes reboot.
    assert_eq!(seconds(&both, &["machine-config"]), 1200);
    let waits = [
        operator("dns", "False", 50),
        operator("machine-config", "False", -9),
    ];
    assert_eq!(seconds(&waits, &["machine-config"]), 3000);
    assert_eq!(seconds(&[operator("dns", "True", -1)], &["dns"]), 3600);
}

#[test]
fn an_update_that_stalled_by_time_alone_needs_attention() {
    let mut cluster = well();
    let at = now(&cluster);
    cluster.version.0["status"]["history"][0]["startedTime"] =
        (at - minutes(600)).to_string().into();
    let moved = at - minutes(590);
    for operator in &mut cluster.operators {
        let conditions = operator.0["status"]["conditions"].as_array_mut().unwrap();
        for condition in conditions {
            condition["lastTransitionTime"] = moved.to_string().into();
        }
    }
    let status = UpgradeStatus::new(&cluster, at).unwrap();
    assert!(status.needs_attention());
    let shown = status.text(StatusDetails::None);
    assert!(
        shown.starts_with("Stalled: Update takes longer than expected: estimate duration was "),
        "{shown}"
    );
    assert!(
        shown.contains("Warning   Update Stalled   Update takes longer"),
        "{shown}"
    );
    assert!(!shown.contains("proceeding well"), "{shown}");
}

#[test]
fn an_update_without_operators_is_an_error_unless_they_could_not_be_read() {
    let mut cluster = well();
    cluster.operators.clear();
    let at: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let error = UpgradeStatus::new(&cluster, at).unwrap_err();
    assert_eq!(
        error.to_string(),
        "there are no ClusterOperators: how far the update is, is not known"
    );
    cluster.unread = vec!["cannot read ClusterOperators: timed out".to_owned()];
    let status = UpgradeStatus::new(&cluster, at).unwrap();
    assert!(status.text(StatusDetails::None).starts_with("Not known: "));
}

#[test]
fn the_age_of_an_update_that_proceeds_well_has_its_seconds() {
    let mut cluster = well();
    let at = now(&cluster) + minutes(20);
    for operator in &mut cluster.operators {
        let conditions = operator.0["status"]["conditions"].as_array_mut().unwrap();
        for condition in conditions {
            condition["lastTransitionTime"] = at.to_string().into();
        }
    }
    let status = UpgradeStatus::new(&cluster, at).unwrap();
    let shown = status.text(StatusDetails::None);
    assert!(shown.contains("\n21m29s   Info"), "{shown}");
}

#[test]
fn an_operator_that_is_unavailable_and_degraded_has_both_findings() {
    let mut cluster = well();
    let at = now(&cluster);
    let operator = &mut cluster.operators[0];
    operator.0["status"]["conditions"] = json!([
        { "type": "Available", "status": "Unknown", "reason": "Gone" },
        { "type": "Degraded", "status": "True", "lastTransitionTime": (at - minutes(50)).to_string(),
          "message": "first\nsecond" },
    ]);
    let name = cluster.operators[0].name().to_owned();
    let shown = text(&cluster, StatusDetails::None);
    for part in [
        // It has no time, and it is not taken for new.
        format!(
            "-       Warning   API Availability   Cluster Operator {name} is unavailable (Gone)\n"
        ),
        format!("50m     Error     API Availability   Cluster Operator {name} is degraded\n"),
    ] {
        assert!(shown.contains(&part), "{part}\n{shown}");
    }
    let details = text(&cluster, StatusDetails::Health);
    assert!(
        details.contains("  Description: <no message>\n"),
        "{details}"
    );
}

#[test]
fn alerts_with_few_annotations_are_shown_with_their_names() {
    let mut cluster = well();
    let at = now(&cluster);
    let alert = |name: &str, severity: &str, ago: Option<i64>, annotations: Value| {
        json!({
            "state": "firing", "activeAt": ago.map(|ago| (at - minutes(ago)).to_string()),
            "labels": { "alertname": name, "severity": severity, "namespace": "ns", "poddisruptionbudget": "b" },
            "annotations": annotations
        })
    };
    let none = || json!({});
    cluster.alerts = Some(json!({ "data": { "alerts": [
        alert("Bare", "critical", Some(0), none()),
        alert("Old", "critical", Some(500), none()),
        alert("PodDisruptionBudgetAtLimit", "warning", Some(500), json!({ "summary": "No.", "message": "Blocked" })),
        alert("Timeless", "warning", None, json!({ "description": "D", "runbook_url": "https://r" })),
        alert("", "critical", Some(0), none()),
        alert("Note", "info", Some(0), none()),
    ] } }));
    let status = UpgradeStatus::new(&cluster, at).unwrap();
    assert!(status.needs_attention());
    let shown = status.text(StatusDetails::Health);
    let messages: Vec<&str> = shown
        .lines()
        .filter(|line| line.starts_with("Message: "))
        .collect();
    assert_eq!(
        messages,
        [
            "Message: Alert is firing: Bare",
            "Message: Alert is firing: No.",
            "Message: Alert is firing: Timeless"
        ]
    );
    for part in [
        "  Reference:   <alert does not have a runbook_url annotation>\n",
        "  Resources:\n    namespaces: ns\n    poddisruptionbudgets.policy: b\n",
        "  Description: Alert Bare began during the update. The alert has no description.\n",
        "  Description: Alert PodDisruptionBudgetAtLimit began before the update. The alert description is: Blocked\n",
        "  Description: When alert Timeless began is not known. The alert description is: D\n",
        "  Reference:   https://r\n",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
}

#[test]
fn nodes_say_why_they_are_unavailable_and_details_have_their_names() {
    let mut cluster = well();
    let target = cluster.version.list("/status/history")[0]["version"].clone();
    let mut config = cluster.configs[0].clone();
    config.0["metadata"]["name"] = "new".into();
    config.0["metadata"]["annotations"][annotation::RELEASE_IMAGE_VERSION] = target;
    cluster.configs.push(config);
    let mut workers = cluster.nodes.iter_mut().filter(|node| of_worker(node));
    let (one, two, three) = (
        workers.next().unwrap(),
        workers.next().unwrap(),
        workers.next().unwrap(),
    );
    one.0["metadata"]["annotations"][annotation::CURRENT_CONFIG] = "".into();
    two.0["metadata"]["annotations"][annotation::CURRENT_CONFIG] = "new".into();
    two.0["spec"]["unschedulable"] = true.into();
    let name = three.name().to_owned();
    three.0["metadata"]["annotations"][annotation::STATE] = "Degraded".into();
    three.0["metadata"]["annotations"][annotation::REASON] =
        format!("{name}: disk\nis full").into();
    let shown = text(&cluster, StatusDetails::None);
    for part in [
        "   Unavailable   Pending   ?             ?     Machine Config Daemon has not reported the node's configuration\n",
        "   Unavailable   Updated   4.15.0-ec.2   -     Node is marked unschedulable\n",
        "   Degraded      Pending   4.14.1        ?     <node>: disk...\n",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    let shown = text(&cluster, StatusDetails::Health);
    let description = format!("  Description: {name}: disk\n               , is full\n");
    assert!(shown.contains(&description), "{shown}");
}
