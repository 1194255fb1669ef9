//! Scenarios: what is cached, the requests to the API server that follow, in order, and no others.

use apimock::{Call, Reply, Script};
use cluster::access::Access;
use cluster::cache::WatchEvent;
use cluster::events::Speaker;
use http::Method;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::*;
use crate::monitoring::MonitoringSettings;
use upgrade_plan::drain_help::lease::HOLDER;
use upgrade_plan::fixture::{START, at, cluster_version, config, entry, spec};
use upgrade_plan::hook::HookState;
use upgrade_plan::node_view::UpgradeNode;
use upgrade_plan::step::StepName;
use upgrade_plan::walk::{Observations, UpgradeCommand, UpgradeObservation};

const CONFIG: &str = "/apis/upgrade.managed.openshift.io/v1alpha1/namespaces/muo/upgradeconfigs/\
                      managed-upgrade-config";
const SETS: &str =
    "/apis/machine.openshift.io/v1beta1/namespaces/openshift-machine-api/machinesets";

/// The operator of a cluster with these nodes, and the script of its API server.
fn operator(nodes: &[Value], calls: Vec<Call>) -> (Script, UpgradeOperator) {
    chassis::http::tls::install_provider();
    let (script, client) = Script::start(calls);
    let access = Arc::new(Access::of_client(client));
    let speaker = Speaker {
        component: "managed-upgrade-operator".to_owned(),
        host: String::new(),
        namespace: "muo".to_owned(),
    };
    let (recorder, _unsent) = Recorder::new(Arc::clone(&access), speaker);
    let caches = UpgradeCaches::default();
    let nodes = nodes.iter().map(|node| {
        let node = serde_json::from_value(node.clone()).unwrap();
        UpgradeNode::parse(node)
    });
    caches.nodes.apply(WatchEvent::Synced(nodes.collect()));
    // Nothing listens there.
    let away = Some("http://127.0.0.1:1".to_owned());
    let monitoring = Monitoring::new(MonitoringSettings {
        promql: away.clone(),
        alertmanager: away,
        ..MonitoringSettings::default()
    });
    let operator = UpgradeOperator::new(
        Requests::new(access, "muo".to_owned()),
        monitoring,
        caches,
        recorder,
        Arc::default(),
        "muo".to_owned(),
        || at(100),
    );
    (script, operator)
}

/// A pass 100 min after the start.
fn pass(lines: &str) -> Pass {
    Pass {
        upgrade: UpgradeConfig::new(upgrade_config::NAME, spec()),
        version: cluster_version("4.16.3"),
        config: config(lines),
        entry: entry(UpgradePhase::Upgrading),
        now: at(100),
    }
}

/// Node `a`, drained by its daemon since the start, with the operator's lease.
fn draining(ready: &str, change: impl FnOnce(&mut Value)) -> Value {
    let renewed = at(100).checked_sub(SignedDuration::from_secs(30)).unwrap();
    let mut node = json!({
        "metadata": { "name": "a", "annotations": {
            "slipway.dev/phase": "Draining", "slipway.dev/drain-since": START.to_string(),
            "slipway.dev/cordoned-by": "attempt",
            "machineconfiguration.openshift.io/state": "Degraded",
            "slipway.dev/drain-lease": format!("{HOLDER} {} {renewed}", at(99)),
        } },
        "spec": { "unschedulable": true },
        "status": { "conditions": [{
            "type": "Ready", "status": ready, "lastHeartbeatTime": at(98).to_string()
        }] },
    });
    change(&mut node);
    node
}

fn pod(name: &str, change: &Value) -> Value {
    let mut pod = json!({
        "metadata": { "namespace": "shop", "name": name, "uid": name, "labels": { "app": name } }
    });
    for (key, value) in change.as_object().unwrap() {
        pod["metadata"][key] = value.clone();
    }
    pod
}

fn lists(pods: &[Value], budgets: &[Value]) -> [Call; 2] {
    let list = |items: &[Value]| Reply::ok(json!({ "metadata": {}, "items": items }));
    let of_node = "/api/v1/pods?fieldSelector=spec.nodeName%3Da&limit=250";
    let of_all = "/apis/policy/v1/poddisruptionbudgets?limit=250";
    [
        Call::get(of_node, list(pods)),
        Call::get(of_all, list(budgets)),
    ]
}

/// A pod is deleted: with its own grace period, or with none.
fn deleted(name: &str, is_forced: bool, reply: Reply) -> Call {
    let mut options = json!({
        "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": { "uid": name }
    });
    if is_forced {
        options["gracePeriodSeconds"] = json!(0);
    }
    let path = format!("/api/v1/namespaces/shop/pods/{name}");
    Call::delete(&path, options, reply)
}

fn refused() -> Reply {
    Reply::failure(403, "Forbidden", "a webhook says no")
}

fn released() -> Call {
    let path = "/api/v1/nodes/a?fieldManager=managed-upgrade-operator";
    let body = json!({ "metadata": { "annotations": { "slipway.dev/drain-lease": null } } });
    Call::patch(path, body, Reply::ok(json!({})))
}

/// Keeps nodes once. Those whose drain has failed, and why others are left alone.
async fn kept(node: Value, calls: Vec<Call>) -> (Vec<String>, Vec<String>) {
    let (script, operator) = operator(&[node], calls);
    let mut pass = pass("");
    let failed = script.drive(operator.help_drains(&mut pass)).await;
    (failed, operator.held_drains())
}

#[tokio::test]
async fn no_pod_is_removed_from_a_node_whose_kubelet_is_silent() {
    for ready in ["False", "Unknown"] {
        let (failed, held) = kept(draining(ready, |_| ()), vec![released()]).await;
        assert_eq!(failed, ["a"]);
        let why = "no pod is removed from node a: it is not Ready, so its pods may still run; if \
                   it is off, give it the taint node.kubernetes.io/out-of-service";
        assert_eq!(held, [why]);
    }
    // No part of the cluster has noticed that it is gone.
    let stale = draining("True", |node| {
        node["status"]["conditions"][0]["lastHeartbeatTime"] = json!(at(80).to_string());
    });
    let (failed, held) = kept(stale, vec![released()]).await;
    assert_eq!((failed.len(), held.len()), (1, 1));
    // Before it is time, there is nothing to say.
    let young = draining("False", |node| {
        node["metadata"]["annotations"]["slipway.dev/drain-since"] = json!(at(90).to_string());
    });
    let (failed, held) = kept(young, vec![released()]).await;
    assert_eq!((failed.len(), held.len()), (0, 0));
}

#[tokio::test]
async fn no_pod_is_removed_from_a_node_of_which_nothing_says_when_its_drain_began() {
    let node = draining("True", |node| {
        let annotations = node["metadata"]["annotations"].as_object_mut().unwrap();
        annotations.remove("slipway.dev/drain-since");
        node["metadata"]["creationTimestamp"] = json!("2020-01-01T00:00:00Z");
    });
    let (failed, held) = kept(node, vec![released()]).await;
    assert_eq!(failed, ["a"]);
    let why = "no pod is removed from node a: nothing says when its drain began";
    assert_eq!(held, [why]);
}

#[tokio::test]
async fn pods_of_a_node_that_is_off_are_removed_at_once() {
    let node = draining("Unknown", |node| {
        let taint = json!({ "key": "node.kubernetes.io/out-of-service", "effect": "NoExecute" });
        node["spec"]["taints"] = json!([taint]);
    });
    let leaving = pod(
        "leaving",
        &json!({ "deletionTimestamp": at(100).to_string() }),
    );
    let pods = [pod("web", &json!({})), leaving];
    let ok = || Reply::ok(json!({}));
    let calls = lists(&pods, &[])
        .into_iter()
        .chain([deleted("web", true, ok()), deleted("leaving", true, ok())]);
    let (_, held) = kept(node, calls.collect()).await;
    assert_eq!(held.len(), 0);
}

#[tokio::test]
async fn pods_are_asked_to_end_first_and_one_that_is_refused_keeps_no_other_from_its_turn() {
    let ends = |minute: i64| json!({ "deletionTimestamp": at(minute).to_string() });
    let pods = [
        pod("kept", &json!({})),
        pod("web", &json!({})),
        // Its grace period has just ended.
        pod("ending", &ends(100)),
        pod("stuck", &ends(98)),
    ];
    let ok = || Reply::ok(json!({}));
    let calls = lists(&pods, &[]).into_iter().chain([
        deleted("kept", false, refused()),
        deleted("web", false, ok()),
        deleted("stuck", true, ok()),
    ]);
    let (failed, _) = kept(draining("True", |_| ()), calls.collect()).await;
    assert_eq!(failed, ["a"]);
}

#[tokio::test]
async fn drain_that_is_over_or_has_not_begun_removes_nothing() {
    for phase in ["Fetching", "Applying", "Rebooting", "Verifying", "Degraded"] {
        let node = draining("True", |node| {
            node["metadata"]["annotations"]["slipway.dev/phase"] = json!(phase);
        });
        let (failed, held) = kept(node, vec![released()]).await;
        assert_eq!((failed.len(), held.len()), (0, 0), "{phase}");
    }
}

#[tokio::test]
async fn budget_that_is_overruled_is_announced_afterwards_and_until_that_succeeds() {
    let budget = json!({
        "metadata": { "namespace": "shop" },
        "spec": { "selector": { "matchLabels": { "app": "web" } } },
    });
    let announced = |reply| {
        let annotations = json!({ "slipway.dev/announced": "4.16.4/StateDelayed" });
        let body = json!({ "metadata": { "annotations": annotations } });
        let path = format!("{CONFIG}?fieldManager=managed-upgrade-operator");
        Call::patch(&path, body, reply)
    };
    let pods = [pod("web", &json!({}))];
    let written = serde_json::to_value(pass("").upgrade).unwrap();
    let mut calls = Vec::from(lists(&pods, &[budget]));
    calls.extend([
        deleted("web", false, Reply::ok(json!({}))),
        announced(refused()),
        // The next pass.
        announced(Reply::ok(written)),
        released(),
    ]);
    let (script, operator) = operator(&[draining("True", |_| ())], calls);
    let mut pass = pass("");
    let work = async {
        operator.help_drains(&mut pass).await;
        let over = draining("True", |node| {
            node["metadata"]["annotations"]["slipway.dev/phase"] = json!("Applying");
        });
        let over = UpgradeNode::parse(serde_json::from_value(over).unwrap());
        operator.caches.nodes.apply(WatchEvent::Applied(over));
        operator.help_drains(&mut pass).await;
    };
    script.drive(work).await;
}

#[tokio::test]
async fn drain_of_a_machine_that_is_taken_away_is_helped_without_a_lease() {
    let idle = draining("True", |node| {
        node["metadata"]["annotations"] = json!({ "slipway.dev/phase": "Idle" });
    });
    let mut calls = Vec::from(lists(&[pod("web", &json!({}))], &[]));
    calls.push(deleted("web", false, Reply::ok(json!({}))));
    let (script, operator) = operator(&[idle], calls);
    let mut pass = pass("");
    let node = operator.caches.nodes.get("a").unwrap();
    let machine = |deleted: Option<Timestamp>| {
        let deleted = deleted.map(|at| at.to_string());
        json!({ "metadata": { "name": "m", "deletionTimestamp": deleted } })
    };
    let work = async {
        let mut keep = async |deleted| {
            let machine = machine(deleted);
            operator
                .help_machine(&mut pass, &machine, &node)
                .await
                .unwrap()
        };
        assert!(!keep(None).await);
        assert!(!keep(Some(at(90))).await);
        assert!(keep(Some(START)).await);
    };
    script.drive(work).await;
}

#[tokio::test]
async fn machine_sets_that_were_left_are_collected_now_and_then() {
    let added = json!({ "upgrade.managed.openshift.io": "true" });
    let sets = json!({ "metadata": {}, "items": [
        { "metadata": { "name": "worker" } },
        { "metadata": { "name": "worker-upgrade", "labels": added } },
    ] });
    let calls = vec![
        Call::get(&format!("{SETS}?limit=250"), Reply::ok(sets)),
        Call::new(
            Method::DELETE,
            &format!("{SETS}/worker-upgrade"),
            Reply::ok(json!({})),
        ),
    ];
    let (script, operator) = operator(&[], calls);
    let mut running = pass("").upgrade;
    let mut status = api::upgrade::UpgradeConfigStatus::default();
    history::put(&mut status, entry(UpgradePhase::Upgrading));
    running.status = Some(status);
    let work = async {
        // It removes itself what it adds.
        operator.collect_machine_sets(Some(&running), at(0)).await;
        operator.collect_machine_sets(None, at(0)).await;
        operator.collect_machine_sets(None, at(9)).await;
    };
    script.drive(work).await;
}

#[tokio::test]
async fn deleted_upgrade_waits_an_hour_for_an_alertmanager_that_is_away() {
    let mut pass = pass("");
    let step = StepName::CreateControlPlaneMaintWindow.step();
    history::begin(&mut pass.entry, &step, START);
    let mut status = api::upgrade::UpgradeConfigStatus::default();
    history::put(&mut status, pass.entry);
    let mut upgrade = pass.upgrade;
    upgrade.status = Some(status);
    upgrade.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
    upgrade.metadata.deletion_timestamp = Some(Time(at(39)));
    let body = json!({ "metadata": { "resourceVersion": null, "finalizers": [] } });
    let path = format!("{CONFIG}?fieldManager=managed-upgrade-operator");
    let calls = vec![Call::patch(&path, body, Reply::ok(json!({})))];
    let (script, operator) = operator(&[], calls);
    let cleaned = script.drive(operator.clean_up(upgrade, at(100))).await;
    assert!(matches!(cleaned, Ok(Next::Settled)), "{cleaned:?}");
}

#[tokio::test]
async fn hook_that_has_succeeded_is_written_before_what_follows() {
    let job = "template: {spec: {restartPolicy: Never}}";
    let hook = format!("hooks: [{{name: a, step: IsUpgradeable, when: before, job: {{{job}}}}}]");
    let mut pass = pass(&hook);
    pass.upgrade.metadata.uid = Some("u".to_owned());
    let hook = pass.config.hooks[0].clone();
    let mut found = hook.to_job(&pass.upgrade, "4.16.4");
    found["status"] = json!({ "conditions": [{ "type": "Complete", "status": "True" }] });
    let mut expected = pass.entry.clone();
    let text = ("Succeeded", "Job upgrade-4-16-4-a has succeeded");
    history::note(&mut expected, "Hook-a", true.into(), text, at(100));
    let body = json!({
        "apiVersion": "upgrade.managed.openshift.io/v1alpha1", "kind": "UpgradeConfig",
        "metadata": { "name": "managed-upgrade-config", "namespace": "muo", "uid": "u" },
        "status": { "history": [expected] },
    });
    let path = format!("{CONFIG}/status?fieldManager=managed-upgrade-operator&force=true");
    let mut written = serde_json::to_value(&pass.upgrade).unwrap();
    written["status"] = body["status"].clone();
    let calls = vec![
        Call::get(
            "/apis/batch/v1/namespaces/muo/jobs/upgrade-4-16-4-a",
            Reply::ok(found),
        ),
        Call::patch(&path, body, Reply::ok(written)),
    ];
    let (script, operator) = operator(&[], calls);
    let work = async {
        let mut seen = Observations::default();
        let job = hook.job_name("4.16.4");
        let wanted = UpgradeObservation::Job(job.clone());
        operator
            .observe(&mut pass, &mut seen, wanted)
            .await
            .unwrap();
        let found = seen.jobs[&job].as_ref().unwrap();
        assert_eq!(hook.state(found, &pass.upgrade), HookState::Done);
        let message = format!("Job {job} has succeeded");
        let note = UpgradeCommand::NoteHook(hook.condition(), message);
        operator.act(&mut pass, note).await.unwrap();
    };
    script.drive(work).await;
}

#[test]
fn condition_says_who_stopped_the_cluster_and_that_it_goes_on() {
    let shown = |pass: &Pass| {
        let condition = pass.entry.condition(STOPPED)?;
        let (status, reason) = (&condition.status, &condition.reason);
        Some(format!("{status} {reason}: {}", condition.message))
    };
    let mut pass = pass("");
    note_stop(&mut pass);
    assert_eq!(shown(&pass), None);
    let by_alice = r#"{"by":"alice","since":"2026-11-30T07:15:00Z","reason":"kernel bug"}"#;
    for (value, said) in [
        (by_alice, "by alice since 2026-11-30T07:15:00Z: kernel bug"),
        (
            "7",
            "by annotation slipway.dev/stop, which cannot be read: invalid type: integer `7`, \
             expected struct StopRecord at line 1 column 1: \"7\"",
        ),
    ] {
        let stop = (api::stop::STOP.to_owned(), value.to_owned());
        pass.version.metadata.annotations = Some([stop].into());
        note_stop(&mut pass);
        let expected = format!("True Stopped: no step begins: the cluster is stopped {said}");
        assert_eq!(shown(&pass), Some(expected));
    }
    // One that is over is not stopped.
    let mut over = self::pass("");
    over.version = pass.version.clone();
    over.entry.phase = UpgradePhase::Upgraded;
    note_stop(&mut over);
    assert_eq!(shown(&over), None);
    pass.version.metadata.annotations = None;
    note_stop(&mut pass);
    let expected = "False Resumed: the cluster goes on".to_owned();
    assert_eq!(shown(&pass), Some(expected));
}
