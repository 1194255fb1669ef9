use serde_json::{Value, json};

use super::super::fixture::{
    FROM, THROUGH, TO, cluster, mark, node, offer, pool, pools, recorded, resumed, wish,
};
use super::*;

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn step(cluster: &CpoCluster) -> CpoStep {
    next(cluster, &wish()).unwrap().step
}

fn refusal(cluster: &CpoCluster) -> String {
    next(cluster, &wish()).unwrap_err().to_string()
}

fn request(cluster: &mut CpoCluster, version: &str) {
    cluster.version.0["spec"]["desiredUpdate"] = json!({ "version": version });
}

fn set_condition(cluster: &mut CpoCluster, kind: &str, status: &str, message: &str) {
    let conditions = cluster.version.0["status"]["conditions"]
        .as_array_mut()
        .unwrap();
    conditions.retain(|condition| condition["type"] != kind);
    conditions.push(json!({ "type": kind, "status": status, "reason": "R", "message": message }));
}

fn updating(name: &str, updated: u32) -> Value {
    let mut pool = pool(name);
    pool["status"]["updatedMachineCount"] = json!(updated);
    pool["status"]["conditions"][0]["status"] = json!("False");
    pool
}

/// From the first run to the last, each step as the one before left the cluster.
#[test]
fn the_way_goes_step_by_step_and_each_is_decided_from_what_is_there() {
    assert_eq!(step(&cluster()), CpoStep::Plan);

    // Recorded; the command died before it paused the second pool.
    let mut at = recorded((FROM, "Completed"));
    at.pools = pools(&[pool("master"), mark("infra"), pool("worker")]);
    assert_eq!(step(&at), CpoStep::Pause(names(&["worker"])));
    at.pools = pools(&[pool("master"), mark("infra"), mark("worker")]);
    let CpoStep::Request { hop, update } = step(&at) else {
        panic!("no request");
    };
    assert_eq!((hop, update.version.as_str()), (1, THROUGH));
    request(&mut at, THROUGH);
    let waits = format!("{THROUGH} is requested, and not begun");
    assert_eq!(step(&at), CpoStep::Wait(waits));
    set_condition(&mut at, "ReleaseAccepted", "False", "no signature");
    let waits = format!("{THROUGH} is requested: ReleaseAccepted is False: R: no signature");
    assert_eq!(step(&at), CpoStep::Wait(waits));

    let mut at = recorded((THROUGH, "Partial"));
    request(&mut at, THROUGH);
    set_condition(&mut at, "Progressing", "True", "3 of 7 done");
    let waits = format!("the control plane goes to {THROUGH}: 3 of 7 done");
    assert_eq!(step(&at), CpoStep::Wait(waits));
    set_condition(&mut at, "Failing", "True", "etcd is degraded");
    let waits = format!("the control plane goes to {THROUGH}: etcd is degraded");
    assert_eq!(step(&at), CpoStep::Wait(waits));

    let mut at = recorded((THROUGH, "Completed"));
    request(&mut at, THROUGH);
    let waits = format!(
        "hop 2 of 2: ClusterVersion version: status.availableUpdates: {TO} is not offered: it is \
         none of the updates of channel \"eus-4.18\""
    );
    assert_eq!(step(&at), CpoStep::Wait(waits));
    at.version.0["status"]["availableUpdates"] = json!([offer(TO)]);
    set_condition(&mut at, "Upgradeable", "False", "operators");
    let waits = "hop 2 of 2: ClusterVersion version: condition Upgradeable is False: R: operators";
    assert_eq!(step(&at), CpoStep::Wait(waits.to_owned()));
    set_condition(&mut at, "Upgradeable", "True", "");
    let CpoStep::Request { hop, update } = step(&at) else {
        panic!("no request");
    };
    assert_eq!((hop, update.version.as_str()), (2, TO));

    let mut at = recorded((TO, "Partial"));
    request(&mut at, TO);
    let waits = format!("the control plane goes to {TO}: at rest");
    assert_eq!(step(&at), CpoStep::Wait(waits));

    let mut at = recorded((TO, "Completed"));
    request(&mut at, TO);
    assert_eq!(step(&at), CpoStep::Resume(names(&["infra", "worker"])));
    at.pools = pools(&[pool("master"), pool("infra"), updating("worker", 1)]);
    let waits = "pool worker: 1 of 3 nodes are updated";
    assert_eq!(step(&at), CpoStep::Wait(waits.to_owned()));
    let mut degraded = updating("worker", 1);
    degraded["status"]["conditions"][2] =
        json!({ "type": "Degraded", "status": "True", "message": "w1 failed" });
    at.pools = pools(&[pool("master"), pool("infra"), degraded]);
    let waits = "pool worker: 1 of 3 nodes are updated, it is degraded: w1 failed";
    assert_eq!(step(&at), CpoStep::Wait(waits.to_owned()));
    // Its status is of before the resumption.
    let mut stale = pool("worker");
    stale["metadata"]["generation"] = json!(4);
    at.pools = pools(&[pool("master"), pool("infra"), stale]);
    let waits = "pool worker: 3 of 3 nodes are updated";
    assert_eq!(step(&at), CpoStep::Wait(waits.to_owned()));
    at.pools = pools(&[pool("master"), pool("infra"), pool("worker")]);
    assert_eq!(step(&at), CpoStep::Forget);

    at.version.0["metadata"]["annotations"] = json!({});
    assert_eq!(step(&at), CpoStep::Done);
    // A mark that is left over.
    at.pools = pools(&[pool("master"), resumed("infra")]);
    assert_eq!(step(&at), CpoStep::Resume(names(&["infra"])));
}

#[test]
fn a_pool_that_a_person_resumed_is_named_and_not_paused_again() {
    let mut at = recorded((FROM, "Completed"));
    at.pools = pools(&[pool("master"), mark("infra"), resumed("worker")]);
    let state = next(&at, &wish()).unwrap();
    assert!(matches!(state.step, CpoStep::Request { hop: 1, .. }));
    assert_eq!(
        state.warnings,
        [
            "MachineConfigPool worker: spec.paused: a person resumed the pool; its nodes are updated \
             with each hop, and it is not paused again"
        ]
    );
    // Nor is one whose mark is gone once the hop is requested.
    request(&mut at, THROUGH);
    at.pools = pools(&[pool("master"), mark("infra"), pool("worker")]);
    assert!(matches!(step(&at), CpoStep::Wait(_)));
    // One that another one paused stays so, and is not waited for.
    let mut other = updating("worker", 0);
    other["spec"]["paused"] = json!(true);
    let mut at = recorded((TO, "Completed"));
    at.pools = pools(&[pool("master"), pool("infra"), other]);
    let state = next(&at, &wish()).unwrap();
    assert_eq!(state.step, CpoStep::Forget);
    assert_eq!(
        state.warnings,
        [
            "MachineConfigPool worker: spec.paused: another one paused the pool; it stays so at the \
             end"
        ]
    );
}

#[test]
fn what_is_not_on_the_way_is_refused_by_name() {
    let head = "the control plane cannot be updated alone:\n  * ";
    let mut other = recorded((THROUGH, "Completed"));
    request(&mut other, "4.17.25");
    let mut old = recorded((THROUGH, "Completed"));
    old.version.0["status"]["availableUpdates"] = json!([offer(TO)]);
    old.api_server = "v1.30.9".to_owned();
    old.nodes.push(node("w9", "worker", "v1.27.1"));
    let mut unread = recorded((THROUGH, "Completed"));
    unread.version.0["metadata"]["annotations"]["slipway.dev/control-plane-only"] = json!("7");
    let mut no_versions = recorded((THROUGH, "Completed"));
    let annotation =
        &mut no_versions.version.0["metadata"]["annotations"]["slipway.dev/control-plane-only"];
    *annotation = json!(annotation.as_str().unwrap().replace(TO, "latest"));
    let mut no_history = recorded((THROUGH, "Completed"));
    no_history.version.0["status"]["history"] = json!([]);
    for (at, expected) in [
        (
            recorded(("4.19.1", "Completed")),
            "ClusterVersion version: status.history[0]: 4.19.1 is applied, which is not on the way from 4.16.30 to 4.18.9",
        ),
        (
            recorded((FROM, "Partial")),
            "ClusterVersion version: status.history[0]: the update to 4.16.30 is not completed",
        ),
        (
            other,
            "ClusterVersion version: spec.desiredUpdate.version: 4.17.25 is requested",
        ),
        (
            old,
            "Nodes: status.nodeInfo.kubeletVersion: at the end of hop 2 an API server of 1.31 does not support kubelets of nodes w9 (v1.27.1)",
        ),
        (
            unread,
            "ClusterVersion version: annotation slipway.dev/control-plane-only: cannot read it: invalid type: integer `7`, expected struct ControlPlaneOnlyRecord at line 1 column 1; --control-plane-only --clear removes it",
        ),
        (
            no_versions,
            "ClusterVersion version: the record of the update: to: \"latest\" is no semantic version; --control-plane-only --clear removes it",
        ),
        (
            no_history,
            "ClusterVersion version: status.history is empty",
        ),
    ] {
        assert_eq!(refusal(&at), format!("{head}{expected}"));
    }
    let mut wish = wish();
    wish.to = "4.18.10".parse().unwrap();
    let why = next(&recorded((FROM, "Completed")), &wish).unwrap_err();
    assert_eq!(
        why.to_string(),
        format!(
            "{head}ClusterVersion version: annotation slipway.dev/control-plane-only: an update to \
             4.18.9 is under way since 2026-01-02T03:04:05Z, by admin; go on with that one, or end \
             it by --control-plane-only --clear"
        )
    );
}

#[test]
fn an_end_before_the_end_takes_the_marks_away_where_the_control_plane_rests() {
    assert_eq!(clear(&cluster()).unwrap(), CpoStep::Done);
    let mut at = recorded((THROUGH, "Completed"));
    request(&mut at, THROUGH);
    let marked = names(&["infra", "worker"]);
    assert_eq!(clear(&at).unwrap(), CpoStep::Resume(marked.clone()));
    // A mark without a pause goes, too.
    at.pools = pools(&[pool("master"), resumed("infra"), mark("worker")]);
    assert_eq!(clear(&at).unwrap(), CpoStep::Resume(marked));
    at.pools = pools(&[pool("master"), pool("infra"), pool("worker")]);
    assert_eq!(clear(&at).unwrap(), CpoStep::Forget);
    at.version.0["metadata"]["annotations"]["slipway.dev/control-plane-only"] = json!("7");
    assert_eq!(clear(&at).unwrap(), CpoStep::Forget);
    // Without a record.
    at.version.0["metadata"]["annotations"] = json!({});
    at.pools = pools(&[mark("worker")]);
    assert_eq!(clear(&at).unwrap(), CpoStep::Resume(names(&["worker"])));

    let mut at = recorded((THROUGH, "Partial"));
    request(&mut at, TO);
    assert_eq!(
        clear(&at).unwrap_err().to_string(),
        "the control plane cannot be updated alone:\n  \
         * ClusterVersion version: status.history[0]: the update to 4.17.20 is not completed\n  \
         * ClusterVersion version: spec.desiredUpdate.version: 4.18.9, and `slipway upgrade --clear` \
         takes that back: is requested"
    );
}
