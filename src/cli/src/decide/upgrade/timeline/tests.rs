use api::machineconfiguration::annotation;
use release::progress::ProgressRecord;
use serde_json::{Value, json};

use super::*;

const NOW: &str = "2026-11-25T11:00:00Z";

fn operator(name: &str, version: &str, status: &str, since: &str) -> ClusterObject {
    ClusterObject(json!({
        "metadata": {"name": name, "annotations": {
            "include.release.openshift.io/self-managed-high-availability": "true"
        }},
        "status": {
            "versions": [{"name": "operator", "version": version}],
            "conditions": [{"type": "Progressing", "status": status, "lastTransitionTime": since}]
        }
    }))
}

fn event(node: &str, reason: &str, kind: &str, at: &str) -> ClusterObject {
    ClusterObject(json!({
        "involvedObject": {"kind": "Node", "name": node}, "reason": reason, "type": kind,
        "eventTime": null, "firstTimestamp": at, "lastTimestamp": at
    }))
}

fn node(name: &str, phase: &str, since: &str) -> ClusterObject {
    ClusterObject(
        json!({"metadata": {"name": name, "labels": {"role": "w"}, "annotations": {
            (annotation::PHASE): phase, (annotation::SINCE): since
        }}}),
    )
}

fn pool() -> ClusterObject {
    ClusterObject(json!({
        "metadata": {"name": "worker"},
        "spec": {"nodeSelector": {"matchLabels": {"role": "w"}}, "maxUnavailable": 2}
    }))
}

fn entry(version: &str, state: &str, started: &str, completed: Option<&str>) -> Value {
    json!({"version": version, "state": state, "startedTime": started, "completionTime": completed})
}

fn inputs() -> TimelineInputs {
    let history = [
        entry(
            "4.18.9",
            "Completed",
            "2026-11-25T10:00:00Z",
            Some("2026-11-25T10:20:00Z"),
        ),
        entry("4.18.5", "Partial", "2026-11-24T10:00:00Z", None),
        entry(
            "4.18.3",
            "Completed",
            "2026-11-01T10:00:00Z",
            Some("2026-11-01T10:30:00Z"),
        ),
    ];
    let cluster = ClusterSnapshot {
        version: ClusterObject(json!({"status": {"history": history}})),
        pools: vec![pool()],
        operators: vec![
            operator("network", "4.18.9", "False", "2026-11-25T10:15:00Z"),
            operator("etcd", "4.18.9", "False", "2026-11-25T10:05:00Z"),
            // It did not change in this update.
            operator("insights", "4.18.9", "False", "2026-11-20T10:05:00Z"),
        ],
        nodes: vec![
            node("w0", "Idle", "2026-11-25T10:30:00Z"),
            node("w1", "Rebooting", "2026-11-25T10:55:00Z"),
            node("w2", "Idle", "2026-11-25T10:40:00Z"),
            node("w3", "Idle", "2026-11-20T10:40:00Z"),
        ],
        ..ClusterSnapshot::default()
    };
    TimelineInputs {
        cluster,
        events: vec![
            event("w0", "NodeDone", "Normal", "2026-11-25T10:30:00Z"),
            event("w0", "OSUpdateStarted", "Normal", "2026-11-25T10:20:00Z"),
            event("w0", "Drain", "Normal", "2026-11-25T10:22:00Z"),
            event("w0", "Reboot", "Normal", "2026-11-25T10:27:00Z"),
            // Of the update before.
            event("w0", "NodeDone", "Normal", "2026-11-24T10:30:00Z"),
            event("w1", "OSUpdateStarted", "Normal", "2026-11-25T10:40:00Z"),
            event("w1", "Drain", "Normal", "2026-11-25T10:41:00Z"),
            event(
                "w1",
                "DrainThresholdExceeded",
                "Warning",
                "2026-11-25T10:51:00Z",
            ),
            event("w1", "Reboot", "Normal", "2026-11-25T10:55:00Z"),
        ],
    }
}

fn timeline(inputs: &TimelineInputs) -> UpdateTimeline {
    UpdateTimeline::new(inputs, NOW.parse().unwrap()).unwrap()
}

#[test]
fn operators_and_nodes_are_shown_in_the_order_of_their_start() {
    let expected = "\
Update 4.18.3 to 4.18.9: control plane done after 20m, 1h shown

  NAME         START  TOOK                                            WHAT
  Operators    \n    etcd       +5m          ...|....................................  updated
    network    +15m         .........|..............................  updated
  Pool worker  \n    w0         +20m   10m   .............fdddrrr....................  fetch 2m, drain 5m, reboot 3m
    w1         +40m   20m   ..........................ddddddd!drrrrr  fetch 1m, drain 14m, reboot 5m, goes on, DrainThresholdExceeded
    w2         +40m         ..........................|.............  done

In bars: = progress, f fetch (in service), d drain and apply, r reboot and verify.

No record of this update is left of: w3
";
    assert_eq!(timeline(&inputs()).text(), expected);
}

#[test]
fn an_update_that_is_over_ends_with_its_last_record() {
    let mut inputs = inputs();
    inputs.cluster.nodes.truncate(1);
    let timeline = timeline(&inputs);
    assert_eq!(timeline.until, "2026-11-25T10:30:00Z".parse().unwrap());
}

#[test]
fn an_operator_that_changes_is_open() {
    let mut inputs = inputs();
    inputs.cluster.nodes.clear();
    inputs.cluster.operators = vec![operator("dns", "4.18.3", "True", "2026-11-25T10:50:00Z")];
    inputs.cluster.version.0["status"]["history"][0]["state"] = json!("Partial");
    let text = timeline(&inputs).text();
    assert!(
        text.starts_with("Update 4.18.3 to 4.18.9: control plane not done, 1h shown\n"),
        "{text}"
    );
    assert!(text.contains("progress 10m, goes on"), "{text}");
}

#[test]
fn an_installation_is_no_update() {
    let of = |history: Value| {
        let version = ClusterObject(json!({"status": {"history": history}}));
        let mut inputs = TimelineInputs::default();
        inputs.cluster.version = version;
        let error = UpdateTimeline::new(&inputs, NOW.parse().unwrap()).unwrap_err();
        error.to_string()
    };
    assert!(of(json!([])).ends_with("status.history is empty"));
    let install = entry("4.18.3", "Completed", NOW, Some(NOW));
    assert!(of(json!([install])).ends_with("has the installation only, and no update"));
    let broken = json!({"version": "4.18.9"});
    assert!(of(json!([broken, install])).ends_with("history[0].startedTime is missing"));
}

#[test]
fn the_picture_has_each_part_with_its_length() {
    let picture = timeline(&inputs()).svg();
    for expected in [
        "<svg ",
        "operator etcd",
        "w0: fetch, 2m",
        "w1: reboot, 5m, goes on",
        "w1: DrainThresholdExceeded, 10:51:00",
        "control plane done, 20m",
        "Pool worker: at most 1 out at once, 2 may be",
        ">now<",
    ] {
        assert!(picture.contains(expected), "{expected}: {picture}");
    }
}

/// A record of the update: a long step and short ones in run level 20, one step that runs.
fn record() -> ProgressRecord {
    let step = |level: &str, component: &str, from: &str, to: Option<&str>| {
        let at = |time: &str| format!("2026-11-25T10:{time}Z");
        json!({
            "runLevel": level, "component": component, "manifests": 1, "done": 1,
            "started": at(from), "ended": to.map(at), "earlierSecs": [600]
        })
    };
    let record = json!({
        "version": "4.18.9", "image": "i", "started": "2026-11-25T10:00:00Z", "steps": [
            step("20", "a", "00:00", Some("00:01")), step("20", "b", "00:01", Some("00:02")),
            step("20", "etcd", "00:02", Some("12:02")), step("70", "network", "55:00", None),
            {"runLevel": "80", "component": "later", "manifests": 1, "done": 0, "earlierSecs": [600]},
        ]
    });
    ProgressRecord::parse(&record.to_string()).unwrap()
}

#[test]
fn the_record_of_the_version_operator_has_the_steps_by_run_level() {
    let mut inputs = inputs();
    inputs.cluster.record = Some(record());
    let text = timeline(&inputs).text();
    let words: Vec<String> = text
        .lines()
        .filter(|line| line.starts_with("  "))
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    let expected = [
        "Run level 20",
        "etcd +2s 12m ========................................ progress 12m",
        "2 short ones +0s 2s =....................................... a, b",
        "Run level 70",
        "network +55m 5m ...................................===== progress 5m, goes on",
        "Pool worker",
    ];
    assert_eq!(words[1..7], expected.map(ToOwned::to_owned), "{text}");
    // A record of an earlier update says nothing of this one.
    inputs.cluster.record.as_mut().unwrap().started = "2026-11-24T10:00:00Z".parse().unwrap();
    assert!(timeline(&inputs).text().contains("Operators"));
}

#[test]
fn an_update_that_goes_on_has_a_forecast_where_nodes_say_how_long_they_take() {
    let mut inputs = inputs();
    assert_eq!(timeline(&inputs).forecast, None);
    inputs.cluster.record = Some(record());
    let history = &mut inputs.cluster.version.0["status"]["history"][0];
    history["state"] = json!("Partial");
    history["completionTime"] = Value::Null;
    // Done 10 minutes apart the last time, two at once.
    inputs.cluster.nodes = (0..8_i64)
        .map(|number| {
            let done = NOW.parse::<Timestamp>().unwrap()
                - jiff::SignedDuration::from_mins(9_000 - 10 * number);
            node(&format!("w{number}"), "Idle", &done.to_string())
        })
        .collect();
    inputs.events.clear();
    let timeline = timeline(&inputs);
    // Five and ten minutes are left of the operators, then four turns of 20 minutes.
    let expected = "2026-11-25T12:35:00Z".parse().unwrap();
    assert_eq!(timeline.forecast, Some((expected, expected)));
    assert!(timeline.svg().contains("over about 12:35"));
}
