//! A ControllerConfig, followed by a host: requests, files, and what the Node says of it.

use std::path::PathBuf;
use std::sync::Arc;

use apimock::{Call, Reply, Script};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chassis::shutdown;
use cluster::events::{Recorder, Speaker};
use host::files::{Content as File, Root};
use host::journal::{DeploymentId, Journal, JournalStage, JournalStore, Moment};
use jiff::Timestamp;
use node_update::plan::{self, Deploy, Digest, Mode, OwnerIds};
use serde_json::{Value, json};

use super::*;

const PATH: &str =
    "/apis/machineconfiguration.openshift.io/v1/controllerconfigs/machine-config-controller";
const NODE: &str = "/api/v1/nodes/worker-1";
const MAP: &str = "/api/v1/namespaces/mco/configmaps/kubeconfig-data";
const KUBECONFIG: &str = "/var/lib/kubelet/kubeconfig";
const SYNCED: &str = annotation::LAST_SYNCED_CONTROLLER_CONFIG;
const OBSERVED: &str = annotation::LAST_OBSERVED_SERVER_CA;
const KUBELET_CA: &str = "/etc/kubernetes/kubelet-ca.crt";

/// Certificates in form: one byte of content tells them apart.
const ONE: &str = "-----BEGIN CERTIFICATE-----\nMAEx\n-----END CERTIFICATE-----\n";
const TWO: &str = "-----BEGIN CERTIFICATE-----\nMAEy\n-----END CERTIFICATE-----\n";

/// No word of the API server's CA.
fn no_map() -> Call {
    let gone = Reply::failure(404, "NotFound", "configmaps \"kubeconfig-data\" not found");
    Call::get(MAP, gone)
}

fn event(message: &str) -> Call {
    let time = "1970-01-01T00:00:00Z";
    let event = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": "worker-1.0", "namespace": "mco"},
        "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": "worker-1", "namespace": "mco", "uid": "u"},
        "type": "Warning", "reason": "CertificatesRefused", "message": message,
        "source": {"component": "c", "host": "worker-1"}, "reportingComponent": "c",
        "firstTimestamp": time, "lastTimestamp": time, "count": 1,
    });
    Call::post("/api/v1/namespaces/mco/events", event, Reply::created())
}

struct Host {
    directory: tempfile::TempDir,
}

impl Host {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self { directory }
    }

    fn root(&self) -> Root {
        Root::open(self.directory.path(), None).unwrap()
    }

    fn put(&self, path: &str, text: &str, mode: u32) {
        let root = self.root();
        let content = File {
            bytes: text.as_bytes(),
            mode: Mode(mode),
            owner: OwnerIds {
                uid: nix::unistd::getuid().as_raw(),
                gid: nix::unistd::getgid().as_raw(),
            },
        };
        root.replace(&root.locate(path).unwrap(), content).unwrap();
    }

    fn read(&self, path: &str) -> Option<String> {
        let bytes = self.root().read(path).unwrap()?;
        Some(String::from_utf8(bytes).unwrap())
    }

    fn path(&self, path: &str) -> PathBuf {
        self.directory.path().join(path.trim_start_matches('/'))
    }

    /// Has the configuration in force bring a file.
    fn configure(&self, path: &str) {
        let record = json!({
            "metadata": {"name": "a"},
            "spec": {"config": {
                "ignition": {"version": "3.4.0"}, "storage": {"files": [{"path": path}]},
            }},
        });
        self.put(host::record::CONFIG, &record.to_string(), 0o600);
    }

    fn desired(registries: &[(&str, &str)]) -> node_update::certificates::DesiredCertificates {
        desired(&ClusterCertificates {
            kubelet: ONE.as_bytes(),
            cloud: b"",
            registries: registries
                .iter()
                .map(|(file, data)| RegistryCertificates {
                    field: "f".to_owned(),
                    file,
                    data: data.as_bytes(),
                })
                .collect(),
            pull_secret: b"",
        })
    }

    fn write(&self, registries: &[(&str, &str)]) -> Vec<String> {
        let written = files::write(self.directory.path(), &Self::desired(registries)).unwrap();
        assert!(written.failed.is_none(), "{written:?}");
        written.paths
    }
}

/// Has a host wait for its reboot, in this boot.
fn switched(root: &Root, boot_id: &str) {
    let plan = json!({
        "schema": plan::SCHEMA, "attempt": "1-0", "from": {"config": "a"}, "to": {"config": "b"},
        "route": "reboot", "drain": true, "deploy": Deploy::default(), "steps": [],
        "record": Digest::of(b""), "expect": [],
    });
    let moment = Moment {
        boot_id: boot_id.to_owned(),
        now: Timestamp::UNIX_EPOCH,
    };
    let origin = DeploymentId {
        checksum: "c".to_owned(),
        serial: 0,
    };
    let journal = Journal::open(
        serde_json::from_value(plan).unwrap(),
        origin,
        false,
        &moment,
    );
    let journal = journal.at(JournalStage::Switched, &moment);
    JournalStore::new(root).put_journal(&journal).unwrap();
}

fn config(version: &str, ca: &str) -> Value {
    json!({
        "metadata": {"name": "machine-config-controller", "resourceVersion": version},
        "spec": {"kubeAPIServerServingCAData": STANDARD.encode(ca)},
    })
}

fn head(version: &str) -> Value {
    json!({"metadata": {"resourceVersion": version}})
}

fn node(annotations: &Value) -> Value {
    json!({"metadata": {"name": "worker-1", "uid": "u", "resourceVersion": "1", "annotations": annotations}})
}

/// The write that says that a ControllerConfig is followed.
fn says(marks: &Value) -> Call {
    Call::patch(
        NODE,
        json!({"metadata": {"annotations": marks}}),
        Reply::ok(node(marks)),
    )
}

/// Looks at the ControllerConfig; `annotations` are those of the Node.
async fn look(
    host: &Host,
    annotations: &Value,
    is_compared: bool,
    calls: Vec<Call>,
) -> Result<(), Error> {
    let (_seen_by, seen) = watch::channel(Some(seen_node(annotations)));
    let act = async |keeper: CertificateSync<'_>| {
        let looked = Box::pin(keeper.look(is_compared)).await;
        keeper.reporter.flush().await;
        looked
    };
    with_keeper(host, seen, calls, act).await
}

fn seen_node(annotations: &Value) -> Arc<node::view::Node> {
    Arc::new(serde_json::from_value(node(annotations)).unwrap())
}

/// Has the keeper of a host `act`, whose Node is seen in `seen`, until it ends.
async fn with_keeper<T>(
    host: &Host,
    seen: watch::Receiver<ObservedNode>,
    calls: Vec<Call>,
    act: impl AsyncFnOnce(CertificateSync<'_>) -> T,
) -> T {
    let (script, client) = Script::start(calls);
    let access = Arc::new(Access::of_client(client));
    let (_trigger, shutdown) = shutdown::pair();
    let (writer, writing) =
        NodeWriter::new(Arc::clone(&access), "worker-1", seen.clone(), shutdown);
    let speaker = Speaker {
        component: "c".to_owned(),
        host: "worker-1".to_owned(),
        namespace: "mco".to_owned(),
    };
    let (recorder, speaking) = Recorder::new(Arc::clone(&access), speaker);
    let now = || Timestamp::UNIX_EPOCH;
    let reporter = EventReporter::new(recorder, "worker-1".to_owned(), seen.clone(), now);
    let binary = host.path("mcd-os");
    host.put("/mcd-os", "#!", 0o755);
    let helper = Helper::install(host.directory.path(), &binary, &binary).unwrap();
    let keeper = CertificateSync {
        root: host.directory.path(),
        kubeconfig: Path::new("/var/lib/kubelet/kubeconfig"),
        token: &binary,
        namespace: "mco",
        account: &access,
        writer: &writer,
        seen,
        helper: &helper,
        reporter: &reporter,
    };
    let work = async {
        tokio::select! {
            done = act(keeper) => done,
            ((), ()) = async { tokio::join!(writing, speaking) } => panic!("the writers ended"),
        }
    };
    let done = Box::pin(script.drive(work)).await;
    assert_eq!(script.remaining(), 0);
    done
}

/// For eight hours no request is sent; once others are announced, they are read at once.
#[tokio::test(start_paused = true)]
async fn what_is_announced_is_followed_at_once_and_nothing_else_is_asked_for() {
    let host = Host::new();
    let marks = |version: &str| json!({SYNCED: version, OBSERVED: "false"});
    let announced = |version: &str, announced: &str| {
        let mut annotations = marks(version);
        annotations[annotation::CERTIFICATES] = json!(announced);
        annotations
    };
    let (seen_by, seen) = watch::channel(Some(seen_node(&announced("7", "one"))));
    let calls = vec![
        Call::get(PATH, Reply::ok(config("7", ONE))),
        no_map(),
        Call::get(PATH, Reply::ok(config("8", TWO))),
        no_map(),
        says(&json!({SYNCED: "8"})),
    ];
    let act = async |keeper: CertificateSync<'_>| {
        let (trigger, shutdown) = shutdown::pair();
        let watch = async {
            tokio::time::sleep(SELDOM / 3).await;
            assert_eq!(host.read(KUBELET_CA).as_deref(), Some(ONE));
            seen_by.send_replace(Some(seen_node(&announced("7", "two"))));
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(host.read(KUBELET_CA).as_deref(), Some(TWO));
            trigger.fire();
        };
        tokio::join!(keep(keeper, shutdown), watch);
    };
    with_keeper(&host, seen, calls, act).await;
}

/// Without an announcement the ControllerConfig is read now and then.
#[tokio::test(start_paused = true)]
async fn where_nothing_is_announced_a_host_asks_by_itself() {
    let host = Host::new();
    let (_seen_by, seen) =
        watch::channel(Some(seen_node(&json!({SYNCED: "7", OBSERVED: "false"}))));
    let calls = vec![
        Call::get(PATH, Reply::ok(config("7", ONE))),
        no_map(),
        Call::get(PATH, Reply::ok(head("7"))),
    ];
    let act = async |keeper: CertificateSync<'_>| {
        let (trigger, shutdown) = shutdown::pair();
        let watch = async {
            tokio::time::sleep(PACE).await;
            trigger.fire();
        };
        tokio::join!(keep(keeper, shutdown), watch);
    };
    with_keeper(&host, seen, calls, act).await;
}

#[tokio::test]
async fn a_host_follows_and_its_node_says_so() {
    let host = Host::new();
    host.put(KUBELET_CA, "old", 0o600);
    let marks = json!({SYNCED: "7", OBSERVED: "false"});
    let calls = vec![
        Call::get(PATH, Reply::ok(config("7", ONE))),
        no_map(),
        says(&marks),
    ];
    look(&host, &json!({}), false, calls).await.unwrap();
    assert_eq!(host.read(KUBELET_CA).as_deref(), Some(ONE));
    let metadata = std::fs::metadata(host.path(KUBELET_CA)).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions());
    assert_eq!(mode & 0o7777, 0o600, "it keeps its mode");
}

#[tokio::test]
async fn what_is_followed_costs_one_small_request() {
    let host = Host::new();
    let annotations = json!({SYNCED: "7", OBSERVED: "false"});
    let calls = vec![Call::get(PATH, Reply::ok(head("7")))];
    look(&host, &annotations, true, calls).await.unwrap();
    assert_eq!(host.read(KUBELET_CA), None);

    let calls = vec![
        Call::get(PATH, Reply::ok(head("8"))),
        Call::get(PATH, Reply::ok(config("8", TWO))),
        no_map(),
        says(&json!({SYNCED: "8"})),
    ];
    // The patch holds what differs, and the response is the whole.
    look(&host, &annotations, true, calls).await.unwrap();
    assert_eq!(host.read(KUBELET_CA).as_deref(), Some(TWO));
}

#[tokio::test]
async fn a_host_is_compared_whatever_its_node_says() {
    let host = Host::new();
    let annotations = json!({SYNCED: "7", OBSERVED: "false"});
    let calls = vec![Call::get(PATH, Reply::ok(config("7", ONE))), no_map()];
    look(&host, &annotations, false, calls).await.unwrap();
    assert_eq!(host.read(KUBELET_CA).as_deref(), Some(ONE));
}

#[tokio::test]
async fn a_cluster_without_one_asks_for_nothing() {
    for is_compared in [false, true] {
        let gone = Reply::failure(404, "NotFound", "controllerconfigs \"x\" not found");
        let calls = vec![Call::get(PATH, gone)];
        look(&Host::new(), &json!({}), is_compared, calls)
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn what_is_refused_is_said_and_not_marked() {
    let host = Host::new();
    host.put(KUBELET_CA, ONE, 0o644);
    let message = "ControllerConfig machine-config-controller: spec.kubeAPIServerServingCAData holds no certificate in PEM";
    let calls = vec![
        Call::get(PATH, Reply::ok(config("7", "no certificate"))),
        no_map(),
        event(message),
    ];
    look(&host, &json!({OBSERVED: "false"}), false, calls)
        .await
        .unwrap();
    assert_eq!(host.read(KUBELET_CA).as_deref(), Some(ONE));
}

#[tokio::test]
async fn nothing_is_written_into_an_etc_that_is_left_behind() {
    let host = Host::new();
    let root = host.root();
    let held = JournalStore::new(&root).lock(Duration::ZERO).unwrap();
    let calls = vec![Call::get(PATH, Reply::ok(config("7", ONE)))];
    let error = look(&host, &json!({}), false, calls).await.unwrap_err();
    assert!(error.to_string().contains("lock"), "{error}");
    drop(held);
    switched(&root, "boot-1");
    host.put(host::journal::BOOT_ID, "boot-1\n", 0o444);
    let calls = vec![Call::get(PATH, Reply::ok(config("7", ONE)))];
    let error = look(&host, &json!({}), false, calls).await.unwrap_err();
    assert!(
        matches!(error, Error::Files(files::Error::Leaving)),
        "{error}"
    );
    assert_eq!(host.read(KUBELET_CA), None);

    // Once it is booted there is nothing left to leave.
    host.put(host::journal::BOOT_ID, "boot-2\n", 0o444);
    let marks = json!({SYNCED: "7", OBSERVED: "false"});
    let calls = vec![
        Call::get(PATH, Reply::ok(config("7", ONE))),
        no_map(),
        says(&marks),
    ];
    look(&host, &json!({}), false, calls).await.unwrap();
    assert_eq!(host.read(KUBELET_CA).as_deref(), Some(ONE));
}

/// A ControllerConfig that says that the API server's CA is rotated.
fn rotating() -> Value {
    let mut rotating = config("7", ONE);
    rotating["metadata"]["annotations"] = json!({annotation::SERVICE_CA_ROTATE: "true"});
    rotating
}

#[tokio::test]
async fn a_ca_that_cannot_be_used_is_not_observed() {
    let malformed = |field: &str| {
        format!(
            "ConfigMap mco/kubeconfig-data {field}[ca-bundle.crt] holds no certificate in PEM: Malformed Cert, not syncing"
        )
    };
    let none = STANDARD.encode("none");
    let table = [
        (
            json!({"data": {"ca-bundle.crt": "none"}}),
            malformed("data"),
        ),
        (
            json!({"binaryData": {"ca-bundle.crt": none}, "data": {"ca-bundle.crt": ONE}}),
            malformed("binaryData"),
        ),
        (
            json!({"data": {"another": ONE}}),
            "ConfigMap mco/kubeconfig-data has no data[ca-bundle.crt]".to_owned(),
        ),
    ];
    let refused = table.map(|(map, message)| (Call::get(MAP, Reply::ok(map)), message));
    let gone = "ConfigMap mco/kubeconfig-data is not there".to_owned();
    for (map, message) in refused.into_iter().chain([(no_map(), gone)]) {
        let host = Host::new();
        let calls = vec![Call::get(PATH, Reply::ok(rotating())), map, event(&message)];
        let error = look(&host, &json!({SYNCED: "7"}), false, calls).await;
        assert_eq!(error.unwrap_err().to_string(), message);
        let kept = host.read(KUBELET_CA);
        assert_eq!(kept.as_deref(), Some(ONE), "that one is good");
    }
}

#[tokio::test]
async fn a_ca_that_a_node_has_is_only_marked() {
    let encoded = STANDARD.encode(ONE);
    let kubeconfig = json!({
        "clusters": [{"name": "c", "cluster": {"server": "https://a", "certificate-authority-data": encoded}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}], "current-context": "x",
    });
    for map in [
        json!({"binaryData": {"ca-bundle.crt": encoded}}),
        json!({"data": {"ca-bundle.crt": encoded}}),
        json!({"data": {"ca-bundle.crt": ONE}}),
    ] {
        let host = Host::new();
        host.put(KUBECONFIG, &kubeconfig.to_string(), 0o600);
        let calls = vec![
            Call::get(PATH, Reply::ok(rotating())),
            Call::get(MAP, Reply::ok(map)),
            says(&json!({SYNCED: "7", OBSERVED: "true"})),
        ];
        look(&host, &json!({}), false, calls).await.unwrap();
        assert_eq!(host.read(KUBECONFIG), Some(kubeconfig.to_string()));
        assert_eq!(host.read("/run/slipway/kubelet-restart"), None);
    }
}

#[tokio::test]
async fn a_kubeconfig_of_the_configuration_is_its_own() {
    let host = Host::new();
    let kubeconfig = json!({
        "clusters": [{"name": "c", "cluster": {"server": "https://a"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}], "current-context": "x",
    });
    host.put(KUBECONFIG, &kubeconfig.to_string(), 0o600);
    host.configure(KUBECONFIG);
    let calls = vec![
        Call::get(PATH, Reply::ok(rotating())),
        Call::get(MAP, Reply::ok(json!({"data": {"ca-bundle.crt": ONE}}))),
        says(&json!({SYNCED: "7", OBSERVED: "true"})),
    ];
    look(&host, &json!({}), false, calls).await.unwrap();
    assert_eq!(host.read(KUBECONFIG), Some(kubeconfig.to_string()));
}

#[test]
fn a_file_that_cannot_be_written_keeps_no_other_back() {
    let host = Host::new();
    let (bad, good) = ("/etc/docker/certs.d/a.b", "/etc/docker/certs.d/c.d/ca.crt");
    host.put(bad, "where a directory should be", 0o644);
    let desired = Host::desired(&[("a.b", ONE), ("c.d", TWO)]);
    let written = files::write(host.directory.path(), &desired).unwrap();
    assert_eq!(written.paths, [KUBELET_CA, good]);
    let error = written.failed.unwrap().to_string();
    assert!(error.contains(bad), "{error}");
}

#[test]
fn registries_are_written_where_there_is_a_place_for_them() {
    let host = Host::new();
    assert_eq!(host.write(&[("a.b..5000", ONE)]), [KUBELET_CA]);
    std::fs::create_dir_all(host.path("/etc/docker/certs.d/empty")).unwrap();
    host.put("/etc/docker/certs.d/by.hand/ca.crt", TWO, 0o644);
    host.put("/etc/docker/certs.d/other/client.cert", TWO, 0o644);
    let (first, second) = (
        "/etc/docker/certs.d/a.b:5000/ca.crt",
        "/etc/docker/certs.d/c.d/ca.crt",
    );
    assert_eq!(
        host.write(&[("a.b..5000", ONE), ("c.d", TWO)]),
        [first, second]
    );
    assert_eq!(
        host.write(&[("a.b..5000", ONE), ("c.d", TWO)]),
        [""; 0],
        "once"
    );
    assert!(host.read(first).unwrap().ends_with(ONE));

    assert_eq!(host.write(&[("c.d", "no certificate")]), [first]);
    assert!(
        host.read(second).unwrap().ends_with(TWO),
        "a bad one takes no good one away"
    );
    let left = host
        .root()
        .list(&host.root().locate("/etc/docker/certs.d").unwrap());
    assert_eq!(left.unwrap(), ["by.hand", "c.d", "other"], "others' stay");
}

#[test]
fn what_the_configuration_brings_is_its_own() {
    let host = Host::new();
    let path = "/etc/docker/certs.d/a.b/ca.crt";
    host.put(path, TWO, 0o644);
    host.configure(path);
    assert_eq!(host.write(&[("a.b", ONE)]), [KUBELET_CA]);
    assert_eq!(host.read(path).as_deref(), Some(TWO));
}

#[test]
fn the_pull_secret_of_the_inner_registry_is_readable_by_root_alone() {
    let host = Host::new();
    let path = "/etc/mco/internal-registry-pull-secret.json";
    let desired = desired(&ClusterCertificates {
        pull_secret: br#"{"auths":{}}"#,
        ..ClusterCertificates::default()
    });
    let written = files::write(host.directory.path(), &desired).unwrap();
    assert_eq!(written.paths, [path]);
    let root = Root::open(host.directory.path(), None).unwrap();
    let host::files::Found::File { mode, .. } = root.inspect(path).unwrap() else {
        panic!("no file");
    };
    assert_eq!(mode, Mode(0o600));
}
