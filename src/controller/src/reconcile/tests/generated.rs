//! MachineConfigs that KubeletConfigs ask for.

use ignition::content;

use super::*;
use crate::decide;

const KUBELET_CONFIGS: &str = "/apis/machineconfiguration.openshift.io/v1/kubeletconfigs";
const CONFIGS: &str = "/apis/machineconfiguration.openshift.io/v1/machineconfigs";
const NAME: &str = "99-worker-generated-kubelet";

/// What has the kubelet.conf of workers.
fn base() -> Value {
    let source = content::to_data_url(b"maxPods: 250\n");
    json!({
        "metadata": {
            "name": "01-worker-kubelet", "uid": "uid-base", "resourceVersion": "1", "generation": 1
        },
        "spec": { "config": {
            "ignition": { "version": "3.5.0" },
            "storage": { "files": [
                { "path": "/etc/kubernetes/kubelet.conf", "contents": { "source": source } }
            ] }
        } }
    })
}

fn kubelet_config(fields: &Value) -> Value {
    json!({
        "metadata": {
            "name": "pods", "uid": "uid-pods", "resourceVersion": "20", "generation": 1
        },
        "spec": {
            "machineConfigPoolSelector": { "matchLabels": { "size": "small" } },
            "kubeletConfig": fields
        }
    })
}

/// A cluster whose pool a KubeletConfig selects.
fn selecting(config: &Value) -> (Cluster, Vec<Value>, String) {
    let (mut cluster, sources, target) = settled();
    cluster.pools[0]["metadata"]["labels"] = json!({ "size": "small" });
    cluster.configs.push(metadata(&base()));
    cluster.kubelet_configs = vec![config.clone()];
    (cluster, sources, target)
}

fn accepted(holds: bool, message: &str) -> Value {
    let condition = |r#type: &str| {
        let status = if holds { "True" } else { "False" };
        json!({ "type": r#type, "status": status, "lastTransitionTime": NOW, "message": message })
    };
    let legacy = if holds { "Success" } else { "Failure" };
    json!([condition("Accepted"), condition(legacy)])
}

fn reads_base() -> Call {
    Call::get(&format!("{CONFIGS}/01-worker-kubelet"), Reply::ok(base()))
}

fn reports(config: &mut Value, holds: bool, message: &str, version: &str) -> Call {
    let mut body = json!({
        "metadata": { "resourceVersion": config["metadata"]["resourceVersion"] },
        "status": { "conditions": accepted(holds, message) }
    });
    // What stays is not sent.
    if config["status"]["observedGeneration"] != 1 {
        body["status"]["observedGeneration"] = json!(1);
    }
    patch(
        &format!("{KUBELET_CONFIGS}/pods/status"),
        config,
        body,
        version,
    )
}

/// What is generated for these fields.
fn generated(config: &Value) -> Value {
    let config = read(config);
    let pools = [::generated::pools::PoolFacts::read(&read(
        &selecting(&json!({ "metadata": {}, "spec": {} })).0.pools[0],
    ))];
    let conf = ::generated::kubelet::compose::base_of("maxPods: 250").unwrap();
    let base = ::generated::kubelet::KubeletBase {
        roles: [("worker".to_owned(), Ok(conf))].into(),
        ..::generated::kubelet::KubeletBase::default()
    };
    let plan = ::generated::kubelet::plan(&[&config], &pools, &base);
    plan.configs[0].to_object(BUILD)
}

/// Reconciles the generated configurations, `times` over, with the calls that this needs.
async fn generate(cluster: &Cluster, calls: Vec<Call>, times: usize) -> Store {
    let store = Store::default();
    cluster.fill(&store);
    let (script, client) = Script::start(calls);
    let access = Arc::new(Access::of_client(client));
    let (recorder, _sending) = Recorder::new(Arc::clone(&access), speaker());
    let metrics = Arc::new(ControllerMetrics::default());
    let requests = Requests::new(access);
    let controller = Controller::new(requests, store.clone(), recorder, metrics, clock);
    let work = Box::pin(async {
        for _ in 0..times {
            let next = controller.reconcile(&Work::Generated).await.unwrap();
            assert_eq!(next, Next::Settled);
        }
    });
    script.drive(work).await;
    store
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_for_is_named_then_stored_then_reported_once() {
    let mut config = kubelet_config(&json!({ "maxPods": 300 }));
    let (cluster, _, _) = selecting(&config);
    let object = generated(&config);
    let claim = json!({ "metadata": {
        "annotations": { "machineconfiguration.openshift.io/mc-name-suffix": "" },
        "finalizers": [NAME],
        "resourceVersion": "20"
    } });
    let mut created = object.clone();
    created["metadata"]["uid"] = json!("uid-generated");
    created["metadata"]["resourceVersion"] = json!("22");
    created["metadata"]["generation"] = json!(1);
    let calls = vec![
        reads_base(),
        patch(&format!("{KUBELET_CONFIGS}/pods"), &mut config, claim, "21"),
        Call::post(&format!("{CONFIGS}?{MANAGER}"), object, Reply::ok(created)),
        reports(&mut config, true, "Success", "23"),
    ];
    let store = generate(&cluster, calls, 3).await;
    let config = store.configs.get(NAME).unwrap();
    assert_eq!(config.controller.as_ref().unwrap().uid, "uid-pods");
}

#[tokio::test(start_paused = true)]
async fn a_refused_one_is_reported_once_and_its_pool_waits_while_others_go_on() {
    let mut config = kubelet_config(&json!({ "cgroupDriver": "cgroupfs" }));
    let (mut cluster, sources, target) = selecting(&config);
    cluster.nodes = vec![node("n1", &target)];
    let why = "Error: KubeletConfiguration: cgroupDriver is not allowed to be set, but contains: cgroupfs";
    let calls = vec![reads_base(), reports(&mut config, false, why, "21")];
    generate(&cluster, calls, 3).await;
    // The pool is not rendered, and another one is.
    cluster.kubelet_configs = vec![config];
    let waits = |cluster: &Cluster| {
        let snapshot = cluster.snapshot();
        let pool = snapshot.pools.get("worker").unwrap();
        decide::rendering::prepare(pool, &snapshot)
    };
    let expected = format!("KubeletConfig pods has not completed: {why}");
    assert_eq!(
        waits(&cluster),
        decide::rendering::Preparation::Wait(expected)
    );
    cluster.pools[0]["metadata"]["labels"] = json!({ "size": "large" });
    assert!(matches!(
        waits(&cluster),
        decide::rendering::Preparation::Inputs(_)
    ));
    assert_eq!(sources.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_edited_one_is_restored_and_that_of_another_is_left_alone() {
    let mut config = kubelet_config(&json!({ "maxPods": 300 }));
    config["metadata"]["annotations"] =
        json!({ "machineconfiguration.openshift.io/mc-name-suffix": "" });
    config["metadata"]["finalizers"] = json!([NAME]);
    config["status"] = json!({ "conditions": accepted(true, "Success"), "observedGeneration": 1 });
    let object = generated(&config);
    let mut edited = object.clone();
    edited["metadata"]["uid"] = json!("uid-generated");
    edited["metadata"]["resourceVersion"] = json!("30");
    edited["metadata"]["generation"] = json!(2);
    edited["spec"]["kernelArguments"] = json!(["mine"]);
    let (mut cluster, _, _) = selecting(&config);
    cluster.configs.push(metadata(&edited));
    let path = format!("{CONFIGS}/{NAME}");
    let read_it = Call::get(&path, Reply::ok(edited.clone()));
    let change = json!({
        "metadata": {
            "resourceVersion": "30",
            "labels": object["metadata"]["labels"],
            "annotations": object["metadata"]["annotations"],
            "ownerReferences": object["metadata"]["ownerReferences"]
        },
        "spec": { "kernelArguments": [] }
    });
    let restored = patch(&path, &mut edited, change, "31");
    generate(&cluster, vec![reads_base(), read_it, restored], 2).await;
    let last = cluster.configs.last_mut().unwrap();
    last["metadata"]["ownerReferences"] = json!([]);
    let why = format!(
        "Error: MachineConfig {NAME} is there, and no KubeletConfig controls it: delete it, and it is generated"
    );
    let calls = vec![reads_base(), reports(&mut config, false, &why, "32")];
    generate(&cluster, calls, 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_one_takes_its_machineconfigs_along() {
    let mut config = kubelet_config(&json!({ "maxPods": 300 }));
    let object = generated(&config);
    config["metadata"]["finalizers"] = json!(["mine", NAME, "99-edge-generated-kubelet"]);
    config["metadata"]["deletionTimestamp"] = json!(NOW);
    let mut stored = metadata(&object);
    stored["metadata"]["uid"] = json!("uid-generated");
    stored["metadata"]["resourceVersion"] = json!("30");
    let (mut cluster, _, _) = selecting(&config);
    cluster.configs.push(stored);
    let change = json!({ "metadata": { "finalizers": ["mine"], "resourceVersion": "20" } });
    let options = json!({
        "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": { "uid": "uid-generated" }
    });
    let calls = vec![
        reads_base(),
        Call::delete(&format!("{CONFIGS}/{NAME}"), options, Reply::created()),
        patch(
            &format!("{KUBELET_CONFIGS}/pods"),
            &mut config,
            change,
            "31",
        ),
    ];
    let store = generate(&cluster, calls, 1).await;
    assert!(store.configs.get(NAME).is_none());
}

/// A set that mirrors one source.
fn mirror_set(source: &str) -> Value {
    json!({
        "metadata": { "name": "mirrors", "uid": "uid-mirrors", "resourceVersion": "40" },
        "spec": { "imageDigestMirrors": [{ "source": source, "mirrors": ["mirror.example/a"] }] }
    })
}

fn prepared(cluster: &Cluster) -> decide::rendering::Preparation {
    let snapshot = cluster.snapshot();
    let pool = snapshot.pools.get("worker").unwrap();
    decide::rendering::prepare(pool, &snapshot)
}

#[tokio::test(start_paused = true)]
async fn mirrors_are_generated_for_built_in_pools_and_removed_with_the_last_object() {
    let (mut cluster, _, _) = settled();
    cluster.digest_mirrors = vec![mirror_set("quay.io/a")];
    let name = "99-worker-generated-registries";
    let waits = format!("MachineConfig {name} is not generated yet");
    assert_eq!(
        prepared(&cluster),
        decide::rendering::Preparation::Wait(waits)
    );
    let object = cluster_wide_object(&cluster);
    let mut created = object.clone();
    created["metadata"]["uid"] = json!("uid-generated");
    created["metadata"]["resourceVersion"] = json!("41");
    created["metadata"]["generation"] = json!(1);
    let post = Call::post(
        &format!("{CONFIGS}?{MANAGER}"),
        object,
        Reply::ok(created.clone()),
    );
    generate(&cluster, vec![post], 2).await;
    cluster.configs.push(metadata(&created));
    assert!(matches!(
        prepared(&cluster),
        decide::rendering::Preparation::Inputs(_)
    ));
    cluster.digest_mirrors.clear();
    let options = json!({
        "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": { "uid": "uid-generated" }
    });
    let delete = Call::delete(&format!("{CONFIGS}/{name}"), options, Reply::created());
    let store = generate(&cluster, vec![delete], 2).await;
    assert!(store.configs.get(name).is_none());
}

/// The object that the cluster's mirrors ask for.
fn cluster_wide_object(cluster: &Cluster) -> Value {
    let sets: Vec<api::config::ImageDigestMirrorSet> =
        cluster.digest_mirrors.iter().map(read).collect();
    let settings = ::generated::registries::RegistryFacts {
        digest: sets.iter().collect(),
        ..::generated::registries::RegistryFacts::default()
    };
    let pools = [::generated::pools::PoolFacts::read(&read(
        &cluster.pools[0],
    ))];
    let plan = ::generated::registries::plan(&settings, &pools).unwrap();
    plan[0].to_object(BUILD)
}

#[tokio::test(start_paused = true)]
async fn a_bad_mirror_is_named_by_built_in_pools_and_changes_nothing() {
    let (mut cluster, _, _) = settled();
    cluster.digest_mirrors = vec![mirror_set("https://quay.io")];
    let why = "ImageDigestMirrorSet mirrors: spec.imageDigestMirrors[0].source: \"https://quay.io\" has a scheme: write the host alone";
    assert_eq!(
        prepared(&cluster),
        decide::rendering::Preparation::Impossible(why.to_owned())
    );
    generate(&cluster, vec![], 2).await;
    cluster.pools[0]["metadata"]["name"] = json!("edge");
    let snapshot = cluster.snapshot();
    let pool = snapshot.pools.get("edge").unwrap();
    let custom = decide::rendering::prepare(pool, &snapshot);
    assert!(
        matches!(custom, decide::rendering::Preparation::Inputs(_)),
        "{custom:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_user_of_the_name_is_left_alone_and_named() {
    let (mut cluster, _, _) = settled();
    cluster.digest_mirrors = vec![mirror_set("quay.io/a")];
    let mine = source("99-worker-generated-registries", &json!({}));
    cluster.configs.push(metadata(&mine));
    let why = "MachineConfig 99-worker-generated-registries is there, and no controller generated it: delete it, and it is generated";
    assert_eq!(
        prepared(&cluster),
        decide::rendering::Preparation::Impossible(why.to_owned())
    );
    generate(&cluster, vec![], 2).await;
}

/// A ControllerConfig of a cluster on no cloud that nothing has completed yet.
fn on_no_cloud() -> Value {
    json!({
        "metadata": {
            "name": "machine-config-controller", "uid": "uid-config", "resourceVersion": "50",
            "generation": 1,
            "annotations": { "machineconfiguration.openshift.io/generated-by-version": VERSION }
        },
        "spec": {
            "clusterDNSIP": "172.30.0.10",
            "infra": { "status": { "platformStatus": { "type": "None" } } }
        }
    })
}

/// The base configurations of workers, as they are stored.
fn templates(config: &Value) -> Vec<Value> {
    let pools = [::generated::pools::PoolFacts::read(&read(&pool(None)))];
    let plan = ::generated::templates::plan(&read(config), &pools, None).unwrap();
    plan.iter().map(|config| config.to_object(BUILD)).collect()
}

fn stored(object: &Value) -> Value {
    let mut stored = object.clone();
    stored["metadata"]["uid"] = json!("uid-generated");
    stored["metadata"]["resourceVersion"] = json!("51");
    stored["metadata"]["generation"] = json!(1);
    stored
}

#[tokio::test(start_paused = true)]
async fn base_configurations_are_made_before_the_controller_config_is_complete() {
    let (mut cluster, _, _) = settled();
    let mut config = on_no_cloud();
    cluster.controller_configs = vec![config.clone()];
    let made = templates(&config);
    // One that a person made, and one of another program for the same object.
    cluster
        .configs
        .push(metadata(&source("00-worker", &json!({}))));
    let mut others = stored(&made[1]);
    others["metadata"]["annotations"] =
        json!({ "machineconfiguration.openshift.io/generated-by-controller-version": "other" });
    cluster.configs.push(metadata(&others));
    let status = "/apis/machineconfiguration.openshift.io/v1/controllerconfigs/machine-config-controller/status";
    let condition = |r#type: &str, holds: bool, message: &str| {
        let status = if holds { "True" } else { "False" };
        let mut condition = json!({ "type": r#type, "status": status, "lastTransitionTime": NOW });
        if !message.is_empty() {
            condition["message"] = json!(message);
        }
        condition
    };
    let message =
        format!("sync completed towards (1) generation using controller version {VERSION}");
    let completed = json!({
        "metadata": { "resourceVersion": "50" },
        "status": { "observedGeneration": 1, "conditions": [
            condition("TemplateControllerCompleted", true, &message),
            condition("TemplateControllerRunning", false, ""),
            condition("TemplateControllerFailing", false, "")
        ] }
    });
    let calls = vec![
        Call::post(
            &format!("{CONFIGS}?{MANAGER}"),
            made[2].clone(),
            Reply::ok(stored(&made[2])),
        ),
        patch(status, &mut config, completed, "52"),
    ];
    let store = generate(&cluster, calls, 2).await;
    let made = store.configs.get("01-worker-kubelet").unwrap();
    assert_eq!(made.controller.as_ref().unwrap().uid, "uid-config");
}

#[tokio::test(start_paused = true)]
async fn a_pool_waits_for_its_base_configurations_and_names_a_field_that_is_refused() {
    let (mut cluster, _, _) = settled();
    let mut config = on_no_cloud();
    config["status"] = json!({ "observedGeneration": 1, "conditions": [
        { "type": "TemplateControllerCompleted", "status": "True" }
    ] });
    cluster.controller_configs = vec![config.clone()];
    let why = "MachineConfig 00-worker is not generated yet";
    assert_eq!(
        prepared(&cluster),
        decide::rendering::Preparation::Wait(why.to_owned())
    );
    let made = templates(&config);
    cluster
        .configs
        .extend(made.iter().map(|object| metadata(&stored(object))));
    assert!(matches!(
        prepared(&cluster),
        decide::rendering::Preparation::Inputs(_)
    ));
    cluster.controller_configs[0]["spec"]["clusterDNSIP"] = json!("");
    let why = "ControllerConfig machine-config-controller: spec.clusterDNSIP is empty, and kubelets need it";
    assert_eq!(
        prepared(&cluster),
        decide::rendering::Preparation::Impossible(why.to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn a_profile_stays_where_the_step_to_the_next_is_too_long() {
    let (mut cluster, _, _) = settled();
    cluster.configs.push(metadata(&base()));
    let settings = |profile: &str| {
        json!({
            "metadata": { "name": "cluster", "uid": "uid-settings", "resourceVersion": "60" },
            "spec": { "workerLatencyProfile": profile }
        })
    };
    let planned = |profile: &str| {
        let conf = ::generated::kubelet::compose::base_of("maxPods: 250").unwrap();
        let node = ::generated::node_settings::read(&read(&settings(profile))).unwrap();
        let base = ::generated::kubelet::KubeletBase {
            roles: [("worker".to_owned(), Ok(conf))].into(),
            node: Some(node),
            ..::generated::kubelet::KubeletBase::default()
        };
        let pools = [::generated::pools::PoolFacts::read(&read(&pool(None)))];
        ::generated::node_settings::plan(&base, &pools).unwrap()[0].to_object(BUILD)
    };
    let name = "97-worker-generated-kubelet";
    let config = stored(&planned("Default"));
    cluster.configs.push(metadata(&config));
    let path = format!("{CONFIGS}/{name}");
    let reads = || Call::get(&path, Reply::ok(config.clone()));
    cluster.node_settings = vec![settings("LowUpdateSlowReaction")];
    generate(&cluster, vec![reads(), reads_base(), reads()], 2).await;
    // The step between is made.
    cluster.node_settings = vec![settings("MediumUpdateAverageReaction")];
    let object = planned("MediumUpdateAverageReaction");
    let mut written = config.clone();
    let change = json!({
        "metadata": {
            "resourceVersion": "51",
            "labels": object["metadata"]["labels"],
            "annotations": object["metadata"]["annotations"]
        },
        "spec": { "config": { "storage": { "files": object["spec"]["config"]["storage"]["files"] } } }
    });
    let patched = patch(&path, &mut written, change, "61");
    generate(&cluster, vec![reads(), reads_base(), reads(), patched], 2).await;
}
