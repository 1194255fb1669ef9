//! What is read for a plan, and what is made of it.

use apimock::{Call, Reply, Script};
use host::files::Content;
use node_update::plan::{Mode, OwnerIds};
use serde_json::json;

use super::*;

const SETTINGS: &str = "/apis/operator.openshift.io/v1/machineconfigurations/cluster";

fn config_url(name: &str) -> String {
    format!("/apis/machineconfiguration.openshift.io/v1/machineconfigs/{name}")
}

fn target(config: &str) -> Target {
    Target {
        config: config.to_owned(),
        image: None,
    }
}

/// A MachineConfig with one file.
fn config(name: &str, path: &str) -> Value {
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": {"name": name},
        "spec": {"config": {
            "ignition": {"version": "3.4.0"},
            "storage": {"files": [{"path": path, "mode": 420, "contents": {"source": format!("data:,{name}")}}]},
        }},
    })
}

fn not_found() -> Reply {
    Reply::failure(
        404,
        "NotFound",
        "machineconfigs.machineconfiguration.openshift.io \"b\" not found",
    )
}

struct Host {
    directory: tempfile::TempDir,
}

impl Host {
    /// A host whose record is configuration `a`.
    fn in_a() -> Self {
        let host = Self {
            directory: tempfile::tempdir().unwrap(),
        };
        let root = Root::open(host.directory.path(), None).unwrap();
        let record = config("a", "/etc/x").to_string();
        let content = Content {
            bytes: record.as_bytes(),
            mode: Mode(0o600),
            owner: OwnerIds {
                uid: nix::unistd::getuid().as_raw(),
                gid: nix::unistd::getgid().as_raw(),
            },
        };
        root.replace(&root.locate(record::CONFIG).unwrap(), content)
            .unwrap();
        host
    }

    fn stored(&self) -> Vec<Attempt> {
        let root = Root::open(self.directory.path(), None).unwrap();
        JournalStore::new(&root).plans().unwrap()
    }

    async fn plan(&self, to: &str, calls: Vec<Call>) -> Result<Stored, NoPlan> {
        let (script, client) = Script::start(calls);
        let account = Access::of_client(client);
        let planner = Planner {
            root: self.directory.path(),
            account: &account,
            configs: &account,
            key: api::machineconfiguration::annotation::DESIRED_CONFIG,
            is_forced: false,
        };
        let (events, _said) = EventSink::channel();
        let facts = std::future::ready(Ok(Facts::default()));
        let attempt = Attempt("1-0".to_owned());
        let (from, to) = (target("a"), target(to));
        let work = planner.plan(&attempt, (&from, &to), facts, &events);
        let stored = Box::pin(script.drive(work)).await;
        assert_eq!(script.remaining(), 0);
        stored
    }
}

fn refused(result: Result<Stored, NoPlan>) -> String {
    match result {
        Err(NoPlan::Rejected(reasons)) => reasons.join("; "),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn the_target_is_read_once_and_the_origin_on_the_host() {
    let host = Host::in_a();
    let calls = vec![
        Call::get(&config_url("b"), Reply::ok(config("b", "/etc/x"))),
        Call::get(SETTINGS, not_found()),
    ];
    let stored = host.plan("b", calls).await.unwrap();
    assert_eq!(stored.to, target("b"));
    assert_eq!(host.stored(), [Attempt("1-0".to_owned())]);
}

/// A MachineConfig with another OS.
fn with_os(name: &str, image: &str) -> Value {
    let mut config = config(name, "/etc/x");
    config["spec"]["osImageURL"] = json!(image);
    config
}

#[tokio::test(start_paused = true)]
async fn settings_are_not_read_where_another_os_is_booted_anyway() {
    let host = Host::in_a();
    let image = "registry/os@sha256:1";
    let calls = vec![Call::get(&config_url("b"), Reply::ok(with_os("b", image)))];
    let stored = host.plan("b", calls).await.unwrap();
    assert_eq!(stored.outline.route, node_update::plan::Route::Reboot);
}

#[tokio::test(start_paused = true)]
async fn settings_are_read_where_a_refusal_may_be_theirs_to_lift() {
    let host = Host::in_a();
    let mut refused_config = with_os("b", "registry/os@sha256:1");
    refused_config["spec"]["config"]["storage"]["disks"] = json!([{"device": "/dev/sdb"}]);
    let calls = vec![
        Call::get(&config_url("b"), Reply::ok(refused_config)),
        Call::get(SETTINGS, not_found()),
    ];
    let why = refused(host.plan("b", calls).await);
    assert!(why.contains("disks"), "{why}");
}

#[tokio::test]
async fn broken_record_is_not_replaced_by_the_clusters_copy() {
    let host = Host::in_a();
    let root = Root::open(host.directory.path(), None).unwrap();
    let account = Access::of_client(Script::start(vec![]).1);
    let recorded = |spec: Value| {
        let object = json!({"metadata": {"name": "a"}, "spec": spec}).to_string();
        record::write(&root, object.as_bytes(), None).unwrap();
        let planner = Planner {
            root: host.directory.path(),
            account: &account,
            configs: &account,
            key: api::machineconfiguration::annotation::DESIRED_CONFIG,
            is_forced: false,
        };
        let read = |from| {
            planner
                .recorded(&target(from))
                .map(|config| config.is_some())
        };
        (read("a"), read("other"))
    };
    assert_eq!(recorded(json!({"fips": true})), (Ok(true), Ok(false)));
    let (Err(NoPlan::Failed(text)), other) = recorded(json!({"fips": "yes"})) else {
        panic!("a broken record was used");
    };
    assert_eq!(other, Ok(false));
    let start = format!("broken record {}: cannot read spec.fips", record::CONFIG);
    assert!(text.starts_with(&start), "{text}");
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_away_is_waited_for() {
    let calls = vec![
        Call::get(&config_url("b"), Reply::Broken),
        Call::get(
            &config_url("b"),
            Reply::failure(503, "ServiceUnavailable", "no"),
        ),
        Call::get(&config_url("b"), Reply::ok(config("b", "/etc/x"))),
        Call::get(SETTINGS, not_found()),
    ];
    Host::in_a().plan("b", calls).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_config_that_does_not_exist_is_named() {
    let host = Host::in_a();
    let calls = vec![Call::get(&config_url("b"), not_found())];
    let expected = "annotation machineconfiguration.openshift.io/desiredConfig: \
                    machineconfig.machineconfiguration.openshift.io \"b\" not found";
    let result = host.plan("b", calls).await;
    assert_eq!(result, Err(NoPlan::Failed(expected.to_owned())));
    assert!(host.stored().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_none_is_not_asked_for() {
    let result = Host::in_a().plan("../../../api/v1/secrets", vec![]).await;
    assert!(refused(result).contains("is no name of a MachineConfig"));
}

#[tokio::test(start_paused = true)]
async fn bad_input_is_refused_with_object_and_field_and_nothing_is_stored() {
    let mut wrong_mode = config("b", "/etc/x");
    wrong_mode["spec"]["config"]["storage"]["files"][0]["mode"] = json!(0o1777);
    let mut no_version = config("b", "/etc/x");
    no_version["spec"]["config"]["ignition"] = json!({});
    let mut kernel = config("b", "/etc/x");
    kernel["spec"]["kernelType"] = json!("fast one");
    let table = [
        (config("b", "etc/x"), "storage.files"),
        (config("b", "/etc/../x"), "storage.files"),
        (wrong_mode, "mode"),
        (no_version, "version"),
        (kernel, "spec.kernelType"),
    ];
    for (object, field) in table {
        let host = Host::in_a();
        let calls = vec![Call::get(&config_url("b"), Reply::ok(object.clone()))];
        let text = refused(host.plan("b", calls).await);
        assert!(
            text.contains("MachineConfig b") && text.contains(field),
            "{object}: {text}"
        );
        assert!(host.stored().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn policies_that_the_operator_has_not_seen_are_waited_for() {
    let never = json!({"metadata": {"generation": 2}, "spec": {"nodeDisruptionPolicy": {}}});
    let behind = json!({"metadata": {"generation": 2}, "status": {"observedGeneration": 1}});
    let seen = json!({"metadata": {"generation": 2}, "status": {
        "observedGeneration": 2,
        "nodeDisruptionPolicyStatus": {"clusterPolicies": {"files": [{"path": "/etc/x", "actions": [{"type": "None"}]}]}},
    }});
    let calls = vec![
        Call::get(&config_url("b"), Reply::ok(config("b", "/etc/x"))),
        Call::get(SETTINGS, Reply::ok(never)),
        Call::get(SETTINGS, Reply::ok(behind)),
        Call::get(SETTINGS, Reply::ok(seen)),
    ];
    let stored = Host::in_a().plan("b", calls).await.unwrap();
    assert!(!stored.outline.drain, "{stored:?}");
}

#[test]
fn names_from_the_cluster_do_not_leave_their_path() {
    let table = [
        ("rendered-worker-1", true),
        ("a.b", true),
        ("", false),
        ("..", false),
        ("a/b", false),
        ("a?b", false),
        ("A", false),
    ];
    for (name, is_name) in table {
        assert_eq!(config_path(name).is_some(), is_name, "{name:?}");
    }
}

#[test]
fn plans_of_others_stay_while_another_program_acts_on_the_host() {
    let host = Host::in_a();
    let bundle = |attempt: &str| {
        let parsed = |name: &str| NodeConfig::parse(&config(name, "/etc/x")).unwrap().0;
        let (from, to) = (target("a"), target("b"));
        let (origin, new) = (parsed("a"), parsed("b"));
        let side = |target, config| Side { target, config };
        let outcome = planner::plan(&Request {
            attempt: &Attempt(attempt.to_owned()),
            from: side(&from, &origin),
            to: side(&to, &new),
            facts: &Facts::default(),
            policies: &UpdateSettings::default().policies,
            exempt: UpdateSettings::default().exempt,
            force: false,
        });
        outcome.unwrap().bundle
    };
    let stored = |attempt: &str| store(host.directory.path(), &bundle(attempt)).unwrap();
    let names = |names: &[&str]| -> Vec<Attempt> {
        names
            .iter()
            .map(|name| Attempt((*name).to_owned()))
            .collect()
    };
    stored("1-0");
    let root = Root::open(host.directory.path(), None).unwrap();
    let lock = JournalStore::new(&root).lock(Duration::ZERO).unwrap();
    stored("2-0");
    assert_eq!(host.stored(), names(&["1-0", "2-0"]));
    drop(lock);
    stored("3-0");
    assert_eq!(host.stored(), names(&["3-0"]));
}
