use std::collections::BTreeSet;

use api::config::ClusterOperator;
use cluster::cache::{TableChange, WatchEvent};
use operator::Watched as _;
use operator::watch::kept::Kept;
use serde_json::{Value, json};

use super::*;
use version_update::failure::{Effect, Failure};
use version_update::report::Accepted;

const PAGE: &str = include_str!("../../tests/golden/metrics.txt");

fn at(minute: u32) -> String {
    format!("2026-01-01T00:{minute:02}:00Z")
}

fn condition(r#type: &str, status: &str, reason: &str) -> Value {
    json!({ "type": r#type, "status": status, "reason": reason, "message": "", "lastTransitionTime": at(30) })
}

fn operator(version: &str, degraded: &str) -> Kept<OperatorView> {
    let object = json!({
        "metadata": { "name": "beta", "resourceVersion": "1" }, "spec": {},
        "status": {
            "versions": [{ "name": "operator", "version": version }],
            "conditions": [
                condition("Available", "True", "AsExpected"), condition("Degraded", degraded, "Why"),
                condition("Upgradeable", "Unknown", "NoData")
            ]
        }
    });
    let object: ClusterOperator = serde_json::from_value(object).unwrap();
    Kept::parse(object)
}

/// A cluster in the middle of an update.
fn metrics() -> Arc<VersionMetrics> {
    let entry = |state: &str, version: &str, start: u32, end: Option<u32>| json!({ "state": state, "version": version, "image": format!("i{version}"), "verified": true, "startedTime": at(start), "completionTime": end.map(at) });
    let object = json!({
        "metadata": { "name": "version", "creationTimestamp": at(0), "resourceVersion": "1" },
        "spec": { "clusterID": "c", "channel": "stable-4.2", "desiredUpdate": { "version": "4.4.0", "image": "i4.4.0" } },
        "status": {
            "desired": { "version": "4.3.0", "image": "i4.3.0" },
            "history": [entry("Partial", "4.3.0", 20, None), entry("Completed", "4.2.0", 10, Some(12)), entry("Completed", "4.1.0", 1, Some(5))],
            "observedGeneration": 1, "versionHash": "h",
            "capabilities": { "enabledCapabilities": ["a"], "knownCapabilities": ["a", "b"] },
            "availableUpdates": [{ "version": "4.4.0", "image": "i4.4.0" }],
            "conditionalUpdates": [{
                "release": { "version": "4.5.0", "image": "i4.5.0" }, "risks": [],
                "conditions": [condition("Recommended", "Unknown", "EvaluationFailed")]
            }],
            "conditions": [condition("Available", "True", ""), condition("Failing", "True", "Bad")]
        }
    });
    let (versions, operators, shared) =
        (Cache::default(), Cache::default(), SharedReport::default());
    versions.apply(WatchEvent::Synced(vec![ClusterVersions::parse(
        serde_json::from_value(object).unwrap(),
    )]));
    operators.apply(WatchEvent::Synced(vec![operator("4.2.0", "False")]));
    {
        let mut report = shared.lock();
        let accepted = Accepted {
            version_hash: "h".to_owned(),
            capabilities: release::capability::Capabilities::default(),
            generation: 1,
        };
        report.begin(accepted, 5);
        report.done(0);
        let failure = |name, effect| Failure::operator(name, "Degraded", effect);
        report.failures.insert(1, failure("beta", Effect::Fail));
        report.failures.insert(2, failure("gamma", Effect::None));
    }
    let metrics = Arc::new(VersionMetrics::new(versions, operators, shared));
    // What was listed counts as the state before.
    metrics.observe(&TableChange::All);
    let (before, after) = (operator("4.2.0", "False"), operator("4.2.0", "True"));
    metrics.observe(&TableChange::One(
        Some(Arc::new(before)),
        Some(Arc::new(after)),
    ));
    metrics.set(MetricsFacts {
        retrieved: Some(at(7).parse().unwrap()),
        upstream: String::new(),
        risks: [
            ("Exposed".to_owned(), Exposure::Exposed),
            ("Unknown".to_owned(), Exposure::Unknown("why".to_owned())),
        ]
        .into(),
        installer: Some(Installer {
            kind: "openshift-install",
            version: "v4".to_owned(),
            invoker: "me".to_owned(),
        }),
    });
    metrics.rewrites.increment();
    metrics
}

#[test]
fn page_has_what_dashboards_read() {
    let metrics = metrics();
    let text = metrics.registry().text().unwrap();
    assert!(text == PAGE, "{text}");
    // A deleted operator takes its series with it.
    let gone = operator("4.2.0", "True");
    metrics.observe(&TableChange::One(Some(Arc::new(gone.clone())), None));
    metrics.operators.apply(WatchEvent::Deleted(gone));
    let text = metrics.registry().text().unwrap();
    assert!(!text.contains("name=\"beta\""), "{text}");
}

/// A watch that is opened again lists what changed meanwhile.
#[test]
fn change_that_a_later_list_shows_is_counted() {
    let metrics = metrics();
    let degraded = |metrics: &Arc<VersionMetrics>| {
        let text = metrics.registry().text().unwrap();
        let prefix =
            "cluster_operator_condition_transitions{name=\"beta\",condition=\"Degraded\"} ";
        let mut lines = text.lines();
        lines.find_map(|line| line.strip_prefix(prefix).map(str::to_owned))
    };
    let list = |operators: Vec<Kept<OperatorView>>| {
        metrics.operators.apply(WatchEvent::Synced(operators));
        metrics.observe(&TableChange::All);
    };
    assert_eq!(degraded(&metrics).as_deref(), Some("1"));
    list(vec![operator("4.2.0", "True")]);
    assert_eq!(degraded(&metrics).as_deref(), Some("1"));
    list(vec![operator("4.2.0", "False")]);
    assert_eq!(degraded(&metrics).as_deref(), Some("2"));
    list(Vec::new());
    assert_eq!(degraded(&metrics), None);
}

#[test]
fn cluster_without_its_object_is_down() {
    let (versions, operators, shared) =
        (Cache::default(), Cache::default(), SharedReport::default());
    let metrics = Arc::new(VersionMetrics::new(versions, operators, shared));
    let text = metrics.registry().text().unwrap();
    let down =
        "cluster_operator_up{name=\"version\",version=\"\",reason=\"ClusterVersionNotFound\"} 0";
    assert!(text.lines().any(|line| line == down), "{text}");
}

/// Names that are metrics in an expression: words that begin with `cluster_`.
fn metrics_of(expression: &str) -> BTreeSet<&str> {
    let words = expression.split(|letter: char| !(letter.is_alphanumeric() || letter == '_'));
    words.filter(|word| word.starts_with("cluster_")).collect()
}

/// Each alert is about metrics of this page, with labels that they have.
#[test]
fn alerts_ask_for_metrics_that_exist() {
    let text = include_str!("../../../../deploy/monitoring/version-alerts.yaml");
    let rule: Value = serde_saphyr::from_str(text).unwrap();
    let groups = rule["spec"]["groups"].as_array().unwrap();
    let rules = groups
        .iter()
        .flat_map(|group| group["rules"].as_array().unwrap());
    let mut names = BTreeSet::new();
    for rule in rules {
        let name = rule["alert"].as_str().unwrap();
        assert!(names.insert(name), "{name} stands twice");
        let severity = rule["labels"]["severity"].as_str().unwrap();
        assert!(
            ["critical", "warning", "info"].contains(&severity),
            "{name}"
        );
        for key in ["summary", "description"] {
            assert!(rule["annotations"][key].is_string(), "{name} has no {key}");
        }
        let expression = rule["expr"].as_str().unwrap();
        let metrics = metrics_of(expression);
        assert!(!metrics.is_empty(), "{name}: {expression}");
        for metric in metrics {
            let declared = PAGE.contains(&format!("# TYPE {metric} "));
            assert!(declared, "{name}: {metric}");
        }
        let balance = |open: char, close: char| {
            expression.matches(open).count() == expression.matches(close).count()
        };
        assert!(
            balance('(', ')') && balance('{', '}'),
            "{name}: {expression}"
        );
    }
    for name in [
        "ClusterVersionOperatorDown",
        "CannotRetrieveUpdates",
        "UpdateAvailable",
        "ClusterReleaseNotAccepted",
        "ClusterNotUpgradeable",
        "ClusterOperatorDown",
        "ClusterOperatorDegraded",
        "ClusterOperatorFlapping",
        "CannotEvaluateConditionalUpdates",
        "OpenShiftUpdateRiskMightApply",
    ] {
        assert!(names.contains(name), "{name} is missing");
    }
}
