//! An update that did not happen: a Deployment and a ClusterOperator at 20, a ConfigMap at 50.

use serde_json::json;

use super::*;

const VERSION: &str = "1.0.1";
const IMAGE: &str = "q/release@sha256:2";
const OPERATORS: &str = "config.openshift.io";

fn at(secs: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + secs).unwrap()
}

fn manifest(
    file: &str,
    (group, resource): (&str, &str),
    (ns, name): (&str, &str),
) -> ReleaseManifest {
    let mut parts = file.split('_').skip(1);
    let mut part = || parts.next().unwrap().to_owned();
    ReleaseManifest {
        file: file.to_owned(),
        run_level: part(),
        component: part(),
        api_group: group.to_owned(),
        resource: resource.to_owned(),
        namespace: ns.to_owned(),
        name: name.to_owned(),
        is_as_before: false,
    }
}

fn update() -> ReleaseUpdate {
    let deployments = ("apps", "deployments");
    ReleaseUpdate {
        version: VERSION.to_owned(),
        image: IMAGE.to_owned(),
        start: at(0),
        manifests: vec![
            manifest(
                "0000_20_alpha_03_deployment.yaml",
                deployments,
                ("a", "alpha"),
            ),
            manifest(
                "0000_20_alpha_90_operator.yaml",
                (OPERATORS, "clusteroperators"),
                ("", "alpha"),
            ),
            manifest(
                "0000_50_beta_05_map.yaml",
                ("", "configmaps"),
                ("b", "beta"),
            ),
        ],
    }
}

/// A write, a second long.
fn write(secs: i64, user_agent: &str, object: (&str, &str, &str, &str), response: &Value) -> Event {
    let (group, resource, namespace, name) = object;
    let event = json!({
        "auditID": "", "stage": "ResponseComplete", "verb": "patch", "requestURI": "/", "user": {},
        "userAgent": user_agent, "responseStatus": { "code": 200 },
        "objectRef": { "apiGroup": group, "resource": resource, "namespace": namespace, "name": name },
        "requestReceivedTimestamp": at(secs), "stageTimestamp": at(secs + 1),
        "responseObject": response,
    });
    serde_json::from_value(event).unwrap()
}

fn own(secs: i64, image: &str) -> Event {
    let pod = json!({ "spec": { "template": { "spec": { "containers": [{ "image": image }] } } } });
    write(secs, "cvo/1", ("apps", "deployments", OWN.0, OWN.1), &pod)
}

fn deployment(secs: i64) -> Event {
    write(
        secs,
        "cvo/1",
        ("apps", "deployments", "a", "alpha"),
        &json!({}),
    )
}

fn map(secs: i64) -> Event {
    write(secs, "cvo/1", ("", "configmaps", "b", "beta"), &Value::Null)
}

fn report(secs: i64, version: &str, degraded: &str) -> Event {
    let condition = |name: &str, status: &str, message: &str| json!({ "type": name, "status": status, "message": message });
    let is_old = version != VERSION;
    let progressing = if is_old { "True" } else { "False" };
    let object = json!({ "status": {
        "versions": [{ "name": "operator", "version": version }],
        "conditions": [
            condition("Available", "True", ""), condition("Degraded", degraded, ""),
            condition("Progressing", progressing, "its pods are new"),
        ],
    } });
    write(
        secs,
        "operator/1",
        (OPERATORS, "clusteroperators", "", "alpha"),
        &object,
    )
}

fn completed(secs: i64) -> Event {
    let history = json!([{ "version": VERSION, "state": "Completed" }]);
    let object = json!({ "status": { "history": history } });
    write(
        secs,
        "cvo/1",
        (OPERATORS, "clusterversions", "", "version"),
        &object,
    )
}

fn judged(events: &[Event]) -> Vec<String> {
    update().judge(events).breaches
}

#[test]
fn an_update_in_order_breaks_nothing_and_gives_its_levels() {
    // The one before keeps its release until it is replaced, in any order, and so does the next.
    let events = [
        map(1),
        own(2, IMAGE),
        deployment(4),
        report(5, "1.0.0", "False"),
        report(9, VERSION, "False"),
        map(12),
        completed(14),
        deployment(20),
    ];
    let verdict = update().judge(&events);
    assert_eq!(verdict.breaches, [""; 0]);
    let levels: Vec<_> = verdict
        .levels
        .iter()
        .map(|level| {
            let span = [level.start, level.end].map(|it| it.as_second() - at(0).as_second());
            (
                level.level.as_str(),
                level.components.join(" "),
                span,
                level.waits_for.as_str(),
            )
        })
        .collect();
    let waits = "the release's image, and the version operator's own pod";
    assert_eq!(
        levels,
        [
            ("00", "cluster-version-operator".to_owned(), [0, 4], waits),
            ("20", "alpha".to_owned(), [4, 10], "alpha: its pods are new"),
            ("50", "beta".to_owned(), [12, 12], ""),
        ]
    );
}

#[test]
fn a_later_level_waits_for_the_version_and_for_a_good_state() {
    let early = "0000_50_beta_05_map.yaml of run level 50 was written before alpha of \
                 0000_20_alpha_90_operator.yaml was done";
    for before in [report(6, "1.0.0", "False"), report(6, VERSION, "True")] {
        let events = [
            own(2, IMAGE),
            deployment(4),
            before,
            map(8),
            report(9, VERSION, "False"),
            completed(14),
        ];
        assert_eq!(judged(&events), [early]);
    }
}

#[test]
fn a_manifest_of_the_level_below_is_written_first() {
    let events = [
        own(2, IMAGE),
        report(4, VERSION, "False"),
        map(6),
        deployment(8),
        completed(14),
    ];
    let early = "0000_50_beta_05_map.yaml of run level 50 was written before alpha of \
                 0000_20_alpha_03_deployment.yaml was done";
    assert_eq!(judged(&events), [early]);
}

#[test]
fn a_manifest_that_is_left_out_is_named_unless_it_is_as_before() {
    let events = [
        own(2, IMAGE),
        deployment(4),
        report(5, VERSION, "False"),
        completed(14),
    ];
    assert_eq!(judged(&events), ["0000_50_beta_05_map.yaml was skipped"]);
    let mut update = update();
    update.manifests[2].is_as_before = true;
    assert_eq!(update.judge(&events).breaches, [""; 0]);
}

#[test]
fn an_update_without_its_beginning_or_end_is_named() {
    let events = [own(2, "q/release@sha256:1"), deployment(4), map(6)];
    assert_eq!(
        judged(&events),
        ["the version operator did not replace itself"]
    );
    let events = [
        own(2, IMAGE),
        deployment(4),
        report(5, VERSION, "False"),
        map(12),
    ];
    assert_eq!(judged(&events), ["the history has no Completed 1.0.1"]);
}

#[test]
fn a_share_counts_what_lies_between_waits_once() {
    let level = |start: i64, end: i64, waits_for: &str| RunLevel {
        level: "20".to_owned(),
        components: Vec::new(),
        start: Timestamp::from_second(start).unwrap(),
        end: Timestamp::from_second(end).unwrap(),
        waits_for: waits_for.to_owned(),
    };
    assert_eq!(unwaited_share(&[]), None);
    assert_eq!(unwaited_share(&[level(5, 5, "")]), None);
    assert_eq!(unwaited_share(&[level(0, 10, "")]), Some(1.0));
    // Waits from 0 to 4, from 2 to 6 and from 8 to 10: 8 of 10 seconds.
    let levels = [level(2, 6, "b"), level(0, 4, "a"), level(8, 10, "c")];
    let share = unwaited_share(&levels).unwrap();
    assert!((share - 0.2).abs() < 1e-9, "{share}");
}
