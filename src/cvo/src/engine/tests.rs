#![expect(clippy::needless_pass_by_value, reason = "json! makes values")]

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use api::config::ClusterVersion;
use apimock::{Call, Reply, Script};
use cluster::access::Access;
use cluster::cache::WatchEvent;
use release::inclusion::Cluster;
use serde_json::{Value, json};

use super::*;

const INCLUDE: &str = "include.release.openshift.io/ha";
const APPLY: &str = "?fieldManager=cluster-version-operator&force=true&fieldValidation=Ignore";

/// A manifest of this cluster; `more` are its other fields.
fn manifest(api_version: &str, kind: &str, name: &str, more: Value) -> Value {
    let mut object = json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": { "name": name, "annotations": { INCLUDE: "true" } }
    });
    if let (Some(object), Some(more)) = (object.as_object_mut(), more.as_object()) {
        object.extend(more.clone());
    }
    object
}

/// Discovery of a kind of this group and version.
fn kinds(path: &str, name: &str, kind: &str) -> Call {
    let resource =
        json!({ "name": name, "kind": kind, "namespaced": false, "singularName": "", "verbs": [] });
    Call::get(
        path,
        Reply::ok(json!({ "groupVersion": "v", "resources": [resource] })),
    )
}

/// All objects of a kind, by their metadata.
fn list(path: &str, heads: &[Value]) -> Call {
    let items: Vec<Value> = heads
        .iter()
        .map(|head| json!({ "metadata": head }))
        .collect();
    let page = json!({ "metadata": {}, "items": items });
    Call::get(&format!("{path}?limit=1000"), Reply::ok(page))
}

/// A manifest as it is applied.
fn owned(mut manifest: Value) -> Value {
    let owner = json!({ "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion",
        "name": "version", "uid": "", "controller": true });
    manifest["metadata"]["ownerReferences"] = json!([owner]);
    manifest
}

fn apply(path: &str, manifest: Value, reply: Reply) -> Call {
    Call::patch(&format!("{path}{APPLY}"), owned(manifest), reply)
}

/// One pass over a release of these files, and what has failed in it.
async fn pass(files: &[(&str, Value)], calls: Vec<Call>) -> (bool, Vec<Failure>) {
    pass_of(files, calls, &Cache::default()).await
}

/// The same of the cluster that this ClusterVersion may stop.
async fn pass_of(
    files: &[(&str, Value)],
    calls: Vec<Call>,
    versions: &Cache<ClusterVersions>,
) -> (bool, Vec<Failure>) {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join(release::RELEASE_MANIFESTS);
    for directory in [root.path().join(release::MANIFESTS), directory.clone()] {
        std::fs::create_dir_all(directory).unwrap();
    }
    let metadata = json!({ "kind": "cincinnati-metadata-v0", "version": "4.2.0" });
    let references = json!({
        "kind": "ImageStream", "apiVersion": "image.openshift.io/v1", "metadata": { "name": "4.2.0" }
    });
    let own = [
        (release::METADATA_FILE, &metadata),
        (release::REFERENCES_FILE, &references),
    ];
    let all = own
        .into_iter()
        .chain(files.iter().map(|(file, object)| (*file, object)));
    for (file, object) in all {
        std::io::Write::write_all(
            &mut std::fs::File::create(directory.join(file)).unwrap(),
            object.to_string().as_bytes(),
        )
        .unwrap();
    }
    let cluster = Cluster {
        profile: "ha".to_owned(),
        ..Cluster::default()
    };
    let files = ReleaseFiles::load(root.path(), "q/r@sha256:1", &cluster).unwrap();
    let (script, client) = Script::start(calls);
    let (_sender, changes) = watch::channel(());
    let engine = Engine::new(
        ObjectRequests::new(Arc::new(Access::of_client(client))),
        Cache::default(),
        changes,
        SharedReport::default(),
        Counter::default(),
    );
    let context = Context {
        ordering: Ordering::Updating,
        injected: Injected::default(),
        tolerated: BTreeSet::new(),
        versions: versions.clone(),
        now: || Timestamp::UNIX_EPOCH,
    };
    let entries: Vec<&Entry> = files.inventory.entries.iter().collect();
    let is_done = script
        .drive(Box::pin(engine.run(&files, &entries, &context)))
        .await;
    let failures = engine.report().shown();
    (is_done, failures)
}

#[tokio::test(start_paused = true)]
async fn refused_manifest_is_tried_three_times_and_named_with_its_file_at_the_end() {
    let path = "/api/v1/namespaces/a";
    let namespace = || manifest("v1", "Namespace", "a", json!({}));
    let refused = || apply(path, namespace(), Reply::failure(403, "Forbidden", "no"));
    let file = "0000_10_x_a.json";
    let (is_done, failures) = pass(
        &[(file, namespace())],
        vec![
            kinds("/api/v1", "namespaces", "Namespace"),
            list("/api/v1/namespaces", &[]),
            refused(),
            refused(),
            refused(),
        ],
    )
    .await;
    assert!(!is_done);
    assert_eq!(
        failures[0].message,
        "Could not update namespace \"a\" (1 of 1): the server has forbidden updates to this \
         resource (no); file 0000_10_x_a.json"
    );
}

/// The first manifest makes what is missing; the last one has the last word.
#[tokio::test(start_paused = true)]
async fn object_of_two_files_is_made_once_and_applied_as_the_last_has_it() {
    let path = "/api/v1/namespaces/a";
    let of = |value: &str| {
        manifest(
            "v1",
            "Namespace",
            "a",
            json!({ "spec": { "finalizers": [value] } }),
        )
    };
    let files = [("0000_10_x_a.json", of("1")), ("0000_20_y_a.json", of("2"))];
    let head = json!({ "name": "a", "resourceVersion": "1" });
    let stored = || Reply::ok(json!({ "metadata": head }));
    let applied = || apply(path, of("2"), stored());
    let all = "/api/v1/namespaces?fieldManager=cluster-version-operator";
    let make = Call::post(all, owned(of("1")), stored());
    let found = || kinds("/api/v1", "namespaces", "Namespace");
    let calls = vec![found(), list("/api/v1/namespaces", &[]), make, applied()];
    assert!(pass(&files, calls).await.0);
    let there = list("/api/v1/namespaces", std::slice::from_ref(&head));
    assert!(pass(&files, vec![found(), there, applied()]).await.0);
}

/// A stop that is set while a manifest is applied lets that one end; the next one begins once it is
/// removed.
#[tokio::test(start_paused = true)]
async fn no_run_level_begins_while_the_cluster_is_stopped() {
    let version = |value: Option<&str>| -> ClusterVersion {
        let annotations = value.map(|value| json!({ "slipway.dev/stop": value }));
        serde_json::from_value(json!({
            "metadata": { "name": "version", "annotations": annotations },
            "spec": { "clusterID": "" },
        }))
        .unwrap()
    };
    let namespace = |name: &str| manifest("v1", "Namespace", name, json!({}));
    let files = [
        ("0000_10_x_a.json", namespace("a")),
        ("0000_20_y_b.json", namespace("b")),
    ];
    let versions = Cache::default();
    let goes_on = Arc::new(AtomicBool::new(false));
    let stored = || Reply::ok(json!({ "metadata": { "name": "a", "resourceVersion": "1" } }));
    let (watch, stopped) = (versions.clone(), version(Some("")));
    let has_gone_on = Arc::clone(&goes_on);
    let calls = vec![
        kinds("/api/v1", "namespaces", "Namespace"),
        list("/api/v1/namespaces", &[]),
        apply("/api/v1/namespaces/a", namespace("a"), stored())
            .meanwhile(move || watch.apply(WatchEvent::Applied(stopped.clone()))),
        apply("/api/v1/namespaces/b", namespace("b"), stored())
            .meanwhile(move || assert!(has_gone_on.load(Relaxed))),
    ];
    let later = async {
        tokio::time::sleep(Duration::from_mins(3)).await;
        goes_on.store(true, Relaxed);
        versions.apply(WatchEvent::Applied(version(None)));
    };
    let ((is_done, failures), ()) =
        tokio::join!(Box::pin(pass_of(&files, calls, &versions)), later);
    assert!(is_done, "{failures:?}");
}

#[test]
fn all_but_the_last_manifest_of_an_object_are_superseded() {
    let entry = |name: &str, file: &str| Entry {
        directory: release::inventory::ManifestDirectory::Release,
        file: file.to_owned(),
        document: 1,
        id: release::manifest::ObjectId {
            group: String::new(),
            kind: "Namespace".to_owned(),
            namespace: String::new(),
            name: name.to_owned(),
        },
        api_version: "v1".to_owned(),
        annotations: BTreeMap::new(),
        content: 0,
    };
    let all = [
        entry("a", "1.yaml"),
        entry("b", "2.yaml"),
        entry("a", "3.yaml"),
        entry("a", "4.yaml"),
    ];
    let all: Vec<&Entry> = all.iter().collect();
    assert_eq!(superseded(&all), HashSet::from([0, 2]));
}

/// The bundle goes once the API server has taken the annotation away, and stays where someone else
/// asks for it.
#[tokio::test(start_paused = true)]
async fn bundle_goes_with_the_annotation_that_asked_for_it() {
    let (all, path) = (
        "/apis/apiregistration.k8s.io/v1/apiservices",
        "/apis/apiregistration.k8s.io/v1/apiservices/v1.a",
    );
    let spec = json!({ "spec": { "group": "a", "version": "v1" } });
    let service = manifest("apiregistration.k8s.io/v1", "APIService", "v1.a", spec);
    let files = [("0000_10_x_a.json", service.clone())];
    let head = |asks: Value| {
        json!({ "name": "v1.a", "resourceVersion": "1",
            "annotations": { "service.beta.openshift.io/inject-cabundle": asks } })
    };
    let asking = head(json!("true"));
    let begin = || {
        let kinds = kinds(
            "/apis/apiregistration.k8s.io/v1",
            "apiservices",
            "APIService",
        );
        vec![kinds, list(all, std::slice::from_ref(&asking))]
    };
    let stored = |head: Value| Reply::ok(json!({ "metadata": head }));
    let mut emptied = service.clone();
    emptied["spec"]["caBundle"] = json!("");
    let gone = || stored(json!({ "name": "v1.a" }));
    let mut calls = begin();
    calls.push(apply(path, service.clone(), gone()));
    calls.push(apply(path, emptied, gone()));
    assert!(pass(&files, calls).await.0);
    let mut calls = begin();
    calls.push(apply(path, service, stored(asking.clone())));
    assert!(pass(&files, calls).await.0);
}

/// A bundle that stays alone would keep the definition from being applied.
#[tokio::test(start_paused = true)]
async fn webhook_that_a_definition_drops_is_taken_away_before() {
    let group = "/apis/apiextensions.k8s.io/v1";
    let all = format!("{group}/customresourcedefinitions");
    let path = format!("{all}/w.a");
    let definition = || {
        let spec = json!({ "spec": { "conversion": { "strategy": "None" } } });
        manifest(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            "w.a",
            spec,
        )
    };
    let head = json!({ "name": "w.a", "resourceVersion": "1",
        "annotations": { "service.beta.openshift.io/inject-cabundle": "true" } });
    let established = json!({ "metadata": { "name": "w.a" },
        "status": { "conditions": [{ "type": "Established", "status": "True" }] } });
    let change = json!({ "spec": { "conversion": { "strategy": "None", "webhook": null } } });
    let calls = vec![
        kinds(
            group,
            "customresourcedefinitions",
            "CustomResourceDefinition",
        ),
        list(&all, &[head]),
        Call::patch(
            &format!("{path}?fieldManager=cluster-version-operator"),
            change,
            Reply::ok(established.clone()),
        ),
        apply(&path, definition(), Reply::ok(established)),
    ];
    let (is_done, failures) = pass(&[("0000_10_x_a.json", definition())], calls).await;
    assert!(is_done, "{failures:?}");
}

/// Tolerations are one field for server-side apply.
#[tokio::test(start_paused = true)]
async fn workload_is_applied_with_the_tolerations_of_others() {
    let (all, path) = ("/apis/apps/v1/daemonsets", "/apis/apps/v1/daemonsets/a");
    let pod = |tolerations: Value| {
        json!({ "spec": { "template": { "spec": {
            "tolerations": tolerations, "containers": [{ "name": "a", "image": "i" }]
        } } } })
    };
    let (own, other) = (json!({ "key": "own" }), json!({ "key": "other" }));
    let files = [(
        "0000_10_x_a.json",
        manifest("apps/v1", "DaemonSet", "a", pod(json!([own]))),
    )];
    let mut found = pod(json!([other]));
    found["metadata"] = json!({ "name": "a", "resourceVersion": "1", "generation": 1 });
    let head = found["metadata"].clone();
    let mut wanted = manifest("apps/v1", "DaemonSet", "a", pod(json!([own, other])));
    let spec = &mut wanted["spec"]["template"]["spec"];
    spec["dnsPolicy"] = json!("ClusterFirst");
    spec["terminationGracePeriodSeconds"] = json!(30);
    let mut stored = wanted.clone();
    stored["metadata"]["resourceVersion"] = json!("2");
    let calls = vec![
        kinds("/apis/apps/v1", "daemonsets", "DaemonSet"),
        list(all, &[head]),
        Call::get(path, Reply::ok(found)),
        apply(path, wanted, Reply::ok(stored)),
    ];
    let (is_done, failures) = pass(&files, calls).await;
    assert!(is_done, "{failures:?}");
}
