//! Scenarios of one pool's rendering.

use std::sync::Arc;

use apimock::{Call, Reply, Script};
use chassis::program::{BUILD, VERSION};
use cluster::access::Access;
use serde_json::{Value, json};

use super::*;
use crate::fixture::{
    Cluster, OLD, metadata, owner, reference, rendered, settled, source, spec_with,
};

const GROUP: &str = "/apis/machineconfiguration.openshift.io/v1";
const MANAGER: &str = "fieldManager=machine-config-controller";

fn list(sources: &[Value]) -> Call {
    let path =
        "machineconfigs?limit=250&labelSelector=machineconfiguration.openshift.io%2Frole%3Dworker";
    let reply = json!({ "metadata": { "resourceVersion": "99" }, "items": sources });
    Call::get(&format!("{GROUP}/{path}"), Reply::ok(reply))
}

fn read_config(name: &str, spec: &Value) -> Call {
    let object = json!({ "metadata": { "name": name }, "spec": spec });
    Call::get(&format!("{GROUP}/machineconfigs/{name}"), Reply::ok(object))
}

/// Creates what is rendered for the pool without a ControllerConfig.
fn create(target: &str, spec: &Value, reply: Reply) -> Call {
    let object = json!({
        "apiVersion": API_VERSION, "kind": "MachineConfig",
        "metadata": {
            "name": target,
            "annotations": {
                "machineconfiguration.openshift.io/generated-by-controller-version": BUILD,
                "machineconfiguration.openshift.io/release-image-version": VERSION,
                "slipway.dev/without-controller-config": "true"
            },
            "ownerReferences": [owner("worker")]
        },
        "spec": spec
    });
    Call::post(&format!("{GROUP}/machineconfigs?{MANAGER}"), object, reply)
}

fn read_settings(reply: Reply) -> Call {
    Call::get(
        "/apis/operator.openshift.io/v1/machineconfigurations/cluster",
        reply,
    )
}

/// Reconciles the pool `count` times and returns the last outcome.
async fn reconciles(
    cluster: &Cluster,
    calls: Vec<Call>,
    count: usize,
) -> Result<RenderOutcome, wire::Error> {
    let (script, client) = Script::start(calls);
    let requests = Requests::new(Arc::new(Access::of_client(client)));
    let snapshot = cluster.snapshot();
    let mut last = None;
    let work = Box::pin(async {
        let mut result = None;
        for _ in 0..count {
            let pool = snapshot
                .pools
                .get("worker")
                .map(|pool| pool.as_ref().clone());
            result = Some(reconcile(&requests, &snapshot, pool.unwrap(), &mut last).await);
        }
        result.unwrap()
    });
    script.drive(work).await
}

fn failure(outcome: &RenderOutcome) -> &str {
    match &outcome.result {
        Some(RenderResult::Failed(why)) => why,
        Some(RenderResult::Rendered) | None => panic!("{outcome:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_bad_source_is_named_and_read_once() {
    let (mut cluster, mut sources, _) = settled();
    let file = json!({ "path": "etc/relative", "contents": { "source": "data:," } });
    let config = json!({ "ignition": { "version": "3.4.0" }, "storage": { "files": [file] } });
    sources.push(source("99-bad", &json!({ "config": config })));
    cluster.configs.push(metadata(&sources[1]));
    let outcome = reconciles(&cluster, vec![list(&sources)], 3).await.unwrap();
    for part in [
        "Failed to render configuration for pool worker: could not generate rendered MachineConfig: ",
        "99-bad",
        "storage.files[0]",
    ] {
        assert!(
            failure(&outcome).contains(part),
            "{part} is not in {}",
            failure(&outcome)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn no_source_is_a_failure_that_names_the_selector() {
    let (mut cluster, _, _) = settled();
    cluster.configs.clear();
    let outcome = reconciles(&cluster, vec![], 2).await.unwrap();
    assert_eq!(
        failure(&outcome),
        "Failed to render configuration for pool worker: no MachineConfigs found matching selector machineconfiguration.openshift.io/role=worker"
    );
}

#[tokio::test(start_paused = true)]
async fn what_nodes_cannot_follow_is_refused_with_its_source() {
    let (mut cluster, mut sources, _) = settled();
    cluster.pools[0]["spec"]["configuration"]["name"] = json!(OLD);
    cluster.configs[1] = json!({ "metadata": { "name": OLD } });
    sources.push(source("60-fips", &json!({ "fips": true })));
    cluster.configs.push(metadata(&sources[1]));
    let calls = vec![
        list(&sources),
        read_config(OLD, &spec_with("a=1")),
        read_settings(Reply::failure(404, "NotFound", "no")),
    ];
    let outcome = reconciles(&cluster, calls, 2).await.unwrap();
    assert_eq!(
        failure(&outcome),
        "Failed to render configuration for pool worker: reconciliation failed between current config \"rendered-worker-old\" and base config \"60-fips\": spec.fips: detected change to FIPS flag; refusing to modify FIPS on a running cluster"
    );
}

#[tokio::test(start_paused = true)]
async fn the_image_of_a_stream_is_not_replaced_by_the_release() {
    let stream = |cluster: &mut Cluster, name: &Value| {
        cluster.pools[0]["spec"]["osImageStream"] = name.clone();
    };
    let table = [
        // (stream of the pool, image in force, image of a source, rejected)
        (json!(null), "rhel-10", None, false),
        (json!({ "name": "rhel-10" }), "", None, false),
        (json!({ "name": "rhel-10" }), "rhel-10", Some("own"), false),
        (json!({ "name": "rhel-10" }), "rhel-10", None, true),
    ];
    for (name, image, own, is_rejected) in table {
        let (mut cluster, mut sources, _) = settled();
        stream(&mut cluster, &name);
        cluster.pools[0]["spec"]["configuration"]["name"] = json!(OLD);
        cluster.configs[1] = json!({ "metadata": { "name": OLD } });
        if let Some(own) = own {
            sources.push(source("60-own", &json!({ "osImageURL": own })));
            cluster.configs.push(metadata(&sources[1]));
        }
        let old = json!({ "osImageURL": image, "kernelArguments": ["a=1"] });
        let mut calls = vec![list(&sources), read_config(OLD, &old)];
        if is_rejected {
            let outcome = reconciles(&cluster, calls, 2).await.unwrap();
            assert_eq!(
                failure(&outcome),
                "Failed to render configuration for pool worker: spec.osImageStream rhel-10 is not known, because there is no OSImageStream cluster: the OS image would change from \"rhel-10\" to \"\", which may be of another stream"
            );
        } else {
            // It goes on with the other rules; here the API server ends it.
            calls.push(read_settings(Reply::failure(500, "InternalError", "no")));
            reconciles(&cluster, calls, 1).await.unwrap_err();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_looked_at_again_after_a_while() {
    let (mut cluster, mut sources, _) = settled();
    cluster.pools[0]["spec"]["configuration"]["name"] = json!(OLD);
    cluster.configs[1] = json!({ "metadata": { "name": OLD } });
    let disk = json!({ "device": "/dev/vdb", "wipeTable": true });
    let config = json!({ "ignition": { "version": "3.4.0" }, "storage": { "disks": [disk] } });
    sources.push(source("60-disk", &json!({ "config": config })));
    cluster.configs.push(metadata(&sources[1]));
    let (target, spec) = rendered(&sources);
    let settings = json!({
        "metadata": { "name": "cluster" },
        "spec": { "irreconcilableValidationOverrides": { "storage": ["Disks"] } }
    });
    let created = json!({ "metadata": { "name": target, "resourceVersion": "9" } });
    let configuration =
        json!({ "name": target, "source": [reference("50-a"), reference("60-disk")] });
    let patch = json!({ "metadata": { "resourceVersion": "10" }, "spec": { "configuration": configuration } });
    let calls = vec![
        list(&sources),
        read_config(OLD, &spec_with("a=1")),
        read_settings(Reply::failure(404, "NotFound", "no")),
        list(&sources),
        read_config(OLD, &spec_with("a=1")),
        read_settings(Reply::ok(settings)),
        create(&target, &spec, Reply::Object(201, created)),
        Call::patch(
            &format!("{GROUP}/machineconfigpools/worker?{MANAGER}"),
            patch,
            Reply::ok(cluster.pools[0].clone()),
        ),
    ];
    let (script, client) = Script::start(calls);
    let requests = Requests::new(Arc::new(Access::of_client(client)));
    let snapshot = cluster.snapshot();
    let pool = snapshot.pools.get("worker").unwrap().as_ref().clone();
    let mut last = None;
    let work = Box::pin(async {
        let refused = reconcile(&requests, &snapshot, pool.clone(), &mut last)
            .await
            .unwrap();
        assert!(
            failure(&refused).contains("storage.disks"),
            "{}",
            failure(&refused)
        );
        tokio::time::advance(REFUSED).await;
        reconcile(&requests, &snapshot, pool, &mut last)
            .await
            .unwrap()
    });
    assert_eq!(
        script.drive(work).await.result,
        Some(RenderResult::Rendered)
    );
}

#[tokio::test(start_paused = true)]
async fn annotations_of_a_configuration_in_use_are_refreshed() {
    let (mut cluster, sources, target) = settled();
    cluster.configs[1]["metadata"]["annotations"] = json!({
        "machineconfiguration.openshift.io/generated-by-controller-version": "an older build",
        "machineconfiguration.openshift.io/os-image-url-overridden": "true",
        "slipway.dev/without-controller-config": "true"
    });
    let annotations = json!({
        "machineconfiguration.openshift.io/generated-by-controller-version": BUILD,
        "machineconfiguration.openshift.io/release-image-version": VERSION,
        "slipway.dev/without-controller-config": "true",
        "machineconfiguration.openshift.io/os-image-url-overridden": null
    });
    let calls = vec![
        list(&sources),
        Call::patch(
            &format!("{GROUP}/machineconfigs/{target}?{MANAGER}"),
            json!({ "metadata": { "annotations": annotations } }),
            Reply::ok(json!({})),
        ),
    ];
    let outcome = reconciles(&cluster, calls, 2).await.unwrap();
    assert_eq!(outcome.result, Some(RenderResult::Rendered));
    assert_eq!(outcome.events, []);
}

#[tokio::test(start_paused = true)]
async fn an_outage_leaves_the_outcome_as_it_was() {
    let (cluster, sources, _) = settled();
    let path =
        "machineconfigs?limit=250&labelSelector=machineconfiguration.openshift.io%2Frole%3Dworker";
    let broken = Call::get(&format!("{GROUP}/{path}"), Reply::Broken);
    assert!(reconciles(&cluster, vec![broken.clone()], 1).await.is_err());
    let outcome = reconciles(&cluster, vec![broken, list(&sources)], 2)
        .await
        .unwrap();
    assert_eq!(outcome.result, Some(RenderResult::Rendered));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_of_the_api_server_is_the_outcome_and_tried_again() {
    let (mut cluster, sources, _) = settled();
    cluster.pools[0]["spec"]["configuration"] = json!({});
    cluster.configs.truncate(1);
    let (target, spec) = rendered(&sources);
    let refused = || {
        let reply = Reply::failure(
            413,
            "RequestEntityTooLarge",
            "etcdserver: request is too large",
        );
        create(&target, &spec, reply)
    };
    let calls = vec![list(&sources), refused(), list(&sources), refused()];
    let outcome = reconciles(&cluster, calls, 2).await.unwrap();
    assert!(
        failure(&outcome).contains("request is too large"),
        "{}",
        failure(&outcome)
    );
}

/// A ControllerConfig that has completed, with an OS image.
fn controller_config() -> Value {
    let completed = json!({ "type": "TemplateControllerCompleted", "status": "True" });
    json!({
        "metadata": {
            "name": "machine-config-controller", "generation": 1,
            "annotations": {
                "machineconfiguration.openshift.io/generated-by-version": VERSION
            }
        },
        "spec": { "baseOSContainerImage": "release/os", "baseOSExtensionsContainerImage": "release/extensions" },
        "status": { "observedGeneration": 1, "conditions": [completed] }
    })
}

/// A pool that was rendered from a ControllerConfig which is gone since, and its source.
fn without_controller_config() -> (Cluster, Vec<Value>, String) {
    let (mut cluster, sources, without) = settled();
    let base = machineconfig::render::Base {
        os_image_url: "release/os".to_owned(),
        extensions_image: "release/extensions".to_owned(),
        ..machineconfig::render::Base::default()
    };
    let read = serde_json::from_value(sources[0].clone()).unwrap();
    let target = render("worker", &[super::source(read).unwrap()], &base)
        .unwrap()
        .name;
    assert_ne!(target, without);
    cluster.pools[0]["spec"]["configuration"]["name"] = json!(target);
    let annotations = json!({
        "machineconfiguration.openshift.io/generated-by-controller-version": BUILD,
        "machineconfiguration.openshift.io/release-image-version": VERSION
    });
    cluster.configs[1] = json!({ "metadata": {
        "name": target, "uid": "r", "resourceVersion": "3", "generation": 1,
        "annotations": annotations, "ownerReferences": [owner("worker")]
    } });
    (cluster, sources, target)
}

#[tokio::test(start_paused = true)]
async fn a_controller_config_that_is_gone_is_reported_and_waited_for() {
    let (mut cluster, sources, target) = without_controller_config();
    let gone = cluster.snapshot();
    cluster.controller_configs = vec![controller_config()];
    let back = cluster.snapshot();
    // No request is sent before it is back; then the same is rendered, and nothing has to be
    // written.
    let (script, client) = Script::start(vec![list(&sources)]);
    let requests = Requests::new(Arc::new(Access::of_client(client)));
    let pool = gone.pools.get("worker").unwrap().as_ref().clone();
    let mut last = None;
    let work = Box::pin(async {
        for _ in 0..2 {
            let waits = reconcile(&requests, &gone, pool.clone(), &mut last).await;
            let waits = waits.unwrap();
            assert_eq!(
                failure(&waits),
                format!(
                    "Failed to render configuration for pool worker: ControllerConfig machine-config-controller is missing: {target}, which the pool names, was made from it. Create it again, or remove spec.configuration of the pool to render without it"
                )
            );
            assert_eq!(waits.pool, pool);
        }
        let ends = reconcile(&requests, &back, pool.clone(), &mut last)
            .await
            .unwrap();
        assert_eq!(ends.result, Some(RenderResult::Rendered));
        assert_eq!(ends.pool, pool);
        // Gone again after a rendering that went well.
        let waits = reconcile(&requests, &gone, pool.clone(), &mut last)
            .await
            .unwrap();
        assert!(failure(&waits).contains("is missing"));
    });
    script.drive(work).await;
}

#[tokio::test(start_paused = true)]
async fn a_configuration_and_its_controller_config_both_gone_are_not_replaced() {
    let (mut cluster, sources, target) = without_controller_config();
    cluster.configs.truncate(1);
    let outcome = reconciles(&cluster, vec![list(&sources)], 2).await.unwrap();
    let why = format!("{target}, which the pool names, is gone and may have been made from it");
    assert!(failure(&outcome).contains(&why), "{}", failure(&outcome));
}

#[tokio::test(start_paused = true)]
async fn a_configuration_in_use_that_is_gone_is_made_again_without_a_controller_config() {
    let (mut cluster, sources, target) = settled();
    cluster.configs.truncate(1);
    let (_, spec) = rendered(&sources);
    let created = json!({ "metadata": { "name": target, "resourceVersion": "9" } });
    let calls = vec![
        list(&sources),
        create(&target, &spec, Reply::Object(201, created)),
    ];
    let outcome = reconciles(&cluster, calls, 1).await.unwrap();
    assert_eq!(outcome.result, Some(RenderResult::Rendered));
}

/// A target that was edited, as it is stored.
fn edited(target: &str, spec: &Value) -> Value {
    let mut spec = spec.clone();
    spec["kernelArguments"] = json!(["a=1", "debug"]);
    spec["config"]["systemd"] = json!({ "units": [{ "name": "own.service" }] });
    json!({
        "metadata": { "name": target, "resourceVersion": "4", "generation": 2 }, "spec": spec
    })
}

#[tokio::test(start_paused = true)]
async fn a_configuration_in_use_that_was_edited_is_restored() {
    let (mut cluster, sources, target) = settled();
    let (_, spec) = rendered(&sources);
    cluster.configs[1]["metadata"]["generation"] = json!(2);
    let path = format!("{GROUP}/machineconfigs/{target}");
    let change = json!({
        "metadata": { "resourceVersion": "4" },
        "spec": { "kernelArguments": ["a=1"], "config": { "systemd": null } }
    });
    let mut restored = cluster.configs[1].clone();
    restored["metadata"]["generation"] = json!(3);
    let calls = vec![
        list(&sources),
        Call::get(&path, Reply::ok(edited(&target, &spec))),
        Call::patch(&format!("{path}?{MANAGER}"), change, Reply::ok(restored)),
    ];
    let outcome = reconciles(&cluster, calls, 1).await.unwrap();
    assert_eq!(outcome.result, Some(RenderResult::Rendered));
    let config = target.clone();
    assert_eq!(outcome.events, [PoolEvent::Restored { config }]);
    assert_eq!(outcome.stored.unwrap().generation, Some(3));
}

#[tokio::test(start_paused = true)]
async fn a_configuration_that_was_edited_and_is_as_rendered_is_read_once() {
    let (mut cluster, sources, target) = settled();
    let (_, spec) = rendered(&sources);
    cluster.configs[1]["metadata"]["generation"] = json!(3);
    let calls = vec![list(&sources), read_config(&target, &spec)];
    let outcome = reconciles(&cluster, calls, 3).await.unwrap();
    assert_eq!(outcome.result, Some(RenderResult::Rendered));
    assert_eq!(outcome.events, []);
}

#[tokio::test(start_paused = true)]
async fn an_object_of_another_with_the_rendered_name_is_refused_until_it_is_gone() {
    let (mut cluster, sources, target) = settled();
    cluster.pools[0]["spec"]["configuration"] = json!({});
    for owners in [json!([]), json!([owner("edge")])] {
        cluster.configs[1]["metadata"]["ownerReferences"] = owners;
        let outcome = reconciles(&cluster, vec![list(&sources)], 2).await.unwrap();
        let why = format!(
            "Failed to render configuration for pool worker: MachineConfig {target} was not made for the pool: its controller is not MachineConfigPool worker (uid uid-worker). Delete it, and the pool's own is made"
        );
        assert_eq!(failure(&outcome), why);
        assert_eq!(outcome.pool.view.target, None, "it is not named");
    }
    // It was made after the watch had delivered the others.
    let theirs = json!({
        "metadata": { "name": target, "uid": "theirs" }, "spec": spec_with("a=1")
    });
    cluster.configs.truncate(1);
    let spec = rendered(&sources).1;
    let exists = Reply::failure(409, "AlreadyExists", "exists");
    let calls = vec![
        list(&sources),
        create(&target, &spec, exists),
        Call::get(
            &format!("{GROUP}/machineconfigs/{target}"),
            Reply::ok(theirs),
        ),
    ];
    let outcome = reconciles(&cluster, calls, 1).await.unwrap();
    assert!(failure(&outcome).contains("was not made for the pool"));
    let refused = |event: &PoolEvent| matches!(event, PoolEvent::Refused { .. });
    assert!(outcome.events.iter().any(refused));
}

/// Nothing of it is rendered, so that the configuration keeps its name.
#[tokio::test(start_paused = true)]
async fn what_is_not_understood_is_said_for_each_generation_of_a_source() {
    let config = |members: Value| {
        let mut config = json!({ "ignition": { "version": "3.4.0" } });
        config["systemd"] = members;
        json!({ "config": config, "kernelArguments": ["a=1"] })
    };
    let (mut cluster, _, _) = settled();
    let plain = source("50-a", &config(json!({})));
    let (target, _) = rendered(std::slice::from_ref(&plain));
    cluster.pools[0]["spec"]["configuration"]["name"] = json!(target);
    cluster.configs[1]["metadata"]["name"] = json!(target);
    let unknown = json!({ "unit": [{ "name": "a.service", "enabled": true }] });
    let odd = |generation: u32| {
        let mut source = source("50-a", &config(unknown.clone()));
        source["metadata"]["generation"] = json!(generation);
        source
    };
    let looks = [plain, odd(2), odd(2), odd(3)];
    let read = [&looks[0], &looks[1], &looks[3]];
    let calls = read.map(|source| list(std::slice::from_ref(source)));
    let (script, client) = Script::start(calls.into());
    let requests = Requests::new(Arc::new(Access::of_client(client)));
    let mut last = None;
    let work = Box::pin(async {
        let mut events = Vec::new();
        for source in &looks {
            cluster.configs[0] = metadata(source);
            let snapshot = cluster.snapshot();
            let pool = snapshot.pools.get("worker").unwrap().as_ref().clone();
            let outcome = reconcile(&requests, &snapshot, pool, &mut last).await;
            events.push(outcome.unwrap().events);
        }
        events
    });
    let events = script.drive(work).await;
    for (look, expected) in [(0, 0), (1, 1), (2, 0), (3, 1)] {
        assert_eq!(events[look].len(), expected, "{look}: {events:?}");
    }
    let [PoolEvent::Warned { source, warning }] = &events[1][..] else {
        panic!("{events:?}");
    };
    assert_eq!(source, "50-a");
    assert!(warning.contains("systemd.unit"), "{warning}");
}
