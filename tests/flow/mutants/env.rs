//! A cluster of one node that is rolled once, and judged each second while that goes on.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use jiff::Timestamp;
use lab::tree::Overlay;
use observer::host::Fact;
use observer::rollout::{Roll, Rollout, Workload};
use serde_json::{Value, json};
use testbed::config::{Config, File};
use testbed::logs;
use testbed::objects;
use testbed::{Cluster, NodeSpec, Programs, Testbed};

const NODE: &str = "worker-0";
const POOL: &str = "worker";

/// Pods of the workload.
const PODS: usize = 2;

const OBJECTS: &str = include_str!("objects.yaml");

/// A file that is written without a reboot.
const LIVE: &str = "/etc/nmstate/openshift/live.yml";
const TEXT: &str = "interfaces: []\n";

/// How long a roll may take, a reboot included.
const ROLL_WITHIN: Duration = Duration::from_mins(3);

/// Time between two polls.
const POLL_EVERY: Duration = Duration::from_secs(1);

/// What the node is to become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Another OS.
    Os,
    /// A kernel argument.
    WithReboot,
    /// The same, while no pod may leave.
    WithABudget,
    /// The same, while another node of the pool is out and the pool may have one out.
    BesideANodeThatIsOut,
    /// A file that is written without a reboot.
    Live,
}

/// Starts a cluster of these programs, and rolls its node until a law is broken, or to the end.
pub(crate) async fn run(programs: &Programs, name: &str, change: &Change) -> Result<Rollout> {
    let testbed = Testbed::new(logs::folder("mutants", name)).programs(programs);
    let node = NodeSpec::new(NODE);
    let cluster = testbed.objects(OBJECTS).node(node).start().await?;
    let pods = [("web", PODS), ("agent", 1)];
    cluster.objects().pods_ready(&pods).await?;
    let mut env = Env {
        content: booted(&cluster)?,
        change: *change,
        cluster,
    };
    let spec = env.prepare().await?;
    let start = Timestamp::now();
    let config = env.cluster.change("50-change", POOL, &spec).await?;
    let deadline = tokio::time::Instant::now() + ROLL_WITHIN;
    loop {
        let node = env.cluster.objects().node(NODE).await?;
        let is_over = objects::is_done_in(&node, &config)
            && objects::annotation(&node, "slipway.dev/phase") == "Idle";
        let rollout = env.rollout(&config, start, is_over)?;
        // The logs of a record are read one after another: only what a second one shows, too, is a
        // breach.
        if is_over || is_broken(&rollout) && is_broken(&env.rollout(&config, start, false)?) {
            return Ok(rollout);
        }
        if tokio::time::Instant::now() >= deadline {
            bail!(
                "neither broken nor done after {} s: {}",
                ROLL_WITHIN.as_secs(),
                objects::says(&node)
            );
        }
        tokio::time::sleep(POLL_EVERY).await;
    }
}

fn is_broken(rollout: &Rollout) -> bool {
    !rollout.judge().breaches.is_empty()
}

struct Env {
    cluster: Cluster,
    change: Change,
    /// Content of the OS that the node is to run.
    content: String,
}

impl Env {
    /// Makes the objects beside the change; the change.
    async fn prepare(&mut self) -> Result<Value> {
        let config = Config::new();
        match self.change {
            Change::Os => {
                let image = self.cluster.image(&Overlay::version("v2"))?;
                self.content = image.content;
                return Ok(config.os(image.reference).spec());
            }
            // On a cluster of one node, a drain waits for ever.
            Change::WithABudget => {
                let limit = format!("minAvailable: {PODS}");
                self.cluster.apply(&objects::budget("web", &limit)).await?;
            }
            Change::BesideANodeThatIsOut => self.add_node().await?,
            Change::WithReboot => {}
            Change::Live => {
                return Ok(config.files([File::new(LIVE, TEXT).mode(0o600)]).spec());
            }
        }
        Ok(config.argument("slipway.mutant=1").spec())
    }

    /// A node of the pool that has no host, and so is out.
    async fn add_node(&self) -> Result<()> {
        let target = self.cluster.objects().target(POOL).await?;
        let key = |name: &str| format!("machineconfiguration.openshift.io/{name}");
        let annotations = json!({
            (key("currentConfig")): target,
            (key("desiredConfig")): target,
            (key("state")): "Done",
        });
        let node = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": "worker-1",
                "labels": { (format!("node-role.kubernetes.io/{POOL}")): "" },
                "annotations": annotations,
            },
        });
        self.cluster.apply(&node.to_string()).await
    }

    /// What is recorded so far; at its end with what the host is.
    fn rollout(&self, config: &str, start: Timestamp, is_over: bool) -> Result<Rollout> {
        let doubt = if is_over { self.doubt()? } else { None };
        let roll = Roll {
            title: format!("{:?}", self.change),
            config: config.to_owned(),
            content: self.content.clone(),
            reboots: self.change != Change::Live,
            start,
            end: Timestamp::now(),
            doubts: doubt.into_iter().collect(),
        };
        let needed = if self.change == Change::WithABudget {
            PODS
        } else {
            0
        };
        Ok(Rollout {
            record: self.cluster.record()?,
            rolls: vec![roll],
            workload: Workload {
                label: ("app".to_owned(), "web".to_owned()),
                needed,
                max_out: 1,
            },
            is_over,
        })
    }

    /// Why the host is not what it was to become, if it is not.
    fn doubt(&self) -> Result<Option<String>> {
        let fact = match self.change {
            Change::Live => Fact::File {
                path: LIVE.to_owned(),
                content: TEXT.to_owned(),
                mode: 0o600,
                owner: "root:root".to_owned(),
            },
            Change::Os => Fact::Booted {
                content: self.content.clone(),
            },
            Change::WithReboot | Change::WithABudget | Change::BesideANodeThatIsOut => {
                Fact::Argument("slipway.mutant=1".to_owned())
            }
        };
        fact.doubt(self.cluster.host(NODE)?)
    }
}

/// Content of the OS that the node's host booted.
fn booted(cluster: &Cluster) -> Result<String> {
    let boots = cluster.host(NODE)?.boots();
    let boot = boots.into_iter().next_back();
    boot.and_then(|boot| boot.content)
        .context("the lab knows no content of what was booted")
}
