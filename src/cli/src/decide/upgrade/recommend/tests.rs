use std::path::Path;

use serde_json::{Value, json};

use super::*;
use crate::decide::object::ClusterObject;

const EXAMPLES: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../tests/fixtures/cli-examples/recommend"
);

fn read(name: &str) -> Option<String> {
    std::fs::read_to_string(Path::new(EXAMPLES).join(name)).ok()
}

fn shown(example: &str, wish: &RecommendWish) -> String {
    let version = read(&format!("{example}-cv.yaml")).unwrap();
    let mut version: Value = serde_saphyr::from_str(&version).unwrap();
    if let Some(first) = version.pointer_mut("/items/0") {
        version = first.take();
    }
    let version = ClusterObject(version);
    let precheck = if let Some(alerts) = read(&format!("{example}-alerts.json")) {
        PrecheckReport::of_alerts(&serde_json::from_str(&alerts).unwrap())
    } else {
        let message = format!(
            "This --mock-clusterversion run did not have alert data available at examples/{example}-alerts.json"
        );
        PrecheckReport::unknown("NoTestData", message)
    };
    let view = RecommendView::new(VersionView(&version), precheck, wish);
    let error = view
        .error
        .map_or_else(String::new, |error| format!("error: {error}\n"));
    view.text + &error
}

#[test]
fn examples_of_upstream_have_their_texts() {
    let of = |version: &str| RecommendWish {
        version: Some(version.to_owned()),
        ..RecommendWish::default()
    };
    let all = RecommendWish {
        show_outdated: true,
        ..RecommendWish::default()
    };
    for (example, version) in [
        ("4.14.1-all-recommended", "4.12.51"),
        ("4.16.27-degraded-monitoring", "4.16.32"),
    ] {
        for (wish, file) in [
            (RecommendWish::default(), "output".to_owned()),
            (all.clone(), "show-outdated-releases-output".to_owned()),
            (of(version), format!("version-{version}-output")),
        ] {
            let expected = read(&format!("{example}.{file}")).unwrap();
            assert_eq!(shown(example, &wish), expected, "{example} {file}");
        }
    }
}

#[test]
fn accepted_issues_are_no_error() {
    let wish = RecommendWish {
        version: Some("4.16.32".to_owned()),
        accept: [
            "ClusterOperatorDown",
            "Failing",
            "PodDisruptionBudgetAtLimit",
        ]
        .map(str::to_owned)
        .into(),
        quiet: true,
        ..RecommendWish::default()
    };
    assert_eq!(shown("4.16.27-degraded-monitoring", &wish), "");
}

#[test]
fn alerts_of_virtual_machines_are_named_only_where_they_fire() {
    let report = |name: &str| {
        let labels = serde_json::json!({ "alertname": name, "severity": "warning" });
        let alert = serde_json::json!({ "state": "firing", "labels": labels });
        PrecheckReport::of_alerts(&serde_json::json!({ "data": { "alerts": [alert] } }))
    };
    let found = report("VMCannotBeEvicted");
    assert_eq!(
        found.findings[0].r#type,
        "recommended/VirtAlerts/VMCannotBeEvicted/0"
    );
    assert_eq!(found.findings[0].acceptance, "VMCannotBeEvicted");
    let none = report("Watchdog");
    assert!(none.findings.is_empty());
    assert!(!none.fine.contains(&"recommended/VirtAlerts".to_owned()));
}

fn version(conditions: &Value) -> ClusterObject {
    let release = |version: &str| json!({ "version": version, "image": format!("i-{version}") });
    ClusterObject(json!({
        "spec": { "channel": "stable-4.1" },
        "status": {
            "desired": { "version": "4.1.0" }, "conditions": conditions,
            "availableUpdates": [release("4.1.3"), release("4.1.2"), release("4.2.9")],
            "conditionalUpdates": [{
                "release": release("4.1.4"),
                "conditions": [{ "type": "Recommended", "status": "False", "reason": "Toy", "message": "Breaks." }]
            }]
        }
    }))
}

fn viewed(conditions: &Value, alerts: &Value, wish: &RecommendWish) -> RecommendView {
    let precheck = PrecheckReport::of_alerts(&json!({ "data": { "alerts": alerts } }));
    RecommendView::new(VersionView(&version(conditions)), precheck, wish)
}

fn condition(kind: &str, status: &str) -> Value {
    json!({ "type": kind, "status": status, "reason": "R", "message": "M" })
}

fn wish(version: &str, accept: &[&str]) -> RecommendWish {
    RecommendWish {
        version: Some(version.to_owned()),
        accept: accept.iter().map(|name| (*name).to_owned()).collect(),
        ..RecommendWish::default()
    }
}

#[test]
fn conditions_that_are_absent_or_unknown_are_issues() {
    let (failing, retrieved) = (
        condition("Failing", "False"),
        condition("RetrievedUpdates", "True"),
    );
    for (conditions, issues, warning) in [
        (json!([failing, retrieved]), None, None),
        (
            json!([retrieved]),
            Some("Failing"),
            Some("No current Failing info, see `oc"),
        ),
        (
            json!([failing]),
            Some("CannotRetrieveUpdates"),
            Some("No current RetrievedUpdates info"),
        ),
        (
            json!([failing, condition("RetrievedUpdates", "Unknown")]),
            Some("CannotRetrieveUpdates"),
            Some("Cannot refresh available updates:\n  Reason: R\n  Message: M\n"),
        ),
        (
            json!([condition("Failing", "Unknown"), retrieved]),
            Some("Failing"),
            None,
        ),
    ] {
        let view = viewed(&conditions, &json!([]), &wish("4.1.3", &[]));
        let issues = issues.map(|name| {
            format!(
                "issues that apply to this cluster but which were not included in --accept: {name}"
            )
        });
        assert_eq!(view.error, issues);
        match (view.warnings.as_slice(), warning) {
            ([], None) => {}
            ([text], Some(warning)) => assert!(text.starts_with(warning), "{text}"),
            other => panic!("{other:?}"),
        }
    }
    let mut accepted = wish("4.1.3", &["Failing", "CannotRetrieveUpdates"]);
    let view = viewed(&json!([]), &json!([]), &accepted);
    assert_eq!(view.error, None);
    assert!(
        view.warnings
            .iter()
            .all(|text| text.starts_with("accepted No current "))
    );
    accepted.quiet = true;
    assert_eq!(viewed(&json!([]), &json!([]), &accepted).warnings, [""; 0]);
}

#[test]
fn options_that_make_no_sense_together_are_refused() {
    let quiet = RecommendWish {
        quiet: true,
        ..RecommendWish::default()
    };
    assert_eq!(
        quiet.check().unwrap_err().to_string(),
        "--quiet can only be set when --version is set"
    );
    let mut outdated = wish("4.1.3", &[]);
    assert_eq!(outdated.check(), Ok(()));
    outdated.show_outdated = true;
    let error = outdated.check().unwrap_err();
    assert_eq!(
        error.to_string(),
        "when --version is set, --show-outdated-releases is unnecessary"
    );
}

#[test]
fn accepted_findings_are_marked_and_named_at_the_end() {
    let conditions = json!([
        condition("Failing", "True"),
        condition("RetrievedUpdates", "True"),
        condition("Progressing", "True")
    ]);
    let alert = |name: &str| json!({ "state": "firing", "labels": { "alertname": name, "severity": "critical" } });
    let alerts = json!([alert("A"), alert("B")]);
    let mut accept = wish(
        "4.1.4",
        &["A", "Failing", "Progressing", "ConditionalUpdateRisk"],
    );
    let view = viewed(&conditions, &alerts, &accept);
    assert!(view.error.unwrap().ends_with("--accept: B"));
    for part in [
        "accepted Failing=True:\n",
        "accepted info: An update is in progress.",
        "later releases, but were explicitly accepted via --accept: recommended/CriticalAlerts/A/0\n",
        "later releases: recommended/CriticalAlerts/B/1\n",
        "\naccepted recommended/CriticalAlerts/A/0=False:\n",
        "\nrecommended/CriticalAlerts/B/1=False:\n",
        "\nReason: accepted Toy via ConditionalUpdateRisk\n",
    ] {
        assert!(view.text.contains(part), "{part}\n{}", view.text);
    }
    accept.accept.insert("B".to_owned());
    let view = viewed(&conditions, &alerts, &accept);
    assert_eq!(view.error, None);
    let end = "Update to 4.1.4 has no known issues relevant to this cluster other than the accepted A,B,ConditionalUpdateRisk,Failing,Progressing.\n";
    assert!(view.text.ends_with(end), "{}", view.text);
}

#[test]
fn alerts_have_their_group_their_objects_and_phrases_for_what_is_missing() {
    let alert = |labels: Value| json!({ "state": "firing", "labels": labels });
    let response = json!({ "data": { "alerts": [
        alert(json!({ "alertname": "PodDisruptionBudgetLimit", "severity": "critical", "namespace": "n", "poddisruptionbudget": "b" })),
        alert(json!({ "alertname": "KubeNodeUnreachable", "severity": "critical" })),
        alert(json!({ "severity": "critical" })),
    ] } });
    let report = PrecheckReport::of_alerts(&response);
    let none = "The alert has no description. <alert does not have a runbook_url annotation>";
    let messages: Vec<&str> = report
        .findings
        .iter()
        .map(|finding| finding.message.as_str())
        .collect();
    assert_eq!(
        messages,
        [
            format!(
                "critical alert KubeNodeUnreachable firing, suggesting significant cluster issues worth investigating. KubeNodeUnreachable. {none}"
            ),
            format!(
                "critical alert PodDisruptionBudgetLimit firing, suggesting significant cluster issues worth investigating. Namespace=n, PodDisruptionBudget=b. PodDisruptionBudgetLimit. {none}"
            ),
        ]
    );
    assert_eq!(
        report.fine,
        [
            "recommended/PodImagePullAlerts",
            "recommended/UpdatePrecheckAlerts"
        ]
    );
}

#[test]
fn alerts_of_a_partial_answer_are_kept_and_nothing_is_fine() {
    let alert =
        json!({ "state": "firing", "labels": { "alertname": "A", "severity": "critical" } });
    let partial = json!({ "data": { "alerts": [alert] }, "warnings": ["store a is away"] });
    let table = [
        (partial, 2, "the answer may be partial: store a is away"),
        (json!({}), 1, "the answer has no data.alerts"),
        (
            json!({ "status": "error", "error": "timeout" }),
            1,
            "the answer has no data.alerts: timeout",
        ),
    ];
    for (response, count, message) in table {
        let report = PrecheckReport::of_alerts(&response);
        assert_eq!(report.fine, Vec::<String>::new());
        assert_eq!(report.findings.len(), count);
        let last = report.findings.last().unwrap();
        assert_eq!(
            (last.status.as_str(), last.message.as_str()),
            ("Unknown", message)
        );
    }
}

#[test]
fn the_reason_of_the_cluster_stands_at_updates_that_it_cannot_go_to() {
    let conditions = json!([
        condition("Failing", "False"),
        condition("RetrievedUpdates", "True"),
        condition("Upgradeable", "False")
    ]);
    let view = viewed(&conditions, &json!([]), &RecommendWish::default());
    let expected = "\nUpdates to 4.2:\n\n  Version: 4.2.9\n  Image: i-4.2.9\n  Reason: R\n  Message: M\n\
                    \nUpdates to 4.1:\n  VERSION     ISSUES\n  4.1.3       no known issues relevant to this cluster\n\
                    \n  Version: 4.1.4\n  Image: i-4.1.4\n  Reason: Toy\n  Message: Breaks.\n\
                    \nAnd 1 older 4.1 updates you can see with '--show-outdated-releases' or '--version VERSION'.\n";
    assert!(view.text.ends_with(expected), "{}", view.text);
}

#[test]
fn an_update_that_there_is_not_is_named_with_what_there_is() {
    for (wanted, expected) in [
        (
            "4.1.9",
            "no update to 4.1.9 available, so cannot display context for the requested release",
        ),
        (
            "4.7.0",
            "no updates to 4.7 available, so cannot display context for the requested release 4.7.0",
        ),
        (
            "5.0.0",
            "no updates to 5 available, so cannot display context for the requested release 5.0.0",
        ),
        ("4.1.0", "the cluster runs 4.1.0 already"),
    ] {
        let view = viewed(&json!([]), &json!([]), &wish(wanted, &[]));
        assert_eq!(view.error.unwrap(), expected);
    }
}
