//! What a daemon asks of the API server, when it adopts a node and for an update, from the first
//! word to the last: verbs, paths and bodies, and nothing else. What its MachineConfigNode shows
//! meanwhile. And what adopting a node does to its host.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use lab::audit::{Event, Stage, Verb};
use lab::tree::Overlay;
use lab::wait::until_so;
use observer::host;
use serde_json::{Value, json};
use testbed::config::Config;
use testbed::logs;
use testbed::objects::deployment;
use testbed::{Cluster, DONE_WITHIN, NodeSpec, Testbed};

const NODE: &str = "worker-0";
const POOL: &str = "worker";

/// Annotations for people, whose words and times are the machine's. What they say is tested with
/// the state machine.
const FOR_PEOPLE: [&str; 4] = [
    "machineconfiguration.openshift.io/reason",
    "slipway.dev/phase",
    "slipway.dev/since",
    "slipway.dev/waits-for",
];

/// Annotations whose values are new each time.
const NEW_EACH_TIME: [&str; 2] = ["slipway.dev/cordoned-by", "slipway.dev/drain-since"];

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the lab"]
async fn an_update_asks_for_what_it_needs_and_nothing_else() -> Result<()> {
    let logs = logs::folder("traffic", "update");
    let testbed = Testbed::new(logs).node(NodeSpec::new(NODE));
    let mut cluster = testbed.objects(&deployment("evictable", 1)).boot().await?;
    adopt(&mut cluster).await?;
    cluster.objects().pods_ready(&[("evictable", 1)]).await?;
    let pods = cluster.objects().pods(("app", "evictable")).await?;
    let pod = &pods.first().context("no pod")?.metadata;
    let (pod, uid) = (pod.name.as_deref(), pod.uid.as_deref());
    let (pod, uid) = pod.zip(uid).context("a pod without a name")?;

    let image = cluster.image(&Overlay::version("second"))?;
    let with_image = Config::new().os(&image.reference);
    let (target, sent) = update(&cluster, &with_image).await?;
    let drain = json!([format!("drain-{target}"), format!("uncordon-{target}")]);
    assert_eq!(
        sent.node,
        fields(json!({
            "machineconfiguration.openshift.io/currentConfig": [target],
            "machineconfiguration.openshift.io/desiredDrain": drain,
            "machineconfiguration.openshift.io/lastAppliedDrain": drain,
            "machineconfiguration.openshift.io/post-config-action": ["Rebooting", ""],
            "machineconfiguration.openshift.io/state": ["Working", "Done"],
            "resourceVersion": ["read"],
            "slipway.dev/cordoned-by": ["new", null],
            "slipway.dev/drain-since": ["new", null],
            "unschedulable": [true, null],
        }))
    );
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": { "name": pod, "namespace": "default" },
        "deleteOptions": { "preconditions": { "uid": uid } },
    });
    let evict = format!("create /api/v1/namespaces/default/pods/{pod}/eviction");
    let pods = format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{NODE}");
    let expected = [
        (evict, eviction),
        (format!("get {CERTIFICATES}"), Value::Null),
        (format!("get {CONFIGS}/{target}"), Value::Null),
        (format!("list {pods}"), Value::Null),
        (format!("watch {pods}"), Value::Null),
    ];
    assert_eq!(sent.others, once(expected));
    let executed = "UpdatePrepared UpdateExecuted Cordoned Drained AppliedFilesAndOS";
    // Of the rest of an update only what lasts is written; the reboot waits until it is.
    let phases = [
        format!("{executed} UpdatePostActionComplete? RebootedNode?"),
        "Updated".to_owned(),
    ];
    shows_in_order(&sent.shown, &phases)?;
    let columns = ["get", "machineconfignodes", NODE, "--no-headers"];
    let printed = cluster.control_plane().kubectl(&columns)?;
    let printed: Vec<&str> = printed.split_whitespace().take(5).collect();
    assert_eq!(printed, [NODE, POOL, &target, &target, "True"]);

    let live = with_image.keys(&["ssh-rsa AAAA traffic"]);
    let (target, mut sent) = update(&cluster, &live).await?;
    // What passes at once is not written.
    let state = sent.node.remove("machineconfiguration.openshift.io/state");
    if let Some(state) = state {
        assert_eq!(state, ["Working", "Done"]);
    }
    let in_service = json!([format!("uncordon-{target}")]);
    assert_eq!(
        sent.node,
        fields(json!({
            "machineconfiguration.openshift.io/currentConfig": [target],
            "machineconfiguration.openshift.io/desiredDrain": in_service,
            "machineconfiguration.openshift.io/lastAppliedDrain": in_service,
        }))
    );
    let expected = [
        (format!("get {CONFIGS}/{target}"), Value::Null),
        (format!("get {OPERATOR}"), Value::Null),
    ];
    assert_eq!(sent.others, once(expected));
    shows_in_order(&sent.shown, &["Updated".to_owned()])
}

/// Whether a MachineConfigNode showed these conditions one after the other, and these last. Others
/// may be between them; what is true stays so until the last.
fn shows_in_order(shown: &[String], expected: &[String]) -> Result<()> {
    let mut rest = shown.iter();
    let is_there = expected.iter().all(|one| rest.any(|shown| shown == one));
    ensure!(
        is_there && rest.next().is_none(),
        "{shown:#?} instead of {expected:#?}"
    );
    let are_true = |state: &str| -> BTreeSet<String> {
        let names = state.split_whitespace();
        names
            .filter(|name| !name.ends_with('?'))
            .map(str::to_owned)
            .collect()
    };
    let under_way: Vec<_> = shown.iter().map(|state| are_true(state)).collect();
    let (_last, under_way) = under_way.split_last().context("nothing was shown")?;
    let stays = under_way.is_sorted_by(BTreeSet::is_subset);
    ensure!(stays, "what was true is not any more: {shown:#?}");
    Ok(())
}

/// Has the daemon adopt its node, which writes the guard and reboots nothing.
async fn adopt(cluster: &mut Cluster) -> Result<()> {
    let before = host::snapshot(cluster.host(NODE)?)?;
    cluster.adopt().await?;
    let after = host::snapshot(cluster.host(NODE)?)?;
    assert_eq!(
        host::differences(&before, &after),
        [
            "/etc/machine-config-daemon/node-annotations.json is gone",
            "/etc/machine-config-daemon/node-annotation.json.bak is new",
            "/etc/systemd/system/multi-user.target.wants/slipway-verify.service is new",
            "/etc/systemd/system/slipway-guard.service is new",
            "/etc/systemd/system/slipway-reboot@.service is new",
            "/etc/systemd/system/slipway-verify.service is new",
            "/etc/systemd/system/sysinit.target.wants is new",
            "/etc/systemd/system/sysinit.target.wants/slipway-guard.service is new",
        ]
    );
    assert_eq!(cluster.host(NODE)?.boots().len(), 1, "it was rebooted");
    let target = cluster.objects().target(POOL).await?;
    follows_the_announcement(cluster).await?;
    let sent = requests_since(cluster, Timestamp::MIN)?;
    let in_service = json!([format!("uncordon-{target}")]);
    assert_eq!(
        sent.node,
        fields(json!({
            "machineconfiguration.openshift.io/currentConfig": [target],
            "machineconfiguration.openshift.io/desiredConfig": [target],
            "machineconfiguration.openshift.io/desiredDrain": in_service,
            "machineconfiguration.openshift.io/lastAppliedDrain": in_service,
            "machineconfiguration.openshift.io/state": ["Done"],
        }))
    );
    // Once at its start, and once when the controller announces them on a node that is new to it.
    let read = vec![Value::Null; 2];
    assert_eq!(sent.others, [(format!("get {CERTIFICATES}"), read)].into());
    Ok(())
}

/// Waits until the daemon has read certificates after the controller announced them: an adopted
/// node is Done before that.
async fn follows_the_announcement(cluster: &Cluster) -> Result<()> {
    let has_read = |events: &Vec<Event>| {
        let ended = |it: &&Event| it.stage == Stage::ResponseComplete;
        let mut events = events.iter().filter(ended);
        let is_it = |it: &Event| {
            let body = it.request.as_ref();
            let annotations = body.and_then(|it| it.pointer("/metadata/annotations"));
            let is_announced = annotations.is_some_and(|it| it.get(ANNOUNCED).is_some());
            it.verb == Verb::Patch && is_announced
        };
        let Some(announced) = events.find(|it| is_it(it)) else {
            return false;
        };
        let mut events = events.filter(|it| it.received > announced.received);
        events.any(|it| it.user_agent.starts_with("mcd/") && it.uri == CERTIFICATES)
    };
    let what = "the daemon reads certificates after the announcement";
    until_so(what, async || cluster.events(), has_read).await?;
    Ok(())
}

const ANNOUNCED: &str = "slipway.dev/certificates";
const OBJECTS: &str = "/apis/machineconfiguration.openshift.io/v1/machineconfignodes";
const CONFIGS: &str = "/apis/machineconfiguration.openshift.io/v1/machineconfigs";
/// Read once a life; this cluster has none.
const CERTIFICATES: &str =
    "/apis/machineconfiguration.openshift.io/v1/controllerconfigs/machine-config-controller";
const OPERATOR: &str = "/apis/operator.openshift.io/v1/machineconfigurations/cluster";

/// Has the node updated; the target, and the requests of its daemon meanwhile.
async fn update(cluster: &Cluster, config: &Config) -> Result<(String, DaemonRequests)> {
    let since = Timestamp::now();
    let target = cluster.change("60-change", POOL, &config.spec()).await?;
    cluster.all_done(POOL, &target, DONE_WITHIN).await?;
    // The MachineConfigNode is written by a task of its own, after the Node.
    let current = format!("--for=jsonpath={{.status.configVersion.current}}={target}");
    for until in [current.as_str(), "--for=condition=Updated"] {
        let object = format!("machineconfignode/{NODE}");
        let wait = ["wait", &object, until, "--timeout=30s"];
        cluster.control_plane().kubectl(&wait)?;
    }
    Ok((target, requests_since(cluster, since)?))
}

fn requests_since(cluster: &Cluster, since: Timestamp) -> Result<DaemonRequests> {
    let events = cluster.events()?;
    let mut sent = DaemonRequests::default();
    for event in &events {
        if event.user_agent.starts_with("mcd/") && event.received > since {
            sent.add(event)?;
        }
    }
    Ok(sent)
}

/// The requests of a daemon.
#[derive(Debug, Default)]
struct DaemonRequests {
    /// Values that were written to fields of the Node, in order, each once in a row.
    node: BTreeMap<String, Vec<Value>>,
    /// All other requests, with the body each time. Events are left out, whose bodies the audit log
    /// does not keep, and the watch on the Node, which begins again when it likes.
    others: BTreeMap<String, Vec<Value>>,
    /// Conditions of the MachineConfigNode that were written and are not False; `?` where they are
    /// Unknown. Once the object is there it is read once.
    shown: Vec<String>,
    /// Whether the last write to the Node conflicted with another, and the Node may be read again.
    met_another: bool,
}

impl DaemonRequests {
    fn add(&mut self, event: &Event) -> Result<()> {
        let path = event.uri.split('&').next().unwrap_or_default();
        let node = format!("/api/v1/nodes/{NODE}");
        let watched = format!("/api/v1/nodes?fieldSelector=metadata.name%3D{NODE}");
        let is_watch = event.verb == Verb::Watch;
        let is_event = event.verb == Verb::Create && path.ends_with("/events");
        // A watch is in the log when it begins, and again when it ends.
        if is_event || is_watch && (event.stage != Stage::ResponseStarted || path == watched) {
            return Ok(());
        }
        if event.verb == Verb::Get && path == node && std::mem::take(&mut self.met_another) {
            return Ok(());
        }
        let object = format!("{OBJECTS}/{NODE}");
        if event.verb == Verb::Get && path == object {
            return Ok(());
        }
        if event.verb == Verb::Patch && path.starts_with(&format!("{object}/status?")) {
            let body = event.request.as_ref().context("a patch without a body")?;
            self.shown.push(held(body));
            return Ok(());
        }
        if event.verb == Verb::Patch && path == node {
            self.met_another = event.status.as_ref().is_some_and(|is| is.code == 409);
            let body = event.request.as_ref().context("a patch without a body")?;
            self.write(body);
            return Ok(());
        }
        let verb = format!("{:?}", event.verb).to_lowercase();
        let body = event.request.clone().unwrap_or_default();
        let bodies = self.others.entry(format!("{verb} {path}")).or_default();
        bodies.push(body);
        Ok(())
    }

    fn write(&mut self, body: &Value) {
        let mut write = |key: &str, value: Value| {
            let values = self.node.entry(key.to_owned()).or_default();
            if values.last() != Some(&value) {
                values.push(value);
            }
        };
        let object = |value: &Value| value.as_object().cloned().unwrap_or_default();
        for (part, value) in object(body) {
            match part.as_str() {
                "metadata" => {
                    for (field, value) in object(&value) {
                        if field != "annotations" {
                            let is_version = field == "resourceVersion" && value.is_string();
                            write(&field, if is_version { json!("read") } else { value });
                            continue;
                        }
                        for (key, value) in object(&value) {
                            if NEW_EACH_TIME.contains(&key.as_str()) && value.is_string() {
                                write(&key, json!("new"));
                            } else if !FOR_PEOPLE.contains(&key.as_str()) {
                                write(&key, value);
                            }
                        }
                    }
                }
                "spec" => {
                    for (field, value) in object(&value) {
                        write(&field, value);
                    }
                }
                other => write(other, value),
            }
        }
    }
}

/// The conditions of a MachineConfigNode that are not False, in the order of an update.
fn held(object: &Value) -> String {
    let conditions = object.pointer("/status/conditions");
    let conditions = conditions.and_then(Value::as_array);
    let words = conditions.into_iter().flatten().filter_map(|condition| {
        let name = condition.get("type")?.as_str()?;
        match condition.get("status")?.as_str()? {
            "True" => Some(name.to_owned()),
            "Unknown" => Some(format!("{name}?")),
            _ => None,
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Fields with the values that they get, one after the other.
fn fields(fields: Value) -> BTreeMap<String, Vec<Value>> {
    serde_json::from_value(fields).unwrap_or_default()
}

/// Requests, each once.
fn once<const N: usize>(requests: [(String, Value); N]) -> BTreeMap<String, Vec<Value>> {
    requests.map(|(request, body)| (request, vec![body])).into()
}
