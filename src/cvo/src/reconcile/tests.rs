use std::path::Path;

use api::config::Release;
use apimock::{Call, Reply, Script};
use chassis::metrics::Counter;
use cluster::cache::WatchEvent;
use cluster::events::Speaker;
use operator::Operator;
use serde_json::{Value, json};
use version_update::acceptance::RequestedRelease;
use version_update::release_state::{AppliedRelease, ReleaseStage, ReleaseState};

use super::*;
use crate::engine::SharedReport;
use crate::requests::ObjectRequests;
use crate::retrieval::RetrievalMethod;

const OWN: &str = "q/r@sha256:1";
const NEXT: &str = "q/r@sha256:2";

fn manifest(namespace: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {
            "name": namespace, "annotations": { "include.release.openshift.io/ha": "true" }
        }
    })
}

/// Writes a release with one manifest, a Namespace.
fn write(root: &Path, version: &str, namespace: &str) {
    let directory = root.join(release::RELEASE_MANIFESTS);
    for directory in [root.join(release::MANIFESTS), directory.clone()] {
        std::fs::create_dir_all(directory).unwrap();
    }
    let manifest = manifest(namespace);
    let references = json!({
        "kind": "ImageStream", "apiVersion": "image.openshift.io/v1",
        "metadata": { "name": version }
    });
    for (file, object) in [
        (
            release::METADATA_FILE,
            json!({ "kind": "cincinnati-metadata-v0", "version": version }),
        ),
        (release::REFERENCES_FILE, references),
        ("0000_10_x_a.json", manifest),
    ] {
        let mut file = std::fs::File::create(directory.join(file)).unwrap();
        std::io::Write::write_all(&mut file, object.to_string().as_bytes()).unwrap();
    }
}

/// The ClusterVersion, whose history is of these states and images, newest first.
fn object(resource_version: u32, history: &[(&str, &str)]) -> ClusterVersion {
    let entry = |(state, image): &(&str, &str)| {
        let version = if *image == OWN { "4.2.0" } else { "4.2.1" };
        json!({
            "state": state, "version": version, "image": image, "verified": false,
            "startedTime": "2024-01-01T00:00:00Z", "completionTime": null
        })
    };
    let history: Vec<Value> = history.iter().map(entry).collect();
    serde_json::from_value(json!({
        "metadata": {
            "name": "version", "uid": "u", "generation": 2,
            "resourceVersion": resource_version.to_string(),
        },
        "spec": {
            "clusterID": "4f1d3c3e-2b3b-4c8e-9c1d-6a3b1e0f9a11",
            "desiredUpdate": { "image": NEXT, "version": "4.2.1", "force": true },
        },
        "status": { "history": history, "desired": { "version": "4.2.0", "image": OWN } },
    }))
    .unwrap()
}

fn missing(path: &str) -> Call {
    Call::get(path, Reply::failure(404, "NotFound", "no"))
}

/// The requests of a turn before anything is applied.
fn settings() -> [Call; 2] {
    let path = "/apis/config.openshift.io/v1";
    ["featuregates", "proxies"].map(|plural| missing(&format!("{path}/{plural}/cluster")))
}

/// Those of a pass over a release whose Namespace is not there yet.
fn pass(namespace: &str) -> [Call; 2] {
    let page = json!({ "metadata": {}, "items": [] });
    let applied = format!(
        "/api/v1/namespaces/{namespace}\
         ?fieldManager=cluster-version-operator&force=true&fieldValidation=Ignore"
    );
    let mut body = manifest(namespace);
    body["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "name": "version",
        "uid": "u", "controller": true
    }]);
    [
        Call::get("/api/v1/namespaces?limit=1000", Reply::ok(page)),
        Call::patch(&applied, body.clone(), Reply::ok(body)),
    ]
}

fn discovery() -> Call {
    let namespaces = json!({ "name": "namespaces", "kind": "Namespace", "namespaced": false,
        "singularName": "", "verbs": [] });
    let kinds = json!({ "groupVersion": "v1", "resources": [namespaces] });
    Call::get("/api/v1", Reply::ok(kinds))
}

/// A version operator of the release in `own`, beside which others are in `directory`.
fn version_operator(
    access: &Arc<Access>,
    versions: &Cache<ClusterVersions>,
    (own, directory): (&Path, &Path),
) -> VersionOperator {
    let caches = VersionCaches {
        versions: versions.clone(),
        operators: Cache::default(),
        gates: Cache::default(),
        acks: Cache::default(),
    };
    let settings = VersionOperatorSettings {
        root: own.to_owned(),
        image: OWN.to_owned(),
        profile: "ha".to_owned(),
        exclude: String::new(),
        always: BTreeSet::new(),
        interval: Duration::from_mins(4),
        inventory: None,
        retrieval: RetrievalSettings {
            directory: directory.to_owned(),
            method: RetrievalMethod::Pull {
                credentials: None,
                is_insecure: false,
            },
            limit: Duration::from_mins(4),
        },
        advice: AdviceSettings::default(),
    };
    let shared = SharedReport::default();
    let (_sender, changes) = tokio::sync::watch::channel(());
    let engine = Engine::new(
        ObjectRequests::new(Arc::clone(access)),
        caches.operators.clone(),
        changes,
        shared.clone(),
        Counter::default(),
    );
    let metrics = VersionMetrics::new(versions.clone(), caches.operators.clone(), shared);
    let speaker = Speaker {
        component: "cvo".to_owned(),
        host: String::new(),
        namespace: "n".to_owned(),
    };
    let (recorder, _unsent) = Recorder::new(Arc::clone(access), speaker);
    let reporters = Reporters {
        metrics: Arc::new(metrics),
        recorder,
    };
    let waker = Operator::new("cvo", Arc::clone(access)).waker();
    VersionOperator::new(
        Arc::clone(access),
        settings,
        caches,
        engine,
        reporters,
        waker,
        || Timestamp::UNIX_EPOCH,
    )
}

/// From one release to another: each is loaded once, and nothing of the next one is written before
/// the history has it.
#[tokio::test(start_paused = true)]
async fn another_release_is_accepted_recorded_and_applied() {
    let (own, others) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(own.path(), "4.2.0", "a");
    let versions = Cache::default();
    let completed = [("Completed", OWN)];
    versions.apply(WatchEvent::Applied(object(1, &completed)));
    let [gates, proxies] = settings();
    let mut calls = vec![gates.clone(), proxies.clone(), discovery()];
    calls.extend(pass("a"));
    // Checked: only the gates.
    calls.push(gates.clone());
    // Not recorded, twice.
    calls.extend(settings());
    calls.extend(settings());
    // Recorded.
    calls.extend(settings());
    calls.extend(pass("b"));
    let (script, client) = Script::start(calls);
    let access = Arc::new(Access::of_client(client));
    let operator = version_operator(&access, &versions, (own.path(), others.path()));
    let next = operator.settings.retrieval.root(NEXT);
    write(&next, "4.2.1", "b");
    let turns = async {
        let interval = operator.settings.interval;
        let turn = |key| operator.reconcile(key);
        // The request waits until the own release is read.
        assert_eq!(turn(&VersionWork::Request).await.unwrap(), Next::Settled);
        let applied = turn(&VersionWork::Release).await.unwrap();
        assert_eq!(applied, Next::After(interval));
        assert_eq!(turn(&VersionWork::Request).await.unwrap(), Next::Settled);
        // It is not loaded once more.
        let metadata = next.join(release::RELEASE_MANIFESTS);
        std::fs::remove_file(metadata.join(release::METADATA_FILE)).unwrap();
        for _ in 0..2 {
            assert_eq!(turn(&VersionWork::Release).await.unwrap(), Next::Retry);
        }
        let recorded = [("Partial", NEXT), ("Completed", OWN)];
        versions.apply(WatchEvent::Applied(object(2, &recorded)));
        let applied = turn(&VersionWork::Release).await.unwrap();
        assert_eq!(applied, Next::After(interval));
        // The same is requested again.
        assert_eq!(turn(&VersionWork::Request).await.unwrap(), Next::Settled);
    };
    script.drive(Box::pin(turns)).await;
    assert_eq!(operator.releases().state.name(), "Running");
    assert!(operator.engine.report().is_applied);
}

/// A process that finds in the history that another release was being applied goes on with that
/// one, and with its own only when it is refused.
#[tokio::test(start_paused = true)]
async fn release_whose_application_had_begun_is_tried_before_the_own_one() {
    for is_forced in [true, false] {
        let (own, others) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        write(own.path(), "4.2.0", "a");
        let versions = Cache::default();
        let mut begun = object(1, &[("Partial", NEXT), ("Completed", OWN)]);
        if let Some(update) = &mut begun.spec.desired_update {
            update.force = is_forced;
        }
        versions.apply(WatchEvent::Applied(begun));
        let [gates, proxies] = settings();
        // The own release is read; the other one is, if it need not be verified.
        let mut calls = vec![gates.clone()];
        calls.extend(is_forced.then(|| gates.clone()));
        calls.extend([gates, proxies, discovery()]);
        calls.extend(pass(if is_forced { "b" } else { "a" }));
        let (script, client) = Script::start(calls);
        let access = Arc::new(Access::of_client(client));
        let operator = version_operator(&access, &versions, (own.path(), others.path()));
        write(&operator.settings.retrieval.root(NEXT), "4.2.1", "b");
        let turns = async {
            let turn = |key| operator.reconcile(key);
            assert_eq!(turn(&VersionWork::Release).await.unwrap(), Next::Settled);
            let next = turn(&VersionWork::Request).await.unwrap();
            assert_eq!(next == Next::Settled, is_forced, "{next:?}");
            turn(&VersionWork::Release).await.unwrap();
        };
        script.drive(Box::pin(turns)).await;
        let step = operator.releases().state.step().cloned();
        let step = step.map(|step| (step.reason, step.message));
        let refused = (!is_forced).then(|| {
            let why = "Retrieving payload failed version=\"4.2.1\" image=\"q/r@sha256:2\" \
                       failure=The update cannot be verified: verification is not possible: the \
                       running release has no ConfigMap with annotation \
                       release.openshift.io/verification-config-map";
            ("RetrievePayload", why.to_owned())
        });
        assert_eq!(step, refused);
    }
}

/// The ClusterVersion as it is when the cluster is stopped.
fn stopped(resource_version: u32, history: &[(&str, &str)]) -> ClusterVersion {
    let mut object = object(resource_version, history);
    let value = r#"{"by":"alice","since":"2026-11-30T07:15:00Z"}"#;
    let annotations = [(api::stop::STOP.to_owned(), value.to_owned())];
    object.metadata.annotations = Some(annotations.into());
    object
}

/// While the cluster is stopped the applied release is kept, no other one is retrieved, and of one
/// that was accepted no manifest begins.
#[tokio::test(start_paused = true)]
async fn stopped_cluster_is_kept_and_begins_no_release() {
    let (own, others) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(own.path(), "4.2.0", "a");
    let versions = Cache::default();
    let completed = [("Completed", OWN)];
    versions.apply(WatchEvent::Applied(stopped(1, &completed)));
    let [gates, proxies] = settings();
    let mut calls = vec![gates.clone(), proxies.clone(), discovery()];
    calls.extend(pass("a"));
    // It goes on: checked, and recorded while it is stopped again.
    calls.push(gates.clone());
    calls.extend(settings());
    calls.extend(settings());
    // It goes on.
    calls.extend(settings());
    calls.extend(pass("b"));
    let (script, client) = Script::start(calls);
    let access = Arc::new(Access::of_client(client));
    let operator = version_operator(&access, &versions, (own.path(), others.path()));
    write(&operator.settings.retrieval.root(NEXT), "4.2.1", "b");
    let turns = async {
        let interval = operator.settings.interval;
        let turn = |key| operator.reconcile(key);
        let applied = turn(&VersionWork::Release).await.unwrap();
        assert_eq!(applied, Next::After(interval));
        assert_eq!(turn(&VersionWork::Request).await.unwrap(), Next::Settled);
        assert_eq!(operator.releases().state.name(), "Running");
        versions.apply(WatchEvent::Applied(object(2, &completed)));
        assert_eq!(turn(&VersionWork::Request).await.unwrap(), Next::Settled);
        assert_eq!(turn(&VersionWork::Release).await.unwrap(), Next::Retry);
        let recorded = [("Partial", NEXT), ("Completed", OWN)];
        versions.apply(WatchEvent::Applied(stopped(3, &recorded)));
        // The pass waits for its whole time, and the next one follows at once.
        let waited = turn(&VersionWork::Release).await.unwrap();
        assert_eq!(waited, Next::After(Duration::ZERO));
        assert!(!operator.engine.report().is_applied);
        versions.apply(WatchEvent::Applied(object(4, &recorded)));
        let applied = turn(&VersionWork::Release).await.unwrap();
        assert_eq!(applied, Next::After(interval));
    };
    script.drive(Box::pin(turns)).await;
    assert!(operator.engine.report().is_applied);
}

/// A stop that comes while a release is on its way leaves it where it is.
#[tokio::test]
async fn release_on_its_way_is_held_once_the_cluster_is_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let versions = Cache::default();
    let (_script, client) = Script::start(Vec::new());
    let access = Arc::new(Access::of_client(client));
    let operator = version_operator(&access, &versions, (directory.path(), directory.path()));
    let applied = AppliedRelease {
        on_disk: Arc::clone(operator.releases().state.on_disk()),
        stage: ReleaseStage::Running,
        attempt: 0,
    };
    let request = RequestedRelease {
        release: Release {
            image: NEXT.to_owned(),
            ..Release::default()
        },
        is_forced: true,
        generation: Some(2),
        step: None,
        refusals: 0,
    };
    let on_its_way = ReleaseState::Retrieving(applied.clone(), request);
    let begun = [("Partial", NEXT), ("Completed", OWN)];
    for (object, is_held) in [
        (object(1, &[("Completed", OWN)]), false),
        (stopped(2, &[("Completed", OWN)]), true),
        (stopped(3, &begun), false),
    ] {
        versions.apply(WatchEvent::Applied(object));
        assert_eq!(operator.holds(&on_its_way), is_held);
        assert!(!operator.holds(&ReleaseState::Alone(applied.clone())));
    }
}
