//! Two controllers on a real control plane: one leads, and where for once both decide, the budget holds nevertheless.
//!
//! The nodes are objects without hosts. What their daemons would write is written here, so that many rounds take seconds; who told whom, and
//! how many were out at once, is read from the API server's audit log.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use api::{NodeState, annotation};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use lab::audit::{self, nodes};
use lab::control_plane::{ControlPlane, Options, Process, definitions};
use serde_json::{Value, json};
use tests::cluster::objects::{self, Objects, until};
use tests::cluster::{Binaries, account};

const NODES: [&str; 6] = ["n0", "n1", "n2", "n3", "n4", "n5"];
const POOL: &str = "worker";
const ACCOUNT: &str = "machine-config-controller";

/// Folder of each component's objects.
const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy");

/// How many nodes may be out at once.
const BUDGET: usize = 2;

/// How long an update takes here.
const UPDATE: Duration = Duration::from_millis(200);

/// How often a node is looked at, and how often it says that it is alive.
const LOOK_EVERY: Duration = Duration::from_millis(30);
const ALIVE_EVERY: Duration = Duration::from_secs(10);

/// How long a rollout of all nodes may take; and with a leader's lease to run out.
const WITHIN: Duration = Duration::from_mins(2);

/// A lease that runs out soon.
const SHORT_LEASE: [&str; 3] = [
    "--lease-secs=5",
    "--renew-deadline-secs=3",
    "--lease-retry-secs=1",
];

/// What a leader logs first.
const WORKS: &str = "this replica works";

/// What a controller logs that is about to claim a round.
const DECIDED: &str = "nodes to tell";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control plane"]
async fn a_killed_leader_is_replaced_in_the_middle_of_a_rollout() -> Result<()> {
    // On our own definitions, which elsewhere are only compared with upstream's.
    let scene = Scene::start("killed-leader", &Path::new(DEPLOY).join("crds")).await?;
    let mut replicas = scene.controllers(&SHORT_LEASE)?;
    let first = scene.born().await?;
    scene.configure("50-change", "a=1")?;
    let leader = until("a leader", WITHIN, async || {
        Ok(scene
            .working()?
            .pop()
            .context("nobody leads")
            .map_err(|error| error.to_string()))
    })
    .await?;
    until("the first node is told", WITHIN, async || {
        let nodes = scene.objects.nodes().await?;
        let is_told = |node: &Node| {
            let desired = objects::annotation(node, annotation::DESIRED_CONFIG);
            !desired.is_empty() && desired != first
        };
        Ok(if nodes.values().any(is_told) {
            Ok(())
        } else {
            Err("nobody is".to_owned())
        })
    })
    .await?;
    ensure!(scene.working()? == [leader.clone()], "more than one leads");
    replicas
        .remove(&leader)
        .context("the leader is none of ours")?;
    let target = scene.rolled(&first).await?;
    ensure!(
        scene.working()?.len() == 2,
        "the other replica did not take over"
    );
    drop(replicas);
    scene.judge(&[first, target])
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control plane"]
async fn two_that_decide_at_once_keep_the_budget() -> Result<()> {
    let scene = Scene::start("both-decide", &definitions()).await?;
    let replicas = scene.controllers(&["--leader-elect=false", "--v=4"])?;
    let mut known = scene.born().await?;
    let mut targets = vec![known.clone()];
    // Each change comes while nodes are on their way to the one before. Who decides is whoever looks
    // first, so there are as many as it takes for both to have done so.
    for change in 0..CHANGES_MAX {
        scene.configure("50-change", &format!("a={change}"))?;
        known = scene.retargeted(&known).await?;
        targets.push(known.clone());
        if change >= CHANGES_MIN && scene.idle(&replicas)?.is_empty() {
            break;
        }
    }
    scene.all_done(&known).await?;
    let idle = scene.idle(&replicas)?;
    ensure!(idle.is_empty(), "{idle:?} never decided anything");
    drop(replicas);
    scene.judge(&targets)
}

/// How many changes there are at least, and at most.
const CHANGES_MIN: usize = 3;
const CHANGES_MAX: usize = 40;

/// A control plane with a pool of nodes.
struct Scene {
    control_plane: ControlPlane,
    objects: Objects,
    nodes: Api<Node>,
    dir: PathBuf,
}

impl Scene {
    async fn start(name: &str, definitions: &Path) -> Result<Self> {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../target/two-controllers")
            .join(name);
        if dir.exists() {
            fs::remove_dir_all(&dir)?;
        }
        let control_plane_dir = dir.join("control-plane");
        fs::create_dir_all(&control_plane_dir)?;
        let options = Options {
            dir: Some(control_plane_dir),
            ..Options::default()
        };
        let control_plane =
            tokio::task::spawn_blocking(move || ControlPlane::start(&options)).await??;
        control_plane.apply_crds(definitions)?;
        for (file, is_dry) in [
            ("daemon/namespace.yaml", false),
            ("controller/rbac.yaml", false),
            ("controller/deployment.yaml", true),
        ] {
            let file = format!("{DEPLOY}/{file}");
            let mut arguments = vec!["apply", "--server-side", "--filename", &file];
            if is_dry {
                arguments.push("--dry-run=server");
            }
            control_plane.kubectl(&arguments)?;
        }
        let client = control_plane.client().await?;
        let scene = Self {
            objects: Objects::new(client.clone()),
            nodes: Api::all(client),
            control_plane,
            dir,
        };
        for node in NODES {
            scene.create(node).await?;
        }
        scene.configure("00-worker", "quiet")?;
        scene.apply(
            "pool",
            &json!({
                "apiVersion": "machineconfiguration.openshift.io/v1",
                "kind": "MachineConfigPool",
                "metadata": { "name": POOL },
                "spec": {
                    "maxUnavailable": BUDGET,
                    "machineConfigSelector": { "matchLabels": { api::label::ROLE: POOL } },
                    "nodeSelector": { "matchLabels": { api::label::WORKER: "" } }
                }
            }),
        )?;
        Ok(scene)
    }

    /// Makes a Node; the first word of its kubelet follows with the first look.
    async fn create(&self, name: &str) -> Result<()> {
        let node = json!({ "metadata": { "name": name, "labels": { api::label::WORKER: "" } } });
        self.nodes
            .create(&PostParams::default(), &serde_json::from_value(node)?)
            .await?;
        self.is_alive(name).await
    }

    async fn is_alive(&self, name: &str) -> Result<()> {
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let ready = json!({ "status": { "conditions": [
            { "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "", "lastHeartbeatTime": now }
        ] } });
        let patch = Patch::Strategic(ready);
        self.nodes
            .patch_status(name, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    /// Replicas that have not decided anything so far.
    fn idle<'a>(&self, replicas: &'a BTreeMap<String, Process>) -> Result<Vec<&'a String>> {
        let mut idle = Vec::new();
        for name in replicas.keys() {
            if !self.log_of(name)?.contains(DECIDED) {
                idle.push(name);
            }
        }
        Ok(idle)
    }

    /// Starts both replicas; their logs are in the run's folder.
    fn controllers(&self, arguments: &[&str]) -> Result<BTreeMap<String, Process>> {
        let program = Binaries::built()?.mcc;
        let kubeconfig = self.dir.join("kubeconfig");
        account::write_kubeconfig(&self.control_plane, ACCOUNT, &kubeconfig)?;
        let kubeconfig = kubeconfig
            .to_str()
            .context("the run's folder is not UTF-8")?;
        let start = |name: &str| {
            let fixed = [
                "start",
                "--kubeconfig",
                kubeconfig,
                "--metrics-url=127.0.0.1:0",
                "--identity",
                name,
            ];
            let arguments = [&fixed, arguments].concat();
            Ok((
                name.to_owned(),
                Process::start(name, &program, arguments, &self.dir)?,
            ))
        };
        ["mcc-0", "mcc-1"].into_iter().map(start).collect()
    }

    fn log_of(&self, replica: &str) -> Result<String> {
        Ok(fs::read_to_string(self.dir.join(format!("{replica}.log")))?)
    }

    /// Which replicas have ever worked.
    fn working(&self) -> Result<Vec<String>> {
        let mut working = Vec::new();
        for name in ["mcc-0", "mcc-1"] {
            if self.log_of(name)?.contains(WORKS) {
                working.push(name.to_owned());
            }
        }
        Ok(working)
    }

    fn configure(&self, name: &str, argument: &str) -> Result<()> {
        self.apply(
            name,
            &json!({
                "apiVersion": "machineconfiguration.openshift.io/v1",
                "kind": "MachineConfig",
                "metadata": { "name": name, "labels": { api::label::ROLE: POOL } },
                "spec": { "kernelArguments": [argument] }
            }),
        )
    }

    #[expect(clippy::disallowed_methods, reason = "a run's own file")]
    fn apply(&self, name: &str, object: &Value) -> Result<()> {
        let file = self.dir.join(format!("{name}.json"));
        fs::write(&file, object.to_string())?;
        let file = file.to_str().context("the run's folder is not UTF-8")?;
        self.control_plane
            .kubectl(&["apply", "--server-side", "--filename", file])?;
        Ok(())
    }

    /// Gives the nodes the pool's first configuration, as if they were born in it. That configuration.
    async fn born(&self) -> Result<String> {
        let first = until("the first configuration", WITHIN, async || {
            let target = self.objects.target(POOL).await?;
            Ok(if target.is_empty() {
                Err("none yet".to_owned())
            } else {
                Ok(target)
            })
        })
        .await?;
        let annotations = json!({
            annotation::CURRENT_CONFIG: first,
            annotation::DESIRED_CONFIG: first,
            annotation::STATE: NodeState::Done.as_str()
        });
        for node in NODES {
            let patch = json!({ "metadata": { "annotations": annotations } });
            self.objects.patch_node(node, &patch).await?;
        }
        Ok(first)
    }

    /// Updates nodes until the pool has another target and all of them are done in it. That target.
    async fn rolled(&self, before: &str) -> Result<String> {
        let target = self.retargeted(before).await?;
        self.all_done(&target).await?;
        Ok(target)
    }

    /// Updates nodes until the pool has another target, and somebody was told it.
    async fn retargeted(&self, before: &str) -> Result<String> {
        let mut daemons = Daemons::default();
        let deadline = Instant::now() + WITHIN;
        loop {
            let nodes = daemons.look(self).await?;
            let target = self.objects.target(POOL).await?;
            let is_told =
                |node: &Node| objects::annotation(node, annotation::DESIRED_CONFIG) == target;
            if target != before && nodes.values().any(is_told) {
                return Ok(target);
            }
            ensure!(
                Instant::now() < deadline,
                "nobody was told another target than {before}"
            );
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Updates nodes until all are done in `target`, and the pool says so.
    async fn all_done(&self, target: &str) -> Result<()> {
        let mut daemons = Daemons::default();
        let deadline = Instant::now() + WITHIN;
        loop {
            let nodes = daemons.look(self).await?;
            let pool = self.objects.pool(POOL).await?;
            let status = pool.status.unwrap_or_default();
            let is_done = nodes.values().all(|node| objects::is_done_in(node, target));
            if is_done
                && status.configuration.name() == Some(target)
                && status.updated_machine_count == 6
            {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let says: Vec<String> = nodes.values().map(objects::says).collect();
                anyhow::bail!("not all are done in {target}: {says:#?}\n{status:#?}");
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Reads the audit log and says whether the laws held.
    fn judge(self, targets: &[String]) -> Result<()> {
        let events = audit::load(&self.control_plane.audit_log())?;
        let account = format!("system:serviceaccount:{}:{ACCOUNT}", api::NAMESPACE);
        let refused: Vec<_> = events
            .iter()
            .filter(|event| event.user.username == account)
            .filter(|event| {
                event
                    .status
                    .as_ref()
                    .is_some_and(|status| status.code == 403)
            })
            .map(|event| &event.uri)
            .collect();
        ensure!(
            refused.is_empty(),
            "deploy/controller grants too little: {refused:#?}"
        );

        // What the budget rests on when both decide: no write of one goes over a write of the other.
        let unguarded = events
            .iter()
            .filter(|event| event.user.username == account && event.verb == audit::Verb::Patch)
            .filter(|event| {
                event.concerns("", "nodes")
                    || event.concerns("machineconfiguration.openshift.io", "machineconfigpools")
            })
            .filter_map(|event| event.request.as_ref())
            .find(|request| request.pointer("/metadata/resourceVersion").is_none());
        ensure!(
            unguarded.is_none(),
            "a write without the version that was read: {unguarded:?}"
        );

        let histories = nodes::histories(&events);
        let is_out = |state: &nodes::NodeState| {
            let of = |key| state.annotations.get(key);
            let current = of(annotation::CURRENT_CONFIG);
            current.is_some()
                && (current != of(annotation::DESIRED_CONFIG)
                    || of(annotation::STATE).map(String::as_str) != Some("Done"))
        };
        let intervals: Vec<_> = histories
            .values()
            .flat_map(|history| nodes::intervals(history, is_out))
            .collect();
        let most = nodes::max_overlap(&intervals);
        ensure!(
            most <= BUDGET,
            "{most} nodes were out at once, of at most {BUDGET}"
        );
        ensure!(
            most == BUDGET,
            "the budget was never used up, so nothing is proven"
        );
        for (node, history) in &histories {
            for (before, after) in history.iter().zip(history.iter().skip(1)) {
                let told = |state: &nodes::NodeState| {
                    state.annotations.get(annotation::DESIRED_CONFIG).cloned()
                };
                if told(before).is_some() && told(before) != told(after) {
                    let target = told(after).unwrap_or_default();
                    ensure!(after.user == account, "{} told {node} {target}", after.user);
                    ensure!(
                        targets.contains(&target),
                        "{node} was told {target}, which no pool asked for"
                    );
                }
            }
        }
        Ok(())
    }
}

/// What the nodes' daemons would write: Working when they see another target, Done in it a while later.
#[derive(Default)]
struct Daemons {
    began: BTreeMap<String, Instant>,
    alive: Option<Instant>,
}

impl Daemons {
    /// Looks at all nodes once and writes what is due.
    async fn look(&mut self, scene: &Scene) -> Result<BTreeMap<String, Node>> {
        if self.alive.is_none_or(|since| since.elapsed() > ALIVE_EVERY) {
            for node in NODES {
                scene.is_alive(node).await?;
            }
            self.alive = Some(Instant::now());
        }
        let nodes = scene.objects.nodes().await?;
        for (name, node) in &nodes {
            let of = |key| objects::annotation(node, key);
            let desired = of(annotation::DESIRED_CONFIG);
            if of(annotation::STATE) == "Done" && desired == of(annotation::CURRENT_CONFIG) {
                continue;
            }
            let written = match self.began.get(name) {
                None => {
                    self.began.insert(name.clone(), Instant::now());
                    json!({ annotation::STATE: "Working" })
                }
                Some(since) if since.elapsed() > UPDATE => {
                    self.began.remove(name);
                    json!({ annotation::STATE: "Done", annotation::CURRENT_CONFIG: desired })
                }
                Some(_) => continue,
            };
            let patch = json!({ "metadata": { "annotations": written } });
            scene.objects.patch_node(name, &patch).await?;
        }
        Ok(nodes)
    }
}
