//! A pool of nodes without hosts, and what their daemons would write.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use api::machineconfiguration::machine_config_pool::PoolConditionType;
use api::machineconfiguration::{NodeState, annotation};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use testbed::config::Config;
use testbed::objects::{self, Objects};
use testbed::{CONTROLLER, Cluster, DONE_WITHIN, Testbed, logs};

const NODES: [&str; 6] = ["n0", "n1", "n2", "n3", "n4", "n5"];
pub(crate) const POOL: &str = "worker";
pub(crate) const ACCOUNT: &str = "machine-config-controller";

/// The controller's replicas.
const REPLICAS: [&str; 2] = ["mcc-0", "mcc-1"];

/// How many nodes may be out at once.
pub(crate) const BUDGET: usize = 2;

/// How long an update takes here.
const UPDATE: Duration = Duration::from_millis(200);

/// How often a node is looked at.
const POLL_EVERY: Duration = Duration::from_millis(30);

/// How long a rollout of all nodes may take; and with a leader's lease to run out.
pub(crate) const WITHIN: Duration = DONE_WITHIN;

/// What a leader logs first.
const LEADS: &str = "this replica leads";

/// What a controller logs that is about to claim a round.
const DECIDED: &str = "nodes to assign";

/// A control plane with a pool of nodes.
pub(crate) struct Env {
    pub(crate) cluster: Cluster,
}

impl Env {
    /// Starts both replicas with these arguments; the initial configuration of the nodes, too.
    pub(crate) async fn start(
        name: &str,
        definitions: &Path,
        arguments: &[&str],
    ) -> Result<(Self, String)> {
        let testbed = Testbed::new(logs::folder("two-controllers", name)).components(&[]);
        let mut cluster = testbed.definitions(definitions).start().await?;
        for node in NODES {
            create(cluster.objects(), node).await?;
        }
        let budget = json!({ "spec": { "maxUnavailable": BUDGET } });
        cluster.objects().patch_pool(POOL, &budget).await?;
        let quiet = Config::new().argument("quiet").spec();
        cluster.configure("00-worker", POOL, &quiet).await?;
        cluster.run(CONTROLLER, arguments).await?;
        let env = Self { cluster };
        let first = env.initial().await?;
        Ok((env, first))
    }

    pub(crate) fn objects(&self) -> &Objects {
        self.cluster.objects()
    }

    /// Replicas that have not decided anything so far.
    pub(crate) fn idle(&self) -> Result<Vec<&'static str>> {
        let mut idle = REPLICAS.to_vec();
        for name in self.that_logged(DECIDED)? {
            idle.retain(|replica| *replica != name);
        }
        Ok(idle)
    }

    /// Which replicas have ever worked.
    pub(crate) fn leaders(&self) -> Result<Vec<&'static str>> {
        self.that_logged(LEADS)
    }

    fn that_logged(&self, words: &str) -> Result<Vec<&'static str>> {
        let mut found = Vec::new();
        for name in REPLICAS {
            if self.cluster.log_of(name)?.contains(words) {
                found.push(name);
            }
        }
        Ok(found)
    }

    pub(crate) async fn configure(&self, name: &str, argument: &str) -> Result<()> {
        let spec = Config::new().argument(argument).spec();
        self.cluster.configure(name, POOL, &spec).await
    }

    /// Gives the nodes the pool's first configuration, as an installer does. That configuration.
    async fn initial(&self) -> Result<String> {
        let first = self.cluster.next_target(POOL, "").await?;
        let annotations = json!({
            annotation::CURRENT_CONFIG: first,
            annotation::DESIRED_CONFIG: first,
            annotation::STATE: NodeState::Done.as_str()
        });
        for node in NODES {
            let patch = json!({ "metadata": { "annotations": annotations } });
            self.objects().patch_node(node, &patch).await?;
        }
        Ok(first)
    }

    /// Updates nodes until the pool has another target and all of them are done in it. That target.
    pub(crate) async fn rolled(&self, before: &str) -> Result<String> {
        let target = self.retargeted(before).await?;
        self.all_done(&target).await?;
        Ok(target)
    }

    /// Updates nodes until the pool has another target, and one of them is assigned it. That
    /// target.
    pub(crate) async fn retargeted(&self, before: &str) -> Result<String> {
        self.updated("another target", async |nodes| {
            let target = self.objects().target(POOL).await?;
            let is_assigned =
                |node: &Node| objects::annotation(node, annotation::DESIRED_CONFIG) == target;
            let is_new = target != before && nodes.values().any(is_assigned);
            Ok(is_new.then_some(target).ok_or_else(|| before.to_owned()))
        })
        .await
    }

    /// Updates nodes until all are done in `target`, and the pool says so.
    pub(crate) async fn all_done(&self, target: &str) -> Result<()> {
        self.updated(target, async |nodes| {
            let pool = self.objects().pool(POOL).await?;
            let status = pool.status.unwrap_or_default();
            let are_done = nodes.values().all(|node| objects::is_done_in(node, target));
            let is_done = are_done
                && status.configuration.name() == Some(target)
                && status.updated_machine_count == 6;
            Ok(is_done.then_some(()).ok_or_else(|| {
                let says: Vec<String> = nodes.values().map(objects::says).collect();
                format!("{says:#?}\n{status:#?}")
            }))
        })
        .await
    }

    /// Updates nodes until all but one are done in `target`, and the pool says so.
    pub(crate) async fn all_done_but(&self, held: &str, target: &str) -> Result<()> {
        self.updated(target, async |nodes| {
            let pool = self.objects().pool(POOL).await?;
            let status = pool.status.unwrap_or_default();
            let mut others = nodes.iter().filter(|(name, _)| *name != held);
            let are_done = others.all(|(_, node)| objects::is_done_in(node, target));
            let updating = status.condition(&PoolConditionType::Updating);
            let says = updating.map(|updating| updating.message.clone());
            let says = says.unwrap_or_default();
            let is_said = says.ends_with(&format!("1 on hold: {held}"));
            Ok((are_done && is_said).then_some(()).ok_or(says))
        })
        .await
    }

    /// Updates nodes until the pool says that nodes wait for this.
    pub(crate) async fn waits_for(&self, words: &str) -> Result<()> {
        self.updated(words, async |_| {
            let status = self.objects().pool(POOL).await?.status.unwrap_or_default();
            let waiting = status.condition(&PoolConditionType::Waiting);
            let says = waiting.map(|waiting| waiting.message.clone());
            let says = says.unwrap_or_default();
            Ok(says.contains(words).then_some(()).ok_or(says))
        })
        .await
    }

    /// Updates nodes until something is found.
    async fn updated<T>(
        &self,
        what: &str,
        mut found: impl AsyncFnMut(&BTreeMap<String, Node>) -> Result<Result<T, String>>,
    ) -> Result<T> {
        let mut daemons = Daemons::default();
        let deadline = Instant::now() + WITHIN;
        loop {
            let last = match found(&daemons.update(self).await?).await? {
                Ok(found) => return Ok(found),
                Err(last) => last,
            };
            ensure!(Instant::now() < deadline, "waited for {what}: {last}");
            tokio::time::sleep(POLL_EVERY).await;
        }
    }
}

/// Makes a Node that is Ready. Without a node lifecycle controller it stays so.
async fn create(objects: &Objects, name: &str) -> Result<()> {
    let nodes = Api::<Node>::all(objects.client().clone());
    let node = json!({ "metadata": { "name": name, "labels": { api::machineconfiguration::label::WORKER: "" } } });
    let node = serde_json::from_value(node)?;
    nodes.create(&PostParams::default(), &node).await?;
    let ready = json!({ "status": { "conditions": [
        { "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "" }
    ] } });
    let patch = Patch::Strategic(ready);
    nodes
        .patch_status(name, &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

/// What the nodes' daemons would write: Working when they see another target, Done in it a while
/// later.
#[derive(Default)]
struct Daemons {
    began: BTreeMap<String, Instant>,
}

impl Daemons {
    /// Reads all nodes once and writes what is due.
    async fn update(&mut self, env: &Env) -> Result<BTreeMap<String, Node>> {
        let nodes = env.objects().nodes().await?;
        for (name, node) in &nodes {
            let of = |key| objects::annotation(node, key);
            let desired = of(annotation::DESIRED_CONFIG);
            if of(annotation::STATE) == "Done" && desired == of(annotation::CURRENT_CONFIG) {
                continue;
            }
            let written = match self.began.get(name) {
                None => {
                    self.began.insert(name.clone(), Instant::now());
                    json!({ annotation::STATE: "Working", annotation::PHASE: "Applying" })
                }
                Some(since) if since.elapsed() > UPDATE => {
                    self.began.remove(name);
                    json!({
                        annotation::STATE: "Done", annotation::CURRENT_CONFIG: desired,
                        annotation::PHASE: "Idle", annotation::SINCE: Timestamp::now().to_string()
                    })
                }
                Some(_) => continue,
            };
            let patch = json!({ "metadata": { "annotations": written } });
            env.objects().patch_node(name, &patch).await?;
        }
        Ok(nodes)
    }
}
