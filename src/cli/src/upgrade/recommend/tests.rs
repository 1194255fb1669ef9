use std::path::Path;

use super::*;
use crate::upgrade::object::ClusterObject;

const EXAMPLES: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../tests/fixtures/cli-examples/recommend"
);

fn read(name: &str) -> Option<String> {
    std::fs::read_to_string(Path::new(EXAMPLES).join(name)).ok()
}

fn said(example: &str, wish: &RecommendWish) -> String {
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
            assert_eq!(said(example, &wish), expected, "{example} {file}");
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
    assert_eq!(said("4.16.27-degraded-monitoring", &wish), "");
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
